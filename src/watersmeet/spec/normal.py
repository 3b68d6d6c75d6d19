"""The normal form of a predicate: what an index can answer, and what must be verified on the candidates.

An *axis* is a pair of expressions, one of left columns and one of right columns, whose difference the predicate bounds:
``left - right`` lies in a set of intervals. Bands, comparisons, equalities and disjunctions of them have this form. One
recursion over the tree without negations finds the axes:

- a comparison bounds one axis (for exact types any linear form: ``left.a + 2 * left.b < right.c - 5``);
- ``AND`` intersects the sets of each axis;
- ``OR`` unites the sets of the axes that all its terms bound;
- anything else bounds nothing.

The terms of a disjunction may have no axis in common. Then they are *branches*, each with its own axes: a pair that
satisfies the predicate lies within all axes of some branch.

Invariant: the axes never exclude a pair that satisfies the predicate. A conjunct that is equivalent to its axes needs
no verification. All other conjuncts form the ``residual``, which is evaluated on each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from watersmeet.spec.atoms import Atom, AxisName, atom_of, atom_of_same, without_abs
from watersmeet.spec.expression import (
    NEGATED,
    And,
    Cast,
    Column,
    Compare,
    CompareOperator,
    Expression,
    IsNull,
    Not,
    Or,
    Predicate,
    Same,
    StreamName,
    conjunction,
    disjunction,
    streams_of,
)
from watersmeet.spec.intervals import IntervalSet
from watersmeet.spec.typing import Schemas, ValueType, is_unsigned, type_of

__all__ = ["Axis", "KeyDomain", "NormalForm", "normal_form"]

INT64_LIMIT: Final = 2**63
INT64_DIGITS: Final = 19
MOST_BRANCHES: Final = 4
"""Every branch costs one more index of all rows."""


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """How the values of an axis become int64 keys.

    - ``integer``: the value times 10^scale, exact; differences are differences of values.
    - ``unsigned``: the value less 2^63, for unsigned 64-bit integers; exact as well.
    - ``wrapped``: the value times 10^scale modulo 2^64, for equality of numbers beyond 64 bits; verified.
    - ``double_order``: the float64's bits made order-preserving, exact; of a difference only the sign has a meaning.
    - ``double_offset``: the same keys, but bounds are computed as floats and widened; candidates are verified.
    - ``text``: eight bytes, the first ones or those behind a shared prefix, order-preserving; candidates are verified.
    - ``hash``: a 64-bit hash, for equality; candidates are verified.

    Rows without a value are left out, unless ``nulls`` has another rule. With ``meet`` they match each other, and all
    have one key. With ``stay`` they may match by other columns, and each side has its own key for them. A value may
    have the same key by chance, so candidates are verified.
    """

    kind: Literal["integer", "unsigned", "wrapped", "double_order", "double_offset", "text", "hash"]
    scale: int = 0
    nulls: Literal["", "meet", "stay"] = ""

    @property
    def is_integer(self) -> bool:
        """True when differences of keys are differences of values."""
        return self.kind in ("integer", "unsigned")

    @property
    def is_lossless(self) -> bool:
        """True when different values have different keys."""
        return self.is_integer or self.kind == "double_order"

    @property
    def is_exact(self) -> bool:
        """True when the keys alone decide whether a pair satisfies the axis."""
        return self.is_lossless and not self.nulls


@dataclass(frozen=True, slots=True)
class Axis:
    """``left - right`` lies in ``differences`` (in the units of ``domain``)."""

    left: Expression
    right: Expression
    domain: KeyDomain
    differences: IntervalSet
    required: bool
    """True when a conjunct is not in the residual because of this axis: every candidate must be checked on it."""

    def of(self, side: StreamName) -> Expression:
        """Return the expression of one side."""
        return self.left if side == "left" else self.right

    @property
    def is_equality(self) -> bool:
        """True when a row matches exactly the rows with an equal value, and these have an equal key."""
        return self.differences.is_zero and self.domain.kind != "double_offset"

    def __str__(self) -> str:
        if self.is_equality:
            return f"{self.left} {'<=>' if self.domain.nulls == 'meet' else '='} {self.right}"
        unit = Fraction(1, 10**self.domain.scale) if self.domain.kind == "integer" else Fraction(1)
        return f"{self.left} - {self.right} in " + " or ".join(
            f"[{_number(low, unit)}, {_number(high, unit)}]" for low, high in self.differences.parts
        )


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A predicate as axes, one filter for each side, and a residual."""

    axes: tuple[Axis, ...]
    left_filter: Predicate | None
    right_filter: Predicate | None
    residual: Predicate | None
    branches: tuple[tuple[Axis, ...], ...] = ()
    """The axes of each term of a disjunction, for one index per term. The disjunction is in the residual as well."""

    @property
    def equalities(self) -> tuple[Axis, ...]:
        """The axes of the form ``left = right``."""
        return tuple(axis for axis in self.axes if axis.is_equality)

    @property
    def ranges(self) -> tuple[Axis, ...]:
        """All other axes."""
        return tuple(axis for axis in self.axes if not axis.is_equality)


