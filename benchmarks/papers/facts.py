"""What the papers' texts say of their figures, as facts: numbers, and where a curve has to lie to have the same shape.

A claim asks a curve of ours for a number. ``theirs`` is the paper's, or from where to where; where it gives none, the
claim says no more than a direction. ``within`` is where ours lies if the two are called the same; it is None where all
depends on machine or size: such a claim is shown, and not judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from benchmarks.papers.rules import (
    Change,
    Ends,
    Growth,
    Height,
    Highest,
    Knee,
    LeadsFrom,
    Peak,
    Ratio,
    Rule,
    Settled,
    Spread,
    Widening,
)

__all__ = ["CLAIMS", "Claim"]

Span = tuple[float, float]


@dataclass(frozen=True)
class Claim:
    """Something that a paper says of a curve."""

    figure: str
    what: str
    rule: Rule
    within: Span | None
    theirs: float | Span | None = None
    panel: int = 0
    """Of those that draw the figure, which."""


OVER: Final[Span] = (1.0, math.inf)
UNDER: Final[Span] = (0.0, 1.0)
SPLIT, LOW_LATENCY, MERGE = "splitjoin", "low_latency_handshake", "merge join of sorted blocks"
SLOWER: Final = Ratio(LOW_LATENCY, SPLIT, "last")
COUNT_OVER_TIME: Final = Ratio("by count, rows/s", "by time, rows/s", "last")
CLAIMS: Final = (
    Claim("handshake/8", "handshake join grows as the cores to the power of", Growth("handshake"), (0.35, 0.65), 0.5),
    Claim("handshake/9", "merge join grows as the cores to the power of", Growth(MERGE), (0.35, 0.65), 0.5),
    Claim("handshake/9", "merge join over the eager scan, at least", Ratio(MERGE, "eager scan", "least"), OVER),
    Claim("handshake/9", "merge join on 16 cores, 10 minutes (rows/s)", Height(MERGE, 16), None, 4000),
    Claim("handshake/10", "fastest over slowest", Spread(0), (1, 1.25), 1),
    Claim("handshake/13", "cores with the highest throughput", Peak(0), (100, 100), 100),
    # Circular-MJ: every stage takes its own stream's rows, so the rate is linear in the stages until matches fill them
    Claim("circular/7a", "8 streams over 3, windows full", Ends(-1, 0), (2.4, 2.95), 8 / 3),
    Claim("circular/7a", "8 streams: full windows over empty ones", Change(-1), UNDER),
    Claim("circular/7b", "8 streams over 3, windows full", Ends(-1, 0), (2.0, 2.95)),
    Claim("circular/7c", "8 streams over 3, windows full", Ends(-1, 0), (0, 2.0)),
    Claim("circular/7c", "8 streams over 3", Change("circular"), UNDER, panel=1),
    # SplitJoin
    Claim(
        "splitjoin/12", "splitjoin over low-latency handshake, at best", Ratio(SPLIT, LOW_LATENCY, "most"), OVER, 1.6
    ),
    Claim("splitjoin/12", "28 cores, 15 minutes (rows/s)", Height(SPLIT, 28), None, 4400),
    Claim("splitjoin/13", "low-latency handshake over splitjoin", SLOWER, OVER, 3.3),
    Claim("splitjoin/13", "low-latency handshake: cores to the power of", Growth(LOW_LATENCY), (0.6, 1.1), 1),
    Claim("splitjoin/13", "splitjoin: cores to the power of", Growth(SPLIT), (0, 0.6)),
    Claim("splitjoin/13", "low-latency handshake over splitjoin", SLOWER, OVER, 3.3, panel=1),
    Claim("splitjoin/13", "splitjoin on 28 cores (ms)", Height(SPLIT, 28), None, 8.1, panel=1),
    Claim("splitjoin/13", "low-latency handshake on 28 cores (ms)", Height(LOW_LATENCY, 28), None, 26.8, panel=1),
    Claim("splitjoin/15", "execution: most cores over fewest", Change("execution"), UNDER),
    Claim("splitjoin/15", "distribution: most cores over fewest", Change("distribution"), UNDER),
    Claim("splitjoin/15", "gathering over execution, most cores", Ratio("gathering", "execution", "last"), OVER),
    Claim("splitjoin/16", "grows as the cores to the power of", Growth(SPLIT), (0.75, 1.1), 1),
    Claim("splitjoin/16", "28 cores, 2M rows (rows/s)", Height(SPLIT, 28), None, 5200),
    Claim("splitjoin/16", "windows by count over windows by time", COUNT_OVER_TIME, OVER, 1.18, panel=1),
    Claim("splitjoin/17", "most matches over fewest", Change(0), (0.1, 1.1)),
    Claim("splitjoin/18", "execution: most cores over fewest", Change("execution"), UNDER),
    Claim("splitjoin/19", "few stars over outer order", Ratio("every star", "outer order", "first"), (0.8, 1.25), 1),
    Claim("splitjoin/19", "many stars over few", Change("every star"), UNDER),
    # PanJoin: partitions read as they are, and sorted ones
    Claim("panjoin/10a", "large batches over small", Change(0), OVER),
    Claim("panjoin/10a", "fewest partitions over most, at best", Ratio(0, -1, "most"), OVER),
    Claim("panjoin/10a", "highest rate (rows/s)", Highest(0), None, 100e6),
    Claim("panjoin/10b", "smallest subwindow over largest, at best", Ratio(0, -1, "most"), OVER),
    Claim("panjoin/10c", "largest partitions over smallest", Change(0), UNDER),
    Claim("panjoin/10d", "most matches over one", Change(0), UNDER),
    Claim("panjoin/10d", "many partitions over few, one match", Ratio(1, 0, "first"), OVER),
    Claim("panjoin/10e", "most matches over one", Change(-1), UNDER),
    Claim("panjoin/10e", "most partitions over fewest, one match", Ratio(-1, 0, "first"), OVER),
    *(
        Claim("panjoin/10f", "adjustments until all settle", Settled(("increasing",)), (0, 3), 3, panel)
        for panel in range(3)
    ),
    Claim("panjoin/11a", "large batches over small", Change(0), OVER),
    Claim("panjoin/11a", "fewest partitions over most, at best", Ratio(0, -1, "most"), (0.5, 2), 1),
    Claim("panjoin/11b", "smallest subwindow over largest, at best", Ratio(0, -1, "most"), OVER),
    Claim("panjoin/11c", "largest partitions over smallest", Change(0), UNDER),
    Claim("panjoin/11d", "most matches over one", Change(0), UNDER),
    Claim("panjoin/11e", "most matches over one", Change(-1), UNDER),
    Claim(
        "panjoin/11f", "rows in: wib_tree over a B-tree, least", Ratio("wib_tree", "B-tree", "least"), OVER, (3.5, 4.5)
    ),
    Claim(
        "panjoin/11f", "band probes: wib_tree over a B-tree, most", Ratio("wib_tree", "B-tree", "most"), OVER, 1.3, 1
    ),
    Claim("panjoin/12a", "large batches over small", Change(0), OVER),
    Claim("panjoin/12b", "smallest subwindow over largest, small batches", Ratio(0, -1, "first"), OVER),
    Claim("panjoin/12c", "fastest size over slowest", Spread(0), (1, 10), 1),
    Claim("panjoin/12d", "fastest over slowest, by matches", Spread(0), (1, 2), 1),
    Claim("panjoin/12e", "fastest over slowest, by matches", Spread(0), (1, 2), 1),
    Claim("panjoin/12f", "largest buffer over smallest, small batches", Ratio(3, 0, "first"), OVER, (100, 1000)),
    Claim(
        "panjoin/13a", "bi_sort leads rap_table from batches of", LeadsFrom("bi_sort", "rap_table"), (0, 65536), 65536
    ),
    Claim("panjoin/13a", "bi_sort leads wib_tree from batches of", LeadsFrom("bi_sort", "wib_tree"), (0, 65536), 65536),
    Claim(
        "panjoin/13b", "rap_table over wib_tree, one match", Ratio("rap_table", "wib_tree", "first"), OVER, (1.7, 2.4)
    ),
    Claim("panjoin/13b", "bi_sort over rap_table, one match", Ratio("bi_sort", "rap_table", "first"), OVER, (1.6, 7)),
    Claim("panjoin/13b", "bi_sort over rap_table, last", Ratio("bi_sort", "rap_table", "last"), (30, math.inf), 100),
    Claim("panjoin/14a", "large batches over small", Change(0), OVER),
    Claim("panjoin/14a", "over BI-Sort on a processor", Ratio(0, 1, "last"), None, (0.4, 0.6)),
    Claim("panjoin/14b", "large batches over small", Change(0), OVER),
    Claim("panjoin/15a", "largest batch over smallest", Change(0), OVER),
    Claim("panjoin/15a", "highest rate, 16 workers a stream (rows/s)", Highest(0), None, 28.9e6),
    Claim("panjoin/15b", "most matches over one", Change(0), UNDER),
    Claim("panjoin/15e", "bi_sort over nested loops", Ratio("bi_sort", "scan", "first"), (1000, math.inf), 1000),
    Claim("panjoin/15f", "bi_sort over nested loops", Ratio("bi_sort", "scan", "first"), (1000, math.inf), 5000),
    Claim("panjoin/15h", "ours over an empty system", Ratio("ours", "empty pipeline", "first"), (0.8, 1.05), 0.9),
    # the shared-nothing cluster
    Claim("cluster/5", "2 cores bear more than 1, times", Knee("2 cores", "1 cores"), (1.4, 2.9)),
    Claim("cluster/6", "4 cores bear more than 2, times", Knee("4 cores", "2 cores"), (1.4, 2.9)),
    Claim("cluster/6", "4 slaves, 4,000 rows/s (s)", Height("4 cores", 4000), None, 2.0),
    Claim("cluster/7", "without over with, at most", Ratio("without", "with", "most"), OVER),
    Claim("cluster/8", "without over with, at most", Ratio("without", "with", "most"), (2, math.inf), 24),
    Claim("cluster/8", "without, 4,000 rows/s (s)", Height("without", 4000), None, 48),
    Claim("cluster/9", "idle at the highest rate over the lowest", Change("idle"), (0, 0.1), 0),
    Claim("cluster/10", "idle at the highest rate over the lowest", Change("idle"), (0, 0.1), 0),
    Claim("cluster/10", "with fine tuning it bears more, times", Knee("with", "without"), (1.1, 4), 1.5, panel=1),
    Claim("cluster/11", "one core: most cores over fewest", Change("one core"), UNDER),
    Claim("cluster/11", "all cores: grows as their number to the power of", Growth("all cores"), (0.3, 1.1), 1),
    Claim("cluster/11", "adaptive over fixed, most cores", Ratio("all, adaptive", "all cores", "last"), (0, 0.99)),
    Claim("cluster/12", "longest less shortest, end over beginning", Widening("longest", "shortest"), OVER),
    Claim("cluster/13", "longest epoch over shortest", Change(0), OVER),
    Claim("cluster/14", "longest epoch over shortest", Change(0), UNDER),
)
