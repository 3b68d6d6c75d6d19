"""Finds columns by name as Spark does: in any case, unless the session is case sensitive.

Names are resolved when a plan is made, so all later code uses the name that the schema has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from watersmeet.spec.expression import Column, Predicate, StreamName, with_columns

__all__ = ["resolve_columns", "resolve_name"]


def resolve_name(name: str, names: Sequence[str], *, case_sensitive: bool = False) -> str:
    """Return the name among ``names`` that ``name`` stands for, or ``name`` itself if there is not exactly one.

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
    predicate: Predicate, schemas: Mapping[StreamName, pa.Schema], *, case_sensitive: bool = False
) -> Predicate:
    """Return the predicate with the columns named as in their schemas."""
    return with_columns(
        predicate,
        lambda column: Column(
            column.stream, resolve_name(column.name, schemas[column.stream].names, case_sensitive=case_sensitive)
        ),
    )