def normal_form(predicate: Predicate, schemas: Schemas) -> NormalForm:
    """Return the normal form of ``predicate``, whose types must have been checked."""
    return _Planner(schemas).normal_form(predicate)


@dataclass(frozen=True, slots=True)
class _AxisSets:
    """The set that a predicate allows on each axis; ``exact`` if it demands nothing else."""

    sets: dict[AxisName, IntervalSet]
    exact: bool
    nan_escapes: frozenset[AxisName] = frozenset()
    """Axes whose set lacks the pairs with a NaN difference. They are usable only after an intersection with a set that
    rightly excludes these pairs."""


class _Planner:
    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.domains: dict[AxisName, KeyDomain] = {}

    def normal_form(self, predicate: Predicate) -> NormalForm:
        plain = with_same(without_negation(predicate))
        conjuncts = plain.terms if isinstance(plain, And) else (plain,)
        filters: dict[str, list[Predicate]] = {"left": [], "right": []}
        joined: list[Predicate] = []
        for conjunct in conjuncts:
            sides = streams_of(conjunct)
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
            next(filter(None, map(self._branches, residual)), ()),
        )

    def _branches(self, predicate: Predicate) -> tuple[tuple[Axis, ...], ...]:
        """Return the axes of each term of a disjunction; none if a term has none. Terms on one axis are united."""
        if not isinstance(predicate, Or):
            return ()
        found: list[dict[AxisName, IntervalSet]] = []
        for term in predicate.terms:
            bound = self._bounds(term)
            sets = {name: own for name, own in bound.sets.items() if name not in bound.nan_escapes}
            alike = next((other for other in found if len(other) == 1 and other.keys() == sets.keys()), None)
            if alike is None:
                found.append(sets)
            else:
                ((name, own),) = sets.items()
                alike[name] = alike[name].union(own)
        if not 1 < len(found) <= MOST_BRANCHES or not all(found):
            return ()
        return tuple(
            tuple(
                Axis(*name, replace(self.domains[name], nulls=self.domains[name].nulls or "stay"), own, required=True)
                for name, own in sets.items()
            )
            for sets in found
        )

    def _atoms(self, predicate: Expression) -> Iterator[Atom]:
        """Yield the atoms of all comparisons in ``predicate``."""
        if isinstance(predicate, Compare):
            rewritten = without_abs(predicate)
            if rewritten is not predicate:
                yield from self._atoms(rewritten)
            elif (atom := atom_of(predicate, self.schemas)) is not None:
                yield atom
        elif isinstance(predicate, Same):
            if (atom := atom_of_same(predicate, self.schemas)) is not None:
                yield atom
        elif isinstance(predicate, And | Or):
            for term in predicate.terms:
                yield from self._atoms(term)

    def _domains(self, atoms: Iterator[Atom]) -> dict[AxisName, KeyDomain]:
        """Choose the keys of each axis, from all comparisons on it."""
        by_name: dict[AxisName, list[Atom]] = {}
        for atom in atoms:
            by_name.setdefault(atom.name, []).append(atom)
        return {name: self._domain(group) for name, group in by_name.items()}

    def _domain(self, atoms: list[Atom]) -> KeyDomain:
        first = atoms[0]
        nulls: Literal["", "meet"] = "meet" if any(atom.nulls_meet for atom in atoms) else ""
        if first.family == "text":
            return KeyDomain("hash" if all(atom.operator == "=" for atom in atoms) else "text", nulls=nulls)
        if first.family == "double":
            plain = all(atom.offset == 0 and not atom.is_subtraction for atom in atoms)
            return KeyDomain("double_order" if plain else "double_offset", nulls=nulls)
        types = [type_of(side, self.schemas) for side in first.name]
        scale = max(*(t.scale for t in types), *(_decimals(atom.offset) for atom in atoms))
        # 1: the neighbour of the offset fits, too
        if all(abs(atom.offset) * 10**scale < INT64_LIMIT - 1 for atom in atoms):
            if all(
                _limit(side, its_type) * 10 ** (scale - its_type.scale) <= INT64_LIMIT
                for side, its_type in zip(first.name, types, strict=True)
            ):
                return KeyDomain("integer", scale, nulls)
            if scale == 0 and all(is_unsigned(side, self.schemas) for side in first.name):
                return KeyDomain("unsigned", nulls=nulls)
        if all(atom.operator == "=" and atom.offset == 0 for atom in atoms):
            return KeyDomain("wrapped", scale, nulls)
        return KeyDomain("double_offset", nulls=nulls)

    def _bounds(self, predicate: Predicate) -> _AxisSets:
        match predicate:
            case And(terms):
                return _intersection([self._bounds(term) for term in terms])
            case Or(terms):
                return _union([self._bounds(term) for term in terms])
            case Compare():
                rewritten = without_abs(predicate)
                if rewritten is not predicate:
                    return self._bounds(rewritten)
                atom = atom_of(predicate, self.schemas)
                if atom is not None:
                    return self._atom_bounds(atom)
            case Same():
                atom = atom_of_same(predicate, self.schemas)
                if atom is not None:
                    return self._atom_bounds(atom)
        return _AxisSets({}, exact=False)

    def _atom_bounds(self, atom: Atom) -> _AxisSets:
        domain = self.domains[atom.name]
        offset = atom.offset
        below: Fraction | None
        if domain.is_lossless:
            offset *= 10**domain.scale
            step = Fraction(1)
            below, above = offset - 1, offset + 1
        elif atom.operator == "!=":
            return _AxisSets({}, exact=False)
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
        return _AxisSets({atom.name: IntervalSet(parts[atom.operator], step)}, domain.is_exact, frozenset(escapes))


