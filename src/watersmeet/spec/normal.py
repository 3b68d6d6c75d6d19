"""The normal form of a predicate: what an index can answer, and what has to be verified afterwards.

An *axis* is a pair of expressions, one of left columns and one of right columns, whose difference the predicate bounds:
``left - right`` lies in a set of intervals. Bands, comparisons, equalities and disjunctions of them all take this form.
Axes are found by one recursion over the negation-free tree:

- a comparison gives the axis it speaks of (for exact types any linear form: ``left.a + 2 * left.b < right.c - 5``);
- ``AND`` intersects the sets of each axis;
- ``OR`` unites the sets of the axes that all its branches bound;
- anything else bounds nothing.

Invariant: the axes never exclude a pair that satisfies the predicate. A conjunct whose axes say *exactly* the same as
itself is covered by them; every other conjunct is part of ``residual`` and evaluated on each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from watersmeet.spec.expression import (
    MIRRORED,
    NEGATED,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Compare,
    CompareOperator,
    Constant,
    Expression,
    Negative,
    Not,
    Or,
    Predicate,
    conjunction,
    disjunction,
    sides_of,
)
from watersmeet.spec.intervals import IntervalSet
from watersmeet.spec.typing import Schemas, ValueType, common_type, type_of

__all__ = ["Axis", "KeyDomain", "NormalForm", "normal_form"]

INT64_LIMIT: Final = 2**63
INT64_DIGITS: Final = 19
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ONE_DAY: Final = timedelta(days=1)
LEFT_THEN_RIGHT: Final = (frozenset({"left"}), frozenset({"right"}))


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """How the values of an axis become int64 keys.

    - ``integer``: the value times 10^scale, exact; differences are differences of values.
    - ``double_order``: the float64's bits made order-preserving, exact; only the sign of a difference means something.
    - ``double_offset``: the same keys, but bounds are computed as floats and widened; candidates are verified.
    - ``text``: the first eight bytes, order-preserving; candidates are verified.
    - ``hash``: a 64-bit hash, for equality; candidates are verified.
    """

    kind: Literal["integer", "double_order", "double_offset", "text", "hash"]
    scale: int = 0

    @property
    def is_exact(self) -> bool:
        """True when keys decide by themselves whether a pair satisfies the axis."""
        return self.kind in ("integer", "double_order")


@dataclass(frozen=True, slots=True)
class Axis:
    """``left - right`` lies in ``differences`` (in the units of ``domain``)."""

    left: Expression
    right: Expression
    domain: KeyDomain
    differences: IntervalSet
    required: bool
    """True when some conjunct is covered by this axis alone, so that its set must be enforced on every candidate."""

    @property
    def is_equality(self) -> bool:
        """True when equal values have equal keys and nothing else is looked for."""
        return self.differences.is_zero and self.domain.kind != "double_offset"

    def __str__(self) -> str:
        if self.is_equality:
            return f"{self.left} = {self.right}"
        unit = Fraction(1, 10**self.domain.scale) if self.domain.kind == "integer" else Fraction(1)
        return f"{self.left} - {self.right} in " + " or ".join(
            f"[{_number(low, unit)}, {_number(high, unit)}]" for low, high in self.differences.parts
        )


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A predicate, taken apart."""

    axes: tuple[Axis, ...]
    left_filter: Predicate | None
    right_filter: Predicate | None
    residual: Predicate | None

    @property
    def equalities(self) -> tuple[Axis, ...]:
        """The axes that say ``left = right``."""
        return tuple(axis for axis in self.axes if axis.is_equality)

    @property
    def ranges(self) -> tuple[Axis, ...]:
        """All other axes."""
        return tuple(axis for axis in self.axes if not axis.is_equality)


def normal_form(predicate: Predicate, schemas: Schemas) -> NormalForm:
    """Take ``predicate`` apart; its types must have been checked."""
    return _Planner(schemas).normal_form(predicate)


_AxisName = tuple[Expression, Expression]


