"""Joins as Spark's users have them: columns under any names, at any places, of any type, with payload or without.

A case is drawn as the other tests draw theirs (:mod:`strategies`, :mod:`drawn_streams`), which gives the oracle its
columns ``id, ts, x, y, o``. Then it is *dressed*: columns get other names on every side, places at random and company
of any type; what the join does not need may go, ``id`` too. So results are compared as whole rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import drawn_streams
import oracle
import strategies
import watersmeet as wm
from strategies import DOMAINS, FAMILIES
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import CountWindow, TimeWindow, TimeWindows, Window, Windows, windows_of

UTC = pa.timestamp("us", "UTC")
KEYS = {
    name: (UTC, [value for value in values if value is None or abs(value) < 2**60]) if name.startswith("time") else its
    for name, its in DOMAINS.items()
    for values in [its[1]]
    if name in ("int32", "int64", "float32", "float64", "timestamp(us)", "date", "string", "bool")
    or name.startswith("decimal")
}
"""Keys of types that Spark has."""
COMPANY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "abc", None]),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": ""}, None]),
    "list": (pa.list_(pa.string()), [[], ["x", None], None]),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-9.125"), None]),
    "binary": (pa.binary(), [b"", b"\0\xff", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "double": (pa.float64(), [0.5, float("nan"), None]),
}
"""Columns that only travel."""
NAMES = ("price", "bid", "x", "y", "symbol", "a b", "ts2", "k", "K1", "ä", "value", "q")


@dataclass(frozen=True)
class Case:
    """One join, and what its micro-batches bring."""

    schemas: dict[str, pa.Schema]
    on: str
    window: Window | Windows
    batches: list[dict[str, pa.Table | None]]
    expected: Counter[str]
    """All results, as text."""


@dataclass(frozen=True)
class PlainCase:
    """One join of two streams as it is drawn, before it is dressed."""

    schemas: dict[str, pa.Schema]
    on: str
    window: Window
    batches: list[dict[str, pa.Table | None]]


@st.composite
def plain_cases(draw: st.DrawFn, kind: str) -> PlainCase:
    """Draw a join of two streams whose predicate is of ``kind``; its columns are ``id, ts, x, y, o, p``."""
    family = draw(st.sampled_from([[name for name in names if name in KEYS] for names in FAMILIES.values()]))
    types = draw(st.sampled_from(family)), draw(st.sampled_from(family))
    on, window = draw(strategies.predicates(kind, types)), draw(strategies.windows())
    keys = dict(zip(("left", "right"), types, strict=True))
    plain = {
        side: pa.schema([("id", pa.int64()), ("ts", pa.timestamp("ms")), ("x", KEYS[key][0]), ("y", pa.int32())])
        .append(pa.field("o", pa.int64()))
        .append(pa.field("p", pa.string()))
        for side, key in keys.items()
    }
    codes = st.lists(st.integers(0, 10**6), max_size=draw(st.sampled_from([2, 6, 12])))
    batches: list[dict[str, pa.Table | None]] = [
        {
            side: None if rows is None else strategies.table_of(side, plain[side], KEYS[key][1], rows, 1000 * number)
            for (side, key), rows in zip(keys.items(), push, strict=True)
        }
        for number, push in enumerate(
            draw(st.lists(st.tuples(*[st.one_of(codes, codes, st.none())] * 2), min_size=2, max_size=6))
        )
    ]
    return PlainCase(plain, on, window, batches)


@st.composite
def pair_cases(draw: st.DrawFn, kind: str) -> Case:
    """Draw a join of two streams whose predicate is of ``kind``."""
    drawn = draw(plain_cases(kind))
    plain, on, window, batches = drawn.schemas, drawn.on, drawn.window, drawn.batches
    truth = oracle.pairs(parse_predicate(on), window, plain, [(batch["left"], batch["right"]) for batch in batches])
    kept = {window.order_by} if isinstance(window, CountWindow) else set()
    dress = {side: draw(dresses(schema, kept)) for side, schema in plain.items()}
    if isinstance(window, TimeWindow):
        left_ts, right_ts = (dress[side].names["ts"] for side in ("left", "right"))
        window = TimeWindow(window.left, window.right, left_ts, right_ts, window.lateness, window.idle)
    return _dressed(plain, dress, on, window, batches, truth)


@st.composite
def multi_cases(draw: st.DrawFn, shape: str, count: int) -> Case:
    """Draw a join of ``count`` streams."""
    names = ["a", "b", "c", "d"][:count]
    key = draw(st.sampled_from(["int64", "float64", "string", "decimal(9,2)"]))
    arrow, values = KEYS[key]
    domain = [values[1], values[2], values[1], values[2], values[3], values[-1]]
    columns = [("id", pa.int64()), ("ts", pa.timestamp("ms")), ("x", arrow), ("y", pa.int32()), ("p", pa.string())]
    plain = {name: pa.schema(columns) for name in names}
    batches: list[dict[str, pa.Table | None]] = [{} for _ in range(draw(st.integers(2, 4)))]
    for name in names:
        codes = draw(st.lists(st.integers(0, 10**6), min_size=4, max_size=drawn_streams.ROWS[max(3, count)]))
        size = len(batches) - 1
        cuts = sorted(draw(st.lists(st.integers(0, len(codes)), min_size=size, max_size=size)))
        for number, (begin, end) in enumerate(pairwise([0, *cuts, len(codes)])):
            batches[number][name] = drawn_streams.table_of(name, plain[name], domain, codes[begin:end], 1000 * number)
    on = draw(drawn_streams.predicates(shape, names, key))
    windows = windows_of(draw(drawn_streams.windows(names)), names)
    truth = oracle.results(read_predicate(on, tuple(names)), windows, plain, batches)
    dress = {name: draw(dresses(schema, set())) for name, schema in plain.items()}
    if isinstance(windows, TimeWindows):
        ts = {name: dress[name].names["ts"] for name in names}
        windows = TimeWindows(windows.lengths, ts, windows.lateness, windows.idle)
    elif windows.order_by is not None:
        order_by = {name: dress[name].names[str(column)] for name, column in windows.order_by.items()}
        windows = wm.count_window(dict(windows.counts), order_by=order_by)
    return _dressed(plain, dress, on, windows, batches, truth)


@dataclass(frozen=True)
class Dress:
    """How a stream's rows look."""

    names: dict[str, str]
    """New names by old ones."""
    company: dict[str, str]
    """Types of the columns that only travel, by name."""
    order: list[str]
    """New names, and those of the company."""

    def put_on(self, table: pa.Table) -> pa.Table:
        """Return rows as a join on Spark gets them."""
        columns: dict[str, Any] = {new: table[old] for old, new in self.names.items()}
        columns[self.names["ts"]] = table["ts"].cast(UTC)
        for position, (name, kind) in enumerate(self.company.items()):
            arrow, values = COMPANY[kind]
            ids = table["id"].to_pylist()
            columns[name] = pa.array([values[(number + position) % len(values)] for number in ids], arrow)
        return pa.table({name: columns[name] for name in self.order})


