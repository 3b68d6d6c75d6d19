"""What the parity tests draw: columns of every key type, predicates of every kind, windows, and how rows arrive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, get_args

import pyarrow as pa
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.spec.options import StructureName
from watersmeet.spec.window import Window

STRUCTURES = (*get_args(StructureName), "auto")
KINDS = (
    "equality",
    "band",
    "one_sided",
    "not_equal",
    "residual_and",
    "residual_or",
    "bands_or",
    "band_2d",
    "residual_only",
    "equality_band",
    "two_equalities",
    "abs_band",
    "null_safe",
    "disjunction",
    "mixture",
)
NAN, INF = float("nan"), float("inf")
PAYLOADS = (pa.string(), pa.binary(10))
"""Of any size, and of a fixed one: the window may hold rows in another way when all columns are of fixed size."""
SMALL = [0, 1, 2, 3, -1, -2]
DAY = date(1970, 1, 1).toordinal()

# Small domains, so that matches are common; the ends of each type, so that nothing overflows unseen.
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int32": (pa.int32(), [*SMALL, 2**31 - 1, -(2**31), None]),
    "int64": (pa.int64(), [*SMALL, 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63), None]),
    "uint64": (pa.uint64(), [0, 1, 2, 3, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2, None]),
    "float32": (pa.float32(), [0.0, -0.0, 0.5, 1.0, -1.5, NAN, INF, -INF, 3.4028234663852886e38, 2.0**24, None]),
    "float64": (
        pa.float64(),
        [0.0, -0.0, 0.1, 0.2, 0.30000000000000004, 1.0, -1.5, NAN, INF, -INF, 1.7e308, 5e-324, 2.0**53, None],
    ),
    "decimal(9,2)": (
        pa.decimal128(9, 2),
        [Decimal(n) / 100 for n in (0, 10, 20, 30, 100, -50, 999999999, -999999999)] + [None],
    ),
    "decimal(38,10)": (
        pa.decimal128(38, 10),
        [Decimal(n).scaleb(-10) for n in (0, 10**9, 2 * 10**9, 10**10, 10**10 + 1, -5 * 10**9)]
        + [Decimal("9" * 28), Decimal("-" + "9" * 28), None],
    ),
    "timestamp(us)": (
        pa.timestamp("us"),
        [0, 1, 1_000_000, 2_000_000, -1_000_000, 86_400_000_000, 2**63 - 1, -(2**63), None],
    ),
    "timestamp(ns)": (
        pa.timestamp("ns"),
        [0, 1, 1_000, 1_000_000_000, 1_000_000_001, 86_400_000_000_000, 2**63 - 1, -(2**63), None],
    ),
    "timestamp(s, zone)": (pa.timestamp("s", "Europe/Vienna"), [0, 1, 2, -1, 86_400, 2**40, None]),
    "date": (pa.date32(), [date.fromordinal(DAY + n) for n in (0, 1, 2, 3, -1, 10_000)] + [date.min, date.max, None]),
    "string": (
        pa.string(),
        ["", "a", "ab", "b", "aaaaaaaab", "aaaaaaaac", "aaaaaaaa", "ä", "\U0001f600", "\uffff", "a\0", None],
    ),
    "prefixed string": (pa.string(), [*(f"customer-{n:08d}" for n in (0, 1, 2, 9, 10, 99)), "customer-0", "", None]),
    "large_string": (pa.large_string(), ["", "a", "b", "aaaaaaaab", "aaaaaaaac", None]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["", "a", "b", "aaaaaaaab", "ä", None]),
    "bool": (pa.bool_(), [True, False, None]),
}
FAMILIES = {
    "number": ["int32", "int64", "uint64", "float32", "float64", "decimal(9,2)", "decimal(38,10)"],
    "time": ["timestamp(us)", "timestamp(ns)", "timestamp(s, zone)", "date"],
    "text": ["string", "prefixed string", "large_string", "dictionary"],
    "bool": ["bool"],
}
WIDTHS = {
    "number": ["0", "1", "2", "0.5", "0.1D", "0.10", "1e300", "-1", "9223372036854775807", "12345678901234567890123"],
    "timestamp": [
        "INTERVAL 0 SECONDS",
        "INTERVAL 1 SECOND",
        "INTERVAL 1 MICROSECOND",
        "INTERVAL 1 DAY",
        "INTERVAL -1 SECONDS",
    ],
    "date": ["INTERVAL 0 DAYS", "INTERVAL 1 DAY", "INTERVAL 36 HOURS", "1", "2"],
    "text": ["'a'", "'aaaaaaaac'", "'ä'", "'customer-00000002'"],
    "bool": ["TRUE", "FALSE"],
}


@dataclass(frozen=True)
class Case:
    """One join and the way its rows arrive."""

    schemas: dict[str, pa.Schema]
    on: str
    window: Window
    pushes: list[tuple[pa.Table | None, pa.Table | None]]
    restart_before: int
    small: bool


@st.composite
def key_types(draw: st.DrawFn) -> tuple[str, str]:
    """Draw the key's type on both sides: the same as often as two that can be compared."""
    left = draw(st.sampled_from([name for names in FAMILIES.values() for name in names]))
    family = next(names for names in FAMILIES.values() if left in names)
    return left, draw(st.one_of(st.just(left), st.sampled_from(family)))


