"""In which form a join gives its results: as pairs, as ranges of sorted rows, or as their number.

Pairs are gathered by :mod:`watersmeet.engine.result`. The other two forms do not look at the rows that are met, so a
push costs little more where these are many: 1.2 to 1.5 times for 16,384 a row (PanJoin, section III-D). All three
come in tables, and go the same ways from where they are found to the caller: a topology asks its layout, which asks
the form.

*Count.* A table of one number. Many of them are added up when the caller gets them.

*Ranges.* A table of *records*, each for one probing row and one sorted array: the row meets the array's rows from
``start`` to ``end``, or with ``not`` all but these. What the numbers stand for is an :class:`Answer`: the probing rows,
the array, and the stored rows. Those never change, and their memory is not freed as long as an answer is known. An
answer has a number which no other of any join has, so a record is turned into the pairs that were found, or is refused.
The answers of the last results are known; :meth:`Ranges.release` forgets those before.

Where the window's edge runs through an array, an answer knows from which place on each probing row meets rows. A
record's ``pairs`` counts just these, and only they become pairs. Pairs that an index found one by one, or that had to
be verified, are an array of their own: in the order in which they were found, a record for each stretch of one row.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.arrays import Int32s, Int64s
from watersmeet.columns.gather import gather_columns
from watersmeet.engine.result import table_of_pairs
from watersmeet.kernels.pairs import split_pairs
from watersmeet.kernels.ranges import expand_ranges
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import ResultForm, refuse_records
from watersmeet.subwindow import contract
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.payload import Held
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.range_match import RangeMatch
from watersmeet.window.stream_window import Match

__all__ = ["COUNT", "RECORDS", "Count", "Form", "Found", "Ranges", "form_of"]

Found = Match | RangeMatch

COUNT: Final = pa.schema([pa.field("pairs", pa.int64(), nullable=False)])
RECORDS: Final = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("answer", pa.int64()),
            ("side", pa.dictionary(pa.int8(), pa.string())),
            ("row", pa.int32()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("not", pa.bool_()),
            ("pairs", pa.int64()),
        )
    ]
)


class Form(Protocol):
    """What a form other than pairs does."""

    schema: pa.Schema
    """Of its tables. A column ``pairs`` counts what each row stands for."""
    saved: pa.Schema
    """Of the results that a snapshot carries."""

    def tables(self, batch: KeyedBatch, found: Iterable[Found]) -> list[pa.Table]:
        """Return what a batch found."""
        ...

    def together(self, results: list[pa.Table]) -> pa.Table:
        """Return several tables as the one that a caller gets."""
        ...

    def release(self, results: pa.Table) -> None:
        """Take note that the caller gets these results, and is done with those before."""
        ...

    def save(self, results: pa.Table) -> pa.Table:
        """Return results that the caller has not got as they are saved."""
        ...

    def restore(self, saved: pa.Table) -> pa.Table:
        """Return what :meth:`save` was given."""
        ...


def form_of(result: ResultForm, schemas: Mapping[StreamName, pa.Schema], pairs: pa.Schema) -> Form | None:
    """Return a form by its name, None for pairs; ``pairs`` is the schema of these."""
    match result:
        case "count":
            return Count()
        case "ranges":
            return Ranges(schemas, pairs)
    return None


# --- count ------------------------------------------------------------------------------------------------------------


class Count:
    """Results are how many pairs there are."""

    schema = saved = COUNT

    def tables(self, batch: KeyedBatch, found: Iterable[Found]) -> list[pa.Table]:  # noqa: ARG002 -- a Form
        """Return the number of pairs as a table of one row, or of none if there are no pairs."""
        pairs = sum(match.count for match in found)
        return [_counted(pairs)] if pairs else []

    def together(self, results: list[pa.Table]) -> pa.Table:
        """Return the sum."""
        return _counted(sum(pc.sum(table["pairs"]).as_py() or 0 for table in results))

    def release(self, results: pa.Table) -> None:
        """Do nothing: a number refers to no rows."""

    def save(self, results: pa.Table) -> pa.Table:
        """Return them as they are."""
        return results

    def restore(self, saved: pa.Table) -> pa.Table:
        """Return them as they are."""
        return saved


def _counted(pairs: int) -> pa.Table:
    return pa.table({"pairs": [pairs]}, schema=COUNT)


# --- ranges -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What the numbers of some records stand for."""

    side: StreamName
    """The probing rows' stream."""
    probing: pa.RecordBatch
    array: Int32s
    """Numbers of stored rows."""
    stored: Held
    but: bool = False
    """Whether a range stands for all rows of the array but its own."""
    bound: Int64s | None = None
    places: Int64s | None = None
    """Probing row ``w`` meets stored row ``r`` of a range if ``places[r] >= bound[w]``."""

    def pairs(self, who: Int32s, start: Int64s, end: Int64s) -> tuple[Int32s, Int32s]:
        """Return the pairs of ranges as numbers of probing and of stored rows."""
        total = int(np.sum(end - start))
        own, row = np.empty(total, np.int32), np.empty(total, np.int32)
        expand_ranges(start, end, who, self.array, own, row)
        if self.bound is None or self.places is None:
            return own, row
        inside = self.places[row] >= self.bound[own]
        return own[inside], row[inside]

    def table(self, own: Int32s, row: Int32s, schema: pa.Schema) -> pa.Table:
        """Gather the columns of pairs (at least one)."""
        columns = list(range(len(schema) - self.probing.num_columns))
        chunks = [rows if rows.num_columns == len(columns) else rows.select(columns) for _, rows in self.stored.chunks]
        starts = [first for first, _ in self.stored.chunks]
        ends, own, row = split_pairs(own, row, np.array([*starts, starts[-1] + len(chunks[-1])], np.int64))
        met = [(chunk, some) for chunk, some in zip(chunks, np.split(row, ends[:-1]), strict=True) if len(some)]
        stored = gather_columns([chunk for chunk, _ in met], [some for _, some in met])
        return table_of_pairs(self.side, gather_columns([self.probing], [own]), stored, schema)


