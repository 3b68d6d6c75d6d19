"""A core on Spark put a million pairs together before it handed any on, however wide they were: 2.8 GB of 1 KB rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import pair_query
from watersmeet.spark import output

ROWS, WIDTH = 250, 2_000


def test_what_is_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "ts": pa.array(np.arange(ROWS), pa.timestamp("us", "UTC")),
            "note": ["x" * WIDTH] * ROWS,
        }
    )
    sizes = []
    leave = output.leave_pairs

    def noted(pairs: pa.Table) -> str | None:
        sizes.append(pairs.num_rows)
        return leave(pairs)

    monkeypatch.setattr(output, "leave_pairs", noted)
    schemas = {"left": table.schema, "right": table.schema}
    query = pair_query(schemas, "left.id >= 0 AND right.id >= 0", wm.time_window("1 hour", ts="ts"), cores=1)
    assert query.run({"left": table, "right": table}).num_rows == ROWS * ROWS
    assert max(sizes) * 2 * WIDTH < 100 << 20
