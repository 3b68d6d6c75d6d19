"""Finds columns by name as Spark does: in any case, unless the session is case sensitive.

Names are resolved when a plan is made, so all later code uses the name that the schema has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from watersmeet.spec.expression import Column, Predicate, StreamName, with_columns

__all__ = ["resolve_columns", "resolve_name", "where_it_is"]


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


def where_it_is(column: Column, schemas: Mapping[StreamName, pa.Schema]) -> str:
    """Return what to write for a column that was looked for in the wrong stream, or by its stream's name too."""
    order = "; functions such as equal take the left stream's column first, then the right's"
    stream, _, name = column.name.partition(".")
    if stream.lower() in schemas and name in schemas[stream.lower()].names:
        return f'write "{name}"{order}'
    others = [stream for stream, schema in schemas.items() if column.name in schema.names]
    if not others:
        return ""
    return f"the {others[0]} stream has it: write {Column(others[0], column.name)}{order if 'left' in schemas else ''}"
