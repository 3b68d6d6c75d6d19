"""Spark SQL text to a predicate. The text is parsed (sqlglot, Spark dialect), never evaluated.

What is not understood is refused at once with the offending fragment. Literals are those of Spark: ``500`` is an
integer, ``0.5`` a decimal, ``5e-1`` and ``0.5D`` doubles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from watersmeet.spec.durations import parse_duration
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import (
    Arithmetic,
    ArithmeticOperator,
    Boolean,
    Call,
    Cast,
    Column,
    Compare,
    CompareOperator,
    Constant,
    Expression,
    FunctionName,
    IsNull,
    Negative,
    Not,
    Predicate,
    Same,
    Side,
    conjunction,
    disjunction,
)

__all__ = ["parse_predicate"]

ALLOWED: Final = (
    "AND, OR, NOT, comparisons (= <> < <= > >= <=>), BETWEEN, IN, IS NULL, arithmetic (+ - * / %), ABS, LEAST, "
    "GREATEST, CAST, columns written {columns}, literals (numbers, strings, booleans, DATE, TIMESTAMP, INTERVAL)"
)
COMPARISONS: Final[dict[type[exp.Expr], CompareOperator]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITHMETIC: Final[dict[type[exp.Expr], ArithmeticOperator]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
FUNCTIONS: Final[dict[type[exp.Expr], FunctionName]] = {
    exp.Abs: "abs",
    exp.Least: "least",
    exp.Greatest: "greatest",
}
NON_DETERMINISTIC: Final = (exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Uuid)
NON_DETERMINISTIC_NAMES: Final = frozenset(
    {"uuid", "rand", "random", "randn", "now", "shuffle", "monotonically_increasing_id"}
)
CAST_TARGETS: Final[dict[exp.DType, str]] = {
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.DECIMAL: "decimal",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TEXT: "string",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}
INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
PREDICATE_NODES: Final[tuple[type[exp.Expr], ...]] = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Between,
    exp.In,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    *COMPARISONS,
)


def parse_predicate(text: str, sides: tuple[Side, ...] = ("left", "right")) -> Predicate:
    """Return the predicate that ``text`` says.

    Examples
    --------
    >>> from watersmeet.spec.predicates import band, equal
    >>> by_text = parse_predicate("left.x BETWEEN right.y - 5 AND right.y + 5 AND left.k = right.k")
    >>> by_text == band("x", "y", 5) & equal("k")
    True
    """
    try:
        trees = sqlglot.parse(text, read="spark")
    except SqlglotError as error:
        raise _refusal(text, sides, "cannot be parsed: " + str(error).split("\n", maxsplit=1)[0]) from error
    if len(trees) != 1 or trees[0] is None:
        raise _refusal(text, sides, "is not one expression")
    return _Reader(text, sides).predicate(trees[0])


class _Reader:
    """Walks one parsed text; keeps the text and the streams' names for the error messages."""

    def __init__(self, text: str, sides: tuple[Side, ...]) -> None:
        self.text = text
        self.sides = sides

    def predicate(self, node: exp.Expr) -> Predicate:
        """Return ``node``, which must be true or false, as a predicate."""
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return conjunction(self.predicate(node.left), self.predicate(node.right))
            case exp.Or():
                return disjunction(self.predicate(node.left), self.predicate(node.right))
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.Between() if not node.args.get("symmetric"):
                value = self.value(node.this)
                return conjunction(
                    Compare(">=", value, self.value(node.args["low"])),
                    Compare("<=", value, self.value(node.args["high"])),
                )
            case exp.In() if node.expressions and not node.args.get("query"):
                value = self.value(node.this)
                return disjunction(*(Compare("=", value, self.value(option)) for option in node.expressions))
            case exp.NullSafeEQ():
                return Same(self.value(node.this), self.value(node.expression))
            case exp.NullSafeNEQ():
                return Not(Same(self.value(node.this), self.value(node.expression)))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self.value(node.this))
            case exp.Column() | exp.Boolean() | exp.Null():
                return Boolean(self.value(node))
        operator = COMPARISONS.get(type(node))
        if operator is None:
            raise self.refuse(node, "is not a condition that can be joined on")
        return Compare(operator, self.value(node.this), self.value(node.expression))

    def value(self, node: exp.Expr) -> Expression:
        """Return ``node`` as an expression that has a value."""
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self.column(node)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return self.constant(node)
            case exp.Neg():
                return _negated(self.value(node.this))
            case exp.Interval():
                return self.interval(node)
            case exp.Cast():
                return self.cast(node)
            case _ if isinstance(node, PREDICATE_NODES):
                return self.predicate(node)
        if (operator := ARITHMETIC.get(type(node))) is not None:
            return _folded(Arithmetic(operator, self.value(node.this), self.value(node.expression)))
        if (function := FUNCTIONS.get(type(node))) is not None:
            return Call(function, tuple(self.value(argument) for argument in (node.this, *node.expressions)))
        raise self.refuse(node, "is not supported")

    def column(self, node: exp.Column) -> Column:
        """Return a column, which must name its stream."""
        side = next((side for side in self.sides if side.lower() == node.table.lower()), None)
        if node.args.get("db") or side is None:
            names = " or ".join(f"{side}.{node.name}" for side in self.sides)
            raise self.refuse(node, "does not name a stream", f"write {names}")
        return Column(side, node.name)

    def constant(self, node: exp.Expr) -> Constant:
        """Return a literal as Spark types it."""
        if isinstance(node, exp.Null):
            return Constant(None, "null")
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this), "boolean")
        text: str = node.this
        if node.is_string:
            return Constant(text, "string")
        if "e" in text.lower():
            if not math.isfinite(float(text)):
                raise self.refuse(node, "is not a finite number")
            return Constant(float(text), "double")
        return Constant(Decimal(text), "decimal") if "." in text else Constant(int(text), "int")

    def interval(self, node: exp.Interval) -> Constant:
        """Return ``INTERVAL …`` as a constant."""
        unit = node.args.get("unit")
        amount = node.this
        if isinstance(amount, exp.Neg):
            amount, sign = amount.this, -1
        else:
            sign = 1
        if not isinstance(amount, exp.Literal):
            raise self.refuse(node, "is not a constant interval")
        text = f"{amount.this} {unit.name}" if unit is not None else str(amount.this)
        try:
            return Constant(sign * parse_duration(text), "interval")
        except SpecificationError as error:
            raise self.refuse(node, "is not an interval of days to microseconds") from error

    def cast(self, node: exp.Cast) -> Expression:
        """Return ``CAST(x AS t)``; a cast of a constant is carried out here."""
        target = CAST_TARGETS.get(node.to.this)
        if target is None:
            raise self.refuse(
                node,
                "casts to a type that is not supported",
                f"cast to one of {', '.join(sorted(set(CAST_TARGETS.values())))}",
            )
        if target == "decimal":
            parameters = [int(parameter.name) for parameter in node.to.expressions] or [10, 0]
            target = f"decimal({parameters[0]},{parameters[1] if len(parameters) > 1 else 0})"
        operand = self.value(node.this)
        if isinstance(operand, Constant):
            try:
                folded = _cast_constant(operand, target)
            except (ValueError, ArithmeticError) as error:
                raise self.refuse(node, f"is not a {target}") from error
            if folded is not None:
                return folded
        return Cast(operand, target)

    def refuse(self, node: exp.Expr, why: str, next_step: str = "") -> SpecificationError:
        """Return the error for ``node``."""
        fragment = node.sql(dialect="spark")
        if isinstance(node, NON_DETERMINISTIC) or (
            isinstance(node, exp.Anonymous | exp.Func) and node.name.lower() in NON_DETERMINISTIC_NAMES
        ):
            why = "is not deterministic: a pair would match or not from one evaluation to the next"
            next_step = "compute it as a column before the join"
        return _refusal(self.text, self.sides, f"contains `{fragment}`, which {why}", next_step)


