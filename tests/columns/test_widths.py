"""What rows take, by their own values, at any depth and in slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.columns.widths import column_widths, cuts_at, row_widths, table_width, table_widths

TEXTS = ["", "abc", "x" * 100, None, "de"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(TEXTS), [4, 7, 104, 4, 6]),
        (pa.array(TEXTS, pa.large_binary()), [8, 11, 108, 8, 10]),
        (pa.array([[1, 2], [], None, [3]], pa.list_(pa.int16())), [8, 4, 4, 6]),
        (pa.array([["ab"], ["c", "ddd"], []]), [10, 16, 4]),
        (pa.array([[None] * 3, []], pa.list_(pa.null())), [7, 4]),
        (pa.array([[True] * 16, []]), [20, 4]),
        (pa.array([{"a": 1, "b": "xy"}, {"a": 2, "b": ""}]), [15, 13]),
        (pa.array([["a", "bb"], ["ccc", ""]], pa.list_(pa.string(), 2)), [12, 12]),
        (pa.array([[("k", "value")], []], pa.map_(pa.string(), pa.string())), [4 + 1 + 5 + 9, 4]),
        (pa.array([1, None, 3], pa.int32()), [4, 4, 4]),
        (pa.array(["long text", "x"]).dictionary_encode(), [4, 4]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_widths(column: pa.Array, expected: list[int]) -> None:
    assert column_widths(column, np.arange(len(column))).tolist() == expected
    assert column_widths(column, np.array([len(column) - 1, 0, 0])).tolist() == [expected[-1], expected[0], expected[0]]
    begun = pa.concat_arrays([column.slice(0, 1), column]).slice(1)
    assert column_widths(begun.slice(1), np.arange(len(column) - 1)).tolist() == expected[1:]
    assert table_width(pa.table([pa.chunked_array([column, begun.slice(1)])], ["x"])) == 2 * sum(expected) - expected[0]


def test_rows_and_tables() -> None:
    rows = pa.record_batch({"a": [1, 2, 3], "s": ["", "abc", "x"]})
    assert np.asarray(row_widths(rows, np.array([1, 1]))).tolist() == [15, 15]
    assert row_widths(rows.select(["a"]), np.array([1, 1])) == 8
    table = pa.Table.from_batches([rows, rows.slice(1)])
    assert table_widths(table).tolist() == [12, 15, 13, 15, 13]
    assert table_width(table) == 12 + 15 + 13 + 15 + 13
    assert table_width(table.slice(0, 0)) == 0


def test_cuts() -> None:
    widths = np.array([3, 3, 3, 100, 1, 9, 1])
    assert [widths[part].tolist() for part in cuts_at(widths, 10)] == [[3, 3, 3], [100], [1, 9], [1]]
    assert list(cuts_at(widths[:0], 10)) == []
