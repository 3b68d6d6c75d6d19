"""Spark Connect: the same pairs as on a classic session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import connect_program
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import ids

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
ROWS = 300


def _tables(seed: int) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "id": np.arange(ROWS) + number * ROWS,
                "ts": pa.array(random.integers(0, 500_000, ROWS) + number * 500_000, pa.timestamp("us", "UTC")),
                "k": random.integers(0, 3_000, ROWS),
            }
        )
        for number in range(3)
    ]


def test_connect_equals_classic(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    left, right = folder_of("left", _tables(71)), folder_of("right", _tables(72))
    on, seconds = "left.k BETWEEN right.k - 20 AND right.k + 35", "700 milliseconds"
    frames = [spark.read.parquet(str(folder)) for folder in (left, right)]
    classic = ids(wm.join(frames[0], frames[1], on, wm.time_window(seconds, ts="ts")))
    assert classic.total() > 1_000
    finished = subprocess.run(
        [sys.executable, connect_program.__file__, left, right, on, seconds],
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path)), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answer = json.loads(finished.stdout.splitlines()[-1])
    assert answer["session"] == "pyspark.sql.connect.session"
    both = frames[0].alias("left").join(frames[1].alias("right"), F.expr(on))
    expected = dict.fromkeys(("streaming", "decoded", "batch"), classic)
    expected["looked up"] = ids(both.selectExpr("left.id left_id", "right.id right_id"))
    for way, pairs in expected.items():
        assert Counter({tuple(pair): count for pair, count in answer[way]}) == pairs, way
    assert answer["metrics"] == answer["cores"] == classic.total()
    assert answer["held"] > 0
