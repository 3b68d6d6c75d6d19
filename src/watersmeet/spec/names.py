"""Names of columns, found as Spark finds them: in any case, unless the session tells cases apart.

Every plan begins here, so all that follows knows a column by the one name that its schema has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from watersmeet.spec.expression import Column, Predicate, Side, with_columns

__all__ = ["resolve_columns", "resolve_name"]


def resolve_name(name: str, names: Sequence[str], *, case_sensitive: bool = False) -> str:
    """Return the one of ``names`` that ``name`` means; ``name`` itself where that is none of them, or not one alone.

    Examples
    --------
    >>> resolve_name("Price", ["ts", "price"])
    'price'
    >>> resolve_name("price", ["Price", "price"])
    'price'
    """
    if case_sensitive or name in names:
        return name
    alike = [other for other in names if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def resolve_columns(
    predicate: Predicate, schemas: Mapping[Side, pa.Schema], *, case_sensitive: bool = False
) -> Predicate:
    """Return the predicate with its columns named as in their schemas."""
    return with_columns(
        predicate,
        lambda column: Column(
            column.side, resolve_name(column.name, schemas[column.side].names, case_sensitive=case_sensitive)
        ),
    )
