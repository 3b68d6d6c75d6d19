"""A JOB: a TOML file that says which streams are joined and where the results go, and what runs it on Spark.

``model`` has what a file may say, ``reading`` makes it of a file, ``sources``, ``joins`` and ``sinks`` make a streaming
query of it, ``runner`` runs that and ``view`` shows it. Pydantic, PySpark and Rich are imported here.
"""
