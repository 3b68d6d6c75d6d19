"""Reads Spark SQL text as a predicate. The text is parsed (sqlglot, Spark dialect), never evaluated.

A fragment that is not supported is refused at once, and the error quotes it. Literals have Spark's types: ``500`` is an
integer, ``0.5`` a decimal, ``5e-1`` and ``0.5D`` are doubles.

Text may be hostile, so its length, nesting and numbers are bounded before anything is computed from them. A condition
that is compared must stand in brackets: Spark reads ``f = x < 5`` as ``(f = x) < 5``, the parser as ``f = (x < 5)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from watersmeet.spec.durations import parse_duration
from watersmeet.spec.errors import SpecificationError
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
    Not,
    OneOf,
    Predicate,
    Same,
    StreamName,
    conjunction,
    disjunction,
)
from watersmeet.spec.literals import cast_constant, fold_intervals, negate
from watersmeet.spec.typing import DECIMALS, MAX_DECIMAL_DIGITS, MAX_LITERAL_DIGITS

__all__ = ["parse_predicate"]

LONGEST_TEXT: Final = 1 << 20
DEEPEST_TEXT: Final = 40
"""Levels of brackets and signs. The parser takes about 20 levels of Python's stack for each, of 1,000."""
LONGEST_NUMBER: Final = 400
"""Characters of a literal: enough for any double without an exponent."""
LONGEST_QUOTE: Final = 300
"""Characters of a predicate that an error repeats."""
OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
SIGNS: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
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


def parse_predicate(text: str, sides: tuple[StreamName, ...] = ("left", "right")) -> Predicate:
    """Return the predicate that ``text`` says.

    Examples
    --------
    >>> from watersmeet.spec.predicates import band, equal
    >>> by_text = parse_predicate("left.x BETWEEN right.y - 5 AND right.y + 5 AND left.k = right.k")
    >>> by_text == band("x", "y", 5) & equal("k")
    True
    """
    if len(text) > LONGEST_TEXT:
        raise _refusal(text, sides, f"has {len(text):,} characters, more than {LONGEST_TEXT:,}")
    dialect = Dialect.get_or_raise("spark")
    try:
        text.encode()
        tokens = dialect.tokenize(text)
        _check_tokens(tokens, text, sides)
        trees = dialect.parser().parse(tokens, text)
        found = [tree for tree in trees if tree is not None]
        if len(found) != 1:
            why = f"is {len(found)} conditions, not one" if found else "is empty"
            raise _refusal(text, sides, why, _condition(sides))
        if isinstance(found[0], exp.Query):
            raise _refusal(
                text, sides, "is a whole query", f"give the condition behind its ON alone; {_condition(sides)}"
            )
        return _Reader(text, sides).predicate(found[0])
    except SqlglotError as error:
        raise _refusal(text, sides, _misread(error), _condition(sides)) from error
    except UnicodeEncodeError as error:
        raise _refusal(text, sides, "is no Unicode text") from error
    except RecursionError:
        raise _refusal(text, sides, "is nested too deeply") from None
    except OverflowError as error:
        raise _refusal(text, sides, f"has a value that is too large ({error})") from error


def _check_tokens(tokens: list[Token], text: str, sides: tuple[StreamName, ...]) -> None:
    """Raise for text that would take the parser too long, or too deep into Python's stack."""
    depth = signs = 0
    before = None
    for token in tokens:
        kind = token.token_type
        depth += (kind in OPENING) - (kind in CLOSING)
        signs = signs + 1 if kind in SIGNS else 0
        if depth + signs > DEEPEST_TEXT:
            raise _refusal(text, sides, f"is nested in more than {DEEPEST_TEXT} brackets and signs")
        is_number = kind is TokenType.NUMBER or before is TokenType.INTERVAL
        if is_number and len(token.text) > LONGEST_NUMBER:
            raise _refusal(text, sides, f"contains a number of {len(token.text):,} characters")
        before = kind