@st.composite
def dresses(draw: st.DrawFn, schema: pa.Schema, kept: set[str | None]) -> Dress:
    """Draw how a stream looks; the names of ``kept`` columns stay."""
    unneeded = draw(st.sampled_from([set(), {"p"}, {"id", "p"}, {"id", "p", "o"}])) - kept
    old = [name for name in schema.names if name not in unneeded]
    pool = [name for name in draw(st.permutations(NAMES)) if name not in kept]
    names = {name: name if name in kept else new for name, new in zip(old, pool, strict=False)}
    kinds = draw(st.lists(st.sampled_from(sorted(COMPANY)), max_size=2))
    company = dict(zip(pool[len(old) :], kinds, strict=False))
    return Dress(names, company, draw(st.permutations([*names.values(), *company])))


def _dressed(
    plain: Mapping[str, pa.Schema],
    dress: Mapping[str, Dress],
    on: str,
    window: Window | Windows,
    batches: list[dict[str, pa.Table | None]],
    truth: Counter[tuple[Any, ...]],
) -> Case:
    renamed = re.sub(
        rf"\b({'|'.join(dress)})\.(\w+)", lambda found: f"{found[1]}.`{dress[found[1]].names[found[2]]}`", on
    )
    dressed = [
        {side: None if table is None else dress[side].put_on(table) for side, table in batch.items()}
        for batch in batches
    ]
    rows: dict[str, dict[int, str]] = {side: {} for side in dress}
    for before, after in zip(batches, dressed, strict=True):
        for side, table in after.items():
            if table is not None:
                rows[side] |= dict(zip(before[side]["id"].to_pylist(), texts(table), strict=True))  # type: ignore[index]
    schemas = {side: its.put_on(plain[side].empty_table()).schema for side, its in dress.items()}
    expected: Counter[str] = Counter()
    for ids, often in truth.items():
        expected[", ".join(rows[side][number] for side, number in zip(dress, ids, strict=True))] += often
    return Case(schemas, renamed, window, dressed, expected)


def texts(table: pa.Table) -> list[str]:
    """Return each row as text."""
    return [", ".join(map(repr, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def possible(routings: tuple[str, ...], make: Any) -> list[str]:
    """Return the routings that a case can have."""
    found = []
    for routing in routings:
        try:
            make(routing)
        except SpecificationError:
            continue
        found.append(routing)
    return found
