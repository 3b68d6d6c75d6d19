"""Results: their columns' names, and how matches become rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.columns.gather import Columns, gather_columns
from watersmeet.columns.widths import cuts_at, row_widths, same_width, table_width, table_widths
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.kernels.marks import mark_rows
from watersmeet.kernels.team import ALONE
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How, may_be_null, returns_left_rows
from watersmeet.subwindow import contract
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import Match

__all__ = [
    "BYTES_AT_ONCE",
    "bounded_tables",
    "first_for_each_left_row",
    "gather_pairs",
    "gather_probing",
    "gather_stored",
    "in_tables",
    "one_for_each_left_row",
    "pair_widths",
    "put_together",
    "result_schema",
    "table_of_pairs",
    "unmatched_rows",
]

NEVER: Final = 2**63 - 1
BYTES_AT_ONCE: Final = 64 << 20
"""Bytes of a table of bounded size, if its rows are not longer: they count with their own bytes."""


def result_schema(left: pa.Schema, right: pa.Schema, *, how: How = "inner", case_sensitive: bool = True) -> pa.Schema:
    """Return the schema of results: all left columns, then all right ones; names on both sides get it as prefix.

    Names that differ only in case are equal, unless ``case_sensitive``. Columns of a side that may be missing may be
    null. Semi and anti joins have the left columns alone, under their own names.
    """
    if returns_left_rows(how):
        return pa.schema(list(left))
    key = str if case_sensitive else str.lower
    both = {key(name) for name in left.names} & {key(name) for name in right.names}
    sides: tuple[tuple[StreamName, pa.Schema], ...] = (("left", left), ("right", right))
    fields = [
        _as_nullable(column, may_be_null(how, side)).with_name(
            f"{side}_{column.name}" if key(column.name) in both else column.name
        )
        for side, schema in sides
        for column in schema
    ]
    names = [key(column.name) for column in fields]
    repeated = sorted({column.name for column in fields if names.count(key(column.name)) > 1})
    if repeated:
        raise SpecificationError(
            f"the result would have more than one column named {', '.join(map(repr, repeated))}",
            "names that stay different after left_ and right_ are put before those that occur on both sides",
            "rename the columns before the join",
        )
    return pa.schema(fields)


def _as_nullable(column: pa.Field, nullable: bool) -> pa.Field:  # noqa: FBT001 -- a private function's one switch
    return column.with_nullable(nullable=True) if nullable else column


def unmatched_rows(rows: pa.RecordBatch, side: StreamName, schema: pa.Schema) -> pa.Table:
    """Return rows of a side that matched none as results: with nulls for the other side, if that is in ``schema``."""
    missing = list(schema)[rows.num_columns :] if side == "left" else list(schema)[: len(schema) - rows.num_columns]
    nulls = [pa.nulls(rows.num_rows, column.type) for column in missing]
    columns = [*rows.columns, *nulls] if side == "left" else [*nulls, *rows.columns]
    return pa.Table.from_arrays(columns, schema=schema)


def gather_pairs(probing: KeyedBatch, matches: list[Match], schema: pa.Schema) -> pa.Table:
    """Gather the columns of the pairs that a batch found."""
    return table_of_pairs(probing.side, gather_probing(probing, matches), gather_stored(matches), schema)


def gather_probing(probing: KeyedBatch, matches: list[Match], columns: list[int] | None = None) -> Columns:
    """Gather the columns of the probing batch, or some of them, for the pairs that it found."""
    who = [match.who for match in matches]
    return _gathered([probing.rows], who if len(who) == 1 else [np.concatenate(who)], columns, probing.team)


def gather_stored(matches: list[Match], columns: list[int] | None = None, team: int = ALONE) -> Columns:
    """Gather the columns of the stored rows, or some of them, for the pairs that a batch found."""
    return _gathered([match.stored for match in matches], [match.row for match in matches], columns, team)


def _gathered(batches: list[pa.RecordBatch], rows: list[Int32s], columns: list[int] | None, team: int) -> Columns:
    if columns is None:
        return gather_columns(batches, rows, team)
    return gather_columns([batch.select(columns) for batch in batches], rows, team) if columns else []


def table_of_pairs(probing: StreamName, own: Columns, stored: Columns, schema: pa.Schema) -> pa.Table:
    """Return pairs as a table from the gathered columns of both sides; ``probing`` is the probing batch's side."""
    left, right = (own, stored) if probing == "left" else (stored, own)
    return pa.Table.from_arrays([*left, *right], schema=schema)


