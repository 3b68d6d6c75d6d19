"""Three queries over the same kind of rows: a band, an equality, and an equality with a hot key."""

from __future__ import annotations

from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.peers.contest import FLINK, IN_PROCESS, PATHWAY, SPARK, SPARKS_OWN, Query, contest
from benchmarks.report import Description, Goal, Result

__all__ = ["BAND", "EQUALITY", "QUERIES", "SKEWED"]

QUERIES: Final = {
    "band": Query("band", "band", 91, "band and time"),
    "equality": Query("equality", "equality", 92, "equality and time"),
    "skewed": Query("skewed", "equality", 93, "equality and time, with a hot key", hot=0.01),
}
SHAPE: Final = (
    "2 cores each; a window of 100,000 rows a side, a row per microsecond, 8 bytes of payload, from files; micro-"
    "batches of 50,000 rows a side, of 1,000,000 for wm.join on Spark, of 50,000 for Spark's own join; "
)
IN_PROCESS_GOAL: Final = 20.0
SPARK_GOAL: Final = 8.0
SPARKS_OWN_GOAL: Final = 25.0


def _band(context: Context) -> Result:
    result, rates = contest(context, QUERIES["band"])
    streaming = [rates[name] for name in (FLINK.name, PATHWAY.name) if name in rates]
    what = "against the faster of Flink and Pathway"
    if streaming:
        result.goals += [
            Goal(f"StreamJoin {what}", rates[IN_PROCESS] / max(streaming), IN_PROCESS_GOAL, at_least=True),
            Goal(f"wm.join on Spark {what}", rates[SPARK] / max(streaming), SPARK_GOAL, at_least=True),
        ]
    else:
        result.notes.append(f"goals {what} are not judged: neither could run")
    ratio = rates[SPARK] / rates[SPARKS_OWN]
    result.goals.append(Goal("wm.join on Spark against Spark's own join", ratio, SPARKS_OWN_GOAL, at_least=True))
    return result


def _equality(context: Context) -> Result:
    return contest(context, QUERIES["equality"])[0]


def _skewed(context: Context) -> Result:
    return contest(context, QUERIES["skewed"])[0]


BAND: Final = Experiment(
    "band",
    Description(
        purpose="a band and a time window, ours against Spark, Flink, Pathway, DuckDB and Polars",
        seed=QUERIES["band"].seed,
        shape=SHAPE + "keys uniform in 2^31, a band that about one row of a window lies in; Spark, Flink and Pathway"
        " by buckets of values",
        expected="the same pairs; StreamJoin at least 20 times, wm.join at least 8 times the faster of Flink and"
        " Pathway, and 25 times Spark's own join",
    ),
    _band,
)
EQUALITY: Final = Experiment(
    "equality",
    Description(
        purpose="an equality and a time window, ours against Spark, Flink, Pathway, DuckDB and Polars",
        seed=QUERIES["equality"].seed,
        shape=SHAPE + "keys uniform in 100,000",
        expected="the same pairs, about one a row",
    ),
    _equality,
)
SKEWED: Final = Experiment(
    "skewed",
    Description(
        purpose="an equality and a time window with a hot key, ours against Spark, Flink, Pathway, DuckDB and Polars",
        seed=QUERIES["skewed"].seed,
        shape=SHAPE + "one key in 1 % of all rows, the others uniform in 100,000",
        expected="the same pairs, about eleven a row",
    ),
    _skewed,
)
