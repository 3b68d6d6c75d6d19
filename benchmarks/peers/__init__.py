"""Other stream processors, each in an environment of its own, and what is timed of them.

``environment.py`` installs one. ``flink_worker.py`` and ``pathway_worker.py`` run there and import nothing of this
repository; ``local_worker.py`` joins in this environment: ours, DuckDB and Polars. ``contest.py`` feeds all with the
same rows, and says what is measured.
"""