def without_negation(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Move every ``NOT`` down to the leaves. That holds for nulls too: Kleene's logic obeys De Morgan."""
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


def with_same(predicate: Predicate) -> Predicate:
    """Write ``a = b OR (a IS NULL AND b IS NULL)`` as ``a <=> b``, in a predicate without negations.

    The first is unknown where the second is false. Without a negation around them both accept the same pairs.
    """
    match predicate:
        case And(terms):
            return conjunction(*map(with_same, terms))
        case Or(terms):
            parts = [with_same(term) for term in terms]
            for both_null in [part for part in parts if isinstance(part, And)]:
                equality = next((part for part in parts if _covers(part, both_null)), None)
                if isinstance(equality, Compare):
                    parts[parts.index(equality)] = Same(equality.left, equality.right)
                    parts.remove(both_null)
            return disjunction(*parts)
    return predicate


def _covers(part: Predicate, both_null: And) -> bool:
    """Tell whether ``part`` is an equality and ``both_null`` means that both its operands are null."""
    return (
        isinstance(part, Compare)
        and part.operator == "="
        and set(both_null.terms) == {IsNull(part.left), IsNull(part.right)}
    )


def _intersection(bounds: list[_AxisSets]) -> _AxisSets:
    sets: dict[AxisName, IntervalSet] = {}
    for bound in bounds:
        for name, differences in bound.sets.items():
            sets[name] = sets[name].intersection(differences) if name in sets else differences
    escapes = {name for name in sets if all(name in bound.nan_escapes for bound in bounds if name in bound.sets)}
    return _AxisSets(sets, all(bound.exact for bound in bounds), frozenset(escapes))


def _union(bounds: list[_AxisSets]) -> _AxisSets:
    shared = set.intersection(*(set(bound.sets) for bound in bounds))
    sets: dict[AxisName, IntervalSet] = {}
    for name in (name for name in bounds[0].sets if name in shared):
        differences = bounds[0].sets[name]
        for bound in bounds[1:]:
            differences = differences.union(bound.sets[name])
        if differences.parts != ((None, None),):
            sets[name] = differences
    exact = len(sets) == 1 and all(bound.exact and len(bound.sets) == 1 for bound in bounds)
    escapes = {name for name in sets if any(name in bound.nan_escapes for bound in bounds)}
    return _AxisSets(sets, exact, frozenset(escapes))


def _limit(expression: Expression, its_type: ValueType) -> int:
    """Return a bound on the absolute value of the integer that stands for ``expression``."""
    if isinstance(expression, Cast) and its_type.kind == "timestamp":
        return INT64_LIMIT * 1000  # a date's years reach further than 64 bits of microseconds
    if isinstance(expression, Column | Cast) and its_type.kind in ("int", "timestamp", "interval"):
        return INT64_LIMIT if its_type.digits >= INT64_DIGITS else 10**its_type.digits
    return int(10**its_type.digits)


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
