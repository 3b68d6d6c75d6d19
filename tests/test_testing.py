"""``watersmeet.testing`` without Spark: feeds, the comparison, and the runner in this process."""

from __future__ import annotations

import re
import subprocess
import sys

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.testing import Feed, assert_same_pairs, join_in_process, moment

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("x", pa.float64())])


def test_rows_come_at_their_moments_push_by_push() -> None:
    feed = Feed(SCHEMA).add(1, id=1, x=0.5).then().then().add(2.25, id=2)
    assert [push.num_rows for push in feed.pushes] == [1, 0, 1]
    assert feed.pushes[2].to_pylist() == [{"ts": moment(2.25), "id": 2, "x": None}]
    assert all(push.schema == SCHEMA for push in feed.pushes)


@pytest.mark.parametrize("values", [{"idd": 1}, {"ts": moment(0)}])
def test_values_for_no_column_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(wm.SchemaError, match="a row with values for"):
        Feed(SCHEMA).add(0, **values)


def test_a_feed_needs_a_column_of_moments() -> None:
    with pytest.raises(wm.SchemaError, match="ts='time'"):
        Feed(SCHEMA, ts="time")


def test_in_process_a_row_behind_the_watermark_of_the_push_before_is_late() -> None:
    left = Feed(SCHEMA).add(0, id=1).add(20, id=2).then().add(5, id=3)  # id 3 is late: both have been at 20
    right = Feed(SCHEMA).add(0, id=1).add(20, id=2).then().add(21, id=3)
    found = join_in_process(left, right, on=wm.equal("id"), window=wm.time_window("30 seconds", ts="ts"))
    assert_same_pairs(found, [{"left_id": 1, "right_id": 1}, {"left_id": 2, "right_id": 2}])


def test_a_feed_may_have_fewer_pushes() -> None:
    left = Feed(SCHEMA).add(0, id=1)
    right = Feed(SCHEMA).then().then().add(1, id=1)
    found = join_in_process(left, right, on=wm.equal("id"), window=wm.time_window("5 seconds", ts="ts"))
    assert_same_pairs(found, [{"left_id": 1}])


TABLE = pa.table({"a": [1, 1, 2], "b": [0.5, float("nan"), None]})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (TABLE, TABLE.slice(1).to_pylist() + TABLE.slice(0, 1).to_pylist()),
        (TABLE, TABLE.select(["b", "a"])),
        (TABLE, [{"a": 2}, {"a": 1}, {"a": 1}]),
        (TABLE.slice(0, 0), []),
        (
            pa.table({"t": pa.array([[moment(0)]], pa.list_(pa.timestamp("us", "Asia/Tokyo")))}),
            [{"t": [moment(0)]}],
        ),
        (TABLE.slice(0, 0), TABLE.slice(0, 0)),
    ],
)
def test_same_pairs_are_the_same(found: pa.Table, expected: object) -> None:
    assert_same_pairs(found, expected)


@pytest.mark.parametrize(
    ("found", "expected", "message"),
    [
        (TABLE, [{"a": 1}, {"a": 2}], "3 rows, expected 2:\n  not expected: {'a': 1}"),
        (TABLE.slice(0, 1), [{"a": 1}, {"a": 1}], "1 rows, expected 2:\n  missing: {'a': 1}"),
        (TABLE, [], "3 rows, expected 0:"),
        (TABLE, [{"c": 1}], "columns are ['a', 'b'], expected ['c']"),
        (TABLE, TABLE.select(["a"]), "columns are ['a', 'b'], expected ['a']"),
        (TABLE, [{"a": 1}, {"b": 1}, {"a": 2}], "expected rows have unlike columns; all need ['a']"),
        (pa.table({"a": range(30)}), pa.table({"a": pa.array([], pa.int64())}), "and 10 more"),
    ],
)
def test_other_pairs_are_told(found: pa.Table, expected: object, message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        assert_same_pairs(found, expected)


def test_the_package_does_not_load_it_and_it_does_not_load_pyspark() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import watersmeet; assert 'watersmeet.testing' not in sys.modules;"
        "import watersmeet.testing; assert 'pyspark' not in sys.modules"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
