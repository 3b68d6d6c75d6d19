"""``IN``: the value and all options are compared as one type, as Spark does, and not each option as its own.

So ``left.l IN (right.g, 9007199254740992)`` compares doubles if ``right.g`` is one, also with the constant. That type
follows from the schemas. So ``IN`` is a node of its own until a plan is made, which replaces it here by a disjunction
of equalities; all later code deals with these alone.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import reduce

from watersmeet.spec.expression import Cast, Compare, Expression, OneOf, Predicate, disjunction
from watersmeet.spec.typing import DOUBLE, Schemas, ValueType, common_type, type_of

__all__ = ["without_lists"]


def without_lists(predicate: Predicate, schemas: Schemas) -> Predicate:
    """Return the predicate with every ``IN`` replaced by equalities."""
    changed = _changed(predicate, schemas)
    assert isinstance(changed, Predicate), "a condition stays one"
    return changed


def _changed(part: object, schemas: Schemas) -> object:
    if isinstance(part, tuple):
        return tuple(_changed(some, schemas) for some in part)
    if not isinstance(part, Expression):
        return part
    inner = {field.name: _changed(getattr(part, field.name), schemas) for field in fields(part)}
    changed = replace(part, **inner)
    return _spread(changed, schemas) if isinstance(changed, OneOf) else changed


def _spread(node: OneOf, schemas: Schemas) -> Predicate:
    types = [type_of(operand, schemas) for operand in node.children()]
    known: ValueType | None = types[0]
    if reduce(_together, types[1:], known) != DOUBLE:  # then comparing one by one is the same, or is refused
        return disjunction(*(Compare("=", node.value, option) for option in node.options))
    value, *options = (_as_double(operand, own) for operand, own in zip(node.children(), types, strict=True))
    return disjunction(*(Compare("=", value, option) for option in options))


def _together(known: ValueType | None, other: ValueType) -> ValueType | None:
    return None if known is None else common_type(known, other)


def _as_double(operand: Expression, own: ValueType) -> Expression:
    return operand if own.kind in ("double", "null") else Cast(operand, "double")
