"""A batch meets a window's segments together: all of them are searched, and their pairs checked, with two calls.

That is done where nothing has to be decided in between: the segments are sorted arrays (``bi_sort``) of plain rows, and
keys and arrival numbers alone decide whether a candidate is a pair. All others are asked one after the other (see
:mod:`watersmeet.window.stream_window`), and give the same pairs.

Invariant: pairs come in the order of segments, of the sorted arrays of each, and of the probes in each; so they do not
depend on how many threads find them. Memory: pairs are found a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.team import ALONE, stretches
from watersmeet.kernels.together import (
    CHECK,
    close_gaps,
    count_check,
    meet_arrays,
    meet_piece,
    meet_piece_by_two_keys,
    range_check,
    shift_check,
)
from watersmeet.subwindow.bi_sort import BiSort, SortedArray, merged_rows
from watersmeet.subwindow.contract import Pairs, Probes, Ranges
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.payload import Extent
from watersmeet.window.plain_rows import PlainRows
from watersmeet.window.segment import Segment
from watersmeet.window.verify import Verifier

__all__ = ["Met", "can_meet_together", "meet_together"]

PIECE: Final = 1 << 14
"""Probes of a piece, at most: what is written while they are found stays in a core's cache."""

Met = tuple[Segment, bool, Pairs | Ranges]
"""A segment, whether the window certainly holds for all pairs with it, and the pairs; or ranges of candidates."""


def can_meet_together(segments: Iterable[Segment]) -> bool:
    """Tell whether a batch can meet all these segments together."""
    for segment in segments:
        if not isinstance(segment.index, BiSort) or segment.others or not isinstance(segment.payload, PlainRows):
            return False
    return True


def meet_together(verifier: Verifier, reached: Sequence[tuple[Segment, bool]], batch: KeyedBatch) -> Iterator[Met]:
    """Yield the pairs of a batch with the segments that it reaches.

    Where one piece alone has too many candidates, they are yielded as ranges, and have not been checked. An axis whose
    conditions contradict each other lets nothing through, and has no check that could say so.
    """
    if not all(axis.differences.parts for axis in verifier.plan.axes):
        return
    for order, some in groupby(reached, lambda each: each[0].choice.order):
        segments = list(some)
        for probes in batch.probes(order):
            if len(probes):
                yield from _meet(verifier, segments, batch, probes)


def _meet(
    verifier: Verifier, reached: Sequence[tuple[Segment, bool]], batch: KeyedBatch, probes: Probes
) -> Iterator[Met]:
    arrays: list[tuple[int, SortedArray]] = []
    words: list[int] = []
    checks: list[int] = []
    wanted = Extent(int(probes.lo[0]), int(probes.hi[-1])) if probes.equality is None else None
    for number, (segment, inside) in enumerate(reached):
        if wanted is not None and (wanted.low > segment.keys.high or wanted.high < segment.keys.low):
            continue
        first = len(checks) // CHECK
        for check in _checks(verifier, segment, batch, inside=inside):
            checks += check
        assert isinstance(segment.index, BiSort), "only such indexes are searched together"
        for array in segment.index.arrays:
            words += (*array.words, segment.dropped, first, len(checks) // CHECK)
            arrays.append((number, array))
    if not arrays:
        return
    pieces = max(stretches(batch.team, len(probes)), -(-len(probes) // PIECE))
    met = who, row, ends, left_out = meet_arrays(
        batch.team if pieces > 1 else ALONE,  # few probes are not worth waking anybody, however many the arrays are
        ((meet_piece if probes.equality is None else meet_piece_by_two_keys)(), close_gaps()),
        np.array(words, np.int64),
        np.array(checks, np.int64),
        probes.lo,
        probes.hi,
        probes.equality,
        probes.who,
        pieces,
        merged_rows(probes),
    )
    if left_out.any():
        yield from _piece_by_piece(reached, arrays, probes, pieces, met)
        return
    done = 0
    last = len(arrays) - 1
    for at, (number, _) in enumerate(arrays):
        if at < last and arrays[at + 1][0] == number:
            continue
        end = int(ends[(at + 1) * pieces])
        if end > done:
            yield *reached[number], Pairs(who[done:end], row[done:end])
        done = end


def _piece_by_piece(
    reached: Sequence[tuple[Segment, bool]],
    arrays: list[tuple[int, SortedArray]],
    probes: Probes,
    pieces: int,
    met: tuple[Int32s, Int32s, Int64s, Int64s],
) -> Iterator[Met]:
    """Yield pairs where some pieces have given none: these are searched again."""
    who, row, ends, left_out = met
    for piece, (begin, end) in enumerate(pairwise(ends.tolist())):
        number, array = arrays[piece // pieces]
        if end > begin:
            yield *reached[number], Pairs(who[begin:end], row[begin:end])
        if left_out[piece]:
            share = probes.share(piece % pieces, pieces)
            for found in array.find(share):
                yield *reached[number], found


def _checks(verifier: Verifier, segment: Segment, batch: KeyedBatch, *, inside: bool) -> Iterator[tuple[int, ...]]:
    """Yield the checks of a segment's candidates. What they read is kept by the batch and by the segment's rows."""
    order, plan = segment.choice.order, verifier.plan
    stored = segment.payload
    assert isinstance(stored, PlainRows), "only such rows are met together"
    for number in verifier.checks(order, (), window_holds=inside):
        keys = verifier.stored_keys(stored, number, order.borders)
        moves = plan.shifts[number, batch.side]
        if moves is None:
            ranges = batch.ranges(number, order.borders)
            yield from (range_check(keys, some.lo, some.hi, last=some is ranges[-1]) for some in ranges)
        else:
            own = batch.key(number, order.borders)
            yield from (shift_check(keys, own, *move, last=move is moves[-1]) for move in moves)
    if plan.time is None and not inside:
        assert stored.numbers is not None
        assert batch.arrival is not None
        sequence, seen = stored.numbers
        yield count_check(sequence, seen, plan.length(verifier.side), *batch.arrival, plan.length(batch.side))
