"""Arrow puts no dictionaries together that have a null among their values: a push of such rows ended with ArrowInvalid.

A null may stand in a dictionary, and rows refer to it by an index that is none. For a join it is a null like others.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from topologies import TOPOLOGIES, ids_of_kind
from watersmeet.spec.sql import parse_predicate

WINDOW = wm.count_window(30)
PREDICATES = ["left.k = right.k", "left.k <=> right.k", "left.k IS NULL AND left.id < right.id", "left.id = right.id"]


def rows_of(first: int, values: list[str | None], indices: list[int | None]) -> pa.Table:
    column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, pa.string()))
    return pa.table({"id": range(first, first + len(indices)), "k": column})


def chunked(number: int) -> pa.Table:
    """Return rows of two chunks, each with a dictionary of its own."""
    first = rows_of(10 * number, ["x", None, f"only {number}"], [0, 1, 2, None, 1])
    return pa.concat_tables([first, rows_of(10 * number + 5, [None, "y"], [0, 1, 1, None])])


PUSHES = [(chunked(number), rows_of(10 * number + 3, [None, "y", "x"], [0, 1, 2, 0])) for number in range(4)]
SCHEMA = PUSHES[0][0].schema


@pytest.mark.parametrize("how", ["full", "semi"])
@pytest.mark.parametrize("on", PREDICATES)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_null_among_the_values_is_a_null(topology: str, on: str, how: Any) -> None:
    pairs = oracle.pairs(parse_predicate(on), WINDOW, {"left": SCHEMA, "right": SCHEMA}, PUSHES)
    assert pairs
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=on, window=WINDOW, how=how, topology=topology, cores=2)
    found = []
    for left, right in PUSHES:
        found.append(join.push(left=left, right=right))
        saved = join.snapshot()
        join.close()
        join = wm.StreamJoin.restore(saved)
    found.append(join.finish())
    given = sorted(map(str, [ids for some in found for ids in ids_of_kind(some)]))
    assert given == sorted(map(str, oracle.of_kind(how, pairs, WINDOW, PUSHES).elements()))


def test_many_streams() -> None:
    join = wm.MultiStreamJoin(streams=dict.fromkeys("abc", SCHEMA), on="a.k = b.k AND b.k = c.k", window=WINDOW)
    found = [join.push(a=left, b=right, c=left) for left, right in PUSHES]
    assert {value for some in found for value in some["a_k"].to_pylist()} == {"x", "y"}
