"""``watersmeet demo``: trades meet the quotes of the last second, in micro-batches, and the result is proved.

``market.py`` makes the streams and says what is joined, ``on_spark.py`` and ``in_process.py`` join them, and
``screen.py`` shows how it goes. In the end the number of pairs is computed once more, from all rows at once and without
anything of ours.
"""
