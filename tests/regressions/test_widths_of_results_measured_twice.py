"""Texts of results were measured twice: what came in tables of bounded size was measured once more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import forget, pair_query
from watersmeet.arrays import Int64s
from watersmeet.columns import widths

ROWS = 50


def test_texts_of_pairs_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = [0]
    of_column = widths.column_widths

    def counted(column: pa.Array, at: Int64s) -> Int64s:
        measured[0] += len(at)
        return of_column(column, at)

    monkeypatch.setattr(widths, "column_widths", counted)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    moments = pa.array(np.arange(ROWS), pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": moments, "k": [7] * ROWS, "note": ["x" * 9] * ROWS})
    window = wm.time_window("1 hour", ts="ts")
    query = pair_query({"left": rows.schema, "right": rows.schema}, "left.k = right.k", window, cores=1)
    assert query.run({"left": rows, "right": rows}).num_rows == ROWS * ROWS
    assert measured[0] == 2 * ROWS * ROWS, "a text of each side"
    forget(tmp_path)
