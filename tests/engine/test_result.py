"""Results: how their columns are named, and how large a table of them may be."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine import result
from watersmeet.engine.result import bounded_tables, put_together, result_schema
from watersmeet.subwindow import contract


def schema(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])


@pytest.mark.parametrize(
    ("left", "right", "names"),
    [
        (["a"], ["b"], ["a", "b"]),
        (["k", "a"], ["b", "k"], ["left_k", "a", "b", "right_k"]),
        (["k"], ["K"], ["k", "K"]),
        ([], ["a"], ["a"]),
    ],
)
def test_names_on_both_sides_get_their_side(left: list[str], right: list[str], names: list[str]) -> None:
    assert result_schema(schema(*left), schema(*right)).names == names


def test_names_that_differ_in_case_only_are_one_unless_case_counts() -> None:
    assert result_schema(schema("k"), schema("K"), case_sensitive=False).names == ["left_k", "right_K"]


@pytest.mark.parametrize(("left", "right"), [(["k", "left_k"], ["k"]), (["k"], ["k", "right_k"]), (["a", "a"], ["b"])])
def test_names_that_would_be_the_same_are_refused(left: list[str], right: list[str]) -> None:
    with pytest.raises(wm.SpecificationError, match="more than one column named"):
        result_schema(schema(*left), schema(*right))


def test_tables_are_bounded_by_pairs_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PAIRS_AT_ONCE", 10)
    monkeypatch.setattr(result, "BYTES_AT_ONCE", 64)
    tables = [pa.table({"x": range(19)}), pa.table({"x": [5]})]
    found = list(bounded_tables(tables))
    assert [table.num_rows for table in found] == [8, 8, 3, 1]
    assert pa.concat_tables(found).equals(pa.concat_tables(tables))


def test_rows_count_with_their_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "BYTES_AT_ONCE", 64)
    texts = ["", "x" * 100, *["ab"] * 12]
    found = list(bounded_tables([pa.table({"x": texts})]))
    assert [table.num_rows for table in found] == [1, 1, 10, 2]


def test_small_tables_are_put_together_up_to_pairs_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PAIRS_AT_ONCE", 10)
    monkeypatch.setattr(result, "BYTES_AT_ONCE", 64)
    tables = [pa.table({"x": range(count)}) for count in (3, 5, 1, 19, 2, 6)]
    found = list(put_together(tables))
    assert [table.num_rows for table in found] == [8, 1, 19, 8]
    assert pa.concat_tables(found).equals(pa.concat_tables(tables))
    monkeypatch.setattr(result, "BYTES_AT_ONCE", 1 << 20)
    assert [table.num_rows for table in put_together(tables)] == [9, 19, 8]
    assert list(put_together([])) == []
