"""Comparisons as atoms: ``left - right operator offset``, with left columns on the left and right columns on the right.

Every linear comparison of exact types can be written so (``left.a + 2 * left.b < right.c - 5``). In floating point only
``x op y + c`` and ``x - y op c`` can: any other rearrangement would round differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from watersmeet.spec.expression import (
    MIRRORED,
    Arithmetic,
    Call,
    Cast,
    Compare,
    CompareOperator,
    Constant,
    Expression,
    Negative,
    Predicate,
    Same,
    conjunction,
    disjunction,
    streams_of,
)
from watersmeet.spec.typing import Schemas, ValueType, common_type, type_of

__all__ = ["Atom", "AxisName", "atom_of", "atom_of_same", "without_abs"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ONE_DAY: Final = timedelta(days=1)
LEFT_THEN_RIGHT: Final = (frozenset({"left"}), frozenset({"right"}))

AxisName = tuple[Expression, Expression]
Family = Literal["exact", "double", "text"]


@dataclass(frozen=True, slots=True)
class Atom:
    """``left - right operator offset``. Axes are built from atoms alone."""

    left: Expression
    right: Expression
    family: Family
    operator: CompareOperator
    offset: Fraction = Fraction(0)
    is_subtraction: bool = False
    """True if ``left - right`` is computed in floating point: NaN - x is NaN, which is larger than any bound."""

    nulls_meet: bool = False
    """True for ``left <=> right``, which also holds for two nulls."""

    @property
    def name(self) -> AxisName:
        """The name of the atom's axis: its two expressions."""
        return self.left, self.right


def atom_of(compare: Compare, schemas: Schemas) -> Atom | None:
    """Return ``compare`` as an atom, or None if it bounds no axis."""
    return _Finder(schemas).atom(compare)


def atom_of_same(same: Same, schemas: Schemas) -> Atom | None:
    """Return ``left <=> right`` as an atom, or None if it bounds no axis.

    Its operands stay as they are: a term that moved to the other side would take its nulls along.
    """
    types = [type_of(side, schemas) for side in same.children()]
    common = common_type(*types)
    assert common is not None, "types are checked before the normal form is made"
    if any(its_type.kind == "null" for its_type in types):
        return None
    left, right = (
        Cast(side, "timestamp") if common.kind == "timestamp" and its_type.kind == "date" else side
        for side, its_type in zip(same.children(), types, strict=True)
    )
    if (streams_of(left), streams_of(right)) == LEFT_THEN_RIGHT[::-1]:
        left, right = right, left
    elif (streams_of(left), streams_of(right)) != LEFT_THEN_RIGHT:
        return None
    family: Family = "text" if common.kind in ("string", "binary") else "exact" if common.is_exact else "double"
    return Atom(left, right, family, "=", nulls_meet=True)


