"""Joins of many streams: names of streams, and the predicate's conjuncts sorted by the streams that they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import And, Column, Predicate, StreamName, conjunction, streams_of, with_columns
from watersmeet.spec.normal import without_negation
from watersmeet.spec.sql import parse_predicate

__all__ = [
    "FEWEST",
    "MOST",
    "Conjuncts",
    "as_written",
    "check_names",
    "check_streams",
    "read_predicate",
    "take_apart",
    "with_streams",
]

FEWEST: Final = 2
MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Conjuncts:
    """A predicate's conjuncts: those that read one stream, two (in the order of the streams), or more."""

    filters: dict[StreamName, Predicate]
    pairs: dict[tuple[StreamName, StreamName], Predicate]
    residual: tuple[Predicate, ...]


def check_streams(streams: object, of: type, words: str, example: str) -> None:
    """Raise unless ``streams`` is a mapping to ``words``; the example has ``example`` behind each stream."""
    if not isinstance(streams, Mapping) or not all(isinstance(given, of) for given in streams.values()):
        raise SpecificationError(
            f"streams={_kinds(streams)}",
            f"a mapping from names to {words}",
            "give for example streams={" + ", ".join(f'"{name}": {name}{example}' for name in "abc") + "}",
        )


def _kinds(streams: object) -> str:
    if not isinstance(streams, Mapping):
        return type(streams).__name__
    return "{" + ", ".join(f"{name!r}: {type(given).__name__}" for name, given in streams.items()) + "}"


def check_names(names: Iterable[object]) -> tuple[StreamName, ...]:
    """Return the streams' names; raise unless their number is allowed and SQL can tell them apart."""
    given = tuple(names)
    if not FEWEST <= len(given) <= MOST:
        raise SpecificationError(
            f"{len(given)} stream(s): {', '.join(map(str, given)) or '(none)'}",
            f"{FEWEST} to {MOST} streams",
            f"name at least {FEWEST}"
            if len(given) < FEWEST
            else "join some of them first, and their result with the others",
        )
    streams = tuple(name for name in given if isinstance(name, str) and name.isidentifier())
    if len(streams) < len(given) or len({name.lower() for name in streams}) < len(given):
        raise SpecificationError(
            f"streams named {', '.join(map(repr, given))}",
            "names of letters, digits and underscores that differ in more than their case",
            'name them for example {"orders": …, "payments": …, "parcels": …}',
        )
    return streams


def read_predicate(on: Predicate | str, streams: tuple[StreamName, ...]) -> Predicate:
    """Return a predicate given as SQL text or by the functions of :mod:`watersmeet.spec.predicates`.

    Examples
    --------
    >>> from watersmeet.spec.predicates import band, equal
    >>> by_text = read_predicate("a.k = b.k AND b.x BETWEEN c.x - 5 AND c.x + 5", ("a", "b", "c"))
    >>> by_text == read_predicate(equal("a.k", "b.k") & band("b.x", "c.x", 5), ("a", "b", "c"))
    True
    """
    if isinstance(on, str):
        return parse_predicate(on, streams)
    by_name = {name.lower(): name for name in streams}

    def resolved(column: Column) -> Column:
        stream, point, name = column.name.partition(".")
        if not point or stream.lower() not in by_name:
            raise SpecificationError(
                f"the predicate reads the column {column.name!r}",
                f"columns written STREAM.COLUMN, the streams being {', '.join(streams)}",
                "write for example wm.equal("
                + ", ".join(f'"{stream}.{name or column.name}"' for stream in streams[:2])
                + ")",
            )
        return Column(by_name[stream.lower()], name)

    return with_columns(on, resolved)


def as_written(predicate: Predicate) -> Predicate:
    """Return a predicate with its columns as users write them, so that :func:`read_predicate` takes it again."""
    return with_columns(predicate, lambda column: Column("left", f"{column.stream}.{column.name}"))


def take_apart(predicate: Predicate, streams: tuple[StreamName, ...]) -> Conjuncts:
    """Return the predicate's conjuncts; raise unless they connect all streams directly or through others."""
    plain = without_negation(predicate)
    filters: dict[StreamName, list[Predicate]] = {}
    pairs: dict[tuple[StreamName, StreamName], list[Predicate]] = {}
    residual: list[Predicate] = []
    for conjunct in plain.terms if isinstance(plain, And) else (plain,):
        read = [stream for stream in streams if stream in streams_of(conjunct)]
        match read:
            case []:  # a constant: it holds for all rows or for none
                filters.setdefault(streams[0], []).append(conjunct)
            case [stream]:
                filters.setdefault(stream, []).append(conjunct)
            case [first, second]:
                pairs.setdefault((first, second), []).append(conjunct)
            case _:
                residual.append(conjunct)
    parts = Conjuncts(
        {stream: conjunction(*terms) for stream, terms in filters.items()},
        {pair: conjunction(*terms) for pair, terms in pairs.items()},
        tuple(residual),
    )
    _check_connected(parts, streams)
    return parts


def _check_connected(parts: Conjuncts, streams: tuple[StreamName, ...]) -> None:
    reached = {streams[0]}
    edges = [set(pair) for pair in parts.pairs] + [set(streams_of(term)) for term in parts.residual]
    for _ in streams:
        for edge in edges:
            if edge & reached:
                reached |= edge
    apart = [stream for stream in streams if stream not in reached]
    if apart:
        together = [stream for stream in streams if stream in reached]
        raise SpecificationError(
            f"no condition connects {', '.join(apart)} with {', '.join(together)}",
            "predicates whose conditions connect all streams, directly or through others",
            f"add a condition, for example {apart[0]}.key = {together[0]}.key",
        )


def with_streams(predicate: Predicate, sides: Mapping[StreamName, StreamName]) -> Predicate:
    """Return the predicate with its streams renamed."""
    return with_columns(predicate, lambda column: Column(sides[column.stream], column.name))
