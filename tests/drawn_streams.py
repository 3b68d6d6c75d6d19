"""What the tests of many streams draw: join graphs, conditions of every kind, windows, and how rows arrive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

import watersmeet as wm
from strategies import DOMAINS
from watersmeet.spec.window import Window, Windows

SHAPES = ("chain", "star", "cycle", "clique")
KEYS = ("int64", "float64", "string", "decimal(9,2)", "dictionary")
ROWS = {3: 12, 4: 7, 5: 5, 6: 4}
"""Rows of one stream, for so many streams: few enough for an oracle that looks at all combinations of them."""


@dataclass(frozen=True)
class Case:
    """One join of many streams and the way its rows arrive."""

    schemas: dict[str, pa.Schema]
    on: str
    window: Window | Windows
    pushes: list[dict[str, pa.Table | None]]
    restart_before: int
    small: bool


def edges(shape: str, names: list[str]) -> list[tuple[str, str]]:
    """Return which streams have a condition with which."""
    chain = list(pairwise(names))
    return {
        "chain": chain,
        "star": [(names[0], other) for other in names[1:]],
        "cycle": [*chain, (names[-1], names[0])],
        "clique": [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]],
    }[shape]


@st.composite
def conditions(draw: st.DrawFn, a: str, b: str, key: str) -> str:
    """Draw a condition between two streams, over ``x`` (of type ``key``) and the int32 column ``y``."""
    kinds = [f"{a}.x = {b}.x", f"{a}.y = {b}.y", f"{a}.y BETWEEN {b}.y - 1 AND {b}.y + 1", f"{a}.x <= {b}.x"]
    kinds += [f"{a}.x = {b}.x AND {a}.y >= {b}.y", f"({a}.x = {b}.x OR {a}.y = {b}.y)", f"{a}.y <> {b}.y"]
    kinds += [f"({a}.y + {b}.y) % 2 = 0", f"NOT ({a}.x > {b}.x OR {a}.y > {b}.y + 1)"]
    if key in ("int64", "float64", "decimal(9,2)"):
        kinds += [f"{a}.x BETWEEN {b}.x - 1 AND {b}.x + 0.5", f"ABS({a}.x - {b}.x) <= 2"]
    return draw(st.sampled_from(kinds))


@st.composite
def predicates(draw: st.DrawFn, shape: str, names: list[str], key: str) -> str:
    """Draw SQL text whose conditions make a join graph of ``shape``."""
    terms = [draw(conditions(*draw(st.permutations(edge)), key)) for edge in edges(shape, names)]
    a, b, c = names[0], names[1], names[-1]
    more = [f"{a}.y + {b}.y > {c}.y", f"({a}.y = {b}.y OR {b}.y = {c}.y)", f"{b}.y >= 0", f"{c}.x IS NULL OR {a}.y < 3"]
    terms += [f"({term})" for term in draw(st.lists(st.sampled_from(more), max_size=1))]
    return " AND ".join(terms)


@st.composite
def windows(draw: st.DrawFn, names: list[str]) -> Window | Windows:
    """Draw windows: one for all or one by stream, in time with lateness, or by count, also ordered."""
    lengths = st.sampled_from([timedelta(seconds=1), timedelta(seconds=4), timedelta(seconds=9), timedelta(days=9_000)])
    counts = st.integers(1, 7)
    lateness = draw(st.sampled_from([timedelta(0), timedelta(seconds=3), timedelta(days=1)]))
    idle = draw(st.sampled_from([None, None, timedelta(seconds=2)]))
    order_by = draw(st.sampled_from([None, "ts", "y"]))
    kind = draw(st.sampled_from(["time", "times", "zero", "count", "counts"]))
    match kind:
        case "time":
            return wm.time_window(draw(lengths), ts="ts", lateness=lateness, idle=idle)
        case "times":
            return wm.time_window({name: draw(lengths) for name in names}, ts="ts", lateness=lateness, idle=idle)
        case "zero":
            some = {name: draw(lengths) for name in names} | {draw(st.sampled_from(names)): timedelta(0)}
            return wm.time_window(some, ts=dict.fromkeys(reversed(names), "ts"), lateness=lateness)
        case "count":
            return wm.count_window(draw(counts), order_by=order_by)
    return wm.count_window({name: draw(counts) for name in names}, order_by=order_by)


@st.composite
def cases(draw: st.DrawFn, shape: str, count: int) -> Case:
    """Draw a join of ``count`` streams."""
    names = ["a", "b", "c", "d", "e", "f"][:count]
    key = draw(st.sampled_from(KEYS))
    arrow, values = DOMAINS[key]
    domain = [values[1], values[2], values[1], values[2], values[3], values[-1]]  # the last is null
    units = draw(st.sampled_from(["us", "ms", "ns"]))
    schemas = {
        name: pa.schema(
            [
                ("id", pa.int64()),
                ("ts", pa.timestamp(units if name == names[-1] else "us")),
                ("x", arrow),
                ("y", pa.int32()),
                ("p", pa.string()),
            ]
        )
        for name in names
    }
    pushes: list[dict[str, pa.Table | None]] = [{} for _ in range(draw(st.integers(1, 4)))]
    for name in draw(st.permutations(names)):
        codes = draw(st.lists(st.integers(0, 10**6), min_size=ROWS[count] // 2, max_size=ROWS[count]))
        cuts = sorted(draw(st.lists(st.integers(0, len(codes)), min_size=len(pushes) - 1, max_size=len(pushes) - 1)))
        for number, (begin, end) in enumerate(pairwise([0, *cuts, len(codes)])):
            if end > begin or draw(st.booleans()):
                table = table_of(name, schemas[name], domain, codes[begin:end], 1000 * number)
                pushes[number][name] = table
    on = draw(predicates(shape, names, key))
    return Case(schemas, on, draw(windows(names)), pushes, draw(st.integers(0, len(pushes))), draw(st.booleans()))


def table_of(name: str, schema: pa.Schema, domain: list[object], codes: list[int], first: int) -> pa.Table:
    """Decode rows: each number says which values of the small domains its row has. Time advances from push to push."""
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[schema.field("ts").type.unit]
    rows = []
    for number, code in enumerate(codes):
        rest, key = divmod(code, len(domain))
        rest, y = divmod(rest, 9)
        second = rest % 6
        moment = (second + first // 1000 * 2) * per_second
        rows.append(
            {
                "id": first + number,
                "ts": None if rest % 31 == 0 else moment,
                "x": domain[key],
                "y": None if y == 8 else y % 3,
                "p": f"{name}{first + number}",
            }
        )
    return pa.table({column: [row[column] for row in rows] for column in schema.names}, schema=schema)