@dataclass(frozen=True, slots=True)
class _Atom:
    """``left - right operator offset``, the only thing an axis is made of."""

    left: Expression
    right: Expression
    family: Literal["exact", "double", "text"]
    operator: CompareOperator
    offset: Fraction = Fraction(0)
    is_subtraction: bool = False
    """True for ``left - right`` computed in floating point, where NaN - x is NaN and so larger than any bound."""

    @property
    def name(self) -> _AxisName:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a predicate says of each axis; ``exact`` when it says nothing else."""

    sets: dict[_AxisName, IntervalSet]
    exact: bool
    nan_escapes: frozenset[_AxisName] = frozenset()
    """Axes whose set misses the pairs with a NaN difference: not usable unless intersected with one that has none."""


class _Planner:
    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.domains: dict[_AxisName, KeyDomain] = {}

    def normal_form(self, predicate: Predicate) -> NormalForm:
        plain = without_negation(predicate)
        conjuncts = plain.terms if isinstance(plain, And) else (plain,)
        filters: dict[str, list[Predicate]] = {"left": [], "right": []}
        joined: list[Predicate] = []
        for conjunct in conjuncts:
            sides = sides_of(conjunct)
            if len(sides) > 1:
                joined.append(conjunct)
            else:
                filters[next(iter(sides), "left")].append(conjunct)
        self.domains = self._domains(atom for conjunct in joined for atom in self._atoms(conjunct))
        bounds = [self._bounds(conjunct) for conjunct in joined]
        merged = _intersection(bounds)
        required = {name for bound in bounds if bound.exact for name in bound.sets}
        axes = tuple(
            Axis(*name, self.domains[name], differences, name in required)
            for name, differences in merged.sets.items()
            if name not in merged.nan_escapes
        )
        residual = [conjunct for conjunct, bound in zip(joined, bounds, strict=True) if not bound.exact]
        return NormalForm(
            axes,
            conjunction(*filters["left"]) if filters["left"] else None,
            conjunction(*filters["right"]) if filters["right"] else None,
            conjunction(*residual) if residual else None,
        )

    def _atoms(self, predicate: Expression) -> Iterator[_Atom]:
        """Yield every comparison in ``predicate`` that speaks of an axis."""
        if isinstance(predicate, Compare):
            rewritten = _without_abs(predicate)
            if rewritten is not predicate:
                yield from self._atoms(rewritten)
            elif (atom := self._atom(predicate)) is not None:
                yield atom
        elif isinstance(predicate, And | Or):
            for term in predicate.terms:
                yield from self._atoms(term)

    def _domains(self, atoms: Iterator[_Atom]) -> dict[_AxisName, KeyDomain]:
        """Decide the keys of each axis from all the comparisons on it."""
        by_name: dict[_AxisName, list[_Atom]] = {}
        for atom in atoms:
            by_name.setdefault(atom.name, []).append(atom)
        return {name: self._domain(group) for name, group in by_name.items()}

    def _domain(self, atoms: list[_Atom]) -> KeyDomain:
        first = atoms[0]
        if first.family == "text":
            return KeyDomain("hash" if all(atom.operator == "=" for atom in atoms) else "text")
        if first.family == "double":
            plain = all(atom.offset == 0 and not atom.is_subtraction for atom in atoms)
            return KeyDomain("double_order" if plain else "double_offset")
        types = [type_of(side, self.schemas) for side in first.name]
        scale = max(*(t.scale for t in types), *(_decimals(atom.offset) for atom in atoms))
        for side, its_type in zip(first.name, types, strict=True):
            if _limit(side, its_type) * 10 ** (scale - its_type.scale) > INT64_LIMIT:
                return KeyDomain("double_offset")
        if any(
            abs(atom.offset) * 10**scale >= INT64_LIMIT - 1 for atom in atoms
        ):  # 1: the neighbour of the offset fits, too
            return KeyDomain("double_offset")
        return KeyDomain("integer", scale)

    def _bounds(self, predicate: Predicate) -> _Bounds:
        match predicate:
            case And(terms):
                return _intersection([self._bounds(term) for term in terms])
            case Or(terms):
                return _union([self._bounds(term) for term in terms])
            case Compare():
                rewritten = _without_abs(predicate)
                if rewritten is not predicate:
                    return self._bounds(rewritten)
                atom = self._atom(predicate)
                if atom is not None:
                    return self._atom_bounds(atom)
        return _Bounds({}, exact=False)

    def _atom_bounds(self, atom: _Atom) -> _Bounds:
        domain = self.domains[atom.name]
        offset = atom.offset
        below: Fraction | None
        if domain.is_exact:
            offset *= 10**domain.scale
            step = Fraction(1)
            below, above = offset - 1, offset + 1
        elif atom.operator == "!=":
            return _Bounds({}, exact=False)
        else:  # verified afterwards, so the ends may belong to the set
            step = Fraction(0)
            below, above = offset, offset
        parts: dict[CompareOperator, tuple[tuple[Fraction | None, Fraction | None], ...]] = {
            "=": ((offset, offset),),
            "!=": ((None, below), (above, None)),
            "<": ((None, below),),
            "<=": ((None, offset),),
            ">": ((above, None),),
            ">=": ((offset, None),),
        }
        escapes = {atom.name} if atom.is_subtraction and atom.operator in (">", ">=") else set()
        return _Bounds({atom.name: IntervalSet(parts[atom.operator], step)}, domain.is_exact, frozenset(escapes))

    def _atom(self, compare: Compare) -> _Atom | None:
        """Return the axis that ``compare`` bounds, or None."""
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

    def _plain_atom(self, compare: Compare, family: Literal["double", "text"]) -> _Atom | None:
        sides = sides_of(compare.left), sides_of(compare.right)
        if sides == LEFT_THEN_RIGHT:
            return _Atom(compare.left, compare.right, family, compare.operator)
        if sides == LEFT_THEN_RIGHT[::-1]:
            return _Atom(compare.right, compare.left, family, MIRRORED[compare.operator])
        return None

    def _double_atom(self, compare: Compare) -> _Atom | None:
        """Find ``x op y + c`` and ``x - y op c``; floating point allows no other rearrangement."""
        match compare:
            case Compare(operator, Arithmetic("-", x, y), Constant() as bound) | Compare(
                operator, Constant() as bound, Arithmetic("-", x, y)
            ):
                if isinstance(compare.left, Constant):
                    operator = MIRRORED[operator]
                sides = sides_of(x), sides_of(y)
                if sides in (LEFT_THEN_RIGHT, LEFT_THEN_RIGHT[::-1]) and self._is_double(Arithmetic("-", x, y)):
                    offset = _constant(bound)
                    if sides == LEFT_THEN_RIGHT:
                        return _Atom(x, y, "double", operator, offset, is_subtraction=True)
                    # y - x op c, y left: the difference is negated, and NaN escapes on the other side
                    mirrored = _Atom(y, x, "double", MIRRORED[operator], -offset, is_subtraction=True)
                    return mirrored if operator in ("<", "<=", "=") else None
                return None
        (x, c), (y, d) = self._offset(compare.left), self._offset(compare.right)
        atom = self._plain_atom(Compare(compare.operator, x, y), "double")
        if atom is None:
            return None
        offset = d - c if atom.left is x else c - d
        return _Atom(atom.left, atom.right, "double", atom.operator, offset)

    def _offset(self, expression: Expression) -> tuple[Expression, Fraction]:
        """Take a constant summand off a double expression."""
        match expression:
            case Arithmetic("+", base, Constant() as constant) | Arithmetic("+", Constant() as constant, base):
                sign = 1
            case Arithmetic("-", base, Constant() as constant):
                sign = -1
            case _:
                return expression, Fraction(0)
        if constant.value is None or not sides_of(base) or not type_of(expression, self.schemas).is_numeric:
            return expression, Fraction(0)
        if type_of(expression, self.schemas).kind == "float":  # its rounding is coarser than the widening allows for
            return expression, Fraction(0)
        return base, sign * _constant(constant)

    def _is_double(self, expression: Expression) -> bool:
        return type_of(expression, self.schemas).kind == "double"

    def _exact_atom(self, compare: Compare, common: ValueType) -> _Atom | None:
        """Bring all left terms to the left, all right terms to the right and the rest to the constant."""
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
        lefts = {term: n for term, n in terms.items() if n and sides_of(term) == {"left"}}
        rights = {term: -n for term, n in terms.items() if n and sides_of(term) == {"right"}}
        if not lefts or not rights or len(lefts) + len(rights) != sum(1 for n in terms.values() if n):
            return None
        operator, offset = compare.operator, -constant
        if next(iter(lefts.values())) < 0:
            lefts = {term: -n for term, n in lefts.items()}
            rights = {term: -n for term, n in rights.items()}
            operator, offset = MIRRORED[operator], -offset
        left, right = _sum(lefts), _sum(rights)
        return _Atom(left, right, "exact", operator, offset)

    def _linear(self, expression: Expression) -> tuple[dict[Expression, int], Fraction] | None:
        """Return ``expression`` as whole multiples of terms plus a constant (in seconds, days or plain numbers)."""
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
        """Return a date plus or minus a constant in days; any other sum with a date is a term of its own."""
        if type_of(expression, self.schemas).kind == "date" and isinstance(expression.right, Constant):
            value, inner = expression.right.value, self._linear(expression.left)
            if isinstance(value, int | timedelta) and inner is not None:
                days = Fraction(value // ONE_DAY if isinstance(value, timedelta) else value)
                return inner[0], inner[1] + (days if expression.operator == "+" else -days)
        return {expression: 1}, Fraction(0)


def without_negation(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Push every ``NOT`` down to the leaves; valid for nulls too (Kleene logic obeys De Morgan)."""
    match predicate:
        case Not(operand):
            return without_negation(operand, negate=not negate)
        case And(terms):
            parts = [without_negation(term, negate=negate) for term in terms]
            return disjunction(*parts) if negate else conjunction(*parts)
        case Or(terms):
            parts = [without_negation(term, negate=negate) for term in terms]
            return conjunction(*parts) if negate else disjunction(*parts)
        case Compare(operator, left, right) if negate:
            return Compare(NEGATED[operator], left, right)
    return Not(predicate) if negate else predicate


