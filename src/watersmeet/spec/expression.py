"""The join predicate as a value: a tree of frozen, hashable nodes.

A predicate can be written with the functions of :mod:`watersmeet.spec.predicates` or as Spark SQL text. Both give these
nodes, and *equal* nodes if they mean the same: ``BETWEEN`` is two comparisons, nested ``AND`` and ``OR`` are flattened.
So all other code deals with one form only. ``IN`` stays what it is until a plan is made
(:mod:`watersmeet.spec.membership`), because what it means depends on types.

A tree has no types. They come from the schemas (see :mod:`watersmeet.spec.typing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal, TypeVar

from sqlglot.tokens import Tokenizer

__all__ = [
    "DEEPEST",
    "And",
    "Arithmetic",
    "Boolean",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "Constant",
    "Expression",
    "IsNull",
    "Negative",
    "Not",
    "OneOf",
    "Or",
    "Predicate",
    "Same",
    "StreamName",
    "columns_of",
    "conjunction",
    "disjunction",
    "streams_of",
    "with_columns",
]

AnyExpression = TypeVar("AnyExpression", bound="Expression")

ConstantKind = Literal["int", "decimal", "double", "string", "boolean", "null", "date", "timestamp", "interval"]
ConstantValue = int | float | Decimal | str | bool | date | datetime | timedelta | None
ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
CompareOperator = Literal["=", "!=", "<", "<=", ">", ">="]
FunctionName = Literal["abs", "least", "greatest"]

StreamName = str
"""The name of a stream: in a join of two streams its side, ``"left"`` or ``"right"``."""

DEEPEST: Final = 100
"""Levels of a tree: more than anybody writes, and few enough for recursion."""
MIRRORED: Final[dict[CompareOperator, CompareOperator]] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
"""``a op b`` is ``b MIRRORED[op] a``."""

NEGATED: Final[dict[CompareOperator, CompareOperator]] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
"""``NOT (a op b)`` is ``a NEGATED[op] b``. That holds for nulls too: then both are unknown."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A value computed from the columns of a pair of rows."""

    def children(self) -> tuple[Expression, ...]:
        """Return the operands of this expression."""
        return ()


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column of one stream."""

    stream: StreamName
    name: str

    def __str__(self) -> str:
        stream = self.stream if self.stream in ("left", "right") else _quoted(self.stream)
        return f"{stream}.{_quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A constant. ``kind`` tells ``1``, ``1.0`` and ``true`` apart, which are equal in Python."""

    value: ConstantValue
    kind: ConstantKind

    def __str__(self) -> str:
        match self.kind:
            case "null":
                return "NULL"
            case "string":
                return "'" + str(self.value).replace("\\", "\\\\").replace("'", "\\'") + "'"
            case "boolean":
                return str(self.value).upper()
            case "date":
                return f"DATE '{self.value}'"
            case "timestamp":
                return f"TIMESTAMP '{self.value}'"
            case "interval":
                assert isinstance(self.value, timedelta)
                return f"INTERVAL {self.value // timedelta(microseconds=1)} MICROSECONDS"
            case "double":
                return f"{self.value!r}D"
            case "decimal":  # with a point and without an exponent, or it would read as an integer or a double
                digits = format(self.value, "f")
                return digits if "." in digits else f"{digits}."
            case _:
                return str(self.value)


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """``left operator right``."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def __str__(self) -> str:
        return f"({_operand(self.left)} {self.operator} {_operand(self.right)})"


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """``-operand``."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"(- {_operand(self.operand)})"


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A call of a function that predicates may use."""

    function: FunctionName
    arguments: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def __str__(self) -> str:
        return f"{self.function.upper()}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """``CAST(operand AS target)``; ``target`` is a Spark type name in lower case, such as ``decimal(10,2)``."""

    operand: Expression
    target: str

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"CAST({self.operand} AS {self.target.upper()})"


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """A condition: true, false or unknown for a pair of rows. Combine predicates with ``&``, ``|`` and ``~``."""

    def __and__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return conjunction(self, other)

    def __or__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return disjunction(self, other)

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        message = (
            "a predicate has no truth value of its own: combine predicates with &, | and ~ instead of and, or, not"
        )
        raise TypeError(message)


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """``left operator right``: unknown if an operand is null. NaN equals NaN and is the largest number."""

    operator: CompareOperator
    left: Expression
    right: Expression

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class Same(Predicate):
    """``left <=> right``: like ``=``, but null equals null and differs from all else. Never unknown."""

    left: Expression
    right: Expression

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def __str__(self) -> str:
        return f"{_operand(self.left)} <=> {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class OneOf(Predicate):
    """``value IN (options)``, at least two of them: true if the value equals one, all compared as one type."""

    value: Expression
    options: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.value, *self.options

    def __str__(self) -> str:
        return f"{_operand(self.value)} IN ({', '.join(map(_operand, self.options))})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """``operand IS NULL``: never unknown."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"{_operand(self.operand)} IS NULL"


@dataclass(frozen=True, slots=True)
class Boolean(Predicate):
    """A boolean column or constant that is used as a condition."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return str(self.operand)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """``NOT operand``."""

    operand: Predicate

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"NOT ({self.operand})"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True if all ``terms`` are. Build it with :func:`conjunction`, which flattens."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.terms

    def __str__(self) -> str:
        return " AND ".join(f"({term})" if isinstance(term, Or) else str(term) for term in self.terms)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if any of ``terms`` is. Build it with :func:`disjunction`, which flattens."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.terms

    def __str__(self) -> str:
        return " OR ".join(f"({term})" if isinstance(term, And) else str(term) for term in self.terms)


def conjunction(*terms: Predicate) -> Predicate:
    """Return ``terms[0] AND terms[1] AND …`` as one flat node."""
    flat = tuple(inner for term in terms for inner in (term.terms if isinstance(term, And) else (term,)))
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(*terms: Predicate) -> Predicate:
    """Return ``terms[0] OR terms[1] OR …`` as one flat node."""
    flat = tuple(inner for term in terms for inner in (term.terms if isinstance(term, Or) else (term,)))
    return flat[0] if len(flat) == 1 else Or(flat)


def columns_of(expression: Expression) -> Iterator[Column]:
    """Yield the columns that the expression reads, each as often as it occurs."""
    if isinstance(expression, Column):
        yield expression
    for child in expression.children():
        yield from columns_of(child)


def streams_of(expression: Expression) -> frozenset[StreamName]:
    """Return the streams the expression reads."""
    return frozenset(column.stream for column in columns_of(expression))


def with_columns(expression: AnyExpression, renamed: Callable[[Column], Column]) -> AnyExpression:
    """Return the expression with every column replaced by what ``renamed`` returns for it."""

    def changed(part: object) -> object:
        if isinstance(part, Column):
            return renamed(part)
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        if not isinstance(part, Expression):
            return part
        return replace(part, **{field.name: changed(getattr(part, field.name)) for field in fields(part)})

    result = changed(expression)
    assert isinstance(result, type(expression)), "a column stays a column, any other node what it was"
    return result


def _operand(expression: Expression) -> str:
    """Return an operand as text; conditions need brackets, other expressions have their own."""
    return f"({expression})" if isinstance(expression, Predicate) else str(expression)


def _quoted(name: str) -> str:
    is_plain = name.isascii() and name.isidentifier() and name.upper() not in Tokenizer.KEYWORDS
    return name if is_plain else "`" + name.replace("`", "``") + "`"