class _Reader:
    """Turns one parsed text into a predicate; keeps the text and the streams' names for errors."""

    def __init__(self, text: str, sides: tuple[StreamName, ...]) -> None:
        self.text = text
        self.sides = sides

    def predicate(self, node: exp.Expr) -> Predicate:
        """Return ``node``, which must be a condition, as a predicate."""
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And():
                return conjunction(*map(self.predicate, _chained(node)))
            case exp.Or():
                return disjunction(*map(self.predicate, _chained(node)))
            case exp.Not():
                return Not(self.predicate(node.this))
            case exp.Between() if not node.args.get("symmetric"):
                value = self.operand(node.this)
                return conjunction(
                    Compare(">=", value, self.operand(node.args["low"])),
                    Compare("<=", value, self.operand(node.args["high"])),
                )
            case exp.In() if node.expressions and not node.args.get("query"):
                value = self.operand(node.this)
                options = tuple(map(self.value, node.expressions))
                return OneOf(value, options) if len(options) > 1 else Compare("=", value, options[0])
            case exp.NullSafeEQ():
                return Same(self.operand(node.this), self.operand(node.expression))
            case exp.NullSafeNEQ():
                return Not(Same(self.operand(node.this), self.operand(node.expression)))
            case exp.Is() if isinstance(node.expression, exp.Null):
                return IsNull(self.operand(node.this))
            case exp.Column() | exp.Boolean() | exp.Null():
                return Boolean(self.value(node))
        operator = COMPARISONS.get(type(node))
        if operator is None:
            raise self.refuse(node, "is not a condition that can be joined on")
        return Compare(operator, self.operand(node.this), self.operand(node.expression))

    def operand(self, node: exp.Expr) -> Expression:
        """Return an operand of a comparison; a condition must stand in brackets."""
        if isinstance(node, PREDICATE_NODES):
            raise self.refuse(node, "is compared without brackets around it", "put it in brackets, or the other part")
        return self.value(node)

    def value(self, node: exp.Expr) -> Expression:
        """Return ``node`` as an expression."""
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Column():
                return self.column(node)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return self.constant(node)
            case exp.Neg():
                return negate(self.value(node.this))
            case exp.Interval():
                return self.interval(node)
            case exp.Cast():
                return self.cast(node)
            case _ if isinstance(node, PREDICATE_NODES):
                return self.predicate(node)
        if (operator := ARITHMETIC.get(type(node))) is not None:
            return fold_intervals(Arithmetic(operator, self.value(node.this), self.value(node.expression)))
        if (function := FUNCTIONS.get(type(node))) is not None:
            arguments = tuple(self.value(argument) for argument in (node.this, *node.expressions))
            if function != "abs" and len(arguments) == 1:
                raise self.refuse(node, "has one argument", f"give {function.upper()} two or more")
            return Call(function, arguments)
        raise self.refuse(node, "is not supported")

    def column(self, node: exp.Column) -> Column:
        """Return a column; it must name its stream."""
        if node.db.lower() in map(str.lower, self.sides):
            own = f"{node.db}.{node.name}"
            raise self.refuse(node, "is a field of a column", f"make it a column before the join, then write {own}")
        side = next((side for side in self.sides if side.lower() == node.table.lower()), None)
        if node.args.get("db") or side is None:
            names = " or ".join(f"{side}.{node.name}" for side in self.sides)
            equality = (
                f"; to compare it for equality write {' = '.join(f'{side}.{node.name}' for side in self.sides[:2])}"
            )
            raise self.refuse(node, "does not name a stream", f"write {names}{equality if node.parent is None else ''}")
        return Column(side, node.name)

    def constant(self, node: exp.Expr) -> Constant:
        """Return a literal with Spark's type."""
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
        number = Decimal(text)
        _, digits, exponent = number.as_tuple()
        if max(len(digits), -int(exponent)) > MAX_LITERAL_DIGITS:
            raise self.refuse(node, f"has more than {MAX_LITERAL_DIGITS} digits", "write it as a double, such as 1e80")
        return Constant(number, "decimal") if "." in text else Constant(int(text), "int")

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
        """Return ``CAST(x AS t)``; a cast of a constant is computed here if possible."""
        target = CAST_TARGETS.get(node.to.this)
        if target is None:
            raise self.refuse(
                node,
                "casts to a type that is not supported",
                f"cast to one of {', '.join(sorted(set(CAST_TARGETS.values())))}",
            )
        if target == "decimal":
            given = ",".join(parameter.name for parameter in node.to.expressions) or "10"
            target = f"decimal({given})" if "," in given else f"decimal({given},0)"
            if target not in DECIMALS:
                raise self.refuse(
                    node,
                    "casts to a decimal that Spark does not have",
                    f"give 1 to {MAX_DECIMAL_DIGITS} digits, and not more of them behind the point",
                )
        operand = self.value(node.this)
        if isinstance(operand, Constant):
            try:
                folded = cast_constant(operand, target)
            except (ValueError, ArithmeticError) as error:
                raise self.refuse(node, f"is not a {target}") from error
            if folded is not None:
                return folded
        return Cast(operand, target)

    def refuse(self, node: exp.Expr, why: str, next_step: str = "") -> SpecificationError:
        """Return the error for ``node``."""
        fragment = _shortened(node.sql(dialect="spark"))
        if isinstance(node, NON_DETERMINISTIC) or (
            isinstance(node, exp.Anonymous | exp.Func) and node.name.lower() in NON_DETERMINISTIC_NAMES
        ):
            why = "is not deterministic: a pair would match or not from one evaluation to the next"
            next_step = "compute it as a column before the join"
        return _refusal(self.text, self.sides, f"contains `{fragment}`, which {why}", next_step)


def _misread(error: SqlglotError) -> str:
    """Return where and why text cannot be parsed, in words that do not speak of the parser."""
    if not isinstance(error, ParseError) or not error.errors:
        return "cannot be read: does a quote or a comment not end?"
    first = error.errors[0]
    what = str(first["description"])
    problem = (
        f"{what.removeprefix('Expecting ')} is missing"
        if what.startswith("Expecting ")
        else "something is missing, or does not belong there"
    )
    place = f"at {_shortened(str(first['highlight']))!r} in line {first['line']}, column {first['col']}"
    return f"cannot be read: {place}, {problem}"


def _condition(sides: tuple[StreamName, ...]) -> str:
    """Return the next step where text is no condition at all."""
    first, second = sides[:2]
    return f'write one condition, for example "{first}.x = {second}.y AND {first}.k < {second}.k"'


def _refusal(text: str, sides: tuple[StreamName, ...], why: str, next_step: str = "") -> SpecificationError:
    columns = f"{', '.join(f'{side}.NAME' for side in sides[:-1])} and {sides[-1]}.NAME"
    return SpecificationError(
        f"the predicate {_shortened(text)!r} {why}",
        ALLOWED.format(columns=columns),
        next_step or "rewrite that part, or compute it as a column before the join",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"


def _chained(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the terms of a chain of ANDs or of ORs without recursion: chains may be long."""
    pending = [node]
    while pending:
        term = pending.pop()
        if type(term) is type(node):
            pending += [term.expression, term.this]
        else:
            yield term
