"""The oracle: a nested loop over the full history, in plain Python. Trusted by reading, so it stays short.

Values: int (also days of a date), Fraction (decimals; seconds of a timestamp or interval), numpy.float32 and float64
(IEEE arithmetic and nothing else), str, bytes, bool; None is null. ``pairs`` gives the multiset of (left id, right id),
``results`` the same for many streams.
"""

from __future__ import annotations

import operator as op
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.spec import expression as ex
from watersmeet.spec.window import TimeWindow, TimeWindows, Window, Windows

Push = tuple[pa.Table | None, pa.Table | None]
COMPARE = {"=": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
SUBSECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INTEGERS = {"tinyint": (3, 7), "smallint": (5, 15), "int": (10, 31), "bigint": (20, 63)}
EXACT = ("int", "decimal")


class Type(NamedTuple):
    kind: str
    digits: int = 0
    scale: int = 0


def column_type(arrow: pa.DataType) -> Type:
    if pa.types.is_dictionary(arrow):
        return column_type(arrow.value_type)
    if pa.types.is_uint64(arrow):
        return Type("decimal", 20)  # Spark has no unsigned integers
    if pa.types.is_integer(arrow):
        return Type("int", {8: 3, 16: 5, 32: 10, 64: 20}[arrow.bit_width])
    if pa.types.is_decimal(arrow):
        return Type("decimal", arrow.precision + max(-arrow.scale, 0), max(arrow.scale, 0))
    names = {
        "float": "float",
        "halffloat": "float",
        "bool": "boolean",
        "large_string": "string",
        "string_view": "string",
    }
    name = str(arrow).partition("[")[0].removesuffix("32").removesuffix("64")
    return Type({"duration": "interval", **names}.get(name, name))


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values, each as described above."""
    kind, arrow = column_type(column.type).kind, column.type
    if kind in ("timestamp", "interval"):
        return [None if v is None else Fraction(v, SUBSECOND[arrow.unit]) for v in column.cast(pa.int64()).to_pylist()]
    convert: Callable[[Any], Any] = {
        "date": lambda v: v.toordinal() - date(1970, 1, 1).toordinal(),
        "decimal": Fraction,
        "float": np.float32,
        "double": np.float64,
    }.get(kind, lambda v: v)
    return [None if value is None else convert(value) for value in column.to_pylist()]


class Evaluator:
    """Evaluates expressions for one pair of rows after the other."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self.schemas = schemas
        self.types: dict[int, tuple[Type, ex.Expression]] = {}  # keeps the node, so that its id stays its own

    def type(self, node: ex.Expression) -> Type:
        if id(node) not in self.types:
            self.types[id(node)] = self.find_type(node), node
        return self.types[id(node)][0]

    def find_type(self, node: ex.Expression) -> Type:
        match node:
            case ex.Column(side, name):
                return column_type(self.schemas[side].field(name).type)
            case ex.Constant(Decimal() as value):
                scale = max(-int(value.as_tuple().exponent), 0)
                return Type("decimal", max(len(value.as_tuple().digits), scale), scale)
            case ex.Constant(value, kind):
                return Type(kind, len(str(abs(value))) if kind == "int" else 0)
            case ex.Cast(_, target):
                if target.startswith("decimal"):
                    return Type("decimal", *map(int, target[8:-1].split(",")))
                return Type("int", INTEGERS[target][0]) if target in INTEGERS else Type(target.removesuffix("_ntz"))
            case ex.Negative(operand) | ex.Call("abs", (operand,)):
                return self.type(operand)
            case ex.Call(_, arguments):
                result = self.type(arguments[0])
                for argument in arguments[1:]:
                    result = self.common(result, self.type(argument))
                return result
            case ex.Arithmetic(operator, a, b):
                return self.arithmetic_type(
                    operator, self.type(a), self.type(b), b if self.type(a).kind == "date" else a
                )
        return Type("boolean")

    @staticmethod
    def common(a: Type, b: Type) -> Type:
        """Return the type in which two values are compared."""
        if "null" in (a.kind, b.kind) or a.kind == b.kind not in EXACT:
            return b if a.kind == "null" else a
        if a.kind in EXACT and b.kind in EXACT:
            scale, whole = max(a.scale, b.scale), max(a.digits - a.scale, b.digits - b.scale)
            return Type("int" if a.kind == b.kind == "int" else "decimal", whole + scale, scale)
        return Type("timestamp" if "timestamp" in (a.kind, b.kind) else "double")

    def arithmetic_type(self, operator: str, a: Type, b: Type, other: ex.Expression) -> Type:
        kinds = {a.kind, b.kind}
        common = self.common(a, b)
        if "null" in kinds:
            return common
        if "date" in kinds and len(kinds) > 1:
            whole = "int" in kinds or (isinstance(other, ex.Constant) and not constant(other.value) % 86400)
            return Type("date" if whole else "timestamp")
        if "timestamp" in kinds and len(kinds) > 1:
            return Type("timestamp")
        if kinds & {"date", "timestamp", "interval"}:
            return Type("interval")
        if common.kind not in EXACT:
            return Type("double") if operator == "/" else common
        if operator in "+-":
            return common._replace(digits=common.digits + 1)
        if operator == "*":
            return Type(common.kind, a.digits + b.digits + 1, a.scale + b.scale)
        if operator == "%":
            return common
        if common.kind == "int":
            return Type("double")
        scale = max(6, a.scale + b.digits + 1)  # Spark's rule for the quotient of decimals
        digits = a.digits - a.scale + b.scale + scale
        return Type("decimal", digits, scale if digits <= 38 else max(38 - (digits - scale), min(scale, 6)))

    def value(self, node: ex.Expression, row: Mapping[tuple[str, str], Any]) -> Any:  # noqa: C901, PLR0912
        match node:
            case ex.Column(side, name):
                return row[side, name]
            case ex.Constant(value):
                return constant(value)
            case ex.And(terms) | ex.Or(terms):
                deciding = isinstance(node, ex.Or)  # Kleene: one true decides an OR, one false an AND
                truths = [self.value(term, row) for term in terms]
                return deciding if deciding in truths else None if None in truths else not deciding
            case ex.OneOf():  # Spark: all operands are compared in one type
                common = reduce(self.common, map(self.type, node.children()))
                own, *options = (self.to(common, each, self.value(each, row)) for each in node.children())
                if own is None:
                    return None
                found = any(option is not None and ordered(own) == ordered(option) for option in options)
                return found or (None if any(option is None for option in options) else False)
            case ex.IsNull(operand):
                return self.value(operand, row) is None
            case ex.Same(a, b) if None in [None if self.value(side, row) is None else 0 for side in (a, b)]:
                return self.value(a, row) is None and self.value(b, row) is None
            case ex.Same(a, b):
                return self.value(ex.Compare("=", a, b), row)
            case ex.Call("least" | "greatest" as function, arguments):
                values = [self.to(self.type(node), a, self.value(a, row)) for a in arguments]
                return (min if function == "least" else max)(
                    (v for v in values if v is not None), key=ordered, default=None
                )
        values = [self.value(child, row) for child in node.children()]
        if None in [None if value is None else 0 for value in values]:
            return None
        match node:
            case ex.Boolean():
                return values[0]
            case ex.Not():
                return not values[0]
            case ex.Negative():
                return -values[0]
            case ex.Call("abs"):
                return abs(values[0])
            case ex.Cast(operand, target):
                found = cast(values[0], self.type(operand).kind, self.type(node), target)
                is_time = self.type(node).kind == "timestamp"  # of microseconds, as Spark has them
                return Fraction(found * 10**6 // 1, 10**6) if is_time else found
            case ex.Compare(operator, a, b):
                common = self.common(self.type(a), self.type(b))
                x, y = (ordered(self.to(common, side, v)) for side, v in zip((a, b), values, strict=True))
                return bool(COMPARE[operator](x, y))
            case ex.Arithmetic(operator, a, b):
                return self.arithmetic(operator, self.type(node), [self.type(a), self.type(b)], values)
        raise AssertionError(node)

    def to(self, target: Type, node: ex.Expression, value: Any) -> Any:
        """Return a value of ``node`` in the type in which it is compared or chosen."""
        if value is None or target.kind not in ("double", "timestamp"):
            return value
        return cast(value, self.type(node).kind, target, target.kind)

    @staticmethod
    def arithmetic(operator: str, target: Type, types: list[Type], values: list[Any]) -> Any:
        if target.kind == "date":
            x, y = (int(v / 86400) if t.kind == "interval" else v for v, t in zip(values, types, strict=True))
        elif target.kind in ("timestamp", "interval"):
            x, y = (Fraction(v * 86400) if t.kind == "date" else v for v, t in zip(values, types, strict=True))
        elif target.kind in ("float", "double"):
            x, y = (cast(v, t.kind, target, target.kind) for v, t in zip(values, types, strict=True))
        else:
            x, y = values
        if operator in "/%" and y == 0:
            return None
        with np.errstate(all="ignore"):
            match operator:
                case "+" | "-" | "*":
                    return {"+": op.add, "-": op.sub, "*": op.mul}[operator](x, y)
                case "/":
                    return x / y if target.kind == "double" else half_up(Fraction(x) / y, target.scale)
                case _ if target.kind in ("float", "double"):
                    return np.fmod(x, y)
        return abs(x) % abs(y) * (-1 if x < 0 else 1)


def constant(value: Any) -> Any:
    match value:
        case timedelta():
            return Fraction(value // timedelta(microseconds=1), 10**6)
        case datetime():
            return Fraction((value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // timedelta(microseconds=1), 10**6)
        case date():
            return value.toordinal() - date(1970, 1, 1).toordinal()
        case Decimal():
            return Fraction(value)
    return np.float64(value) if isinstance(value, float) else value


def cast(value: Any, source: str, target: Type, name: str) -> Any:
    """Return ``value`` cast; None where it does not fit."""
    match target.kind:
        case "boolean":
            return bool(value != 0)
        case "double":
            return np.float64(float(value))
        case "float":
            with np.errstate(over="ignore"):
                return np.float32(value) if source in ("float", "double") else nearest_float(Fraction(value))
        case "timestamp":
            return Fraction(value * 86400) if source == "date" else value
        case "date":
            return value // 86400 if source == "timestamp" else value
        case "int":
            if source in ("float", "double") and not np.isfinite(value):
                return None
            return int(value) if -(2 ** INTEGERS[name][1]) <= int(value) < 2 ** INTEGERS[name][1] else None
        case "decimal":
            rounded = half_up(Fraction(value), target.scale)
            return rounded if abs(rounded) * 10**target.scale < 10**target.digits else None
    return value


def half_up(value: Fraction, scale: int) -> Fraction:
    return Fraction(int(abs(value) * 10**scale + Fraction(1, 2)), 10**scale) * (-1 if value < 0 else 1)


def nearest_float(value: Fraction) -> np.float32:
    """Return the float32 nearest to ``value``; of two the one whose last bit is zero."""
    with np.errstate(over="ignore"):
        guess = np.float32(float(value))
        around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    if not np.isfinite(around).all():
        return guess  # beyond the largest float
    return min(around, key=lambda f: (abs(Fraction(float(f)) - value), int(f.view(np.int32)) & 1))


def ordered(value: Any) -> Any:
    """Return what orders as ``value`` does: NaN equals NaN and is greater than all."""
    return (
        (bool(np.isnan(value)), np.float64(0) if np.isnan(value) else value)
        if isinstance(value, np.floating)
        else value
    )


def rows_of(side: str, table: pa.Table | None) -> list[dict[tuple[str, str], Any]]:
    if table is None:
        return []
    columns = {(side, name): column_values(table[name]) for name in table.column_names}
    return [{name: values[i] for name, values in columns.items()} for i in range(table.num_rows)]


def on_time(
    ts: Mapping[str, str], window: TimeWindow | TimeWindows, pushes: Sequence[Sequence[list[Any]]]
) -> tuple[list[list[Any]], Counter[str]]:
    """Return each stream's rows that are neither late nor without a timestamp, and how many were late."""
    names = list(ts.items())
    kept: list[list[Any]] = [[] for _ in names]
    late = Counter[str]()
    for push, watermark in zip(pushes, [None, *watermarks(ts, window, pushes)], strict=False):
        for i, rows in enumerate(push):
            for row in rows:
                if row[names[i]] is None:
                    continue
                if watermark is not None and row[names[i]] < watermark:
                    late[names[i][0]] += 1
                else:
                    kept[i].append(row)
    return kept, late


def watermarks(
    ts: Mapping[str, str], window: TimeWindow | TimeWindows, pushes: Iterable[Sequence[list[Any]]]
) -> list[Fraction | None]:
    """Return the watermark after each push."""
    names = list(ts.items())
    largest: list[Fraction | None] = [None] * len(names)
    found: list[Fraction | None] = []
    for push in pushes:
        for i, rows in enumerate(push):
            times = [row[names[i]] for row in rows if row[names[i]] is not None]
            largest[i] = max([*times, *([] if largest[i] is None else [largest[i]])], default=None)
        known = [time for time in largest if time is not None]
        reached = [min(known)] if len(known) == len(largest) else []
        if known and window.idle is not None:
            reached.append(max(known) - constant(window.idle))
        before = [time for time in found[-1:] if time is not None]
        found.append(max([*before, *(time - constant(window.lateness) for time in reached)], default=None))
    return found


def in_order(order_by: Mapping[str, str | None], pushes: Iterable[Sequence[list[Any]]]) -> list[list[Any]]:
    """Number the rows as they arrive: each by how many rows of every stream, its own included, came before."""
    arrived: list[list[Any]] = [[] for _ in order_by]
    for push in pushes:

        def moment(row: Any, stream: str) -> Any:
            value = row[stream, order_by[stream]] if order_by[stream] else 0
            return (value is not None, ordered(value) if value is not None else 0)

        together = [(moment(row, stream), i, row) for i, stream in enumerate(order_by) for row in push[i]]
        for _, i, row in sorted(together, key=lambda entry: entry[:2]):  # stable: ties as given
            arrived[i].append({**row, (list(order_by)[i], "#"): [len(rows) for rows in arrived]})
    return arrived


def pairs(
    on: ex.Predicate, window: Window, schemas: Mapping[str, pa.Schema], pushes: list[Push]
) -> Counter[tuple[Any, Any]]:
    """Return the pairs of ids that the join gives for ``pushes``."""
    history = [(rows_of("left", left), rows_of("right", right)) for left, right in pushes]
    if isinstance(window, TimeWindow):
        (lefts, rights), _ = on_time({"left": window.left_ts, "right": window.right_ts}, window, history)
    else:
        lefts, rights = in_order({"left": window.order_by, "right": window.order_by}, history)
    holds = predicate_of(on, schemas, [lefts, rights])
    return Counter(
        (left["left", "id"], right["right", "id"])
        for left in lefts
        for right in rights
        if meets(window, left, right) and holds(left, right)
    )


def predicate_of(
    on: ex.Predicate, schemas: Mapping[str, pa.Schema], streams: Sequence[list[Any]]
) -> Callable[..., bool]:
    """Return what tells whether rows satisfy ``on``: it is evaluated once for rows of equal values in its columns."""
    truth, known = Evaluator(schemas), dict[tuple[str, ...], bool]()
    named = {(column.stream, column.name) for column in ex.columns_of(on)}
    for row in (row for rows in streams for row in rows):
        row["values"] = repr([row[column] for column in sorted(named & row.keys())])  # -0.0 is not 0.0, nor 1 1.0

    def holds(*rows: Any) -> bool:
        key = tuple(row["values"] for row in rows)
        if key not in known:
            known[key] = truth.value(on, {name: value for row in rows for name, value in row.items()}) is True
        return known[key]

    return holds


def of_kind(how: str, found: Counter[tuple[Any, Any]], window: Window, pushes: list[Push]) -> Counter[tuple[Any, Any]]:
    """Return the pairs of ids that a join of any kind gives, from all pairs; None stands where a side is missing."""
    met = [{pair[i] for pair in found} for i in range(2)]
    alone = [[key for key in ids if key not in met[i]] for i, ids in enumerate(in_time(window, pushes))]
    lefts, rights = Counter((key, None) for key in alone[0]), Counter((None, key) for key in alone[1])
    return {
        "inner": found,
        "left": found + lefts,
        "right": found + rights,
        "full": found + lefts + rights,
        "semi": Counter((key, None) for key in met[0]),
        "anti": lefts,
    }[how]


def in_time(window: Window, pushes: list[Push]) -> list[list[Any]]:
    """Return the ids of each side's rows that are not late."""
    history = [(rows_of("left", left), rows_of("right", right)) for left, right in pushes]
    rows = [[row for push in history for row in push[i]] for i in range(2)]
    if isinstance(window, TimeWindow):
        ts = {"left": window.left_ts, "right": window.right_ts}
        kept, _ = on_time(ts, window, history)
        timeless = [[row for row in rows[i] if row[name] is None] for i, name in enumerate(ts.items())]
        rows = [kept[i] + timeless[i] for i in range(2)]
    return [[row[side, "id"] for row in rows[i]] for i, side in enumerate(("left", "right"))]


@cache
def seconds(length: timedelta) -> Fraction:
    return Fraction(constant(length))


def meets(window: Window, left: Any, right: Any) -> bool:
    if isinstance(window, TimeWindow):
        distance = left["left", window.left_ts] - right["right", window.right_ts]
        return bool(distance <= seconds(window.right) if distance >= 0 else -distance <= seconds(window.left))
    (left_number, rights_before), (lefts_before, right_number) = left["left", "#"], right["right", "#"]
    if left_number < lefts_before:  # the left row came first
        return bool(lefts_before - left_number <= window.left)
    return bool(rights_before - right_number <= window.right)


def results(
    on: ex.Predicate, windows: Windows, schemas: Mapping[str, pa.Schema], pushes: list[Mapping[str, pa.Table | None]]
) -> Counter[tuple[Any, ...]]:
    """Return the ids of the rows, one of every stream, that the join of many streams gives for ``pushes``."""
    history = [[rows_of(stream, push.get(stream)) for stream in schemas] for push in pushes]
    if isinstance(windows, TimeWindows):
        rows, _ = on_time(windows.ts, windows, history)
    else:
        rows = in_order(windows.order_by or dict.fromkeys(schemas), history)
    holds = predicate_of(on, schemas, rows)
    return Counter(
        tuple(row[stream, "id"] for stream, row in zip(schemas, chosen, strict=True))
        for chosen in product(*rows)
        if all_in_window(windows, dict(zip(schemas, chosen, strict=True))) and holds(*chosen)
    )


def all_in_window(windows: Windows, chosen: Mapping[str, Any]) -> bool:
    """Tell whether every row is still in its stream's window when the latest of them arrives."""
    if isinstance(windows, TimeWindows):
        times = {stream: row[stream, windows.ts[stream]] for stream, row in chosen.items()}
        latest = max(times.values())
        return all(latest - time <= seconds(windows.lengths[stream]) for stream, time in times.items())
    counts = {stream: row[stream, "#"] for stream, row in chosen.items()}
    latest = max(counts.values(), key=sum)  # what came before it, of all streams
    return all(
        latest[i] - counts[stream][i] <= windows.counts[stream]
        for i, stream in enumerate(chosen)
        if counts[stream] is not latest
    )