@st.composite
def predicates(draw: st.DrawFn, kind: str, types: tuple[str, str]) -> str:  # noqa: C901, PLR0912 -- one case per kind
    """Draw SQL text of a kind, over ``x`` (of the given types) and the int32 column ``y``."""
    x, y = "left.x", "right.x"
    low, high = draw(ends(types[1], y)), draw(ends(types[1], y))
    band = f"{x} BETWEEN {low[0]} AND {high[1]}"
    operator = draw(st.sampled_from(["<", "<=", ">", ">="]))
    match kind:
        case "equality":
            return draw(st.sampled_from([f"{x} = {y}", f"{y} = {x}"]))
        case "band":
            return band
        case "one_sided":
            return f"{x} {operator} {draw(st.sampled_from([y, low[0], high[1]]))}"
        case "not_equal":
            return draw(st.sampled_from([f"{x} <> {y}", f"NOT ({x} = {y})", f"{x} <> {low[1]}"]))
        case "residual_and":
            first = draw(st.sampled_from([band, f"{x} = {y}", f"{x} {operator} {y}"]))
            return f"{first} AND (left.y + right.y) % 2 = 0 AND left.y >= 0"
        case "residual_or":
            return f"{band} AND (left.y = right.y OR {x} {operator} {y} OR right.y IS NULL)"
        case "bands_or":
            other = draw(ends(types[1], y))
            return f"{band} OR ({x} >= {other[0]} AND {x} < {other[1]}) OR {x} {operator} {high[1]} AND left.y = 1"
        case "band_2d":
            return f"{band} AND left.y BETWEEN right.y - 1 AND right.y + 1"
        case "residual_only":
            return draw(
                st.sampled_from(
                    [
                        f"LEAST({x}, {y}) {operator} GREATEST({y}, {x})",
                        "left.y * right.y > 1",
                        f"left.y = 1 OR {x} = {y}",
                    ]
                )
            )
        case "equality_band":
            return f"left.y = right.y AND {band}"
        case "two_equalities":
            return f"{x} = {y} AND right.y = left.y"
        case "abs_band":
            return draw(distances(types, x, y))
        case "null_safe":
            return draw(
                st.sampled_from(
                    [
                        f"{x} <=> {y}",
                        f"{y} IS NOT DISTINCT FROM {x}",
                        f"{x} = {y} OR ({y} IS NULL AND {x} IS NULL)",
                        f"({x} IS NULL AND {y} IS NULL) OR {y} = {x} OR left.y = right.y + 1",
                        f"{x} <=> {y} AND left.y <=> right.y + 1",
                        f"left.y <=> right.y AND {band}",
                        f"{x} <=> {y} OR {band}",
                        f"{x} <=> {y} AND {x} {operator} {y}",
                        f"NOT ({x} <=> {y}) AND left.y IS DISTINCT FROM right.y AND NOT (left.y <=> 1)",
                        f"left.y - right.y <=> right.y AND NOT ({x} = {y} OR ({x} IS NULL AND {y} IS NULL))",
                    ]
                )
            )
        case "disjunction":
            return draw(
                st.sampled_from(
                    [
                        f"{x} = {y} OR left.y = right.y",
                        f"left.y = right.y OR {band}",
                        f"left.y = right.y OR {x} {operator} {y} OR {x} <=> {y}",
                        f"({x} = {y} AND left.y = right.y) OR ({x} = {y} AND left.y > 1) OR left.y = right.y + 2",
                        f"left.y BETWEEN 0 AND 2 AND ({x} = {y} OR left.y = right.y OR {band})",
                        f"left.y < right.y AND ({x} = {y} OR left.y + right.y = 2) OR left.y <=> right.y AND {band}",
                    ]
                )
            )
    return (
        f"NOT ({x} {operator} {y} AND left.y IN (1, 2)) AND ({band} OR {x} IS NULL OR left.y <> right.y)"
        f" AND NOT (right.y IS NULL) AND NOT (left.y IN (3, right.y, NULL) AND {x} <> {y})"
    )


@st.composite
def ends(draw: st.DrawFn, its_type: str, column: str) -> tuple[str, str]:
    """Draw the two ends of a band around ``column``."""
    family = next(name for name, names in FAMILIES.items() if its_type in names)
    width = draw(st.sampled_from(WIDTHS[its_type.partition("(")[0] if family == "time" else family]))
    if family in ("text", "bool"):
        return f"LEAST({column}, {width})", f"GREATEST({width}, {column})"
    return f"{column} - {width}", f"{column} + {width}"