class Ranges:
    """Results are records of ranges."""

    schema = RECORDS

    def __init__(self, schemas: Mapping[StreamName, pa.Schema], pairs: pa.Schema) -> None:
        self.saved = pairs
        self._columns = {side: list(range(len(schema))) for side, schema in schemas.items()}
        self._answers: dict[int, Answer] = {}
        self._next = count(secrets.randbits(40) << 22)  # so that no other join's answers have these numbers
        self._released: list[int] = []

    def tables(self, batch: KeyedBatch, found: Iterable[Found]) -> list[pa.Table]:
        """Return a batch's records, and remember what they stand for."""
        return [self._records(*self._answer_of(batch, match)) for match in found if match.count]

    def _answer_of(self, batch: KeyedBatch, match: Found) -> tuple[Answer, Int32s, Int64s, Int64s, Int64s]:
        """Return an answer, and of each of its records row, start, end and number of pairs."""
        columns = self._columns[batch.side]
        probing = batch.rows if batch.rows.num_columns == len(columns) else batch.rows.select(columns)
        if isinstance(match, Match):
            stored = Held(((0, match.stored),)) if match.source is None else match.source.hold()
            ends = np.append(np.flatnonzero(np.diff(match.who)) + 1, len(match.who))
            start = np.append(0, ends[:-1])
            answer = Answer(batch.side, probing, match.row, stored)
            return answer, match.who[start], start, ends, ends - start
        ranges = match.ranges
        answer = Answer(batch.side, probing, ranges.row, match.payload.hold(), match.but, match.bound, match.places)
        return answer, ranges.who, ranges.start, ranges.end, match.counted()

    def _records(self, answer: Answer, row: Int32s, start: Int64s, end: Int64s, pairs: Int64s) -> pa.Table:
        number = next(self._next)
        self._answers[number] = answer
        side = np.full(len(row), list(OTHER_SIDE).index(answer.side), np.int8)
        columns = {
            "answer": np.full(len(row), number),
            "side": pa.DictionaryArray.from_arrays(side, list(OTHER_SIDE)),
            "row": row,
            "start": start,
            "end": end,
            "not": np.full(len(row), answer.but),
            "pairs": pairs,
        }
        return pa.Table.from_arrays([pa.array(column) for column in columns.values()], schema=RECORDS)

    def together(self, results: list[pa.Table]) -> pa.Table:
        """Return one record behind the other."""
        return pa.concat_tables(results) if results else RECORDS.empty_table()

    def release(self, results: pa.Table) -> None:
        """Forget what the results before these stand for; tables of bounded size may have parts of one answer."""
        answers = pc.unique(results["answer"]).to_pylist()
        for number in set(self._released).difference(answers):
            self._answers.pop(number, None)
        self._released = answers

    def save(self, results: pa.Table) -> pa.Table:
        """Return the pairs of records."""
        return self.pairs_of(results)

    def restore(self, saved: pa.Table) -> pa.Table:
        """Return a record for each pair."""
        batches = (
            saved.unify_dictionaries().combine_chunks().to_batches()
        )  # several where they have too much text for one
        return self.together([self._restored(rows) for rows in batches if rows.num_rows])

    def _restored(self, rows: pa.RecordBatch) -> pa.Table:
        split = len(self._columns["left"])
        answer = Answer(
            "left",
            rows.select(list(range(split))),
            np.arange(rows.num_rows, dtype=np.int32),
            Held(((0, rows.select(list(range(split, rows.num_columns)))),)),
        )
        place = np.arange(rows.num_rows)
        return self._records(answer, answer.array, place, place + 1, np.ones(len(place), np.int64))

    # --- records as pairs -------------------------------------------------------------------------------------------

    def pairs_of(self, records: object) -> pa.Table:
        """Return the pairs of records; raise unless they are, or are some of, those of the last results."""
        if not isinstance(records, pa.Table) or not records.schema.equals(RECORDS):
            what = f"a table with columns {records.schema.names}" if isinstance(records, pa.Table) else repr(records)
            raise refuse_records(what, "ranges")
        if any(column.null_count for column in records.columns):
            raise refuse_records("a record with a null", "ranges")
        tables = [table for answer, some in self._by_answer(records) for table in self._pairs(answer, some)]
        return pa.concat_tables(tables) if tables else self.saved.empty_table()

    def _by_answer(self, records: pa.Table) -> Iterator[tuple[Answer, pa.Table]]:
        numbers = np.asarray(records["answer"])
        order = np.argsort(numbers, kind="stable")
        if np.any(order[1:] < order[:-1]):
            records, numbers = records.take(pa.array(order)), numbers[order]
        borders = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(borders if len(numbers) else []):
            answer = self._answers.get(int(numbers[begin]))
            if answer is None:
                raise refuse_records(f"a record of answer {numbers[begin]}, which belongs to other results", "ranges")
            yield answer, records.slice(begin, end - begin)

    def _pairs(self, answer: Answer, records: pa.Table) -> Iterator[pa.Table]:
        """Yield the pairs of an answer's records, a bounded number at a time."""
        who, start, end = (np.asarray(records[name]) for name in ("row", "start", "end"))
        _check(answer, who, start, end)
        if answer.but:
            who, start, end = _rest(who, start, end, len(answer.array))
        totals = np.cumsum(end - start)
        cuts = np.searchsorted(totals, np.arange(contract.PAIRS_AT_ONCE, totals[-1], contract.PAIRS_AT_ONCE), "right")
        for some in np.split(np.arange(len(who)), np.unique(cuts)):
            own, row = answer.pairs(who[some], start[some], end[some])
            if len(own):
                yield answer.table(own, row, self.saved)


def _check(answer: Answer, who: Int32s, start: Int64s, end: Int64s) -> None:
    """Raise unless records lie within their answer: they are read from memory without a further look."""
    within = (who >= 0) & (who < answer.probing.num_rows) & (start >= 0) & (start <= end) & (end <= len(answer.array))
    if not within.all():
        at = int(np.flatnonzero(~within)[0])
        raise refuse_records(f"a record that was changed: row {who[at]}, from {start[at]} to {end[at]}", "ranges")


def _rest(who: Int32s, start: Int64s, end: Int64s, size: int) -> tuple[Int32s, Int64s, Int64s]:
    """Return the ranges before and behind those given, in an array of so many rows."""
    begin, last = np.zeros_like(start), np.full_like(end, size)
    return np.concatenate([who, who]), np.concatenate([begin, end]), np.concatenate([start, last])