class _Finder:
    """Finds the atom of one comparison."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas

    def atom(self, compare: Compare) -> Atom | None:
        """Return ``compare`` as an atom, or None if it bounds no axis."""
        left_type, right_type = type_of(compare.left, self.schemas), type_of(compare.right, self.schemas)
        common = common_type(left_type, right_type)
        assert common is not None, "types are checked before the normal form is made"
        if common.kind in ("string", "binary"):
            return self._plain_atom(compare, "text")
        if common.is_exact:
            return self._exact_atom(compare, common)
        if common.kind in ("float", "double"):
            return self._double_atom(compare)
        return None

    def _plain_atom(self, compare: Compare, family: Family) -> Atom | None:
        sides = streams_of(compare.left), streams_of(compare.right)
        if sides == LEFT_THEN_RIGHT:
            return Atom(compare.left, compare.right, family, compare.operator)
        if sides == LEFT_THEN_RIGHT[::-1]:
            return Atom(compare.right, compare.left, family, MIRRORED[compare.operator])
        return None

    def _double_atom(self, compare: Compare) -> Atom | None:
        """Return ``x op y + c`` or ``x - y op c`` as an atom; floating point allows no other rearrangement."""
        match compare:
            case Compare(operator, Arithmetic("-", x, y), Constant() as bound) | Compare(
                operator, Constant() as bound, Arithmetic("-", x, y)
            ):
                if isinstance(compare.left, Constant):
                    operator = MIRRORED[operator]
                sides = streams_of(x), streams_of(y)
                if sides in (LEFT_THEN_RIGHT, LEFT_THEN_RIGHT[::-1]) and self._is_double(Arithmetic("-", x, y)):
                    offset = _constant(bound)
                    if sides == LEFT_THEN_RIGHT:
                        return Atom(x, y, "double", operator, offset, is_subtraction=True)
                    # y - x op c, y left: the difference is negated, and NaN escapes on the other side
                    mirrored = Atom(y, x, "double", MIRRORED[operator], -offset, is_subtraction=True)
                    return mirrored if operator in ("<", "<=", "=") else None
                return None
        (x, c), (y, d) = self._offset(compare.left), self._offset(compare.right)
        atom = self._plain_atom(Compare(compare.operator, x, y), "double")
        if atom is None:
            return None
        offset = d - c if atom.left is x else c - d
        return Atom(atom.left, atom.right, "double", atom.operator, offset)

    def _offset(self, expression: Expression) -> tuple[Expression, Fraction]:
        """Split a double expression into a base and a constant summand."""
        match expression:
            case Arithmetic("+", base, Constant() as constant) | Arithmetic("+", Constant() as constant, base):
                sign = 1
            case Arithmetic("-", base, Constant() as constant):
                sign = -1
            case _:
                return expression, Fraction(0)
        if constant.value is None or not streams_of(base) or not type_of(expression, self.schemas).is_numeric:
            return expression, Fraction(0)
        if type_of(expression, self.schemas).kind == "float":  # its rounding is coarser than the widening allows for
            return expression, Fraction(0)
        return base, sign * _constant(constant)

    def _is_double(self, expression: Expression) -> bool:
        return type_of(expression, self.schemas).kind == "double"

    def _exact_atom(self, compare: Compare, common: ValueType) -> Atom | None:
        """Return an atom with all left terms on the left, all right terms on the right and the constants as offset."""
        terms: dict[Expression, int] = {}
        constant = Fraction(0)
        for side, sign in ((compare.left, 1), (compare.right, -1)):
            if common.kind == "timestamp" and type_of(side, self.schemas).kind == "date":
                side = Cast(side, "timestamp")  # noqa: PLW2901 -- the same side, in the type it is compared in
            linear = self._linear(side)
            if linear is None:
                return None
            for term, coefficient in linear[0].items():
                terms[term] = terms.get(term, 0) + sign * coefficient
            constant += sign * linear[1]
        lefts = {term: n for term, n in terms.items() if n and streams_of(term) == {"left"}}
        rights = {term: -n for term, n in terms.items() if n and streams_of(term) == {"right"}}
        if not lefts or not rights or len(lefts) + len(rights) != sum(1 for n in terms.values() if n):
            return None
        operator, offset = compare.operator, -constant
        if next(iter(lefts.values())) < 0:
            lefts = {term: -n for term, n in lefts.items()}
            rights = {term: -n for term, n in rights.items()}
            operator, offset = MIRRORED[operator], -offset
        left, right = _sum(lefts), _sum(rights)
        return Atom(left, right, "exact", operator, offset)

    def _linear(self, expression: Expression) -> tuple[dict[Expression, int], Fraction] | None:
        """Return ``expression`` as whole multiples of terms, plus a constant in seconds, days or plain numbers."""
        match expression:
            case Constant():
                return None if expression.value is None else ({}, _constant(expression))
            case Negative(operand):
                return _scaled(self._linear(operand), -1)
            case Arithmetic("+" | "-" as operator, a, b):
                kinds = [type_of(part, self.schemas).kind for part in (a, b, expression)]
                if kinds[2] == "date" or kinds.count("date") > 0:
                    return self._linear_date(expression)
                first, second = self._linear(a), _scaled(self._linear(b), 1 if operator == "+" else -1)
                if first is None or second is None:
                    return None
                terms = dict(first[0])
                for term, coefficient in second[0].items():
                    terms[term] = terms.get(term, 0) + coefficient
                return terms, first[1] + second[1]
            case Arithmetic("*", a, Constant(int() as n, "int")) | Arithmetic("*", Constant(int() as n, "int"), a):
                return _scaled(self._linear(a), n)
        return {expression: 1}, Fraction(0)

    def _linear_date(self, expression: Arithmetic) -> tuple[dict[Expression, int], Fraction]:
        """Return a date plus or minus constant days; any other sum with a date is one term."""
        if type_of(expression, self.schemas).kind == "date" and isinstance(expression.right, Constant):
            value, inner = expression.right.value, self._linear(expression.left)
            if isinstance(value, int | timedelta) and inner is not None:
                days = Fraction(value // ONE_DAY if isinstance(value, timedelta) else value)
                return inner[0], inner[1] + (days if expression.operator == "+" else -days)
        return {expression: 1}, Fraction(0)


def without_abs(compare: Compare) -> Predicate:
    """Return ``ABS(x) op c`` (c a constant of at least zero) without the ``ABS``."""
    operator, function, bound = compare.operator, compare.left, compare.right
    if isinstance(function, Constant):
        operator, function, bound = MIRRORED[operator], bound, function
    match function, bound:
        case Call("abs", (x,)), Constant(int() | float() | Decimal() | timedelta() as value) if _constant(bound) >= 0:
            # a minus sign would round a decimal to 28 digits
            negative = Constant(value.copy_negate() if isinstance(value, Decimal) else -value, bound.kind)
            above, below = Compare(operator, x, bound), Compare(MIRRORED[operator], x, negative)
            return disjunction(above, below) if operator in ("=", ">", ">=") else conjunction(above, below)
    return compare


def _constant(constant: Constant) -> Fraction:
    """Return a constant as a number: seconds for times, days for dates."""
    match constant.value:
        case timedelta() as span:
            return Fraction(span // timedelta(microseconds=1), 1_000_000)
        case datetime() as moment:
            return Fraction((moment - EPOCH) // timedelta(microseconds=1), 1_000_000)
        case date() as day:
            return Fraction((day - EPOCH.date()).days)
        case bool() as flag:
            return Fraction(int(flag))
        case int() | float() | Decimal() as number:
            return Fraction(number)
    raise AssertionError(constant)


def _scaled(
    linear: tuple[dict[Expression, int], Fraction] | None, factor: int
) -> tuple[dict[Expression, int], Fraction] | None:
    if linear is None:
        return None
    return {term: n * factor for term, n in linear[0].items()}, linear[1] * factor


def _sum(terms: dict[Expression, int]) -> Expression:
    """Return the sum of multiples of terms as an expression."""
    total: Expression | None = None
    for term, n in terms.items():
        size = abs(n)
        product = term if size == 1 else Arithmetic("*", term, Constant(size, "int"))
        if total is None:
            total = product if n > 0 else Negative(product)
        else:
            total = Arithmetic("+" if n > 0 else "-", total, product)
    assert total is not None, "a side without terms is no axis"
    return total