def _without_abs(compare: Compare) -> Predicate:
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


def _intersection(bounds: list[_Bounds]) -> _Bounds:
    sets: dict[_AxisName, IntervalSet] = {}
    for bound in bounds:
        for name, differences in bound.sets.items():
            sets[name] = sets[name].intersection(differences) if name in sets else differences
    escapes = {name for name in sets if all(name in bound.nan_escapes for bound in bounds if name in bound.sets)}
    return _Bounds(sets, all(bound.exact for bound in bounds), frozenset(escapes))


def _union(bounds: list[_Bounds]) -> _Bounds:
    shared = set.intersection(*(set(bound.sets) for bound in bounds))
    sets: dict[_AxisName, IntervalSet] = {}
    for name in (name for name in bounds[0].sets if name in shared):
        differences = bounds[0].sets[name]
        for bound in bounds[1:]:
            differences = differences.union(bound.sets[name])
        if differences.parts != ((None, None),):
            sets[name] = differences
    exact = len(sets) == 1 and all(bound.exact and len(bound.sets) == 1 for bound in bounds)
    escapes = {name for name in sets if any(name in bound.nan_escapes for bound in bounds)}
    return _Bounds(sets, exact, frozenset(escapes))


def _limit(expression: Expression, its_type: ValueType) -> int:
    """Return a bound on the absolute value of the integer that stands for ``expression``."""
    if isinstance(expression, Cast) and its_type.kind == "timestamp":
        return INT64_LIMIT * 1000  # a date's years reach further than 64 bits of microseconds
    if isinstance(expression, Column | Cast) and its_type.kind in ("int", "timestamp", "interval"):
        return INT64_LIMIT if its_type.digits >= INT64_DIGITS else 10**its_type.digits
    return int(10**its_type.digits)


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


def _decimals(number: Fraction) -> int:
    """Return how many decimal places ``number`` has."""
    places = 0
    while number.denominator != 1:
        number *= 10
        places += 1
    return places


def _number(bound: Fraction | None, unit: Fraction) -> str:
    if bound is None:
        return "…"
    value = bound * unit
    return str(value.numerator) if value.denominator == 1 else str(float(value))
