"""What a soak draws: schemas, predicates, rows, windows, and how rows arrive. All follows from a seed.

Compared columns have names of their own on either side and stand anywhere; any type may be last. The values come from
the small domains of ``tests/strategies.py``: matches are common, and the ends of every type occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

import watersmeet as wm
from strategies import DOMAINS, FAMILIES, WIDTHS
from watersmeet.spec.window import Window, Windows

__all__ = ["Dice", "Given", "KeyPair", "Stream", "draw_predicate", "draw_streams", "draw_tables", "draw_window"]

T = TypeVar("T")
Given = dict[str, pa.Table]

MORE_DOMAINS: Final[dict[str, tuple[pa.DataType, list[Any]]]] = {
    "int8": (pa.int8(), [0, 1, 2, -1, 127, -128, None]),
    "decimal(20,0)": (pa.decimal128(20, 0), [Decimal(n) for n in (0, 1, 2, -1, 10**19)] + [None]),
    "binary": (pa.binary(), [b"", b"a", b"ab", b"aaaaaaaab", b"aaaaaaaac", b"\xff", None]),
}
ALL_DOMAINS: Final = DOMAINS | MORE_DOMAINS
ALL_FAMILIES: Final = {
    **FAMILIES,
    "number": [*FAMILIES["number"], "int8", "decimal(20,0)"],
    "binary": ["binary"],
}
OFTEN: Final = ["int64", "int64", "int32", "float64", "string", "timestamp(us)"]
"""Drawn as often as all others together: what most people join on."""
ON_SPARK: Final = ["int32", "int64", "float32", "float64", "decimal(9,2)", "decimal(38,10)", "date", "string", "bool"]
PAYLOADS: Final[list[pa.DataType]] = [
    pa.string(),
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
    pa.list_(pa.int64()),
    pa.list_(pa.struct([("c", pa.string())])),
    pa.decimal128(12, 3),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    pa.int16(),
]
MORE_PAYLOADS: Final[list[pa.DataType]] = [
    pa.binary(10),
    pa.large_string(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.int8(), 2),
    pa.uint8(),
    pa.time64("us"),
    pa.duration("ms"),
    pa.null(),
]
"""Types that Spark does not have, or has under another name."""
NAMES: Final = ["price", "bid", "symbol", "Size", "k", "x1", "größe", "a b", "select", "value", "side", "count", "ts_2"]
COMPARISONS: Final = ["=", "<>", "<", "<=", ">", ">="]
ID_TYPES: Final = [pa.int64(), pa.int64(), pa.int32(), pa.string(), pa.decimal128(12, 2)]
SECOND: Final = 1_000_000


class Dice:
    """A random generator with words for what is drawn here."""

    def __init__(self, *seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def pick(self, options: list[T] | tuple[T, ...]) -> T:
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def number(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return int(self.random.integers(least, most + 1))

    def shuffled(self, options: list[T]) -> list[T]:
        return [options[int(at)] for at in self.random.permutation(len(options))]


@dataclass(frozen=True)
class Stream:
    """One stream: its schema, which column is its time, and the domains of the others."""

    name: str
    schema: pa.Schema
    ts: str
    domains: dict[str, list[Any]]


@dataclass(frozen=True)
class KeyPair:
    """Columns that can be compared, one of every stream, and the name of each one's domain."""

    columns: dict[str, str]
    types: dict[str, str]
    family: str


