"""Observes the results of a job where they leave: how many there are, and two quantiles of their times.

``live/figures.py`` makes latencies of them. A result's time is its event time, the latest timestamp of its rows, or
their latest arrival where all streams tell one. The quantiles are Spark's approximate ones, to one part in 10,000.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

from watersmeet.jobs.sources import Rows, column
from watersmeet.live.figures import LATENCIES, RESULTS

__all__ = ["observed"]


def observed(rows: Rows, *, has_late: bool) -> DataFrame:
    """Return the results, with the observation of their times, from which late rows are left out."""
    counted = [F.count(F.lit(1)).alias("results")]
    for name, columns in {"event": rows.times, "arrival": rows.arrivals}.items():
        if columns:
            moments = [column(one).cast("timestamp") for one in columns]
            latest = F.unix_micros(F.greatest(*moments) if len(moments) > 1 else moments[0])
            taken = F.when(column("late").isNull(), latest) if has_late else latest
            counted.append(F.percentile_approx(taken, [1 - part for part in LATENCIES]).alias(name))
    return rows.frame.observe(RESULTS, *counted)
