"""``watersmeet.testing`` on a real Spark: the same rows give the same results as in a process."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.testing import Feed, assert_same_pairs, join_in_process, join_on_spark, moment

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64())])


@pytest.mark.long
def test_late_rows_and_rows_that_meet_nobody_are_the_same_on_spark(spark: SparkSession) -> None:
    """Orders 1 and 2 come in time, and 2 meets nobody; order 3 is late; order 4 still waits at the end."""
    left = Feed(SCHEMA).add(0, id=1).add(1, id=2).then().add(60, id=9).then().add(5, id=3).add(100, id=4)
    right = Feed(SCHEMA).add(2, id=1).then().add(61, id=9).then().add(62, id=3).add(101, id=8)
    window = wm.time_window("10 seconds", ts="ts")
    in_process = join_in_process(left, right, on=wm.equal("id"), window=window, how="left")
    assert_same_pairs(
        in_process,
        [
            {"left_id": 1, "left_ts": moment(0), "right_id": 1},
            {"left_id": 2, "left_ts": moment(1), "right_id": None},
            {"left_id": 9, "left_ts": moment(60), "right_id": 9},
        ],
    )
    assert_same_pairs(join_on_spark(spark, left, right, on=wm.equal("id"), window=window, how="left"), in_process)