def draw_streams(dice: Dice, names: list[str], *, on_spark: bool = False) -> tuple[list[Stream], list[KeyPair]]:
    """Draw streams whose compared columns stand anywhere, under names of their own."""
    pairs: list[KeyPair] = []
    bare = dice.chance(0.08)  # nothing travels along: the ids are compared
    id_type = dice.pick(ID_TYPES)
    if bare:
        id_type = dice.pick([pa.int64(), pa.int32()])
        kind = "int64" if id_type == pa.int64() else "int32"
        pairs.append(KeyPair(dict.fromkeys(names, "id"), dict.fromkeys(names, kind), "number"))
    columns: dict[str, dict[str, tuple[pa.DataType, list[Any]]]] = {name: {} for name in names}
    free = {name: dice.shuffled(NAMES) for name in names}
    for _ in range(0 if bare else dice.number(1, 3)):
        first = dice.pick(OFTEN) if dice.chance(0.5) else dice.pick([n for own in ALL_FAMILIES.values() for n in own])
        if on_spark and first not in ON_SPARK:
            first = "int64"
        family = next(family for family, own in ALL_FAMILIES.items() if first in own)
        like = [n for n in ALL_FAMILIES[family] if not on_spark or n in ON_SPARK]
        same_name = dice.chance(0.3)
        shared = next((n for n in NAMES if all(n in own for own in free.values())), None) if same_name else None
        own_names, types = {}, {}
        for name in names:
            own_names[name] = shared or free[name][-1]
            free[name].remove(own_names[name])
            types[name] = first if dice.chance(0.6) else dice.pick(like)
            arrow, domain = ALL_DOMAINS[types[name]]
            if on_spark:
                domain = [value for value in domain if _is_moderate(value)]
            some = domain if dice.chance(0.8) else domain[: dice.number(1, 3)]
            columns[name][own_names[name]] = (arrow, some)
        pairs.append(KeyPair(own_names, types, family))
    unit = "us" if on_spark else dice.pick(["us", "us", "us", "ms", "ns", "s"])
    shared_ts = dice.chance(0.5)
    streams = []
    for number, name in enumerate(names):
        ts = "ts" if shared_ts else f"at {number}" if dice.chance(0.2) else f"at{number}"
        own_unit = unit if on_spark or dice.chance(0.7) else dice.pick(["us", "ms", "ns"])
        fields = [("id", id_type), (ts, pa.timestamp(own_unit, "UTC" if on_spark else None)), ("o", pa.int64())]
        fields += [(column, arrow) for column, (arrow, _) in columns[name].items()]
        payloads = PAYLOADS if on_spark else PAYLOADS + MORE_PAYLOADS
        if bare:
            fields.pop()
        else:
            fields += [(f"p{n}_{name}", dice.pick(payloads)) for n in range(dice.number(0, 3))]
        domains = {column: domain for column, (_, domain) in columns[name].items()}
        streams.append(Stream(name, pa.schema(dice.shuffled(fields)), ts, domains))
    return streams, pairs


def _is_moderate(value: Any) -> bool:  # noqa: ANN401 -- of any type
    """Tell whether a band around a value lies inside its type: beyond it Spark's own join fails."""
    if isinstance(value, date):
        return date(1900, 1, 1) < value < date(2100, 1, 1)
    return isinstance(value, float | str | bool) or value is None or abs(value) < 10**6


# --- predicates -------------------------------------------------------------------------------------------------------


def draw_predicate(dice: Dice, names: list[str], pairs: list[KeyPair], *, on_spark: bool = False) -> str:
    """Draw SQL text that connects all streams."""
    terms = [_term(dice, a, b, pairs, on_spark=on_spark) for a, b in _edges(dice, names)]
    if dice.chance(0.25):
        a, b = dice.shuffled(names)[:2]
        terms.append(_term(dice, a, b, pairs, on_spark=on_spark))
    if len(names) == 2 and len(terms) > 1 and dice.chance(0.3):
        return " OR ".join(terms)
    return " AND ".join(terms)


def _edges(dice: Dice, names: list[str]) -> list[tuple[str, str]]:
    """Return which streams have a condition with which: a tree, sometimes with one more edge."""
    order = dice.shuffled(names)
    edges = [(name, dice.pick(order[:at])) for at, name in enumerate(order) if at]
    if len(names) > 2 and dice.chance(0.3):
        edges.append((order[-1], order[0]))
    return edges


def _term(dice: Dice, a: str, b: str, pairs: list[KeyPair], *, on_spark: bool) -> str:
    pair = dice.pick(pairs)
    first = _atom(dice, a, b, pair, on_spark=on_spark)
    if dice.chance(0.35):
        second = _atom(dice, a, b, dice.pick(pairs), on_spark=on_spark)
        first = f"{first} {dice.pick(['AND', 'AND', 'OR'])} {second}"
    return f"NOT ({first})" if dice.chance(0.08) else f"({first})"


