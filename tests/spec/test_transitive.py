"""Equalities that follow from others: which do, and of which types none does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.spec.expression import conjunction
from watersmeet.spec.streams import read_predicate, take_apart
from watersmeet.spec.transitive import Closure, close_equalities


def closed(on: str, **types: pa.DataType) -> Closure:
    """Close a predicate over the streams a, b, c and d, whose columns j and k are integers unless they have a type."""
    streams = ("a", "b", "c", "d")
    schemas = {
        name: pa.schema([("j", pa.int64()), ("k", types.get(name, pa.int64())), ("x", pa.int64())]) for name in streams
    }
    return close_equalities(take_apart(read_predicate(on, streams), streams).pairs, schemas)


def derived(on: str, **types: pa.DataType) -> list[str]:
    found = closed(on, **types).derived
    return str(conjunction(*found.values())).split(" AND ") if found else []


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("a.k = b.k AND b.k = c.k AND c.x < d.x", ["a.k = c.k"]),
        ("a.k = b.k AND b.k = c.k AND c.k = d.k", ["a.k = c.k", "a.k = d.k", "b.k = d.k"]),
        ("a.k = b.k AND a.k = c.k AND a.k = d.k", ["b.k = c.k", "b.k = d.k", "c.k = d.k"]),
        ("a.k = b.k AND b.j = c.j AND c.k = d.k", []),
        ("a.k = b.j AND b.j = c.k AND c.x < d.x", ["a.k = c.k"]),
        ("a.k = b.k AND b.k = c.k AND a.k = c.k AND c.x < d.x", []),
        ("a.k = b.k AND (b.k = c.k OR b.x = c.x) AND c.k = d.k", []),
        ("a.k = b.k AND b.k <=> c.k AND c.x < d.x", []),
        ("a.k = b.k + 1 AND b.k + 1 = c.k AND c.x < d.x", []),
        ("a.k = b.k AND b.k <= c.k AND c.x = d.x", []),
    ],
)
def test_what_follows(on: str, expected: list[str]) -> None:
    assert derived(on) == expected


CHAIN = "a.k = b.k AND b.k = c.k AND c.x < d.x"


@pytest.mark.parametrize(
    ("kinds", "follows"),
    [
        ((pa.int32(), pa.int64(), pa.int8()), True),
        ((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())), True),
        ((pa.float64(), pa.float64(), pa.float64()), True),
        ((pa.int64(), pa.float64(), pa.int64()), False),  # 2^53 and 2^53 + 1 are both equal to the double 2^53
        ((pa.float32(), pa.float64(), pa.float32()), False),
        ((pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(9, 2)), True),
        ((pa.decimal128(9, 2), pa.decimal128(9, 3), pa.decimal128(9, 2)), False),
        ((pa.timestamp("us"), pa.timestamp("us"), pa.timestamp("ns")), False),
    ],
    ids=str,
)
def test_only_types_that_agree_are_closed(kinds: tuple[pa.DataType, ...], *, follows: bool) -> None:
    assert derived(CHAIN, **dict(zip("abc", kinds, strict=True))) == (["a.k = c.k"] if follows else [])


def test_streams_that_are_equal_are_in_one_class() -> None:
    classes = closed("a.k = b.k AND b.k = c.k AND c.j = d.j").classes
    pairs = [frozenset(pair) for pair in ("ab", "bc", "ac", "cd", "ad", "bd")]
    assert len({classes[pair] for pair in pairs[:3]}) == 1
    assert [pair in classes for pair in pairs] == [True] * 4 + [False] * 2