def in_tables(probing: KeyedBatch, matches: Iterable[Match]) -> Iterator[list[Match]]:
    """Yield the pairs that a batch found, those of a table of bounded size at a time."""
    some: list[Match] = []
    pairs, nbytes = 0, 0
    for match in matches:
        width, count = pair_widths(probing, match), len(match.who)
        if isinstance(width, int):
            room = min(contract.PAIRS_AT_ONCE - pairs, (BYTES_AT_ONCE - nbytes) // max(1, width))
            if count <= room:  # as nearly always: there is nothing to be cut
                some.append(match)
                pairs, nbytes = pairs + count, nbytes + count * width
                continue
        ends = np.cumsum(same_width(width, count))
        begin, before = 0, 0
        while begin < len(ends):
            end = int(np.searchsorted(ends, before + BYTES_AT_ONCE - nbytes, "right"))
            end = min(end, begin + contract.PAIRS_AT_ONCE - pairs)
            if end <= begin and some:
                yield some
                some, pairs, nbytes = [], 0, 0
                continue
            end = max(end, begin + 1)
            part = slice(begin, end)
            some.append(match if end - begin == len(ends) else replace(match, who=match.who[part], row=match.row[part]))
            pairs, nbytes = pairs + end - begin, nbytes + int(ends[end - 1]) - before
            begin, before = end, int(ends[end - 1])
    if some:
        yield some


def one_for_each_left_row(probing: KeyedBatch, matches: Iterable[Match]) -> Iterator[Match]:
    """Yield each left row's first of the pairs that a batch finds in windows that stand still.

    As long as the pairs are no more than the batch's rows, all are yielded: looking would cost more than they do.
    """
    seen: dict[int, tuple[pa.RecordBatch, Bools]] = {}
    room = len(probing)
    for match in matches:
        room -= match.count
        if room >= 0:
            yield match
            continue
        rows, at = (probing.rows, match.who) if probing.side == "left" else (match.stored, match.row)
        _, marks = seen.setdefault(id(rows), (rows, np.zeros(rows.num_rows, np.bool_)))
        first, _ = mark_rows(at, 0, marks)
        if len(first):
            yield match if len(first) == len(at) else replace(match, who=match.who[first], row=match.row[first])


def first_for_each_left_row(probing: KeyedBatch, matches: Iterable[Match]) -> Iterator[Match]:
    """Yield, of such pairs of numbered rows, those whose right row came before that of all pairs of their left row yet.

    In whatever order results come, a left row's first one is that with the earliest of its right rows. Few pairs are
    all yielded here too: a number for each row of a window, made anew for a small batch, would cost more.
    """
    earliest: dict[int, tuple[pa.RecordBatch, Int64s]] = {}
    room = len(probing)
    for match in matches:
        room -= match.count
        if room >= 0:
            yield match
            continue
        if probing.side == "left":
            rows, at, right = probing.rows, match.who, numbers_of(match.stored)[match.row]
        else:
            rows, at, right = match.stored, match.row, numbers_of(probing.rows)[match.who]
        _, known = earliest.setdefault(id(rows), (rows, np.full(rows.num_rows, NEVER)))
        keep = right < known[at]
        np.minimum.at(known, at, right)
        keep &= right == known[at]
        if keep.any():
            yield match if keep.all() else replace(match, who=match.who[keep], row=match.row[keep])


def pair_widths(probing: KeyedBatch, match: Match) -> Int64s | int:
    """Return the bytes of each pair: one number if all take the same, but for hidden columns."""
    if probing.plan.pair_width is not None:
        return probing.plan.pair_width
    return row_widths(probing.rows, match.who) + row_widths(match.stored, match.row)


def bounded_tables(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables (none of them empty) as tables of bounded size; the rows of one that is are not looked at."""
    for table in tables:
        if table.num_rows <= contract.PAIRS_AT_ONCE and table_width(table) <= BYTES_AT_ONCE:
            yield table
            continue
        for part in cuts_at(table_widths(table), BYTES_AT_ONCE):
            for begin in range(part.start, part.stop, contract.PAIRS_AT_ONCE):
                yield table.slice(begin, min(contract.PAIRS_AT_ONCE, part.stop - begin))


def put_together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield neighbouring tables as one, without a copy, as long as that is of bounded size."""
    some: list[pa.Table] = []
    rows, nbytes = 0, 0
    for table in tables:
        width = table_width(table)
        if some and (rows + table.num_rows > contract.PAIRS_AT_ONCE or nbytes + width > BYTES_AT_ONCE):
            yield pa.concat_tables(some)
            some, rows, nbytes = [], 0, 0
        some.append(table)
        rows, nbytes = rows + table.num_rows, nbytes + width
    if some:
        yield pa.concat_tables(some)
