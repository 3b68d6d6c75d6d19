"""All candidates of a push were held at once before the residual was checked, in structures other than ``bi_sort``."""

from __future__ import annotations

import subprocess
import sys

ROWS = 3000
PROGRAM = """
import resource, sys
import numpy as np, pyarrow as pa
import watersmeet as wm

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def pairs(rows, structure):
    table = pa.table({"k": np.zeros(rows, np.int64), "x": np.arange(rows)})
    on = "left.k = right.k AND (left.x + right.x) % 1000 = 0"
    join = wm.StreamJoin(
        left=table.schema, right=table.schema, on=on, window=wm.count_window(10**6), structure=structure
    )
    return join.push(left=table, right=table).num_rows

rows, structures = int(sys.argv[1]), sys.argv[2:]
for structure in structures:
    pairs(100, structure)
before = peak()
for structure in structures:
    assert pairs(rows, structure) == rows * rows // 1000
    assert peak() - before < 250, (structure, peak() - before)
"""


def test_candidates_are_checked_in_portions() -> None:
    given = [sys.executable, "-c", PROGRAM, str(ROWS), "bi_sort", "scan", "hash", "rap_table", "wib_tree"]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
