"""Finds comparisons whose outcome in Spark depends on the session's time zone. The join computes in UTC.

A timestamp is an instant, so two timestamps compare alike in every zone. A date, a timestamp without zone and a literal
become instants only with a zone, and in a zone with daylight saving a day is not always 24 hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa

from watersmeet.spec.expression import Cast, Column, Compare, Constant, Expression, Predicate, Same
from watersmeet.spec.typing import Schemas

__all__ = ["comparison_by_zone"]


def comparison_by_zone(predicate: Predicate, schemas: Schemas) -> Expression | None:
    """Return the first comparison whose outcome depends on the session's time zone, or None if there is none."""
    for node in _nodes(predicate):
        if isinstance(node, Compare | Same):
            parts = list(_nodes(node))
            if any(_is_instant(part, schemas) for part in parts) and any(_needs_zone(part, schemas) for part in parts):
                return node
    return None


def _nodes(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children():
        yield from _nodes(child)


def _is_instant(part: Expression, schemas: Schemas) -> bool:
    if isinstance(part, Cast):
        return part.target == "timestamp"
    kind = _type_of_column(part, schemas)
    return kind is not None and pa.types.is_timestamp(kind) and kind.tz is not None


def _needs_zone(part: Expression, schemas: Schemas) -> bool:
    """Tell whether comparing ``part`` with an instant needs a zone."""
    if isinstance(part, Cast):
        return True
    if isinstance(part, Constant):
        if isinstance(part.value, timedelta):
            return abs(part.value) >= timedelta(days=1)
        return part.kind in ("date", "timestamp", "string")
    kind = _type_of_column(part, schemas)
    if kind is None:
        return False
    is_local = pa.types.is_timestamp(kind) and kind.tz is None
    return is_local or pa.types.is_date(kind) or pa.types.is_duration(kind) or pa.types.is_string(kind)


def _type_of_column(part: Expression, schemas: Schemas) -> pa.DataType | None:
    return schemas[part.stream].field(part.name).type if isinstance(part, Column) else None