def _refusal(text: str, sides: tuple[Side, ...], why: str, next_step: str = "") -> SpecificationError:
    columns = f"{', '.join(f'{side}.NAME' for side in sides[:-1])} and {sides[-1]}.NAME"
    return SpecificationError(
        explain_refusal(
            f"the predicate {text!r} {why}",
            ALLOWED.format(columns=columns),
            next_step or "rewrite that part, or compute it as a column before the join",
        )
    )


def _negated(operand: Expression) -> Expression:
    """Return ``-operand``, a constant when it is one: ``-5`` is a literal, not an operation."""
    if isinstance(operand, Constant) and isinstance(operand.value, Decimal):
        return Constant(operand.value.copy_negate(), operand.kind)  # a minus sign would round it to 28 digits
    if isinstance(operand, Constant) and isinstance(operand.value, int | float | timedelta):
        return Constant(-operand.value, operand.kind)
    return Negative(operand)


def _folded(operation: Arithmetic) -> Expression:
    """Return the sum of two intervals (how ``INTERVAL 1 HOUR 30 MINUTES`` is parsed) as one interval."""
    left, right = operation.left, operation.right
    if isinstance(left, Constant) and isinstance(right, Constant) and left.kind == right.kind == "interval":
        assert isinstance(left.value, timedelta)
        assert isinstance(right.value, timedelta)
        if operation.operator == "+":
            return Constant(left.value + right.value, "interval")
        if operation.operator == "-":
            return Constant(left.value - right.value, "interval")
    return operation


def _cast_constant(constant: Constant, target: str) -> Constant | None:
    """Return ``constant`` cast to ``target``, or None when the cast is left to the evaluator."""
    value = constant.value
    folds: dict[tuple[str, str], Callable[[], Constant]] = {
        ("string", "date"): lambda: Constant(date.fromisoformat(str(value)), "date"),
        ("string", "timestamp"): lambda: Constant(_utc(str(value)), "timestamp"),
        ("string", "timestamp_ntz"): lambda: Constant(_utc(str(value)), "timestamp"),
    }
    if constant.kind == "int" and target in INTEGER_BITS and isinstance(value, int):
        limit = 1 << (INTEGER_BITS[target] - 1)
        return constant if -limit <= value < limit else None
    if (constant.kind, target) in folds:
        return folds[constant.kind, target]()
    if target == "double" and constant.kind in ("int", "decimal", "double", "string"):
        double = float(str(value))
        if not math.isfinite(double):
            message = f"{value} is not a finite number"
            raise ValueError(message)
        return Constant(double, "double")
    if target.startswith("decimal") and constant.kind in ("int", "decimal", "string"):
        number = Decimal(str(value))
        precision, scale = (int(part) for part in target[len("decimal(") : -1].split(","))
        scaled = Fraction(number) * 10**scale
        if scaled.denominator == 1 and abs(scaled) < 10**precision:  # else it has to be rounded, or is null
            return Constant(Decimal((int(scaled < 0), tuple(map(int, str(abs(int(scaled))))), -scale)), "decimal")
    return None


def _utc(text: str) -> datetime:
    """Return the moment ``text`` names; without a zone it is taken as UTC."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
