"""A few rows that came half a window behind the others closed every segment as soon as it had 16,384 rows.

They go to the newest segment, whose time was measured from its oldest row. So it spanned half a window from the start,
and a probe had to search dozens of segments.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

WINDOW = 1 << 18
BATCH = 1 << 12


@pytest.mark.parametrize("structure", ["auto", "wib_tree"])
def test_rows_behind_the_others_close_no_segment(structure: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
    window = wm.time_window(f"{WINDOW} microseconds", ts="ts", lateness=f"{WINDOW // 2} microseconds")
    join = wm.StreamJoin(left=schema, right=schema, on=wm.equal("k"), window=window, structure=structure)
    for first in range(0, 2 * WINDOW, BATCH):
        number = np.arange(first, first + BATCH)
        behind = np.where(number % 1000 == 0, WINDOW // 2 - 1, 0)
        join.push(left=pa.table([number, pa.array(WINDOW + number - behind, pa.timestamp("us"))], schema=schema))
        join.push(right=pa.table([-number, pa.array(WINDOW + number, pa.timestamp("us"))], schema=schema))
    segments = [int(found) for found in re.findall(r"in (\d+) subwindow", join.explain())]
    assert join.metrics.left_late == 0
    assert max(segments) <= 5, "one and a half windows of two segments each, the newest and the oldest"