def _atom(dice: Dice, a: str, b: str, pair: KeyPair, *, on_spark: bool) -> str:
    """Draw a condition on two columns."""
    x, y = _column(a, pair.columns[a]), _column(b, pair.columns[b])
    low, high = (_ends(dice, pair, b, y, on_spark=on_spark) for _ in range(2))
    operator = dice.pick(COMPARISONS)
    kinds = [f"{x} = {y}"] * 4
    kinds += [f"{x} BETWEEN {low[0]} AND {high[1]}"] * 4
    kinds += [f"{x} {operator} {dice.pick([y, low[0], high[1]])}"] * 2
    kinds += [
        f"NOT ({y} {operator} {x})",
        f"({x} = {y} OR {x} IS NULL AND {y} IS NULL)",
        f"{x} <=> {y}",
        f"{x} NOT BETWEEN {low[0]} AND {high[1]}",
        f"({x} BETWEEN {low[0]} AND {high[1]} OR {x} {operator} {y})",
        f"LEAST({x}, {y}) {operator} GREATEST({y}, {low[0]})",
        f"{x} IN ({y}, {_literal(dice, pair.family)})",
        f"({x} = {y} AND {x} IS NOT NULL)",
        f"({x} >= {low[0]} AND {x} < {high[1]})",
    ]
    if pair.family == "number":
        kinds += [f"ABS({x} - {y}) {operator} {dice.pick(WIDTHS['number'][:6])}"]
        kinds += [f"CAST({x} AS DOUBLE) {operator} {y}", f"-{x} {operator} {y}"]
        if not on_spark:  # there ANSI arithmetic raises
            kinds += [f"({x} + {y}) % 2 = 0", f"{x} * 2 {operator} {y}", f"{x} / 2 {operator} {y}"]
            kinds += [f"CAST({x} AS BIGINT) = CAST({y} AS BIGINT)"]
    if pair.family == "bool":
        kinds += [f"({x} AND {y})", f"({x} AND {y}) = {y}", f"({x} OR {y}) <> {x}", f"({x} AND NOT {y})"]
    return dice.pick(kinds)


def _column(stream: str, column: str) -> str:
    return (
        f"{stream}.{column}"
        if column.isidentifier() and column.isascii() and column != "select"
        else (f"{stream}.`{column}`")
    )


def _ends(dice: Dice, pair: KeyPair, stream: str, column: str, *, on_spark: bool) -> tuple[str, str]:
    """Draw the two ends of a band around a column."""
    own = pair.types[stream]
    if pair.family in ("text", "bool"):
        width = dice.pick(WIDTHS[pair.family])
        return f"LEAST({column}, {width})", f"GREATEST({width}, {column})"
    if pair.family == "binary":
        return column, column
    widths = WIDTHS[own.partition("(")[0] if pair.family == "time" else "number"]
    width = dice.pick(widths[:6] if on_spark else widths)
    return f"{column} - {width}", f"{column} + {width}"


def _literal(dice: Dice, family: str) -> str:
    if family == "binary":
        return "NULL"
    if family == "time":
        return "TIMESTAMP '1970-01-01 00:00:01'"
    return dice.pick([*WIDTHS[family][:4], "NULL"])


# --- windows and rows -------------------------------------------------------------------------------------------------


