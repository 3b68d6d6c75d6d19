"""Every check of candidates unified the dictionaries of all pieces they came from, however few values were used."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.window import chunks, verify
from watersmeet.window.chunks import one_array

WORDS = pa.array([f"word {number}" for number in range(5000)])


def rows_of(numbers: list[int | None]) -> pa.Table:
    return pa.table(
        {"k": pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int16()), WORDS), "id": range(len(numbers))}
    )


def test_candidates_are_checked_without_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    unified: list[int] = []

    def counted(parts: list[pa.Array]) -> pa.Array:
        unified.extend(len(part.dictionary) for part in parts if isinstance(part, pa.DictionaryArray))
        return one_array(parts)

    monkeypatch.setattr(verify, "one_array", counted)
    monkeypatch.setattr(chunks, "one_array", counted)
    table = rows_of([1, 2, 3, None])
    join = wm.StreamJoin(left=table.schema, right=table.schema, on="left.k = right.k", window=wm.count_window(1000))
    found = 0
    for _ in range(8):
        found += join.push(left=table, right=table).num_rows
    assert found == 3 * 8 * 8
    assert sum(unified) == 0


@pytest.mark.parametrize("ordered", [False, True])
def test_pieces_keep_the_values_that_they_use(ordered: bool) -> None:
    kind = pa.dictionary(pa.int16(), pa.string(), ordered)
    parts = [rows_of(numbers)["k"].chunk(0).cast(kind) for numbers in ([7, None, 5, 7], [None], [4999, 0], [])]
    together = one_array([parts[0].slice(1), *parts[1:]])
    assert together.to_pylist() == [None, "word 5", "word 7", None, "word 4999", "word 0"]
    assert together.type == kind
    assert together.dictionary.to_pylist() == ["word 5", "word 7", "word 0", "word 4999"]
