"""Equalities that follow from others: ``a.k = b.k AND b.k = c.k`` gives ``a.k = c.k``.

Columns that equalities connect form a class; any two streams with a column of one class have a derived equality. What
is derived is true wherever the equalities it comes from are: so it changes no result, but lets rows of one stream look
for rows of another directly.

That takes comparisons which agree with each other. Integers beside floats do not: 2^53 and 2^53 + 1 both equal the same
double. So only plain columns of one kind and scale are put together. Nulls equal nothing, and equal nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from watersmeet.spec.expression import And, Column, Compare, Predicate, StreamName
from watersmeet.spec.typing import Schemas, type_of

__all__ = ["Closure", "close_equalities"]


@dataclass(frozen=True)
class Closure:
    """Which streams are equal on some column, and what follows for those of which it is not said."""

    classes: dict[frozenset[StreamName], frozenset[Column]]
    """For every two streams that have columns in one class, that class: the first one if there are more."""
    derived: dict[tuple[StreamName, StreamName], Predicate]


def close_equalities(pairs: Mapping[tuple[StreamName, StreamName], Predicate], schemas: Schemas) -> Closure:
    """Return the closure of the equalities among conjuncts that read two streams each."""
    classes: dict[Column, frozenset[Column]] = {}
    said: set[tuple[frozenset[StreamName], frozenset[Column]]] = set()
    equalities = [found for predicate in pairs.values() for found in _equalities(predicate, schemas)]
    for one, other in equalities:
        together = classes.get(one, frozenset((one,))) | classes.get(other, frozenset((other,)))
        classes.update(dict.fromkeys(together, together))
    for one, other in equalities:
        said.add((frozenset((one.stream, other.stream)), classes[one]))
    known: dict[frozenset[StreamName], frozenset[Column]] = {}
    derived: dict[tuple[StreamName, StreamName], Predicate] = {}
    for own in dict.fromkeys(classes.values()):
        first: dict[StreamName, Column] = {}
        for column in sorted(own, key=lambda column: column.name):
            first.setdefault(column.stream, column)
        for left, right in combinations([stream for stream in schemas if stream in first], 2):
            streams = frozenset((left, right))
            known.setdefault(streams, own)
            if (streams, own) not in said:
                derived.setdefault((left, right), Compare("=", first[left], first[right]))
    return Closure(known, derived)


def _equalities(predicate: Predicate, schemas: Schemas) -> list[tuple[Column, Column]]:
    """Return the columns of two streams that conjuncts compare for equality, where their types are alike."""
    found = []
    for term in predicate.terms if isinstance(predicate, And) else (predicate,):
        match term:
            case Compare("=", Column() as one, Column() as other) if one.stream != other.stream:
                types = [type_of(column, schemas) for column in (one, other)]
                if len({(each.kind, each.scale) for each in types}) == 1:
                    found.append((one, other))
    return found
