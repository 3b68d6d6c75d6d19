"""Count windows: the order in which rows of all streams arrive (see :func:`watersmeet.count_window`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from watersmeet.arrays import Bools, Int64s
from watersmeet.spec.expression import Side

__all__ = ["Counts", "Moments", "count_arrivals"]

Moments = tuple[Int64s, Bools | None]
"""What rows are ordered by, and which of them have it (None: all)."""
Counts = dict[Side, Int64s]
"""For every row of one stream how many rows of each stream, its own included, came before it."""

BEFORE_ALL = -1


def count_arrivals(
    sizes: Mapping[Side, int], moments: Mapping[Side, Moments] | None, first: Mapping[Side, int]
) -> dict[Side, Counts]:
    """Return for the rows of a push what came before each: by moment, then stream after stream, then as given.

    ``sizes`` tells how many rows of each stream the push has, in the order of the streams, and ``first`` how many came
    before it.
    """
    streams = list(sizes)
    if moments is None:
        return {
            stream: {
                other: first[other] + np.arange(sizes[stream])
                if other == stream
                else np.full(sizes[stream], first[other] + (sizes[other] if before < number else 0))
                for before, other in enumerate(streams)
            }
            for number, stream in enumerate(streams)
        }
    ranks = _ranks(moments)
    ordered = {stream: np.sort(rank) for stream, rank in ranks.items()}
    counts: dict[Side, Counts] = {}
    for number, stream in enumerate(streams):
        own = ranks[stream]
        counts[stream] = {}
        for before, other in enumerate(streams):
            if other == stream:
                seen = np.empty(len(own), np.int64)
                seen[np.argsort(own, kind="stable")] = np.arange(len(own))
            else:  # of an earlier stream also the rows of the same moment
                seen = np.searchsorted(ordered[other], own, "right" if before < number else "left")
            counts[stream][other] = first[other] + seen
    return counts


def _ranks(moments: Mapping[Side, Moments]) -> dict[Side, Int64s]:
    """Return numbers that order as the moments do, those of rows without one before all others."""
    if all(known is None for _, known in moments.values()):
        return {stream: keys for stream, (keys, _) in moments.items()}
    distinct = np.unique(np.concatenate([keys for keys, _ in moments.values()]))  # room before the smallest int64
    ranks = {}
    for stream, (keys, known) in moments.items():
        rank = np.searchsorted(distinct, keys)
        ranks[stream] = rank if known is None else np.where(known, rank, BEFORE_ALL)
    return ranks
