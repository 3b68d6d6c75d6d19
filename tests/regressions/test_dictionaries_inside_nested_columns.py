"""Dictionaries within structs, lists and maps ended a join with ArrowInvalid, as soon as two pushes had other values.

Arrow puts no nested dictionaries together. The values take their place where the rows come in.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm

WINDOW = wm.count_window(400)
INDICES = [pa.int8(), pa.uint16(), pa.int32()]


def texts(first: int, count: int, index: pa.DataType) -> pa.DictionaryArray:
    """Return texts of which every push has others, with a null among the dictionary's values."""
    values = pa.array([None, *(f"value {number}" for number in range(first, first + count - 1))])
    return pa.DictionaryArray.from_arrays(pa.array([*range(1, count), 0]).cast(index), values)


def nested(kind: str, first: int, count: int, index: pa.DataType) -> pa.Array:
    own = texts(first, count, index)
    ends = pa.array(range(count + 1), pa.int32())
    if kind == "struct":
        return pa.StructArray.from_arrays([own, pa.array(range(count))], ["text", "number"])
    if kind == "list":
        return pa.ListArray.from_arrays(ends, own)
    if kind == "large list":
        return pa.LargeListArray.from_arrays(ends.cast(pa.int64()), own)
    if kind == "fixed list":
        return pa.FixedSizeListArray.from_arrays(own, 1)
    if kind == "map":
        return pa.MapArray.from_arrays(ends, pa.array([str(number) for number in range(count)]), own)
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([own], ["text"]))


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("kind", ["struct", "list", "large list", "fixed list", "map", "list of structs"])
def test_each_push_has_other_values(kind: str, index: pa.DataType) -> None:
    def rows(first: int) -> pa.Table:
        return pa.table({"id": range(first, first + 100), "nested": nested(kind, first, 100, index)})

    pushes = [rows(first) for first in (0, 100, 200)]
    schema = pushes[0].schema
    join = wm.StreamJoin(left=schema, right=schema, on="left.id = right.id", window=WINDOW, how="full")
    found = []
    for left in pushes:
        found.append(join.push(left=left))
        found.append(join.push(right=left))
        saved = join.snapshot()
        join.close()
        join = wm.StreamJoin.restore(saved)
    pairs = pa.concat_tables(found)
    pairs.validate(full=True)
    expected = {number: value for push in pushes for number, value in zip(*push.to_pydict().values(), strict=True)}
    assert len(pairs) == len(expected)
    for side in ("left", "right"):
        assert dict(zip(pairs["left_id"].to_pylist(), pairs[f"{side}_nested"].to_pylist(), strict=True)) == expected
