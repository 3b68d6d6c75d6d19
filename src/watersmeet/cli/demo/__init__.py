"""``watersmeet demo``: joins trades with the quotes of the last second, in micro-batches, and checks the result.

``market.py`` makes the streams and has the predicate, ``on_spark.py`` and ``in_process.py`` join them, and
``screen.py`` shows the progress. In the end the number of pairs is computed again, from all rows at once and without
this package.
"""
