"""The order in which rows of all streams arrive, for count windows (see :func:`watersmeet.count_window`).

Every row gets a number for each stream: how many rows of it came before. Whether two rows meet then follows from their
numbers alone, so any core can tell (:func:`watersmeet.window.verify.in_count_window`).

Invariant: of two rows one came before the other, in every push the same way: by moment, rows without one first, then by
stream, then as given. Cost: nothing where rows are not ordered by a column; else a sort of each stream, and a search
for each two streams.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from watersmeet.arrays import Bools, Int64s
from watersmeet.spec.expression import StreamName

__all__ = ["Counts", "Moments", "count_arrivals"]

Moments = tuple[Int64s, Bools | None]
"""The keys by which rows are ordered, and which rows have one (None: all)."""
Counts = dict[StreamName, Int64s]
"""For every row of one stream the number of rows of each stream, its own included, that came before it."""

BEFORE_ALL = -1


def count_arrivals(
    sizes: Mapping[StreamName, int], moments: Mapping[StreamName, Moments] | None, first: Mapping[StreamName, int]
) -> dict[StreamName, Counts]:
    """Return for each row of a push how many rows came before it.

    Rows arrive in the order of their moments, then stream after stream, then in the order given. ``sizes`` has the
    number of rows of each stream in the push, in the order of the streams, and ``first`` the number before the push.
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
    orders = {stream: np.argsort(rank, kind="stable") for stream, rank in ranks.items()}
    ordered = {stream: rank[orders[stream]] for stream, rank in ranks.items()}
    counts: dict[StreamName, Counts] = {}
    for number, stream in enumerate(streams):
        own = ranks[stream]
        counts[stream] = {}
        for before, other in enumerate(streams):
            if other == stream:
                seen = np.empty(len(own), np.int64)
                seen[orders[stream]] = np.arange(len(own))
            else:  # rows of an earlier stream come first at the same moment
                seen = np.searchsorted(ordered[other], own, "right" if before < number else "left")
            counts[stream][other] = first[other] + seen
    return counts


def _ranks(moments: Mapping[StreamName, Moments]) -> dict[StreamName, Int64s]:
    """Return numbers in the order of the moments; rows without a moment come first."""
    if all(known is None for _, known in moments.values()):
        return {stream: keys for stream, (keys, _) in moments.items()}
    distinct = np.unique(np.concatenate([keys for keys, _ in moments.values()]))  # ranks leave room below the smallest
    ranks = {}
    for stream, (keys, known) in moments.items():
        rank = np.searchsorted(distinct, keys)
        ranks[stream] = rank if known is None else np.where(known, rank, BEFORE_ALL)
    return ranks