def draw_window(dice: Dice, streams: list[Stream]) -> Window | Windows:
    """Draw a window: in time, with lateness, idle and of two lengths, or by count, also ordered."""
    lengths = [timedelta(microseconds=1), timedelta(seconds=2), timedelta(seconds=5), timedelta(days=20_000)]
    many = streams[0].name != "left"  # then windows are by name
    if dice.chance(0.6):
        lateness = dice.pick([timedelta(0), timedelta(0), timedelta(seconds=3), timedelta(days=1)])
        idle = dice.pick([None, None, timedelta(0), timedelta(seconds=2)])
        own = [dice.pick(lengths) for _ in streams]
        if dice.chance(0.15):
            own[dice.number(0, len(own) - 1)] = timedelta(0)
        if many:
            return wm.time_window(
                {stream.name: length for stream, length in zip(streams, own, strict=True)},
                ts={stream.name: stream.ts for stream in streams},
                lateness=lateness,
                idle=idle,
            )
        left, right = streams
        return wm.time_window(
            left=own[0], right=own[1], left_ts=left.ts, right_ts=right.ts, lateness=lateness, idle=idle
        )
    ordered = all("o" in stream.schema.names for stream in streams) and dice.chance(0.4)
    order_by = "o" if ordered else None
    if many:
        return wm.count_window({stream.name: dice.number(1, 7) for stream in streams}, order_by=order_by)
    return wm.count_window(left=dice.number(1, 9), right=dice.number(1, 9), order_by=order_by)


def draw_tables(dice: Dice, stream: Stream, rows: int, pushes: int) -> list[pa.Table | None]:
    """Draw a stream's rows, cut into pushes; time advances from push to push, and some rows lie behind it."""
    cuts = sorted(dice.number(0, rows) for _ in range(pushes - 1))
    ends = [0, *cuts, rows]
    return [
        None if begin == end and dice.chance(0.5) else table_of(dice, stream, range(begin, end), 2 * number * SECOND)
        for number, (begin, end) in enumerate(pairwise(ends))
    ]


def table_of(dice: Dice, stream: Stream, ids: range, now: int, span: int = 13 * SECOND) -> pa.Table:
    """Return rows of some numbers, whose times lie in ``span`` microseconds after ``now``."""
    random, first, count = dice.random, ids.start, len(ids)
    seconds = random.integers(-1, span // SECOND, count, endpoint=True) * SECOND + random.integers(0, 2, count)
    times = [None if dice.chance(0.05) else now + int(second) for second in seconds]
    arrays = []
    for field in stream.schema:
        if field.name == "id":
            values: list[Any] = [_of_type(field.type, first + n) for n in range(count)]
        elif field.name == stream.ts:
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[field.type.unit]
            values = [None if t is None else t * per_second // SECOND for t in times]
        elif field.name == "o":
            values = [[None, -(2**63), 0, 1, 2, 3, 2**63 - 1][int(n)] for n in random.integers(0, 7, count)]
        elif field.name in stream.domains:
            domain = stream.domains[field.name]
            values = [domain[int(at)] for at in random.integers(0, len(domain), count)]
        else:
            values = [None if (first + n) % 7 == 3 else _of_type(field.type, first + n) for n in range(count)]
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=stream.schema)


def _of_type(kind: pa.DataType, number: int) -> Any:  # noqa: ANN401, C901 -- a value of any type
    """Return a value of an Arrow type that a number decides."""
    match kind:
        case _ if pa.types.is_null(kind):
            return None
        case _ if pa.types.is_boolean(kind):
            return number % 2 == 0
        case _ if pa.types.is_struct(kind):
            return {field.name: _of_type(field.type, number) for field in kind}
        case _ if pa.types.is_map(kind):
            return [(f"k{n}", _of_type(kind.item_type, number + n)) for n in range(number % 3)]
        case _ if pa.types.is_fixed_size_list(kind):
            return [_of_type(kind.value_type, number + n) for n in range(kind.list_size)]
        case _ if pa.types.is_list(kind):
            return [_of_type(kind.value_type, number + n) for n in range(number % 3)]
        case _ if pa.types.is_dictionary(kind):
            return f"d{number % 5}"
        case _ if pa.types.is_decimal(kind):
            return Decimal(number).scaleb(-kind.scale)
        case _ if pa.types.is_fixed_size_binary(kind):
            return str(number).encode().ljust(kind.byte_width)
        case _ if pa.types.is_binary(kind):
            return str(number).encode() * (number % 4)
        case _ if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return f"row {number}" + " and more" * (number % 4)
        case _ if pa.types.is_integer(kind):
            return number % 2 ** (kind.bit_width - 1)
    return number