@st.composite
def distances(draw: st.DrawFn, types: tuple[str, str], x: str, y: str) -> str:
    """Draw a bound on the distance of two columns."""
    operator = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]))
    if {*types} <= {*FAMILIES["number"]}:
        return f"ABS({x} - {y}) {operator} {draw(st.sampled_from(WIDTHS['number']))}"
    if {*types} <= {*FAMILIES["time"]} and ("date" not in types or types[0] == types[1]):
        a, b = draw(st.permutations([f"ABS({y} - {x})", draw(st.sampled_from(WIDTHS["timestamp"]))]))
        return f"{a} {operator} {b}"
    return f"{x} = {y}"


def windows() -> st.SearchStrategy[Window]:
    """Draw windows: symmetric, asymmetric, zero on one side, with lateness and idle; by count, also ordered."""
    lengths = st.sampled_from(
        [timedelta(microseconds=1), timedelta(seconds=2), timedelta(seconds=5), timedelta(days=20_000)]
    )
    lateness = st.sampled_from([timedelta(0), timedelta(0), timedelta(seconds=3), timedelta(days=1)])
    idle = st.sampled_from([None, None, timedelta(0), timedelta(seconds=2)])
    counts = st.integers(1, 7)
    zero = st.just(timedelta(0))
    return st.one_of(
        st.builds(wm.time_window, lengths, ts=st.just("ts"), lateness=lateness, idle=idle),
        st.builds(
            wm.time_window,
            left=lengths,
            right=lengths,
            left_ts=st.just("ts"),
            right_ts=st.just("ts"),
            lateness=lateness,
            idle=idle,
        ),
        st.builds(wm.time_window, left=lengths, right=zero, ts=st.just("ts"), lateness=lateness),
        st.builds(wm.time_window, left=zero, right=lengths, ts=st.just("ts"), lateness=lateness),
        st.builds(wm.count_window, counts),
        st.builds(wm.count_window, left=counts, right=counts),
        st.builds(wm.count_window, left=counts, right=counts, order_by=st.sampled_from(["ts", "y", "o"])),
    )


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    """Draw a join whose predicate is of ``kind``."""
    types = draw(key_types())
    domains = {"left": DOMAINS[types[0]], "right": DOMAINS[types[1]]}
    if draw(st.integers(0, 9)) == 0:  # all keys equal
        domains = {side: (arrow, values[:1]) for side, (arrow, values) in domains.items()}
    units = draw(st.sampled_from([("us", "us"), ("us", "us"), ("ms", "ns"), ("s", "us")]))
    payload = draw(st.sampled_from(PAYLOADS))
    schemas = {
        side: pa.schema(
            [
                ("id", pa.int64()),
                ("ts", pa.timestamp(unit)),
                ("x", domains[side][0]),
                ("y", pa.int32()),
                ("o", pa.int64()),
                ("p", payload),
            ]
        )
        for side, unit in zip(("left", "right"), units, strict=True)
    }
    codes = st.lists(st.integers(0, 10**6), max_size=draw(st.sampled_from([1, 4, 12])))
    arrivals = draw(
        st.lists(st.tuples(st.one_of(st.none(), codes), st.one_of(st.none(), codes)), min_size=1, max_size=6)
    )
    pushes = []
    for number, push in enumerate(arrivals):
        tables = [
            None if rows is None else table_of(side, schemas[side], domains[side][1], rows, 1000 * number)
            for side, rows in zip(("left", "right"), push, strict=True)
        ]
        pushes.append((tables[0], tables[1]))
    return Case(
        schemas,
        draw(predicates(kind, types)),
        draw(windows()),
        pushes,
        draw(st.integers(0, len(pushes))),
        draw(st.booleans()),
    )


def payload_of(side: str, number: int) -> str:
    """Return what a row's column ``p`` holds, whatever the column's type."""
    return f"{side}{number}".ljust(10)


def table_of(side: str, schema: pa.Schema, domain: list[Any], codes: list[int], first: int) -> pa.Table:
    """Decode rows: each number says which values of the small domains its row has. Time advances from push to push."""
    rows = []
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[schema.field("ts").type.unit]
    for number, code in enumerate(codes):
        rest, key = divmod(code, len(domain))
        rest, y = divmod(rest, 6)
        rest, second = divmod(rest, 14)
        moment = (second - 1) * per_second + (rest % 2 if per_second > 1000 else 0) + first // 1000 * 2 * per_second
        rows.append(
            {
                "id": first + number,
                "ts": None if second == 0 else moment,
                "x": domain[key],
                "y": None if y == 5 else y - 1,
                "o": [None, -(2**63), 0, 1, 2**63 - 1][rest % 5],
                "p": payload_of(side, first + number),
            }
        )
    return pa.table({name: [row[name] for row in rows] for name in schema.names}, schema=schema)
