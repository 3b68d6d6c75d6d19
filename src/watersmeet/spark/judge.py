"""What comes of rows that met one, and of rows that met nobody: all kinds of joins but the inner one, on one core.

A row is *judged* when no row to come can meet it: when the place before which rows of its stream have expired has
passed it. Then it is known for certain whether it has met one (:mod:`watersmeet.spark.marks`). Of a preserved side the
rows that have not come out, with nulls for the other side.

*Each once.* Every row has one judge, a core that all rows come to that it can meet
(:mod:`watersmeet.spark.routing.contract`). A micro-batch judges the rows whose place lies from where the last one
stopped (``Manifest.judged``) up to where rows have expired now. New rows lie behind that: they would have been late.

*Never early.* Rows are judged by the watermark that decided which rows of this micro-batch are late, so no later one
brings a row that could meet them. In a count window the numbers of rows that have come decide in the same way. A batch
DataFrame has no rows to come, so all rows are judged at the end.

*Lone rows*, which have a null or fail their own side's condition, can meet nobody. They come out at once, from any one
core, and are not stored.

*Shared pairs.* Where both sides have copies (a full join by buckets or by broadcast), several cores may find one pair.
The one that judges its left row gives it. Each of the two rows' judges finds it.

*Order.* In a time window a side with marks is stored in the order of its rows' timestamps, and rows of one moment in
that of their fingerprints, over the columns that decide whether two rows meet. Rows that are equal in both meet the
same rows. So a mark means the same whichever order an attempt had the rows in.

Cost: a sort of the new rows, unless they come in order (routings keep it), and a bit for each. They are looked at once
more when they are judged. What comes of several runs leaves in one table: each costs a file and a row of Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.columns.fingerprint import fingerprints
from watersmeet.engine.result import gather_pairs, gather_probing, gather_stored, in_tables, unmatched_rows
from watersmeet.kernels.marks import mark_rows
from watersmeet.kernels.pairs import compress_pairs
from watersmeet.kernels.sorted_keys import sort_keys
from watersmeet.spark.envelope import Envelope
from watersmeet.spark.marks import ELSEWHERE, KINDS, MET, Marks
from watersmeet.spark.state import Manifest, Run
from watersmeet.spec.expression import StreamName, columns_of
from watersmeet.spec.kinds import How, gives_pairs, preserved, watched
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Bounds
from watersmeet.window.payload import Stored
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.segment import Segment
from watersmeet.window.stream_window import Match, StreamWindow
from watersmeet.window.verify import Verifier

__all__ = ["Judge"]

BITS: Final = 8
"""Bits of a byte."""


class Judge:
    """Gives the results of one core, and marks which rows have met one."""

    def __init__(self, plan: JoinPlan, how: How, result: pa.Schema) -> None:
        self._plan = plan
        self._how = how
        self._result = result
        self._watched = watched(how)
        self._verifiers = {side: Verifier(plan, side) for side in OTHER_SIDE}
        self._of_rows: dict[int, Run] = {}
        """Runs by the identity of their decoded rows."""
        self._met = np.zeros(0, bool)
        self._elsewhere: Bools | None = None
        """Of the new rows of one side: which have met one; which are judged by other cores (None: none is)."""

    # --- pairs --------------------------------------------------------------------------------------------------------

    def begin(self, marks: Marks, windows: Mapping[StreamName, StreamWindow], manifest: Manifest) -> None:
        """Begin a micro-batch on windows that consist of the manifest's runs."""
        self._marks = marks
        self._of_rows = {}
        for side, window in windows.items():
            for segment, run in zip(window.segments, manifest.runs[side], strict=True):
                self._of_rows[id(_rows_of(segment))] = run

    def enter(self, side: StreamName, new: Envelope) -> Envelope:
        """Return what has come of a side in the order in which it is stored; results are about these rows now."""
        self._met = np.zeros(new.rows.num_rows, bool)
        if side in self._watched and new.times is not None:
            deciding = {column.name for column in columns_of(self._plan.predicate) if column.stream == side}
            order = _order_of(new.rows.select(sorted(deciding)), new.times)
            new = new if order is None else new.take(order)
        self._elsewhere = None if new.judged is None else ~new.judged
        return new

    def results(self, batch: KeyedBatch, found: Iterator[Match]) -> Iterator[pa.Table]:
        """Mark the rows of the pairs that a batch found, and yield what comes out of these."""
        if gives_pairs(self._how):
            for matches in in_tables(batch, found):
                for match in matches:
                    self._mark(batch, match)
                given = [some for match in matches if (some := self._given(batch, match)).count]
                if given:
                    yield gather_pairs(batch, given, self._result)
        elif self._how == "semi":
            for matches in in_tables(batch, self._first_met(batch, found)):
                columns = gather_probing(batch, matches) if batch.side == "left" else gather_stored(matches)
                yield pa.Table.from_arrays(columns, schema=self._result)
        else:
            for match in found:
                self._mark(batch, match)

    def stored(self, side: StreamName, run: Run, segment: Segment) -> None:
        """Give the new rows of a side, which are a run now, their marks."""
        self._of_rows[id(_rows_of(segment))] = run
        if side in self._watched:
            self._marks.add(run.name, MET, self._met)
            if self._elsewhere is not None:
                self._marks.add(run.name, ELSEWHERE, self._elsewhere)

    def merged(self, side: StreamName, runs: list[Run], merge: Callable[[], Run]) -> Run:
        """Merge runs of a side, and put their marks together."""
        if side not in self._watched:
            return merge()
        bits = {kind: np.concatenate([self._marks.of(run.name, kind, run.rows) for run in runs]) for kind in KINDS}
        whole = merge()
        for kind, some in bits.items():
            self._marks.add(whole.name, kind, some)
        return whole

    def _first_met(self, batch: KeyedBatch, found: Iterator[Match]) -> Iterator[Match]:
        """Mark the rows of pairs; yield those that are the first one of their left row."""
        for match in found:
            first = self._mark(batch, match)["left"]
            if len(first):
                yield replace(match, who=match.who[first], row=match.row[first])

    def _mark(self, batch: KeyedBatch, match: Match) -> dict[StreamName, Int64s]:
        """Mark the rows of pairs; return for each watched side which pairs are the first one of their row."""
        first: dict[StreamName, Int64s] = {}
        other = OTHER_SIDE[batch.side]
        if other in self._watched:
            run = self._run_of(match)
            first[other] = self._marks.set(run.name, MET, match.row, run.rows)
        if batch.side in self._watched:
            first[batch.side], _ = mark_rows(match.who, 0, self._met)
        return first

    def _given(self, batch: KeyedBatch, match: Match) -> Match:
        """Return the pairs that this core gives: those whose left row it judges, where it shares pairs with others."""
        if self._elsewhere is None:
            return match
        if batch.side == "left":
            keep = ~self._elsewhere[match.who]
        else:
            run = self._run_of(match)
            keep = ~self._marks.of(run.name, ELSEWHERE, run.rows)[match.row]
        kept = int(np.count_nonzero(keep))
        if kept == match.count:
            return match
        who, row = compress_pairs(match.who, match.row, keep, kept)
        return replace(match, who=who, row=row)

    def _run_of(self, match: Match) -> Run:
        return self._of_rows[id(match.source)]

    # --- rows that met nobody -----------------------------------------------------------------------------------------

    def due(
        self, marks: Marks, manifest: Manifest, before: Bounds, find: Callable[[StreamName, Run], Segment]
    ) -> Iterator[pa.Table]:
        """Judge rows that lie before some places, and yield those that met nobody; ``find`` returns a decoded run."""
        for side in preserved(self._how):
            until, since = before[side], manifest.judged.get(side)
            if until is None or (since is not None and until <= since):
                continue
            for run in manifest.runs[side]:
                if run.low >= until or (since is not None and run.high < since):
                    continue
                stored = _rows_of(find(side, run))
                places = self._verifiers[side].places(stored)
                keep = places < until if since is None else (places >= since) & (places < until)
                for kind in KINDS:
                    keep &= ~marks.of(run.name, kind, run.rows)
                if keep.any():
                    yield self.without(side, stored.rows.filter(pa.array(keep)))
            manifest.judged[side] = until

    def beside(self, manifest: Manifest) -> int:
        """Return the most bytes that the marks of runs take: a bit for each row, and two where sides share pairs."""
        kinds = len(KINDS) if self._how == "full" else 1
        return sum(kinds * -(-run.rows // BITS) for side in self._watched for run in manifest.runs[side])

    def without(self, side: StreamName, rows: pa.RecordBatch) -> pa.Table:
        """Return rows of a preserved side that met nobody as results."""
        return unmatched_rows(rows, side, self._result)


def _order_of(deciding: pa.RecordBatch, times: Int64s) -> Int32s | None:
    """Return the order in which rows are stored, by their timestamps and ``deciding`` columns; None: as they come."""
    if (times[1:] > times[:-1]).all():
        return None
    order = sort_keys(times, np.arange(len(times), dtype=np.int32))
    ordered = times[order]
    tied = np.zeros(len(times), bool)
    tied[1:] = ordered[1:] == ordered[:-1]
    tied[:-1] |= tied[1:]
    if tied.any() and deciding.num_columns:
        some = order[tied]
        found = fingerprints(deciding.take(pa.array(some)), deciding.schema.names)
        within = sort_keys(found, np.arange(len(some), dtype=np.int32))
        order[tied] = some[sort_keys(ordered[tied], within)]
    return order


def _rows_of(segment: Segment) -> Stored:
    """Return the rows of a run's segment, which lie in one chunk."""
    ((_, stored),) = segment.payload.stored()
    return stored
