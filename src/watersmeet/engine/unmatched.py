"""Rows that met nobody: what a join returns beside its pairs, or in their place, if ``how`` is not inner.

Design. Rows of the sides in question have numbers, and are known by them in the pairs that the topology returns. All
here is done in the caller's turn, with tables that the topology has handed out: it marks whose numbers it sees
(:mod:`watersmeet.engine.marks`), and a topology knows nothing of marks. A row of a preserved side waits
(:mod:`watersmeet.engine.waiting`) until the bounds of expiry have passed its place, in its own window: by these no row
to come can meet it. A *semi* join has no row that waits to be given out; its left rows are watched, so that each is
returned once, as soon as it meets one.

Invariant: a row is given out as unmatched once, and only when all pairs that it is in have been seen. So it is asked
what is decided only when nothing moves: then what the topology has found has been polled, and all rows that were let
in have met. In ``handshake`` they have not; there a row is decided when it has left the chain, at whose end it has met
all. Rows that are late are none of this module's; those that a null or their own side's condition keeps out are given
out at once.

Cost. Numbers make rows wider by 8 bytes, and pairs too. See the two modules above for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int64s
from watersmeet.columns.gather import in_order, picked
from watersmeet.columns.hidden import hidden_of, is_hidden
from watersmeet.engine.intake import Slice
from watersmeet.engine.result import unmatched_rows
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.engine.waiting import Unmet, Waiting
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How, watched
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Bounds

__all__ = ["Unmatched"]

LAST: Final = 2**63 - 1
FLOWING_ROWS: Final = 1 << 17
"""So many rows may be submitted before their caller waits for what they have found."""


class Unmatched:
    """The rows of a join that are known to have met nobody, or may still prove to have; see the module's header."""

    def __init__(
        self, how: How, schemas: Mapping[StreamName, pa.Schema], result: pa.Schema, *, by_number: bool, in_order: bool
    ) -> None:
        self._how = how
        self._result = result
        self._own = {side: list(range(len(schema))) for side, schema in schemas.items()}
        self._by_number = by_number
        self._in_order = in_order
        self._waiting = {side: Waiting() for side in watched(how)}
        self._before: Bounds = {}
        self._given: list[pa.Table] = []
        self._let_in = 0
        self._visible: list[int] | None = None

    # --- rows --------------------------------------------------------------------------------------------------------

    def leave_out(self, rows: Mapping[StreamName, pa.RecordBatch]) -> None:
        """Give out rows that take no part in the join."""
        self._given += [unmatched_rows(some, side, self._result) for side, some in rows.items()]

    def enter(self, part: Slice) -> None:
        """Take note of numbered rows that are let in, and of the bounds that hold when they have met."""
        for batch in (part.left, part.right):
            if batch.side in self._waiting:
                self._wait(batch)
        self._before = part.expire_before
        self._let_in += len(part.left) + len(part.right)

    def _wait(self, batch: KeyedBatch) -> None:
        numbers = numbers_of(batch.rows)
        rows = None if self._how == "semi" else batch.rows.select(self._own[batch.side])
        self._waiting[batch.side].add(rows, numbers, numbers if self._by_number else batch.places())

    @property
    def flows_on(self) -> bool:
        """Whether many rows have been let in since it was last decided what can meet nobody."""
        return self._let_in >= FLOWING_ROWS

    # --- pairs -------------------------------------------------------------------------------------------------------

    def see(self, pairs: list[pa.Table]) -> None:
        """Mark whose numbers are in pairs that were found."""
        if self._how != "semi":
            for side, waiting in self._waiting.items():
                for some in pairs:
                    waiting.marks.mark(hidden_of(some, side))

    def results(self, pairs: pa.Table) -> list[pa.Table]:
        """Return what comes of pairs (in order, if they have one) that were seen, without numbers."""
        if self._how == "anti":
            return []
        if self._how == "semi":
            first = self._waiting["left"].marks.mark_new(hidden_of(pairs, "left"))
            if not len(first):
                return []
            pairs = pairs if len(first) == pairs.num_rows else in_order(pairs, first)
        if self._visible is None:
            self._visible = [number for number, field in enumerate(pairs.schema) if not is_hidden(field)]
        return [pairs.select(self._visible)]

    # --- what is decided ---------------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Give out what no row to come can meet. All pairs have been seen that were found, and nothing moves."""
        self._decide(self._before)

    def decide_by_number(self, met_before: Bounds, held_back: list[pa.Table]) -> None:
        """Do so where rows meet later: ``met_before`` says up to which numbers they have met all; None: all have.

        ``held_back`` are pairs that have been found, and will be seen only later, for their order.
        """
        bounds = {side: LAST if number is None else number for side, number in met_before.items()}
        if self._how == "semi":  # a row is watched until its first match has been returned
            bounds["left"] = min([bounds["left"], *(int(hidden_of(some, "left").min()) for some in held_back)])
        self.see(held_back)
        self._decide(bounds)

    def _decide(self, bounds: Bounds) -> None:
        for side, waiting in self._waiting.items():
            before = bounds.get(side)
            if before is not None:
                self._give(side, waiting.take_before(before))
        self._let_in = 0

    def finish(self) -> None:
        """Give out all that has met nobody: no row is to come."""
        for side, waiting in self._waiting.items():
            self._give(side, waiting.take_all())

    def _give(self, side: StreamName, found: list[Unmet]) -> None:
        given = [rows for rows, _ in found if rows is not None]
        if given and self._in_order:
            given = [picked(given, np.argsort(np.concatenate([numbers for _, numbers in found])))]
        self._given += [unmatched_rows(rows, side, self._result) for rows in given]

    def taken(self) -> list[pa.Table]:
        """Return what was given out, and not taken yet."""
        given, self._given = self._given, []
        return given

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(waiting.nbytes for waiting in self._waiting.values())

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def apart(self) -> Unmatched:
        """Return the same rows with marks of their own, to see pairs that these have not seen."""
        apart = copy(self)
        apart._waiting = {side: waiting.apart() for side, waiting in self._waiting.items()}  # noqa: SLF001 -- own class
        return apart

    def waiting(self, side: StreamName, numbers: Int64s) -> Bools:
        """Return which rows of a side wait, by their numbers."""
        if side not in self._waiting:
            return np.zeros(len(numbers), np.bool_)
        return np.isin(numbers, self._waiting[side].numbers())

    def restore(self, side: StreamName, batches: list[KeyedBatch], waiting: list[Bools]) -> None:
        """Take note of a side's restored rows, with numbers, and of which of them wait."""
        if side not in self._waiting:
            return
        for batch, waits in zip(batches, waiting, strict=True):
            self._wait(batch)
            self._waiting[side].marks.mark(numbers_of(batch.rows)[~waits])
