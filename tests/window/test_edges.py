"""The edges of windows, with the timeline drawn above each assertion.

``L`` and ``R`` are rows of the left and right stream; ``W`` is the watermark when the push below it arrives. Numbers
are seconds, unless a comment says otherwise. All rows match on the key, so what is tested is the window alone.
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import watersmeet as wm
from strategies import STRUCTURES
from watersmeet.spec.window import Window

MICRO = timedelta(microseconds=1)
SECOND = 1_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("k", pa.int64())])


@pytest.fixture(params=STRUCTURES)
def structure(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def rows(*times: float | None, key: int | None = 1) -> pa.Table:
    """Return rows at these seconds; a row's id is its time in microseconds (-1 without one)."""
    micros = [None if time is None else round(time * SECOND) for time in times]
    ids = [-1 if time is None else time for time in micros]
    return pa.table({"id": ids, "ts": micros, "k": [key] * len(times)}, schema=SCHEMA)


def join_over(window: Window, structure: str = "auto", late: str = "drop") -> wm.StreamJoin:
    return wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("k"), window=window, structure=structure, late=late)


def push(join: wm.StreamJoin, left: pa.Table | None = None, right: pa.Table | None = None) -> list[tuple[float, float]]:
    """Push and return the pairs' times in seconds, sorted."""
    pairs = join.push(left=left, right=right)
    times = zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True)
    return sorted((left / SECOND, right / SECOND) for left, right in times)


# --- time windows: the edges ------------------------------------------------------------------------------------------


def test_both_edges_are_inclusive(structure: str) -> None:
    #        0         10        20
    #   L              |
    #   R    |         |         |        each exactly 10 away, or 0
    #   R   |                     |       one microsecond further
    window = wm.time_window("10 seconds", ts="ts")
    right = rows(0, 10, 20, -0.000001, 20.000001)
    assert push(join_over(window, structure), rows(10), right) == [(10, 0), (10, 10), (10, 20)]


def test_asymmetric_window_keeps_each_side_for_its_own_length(structure: str) -> None:
    #        0         10  12 13
    #   L              |                  a left row waits 2 seconds for right rows
    #   R    |             |  |           a right row waits 10 seconds for left rows
    window = wm.time_window(left="2 seconds", right="10 seconds", ts="ts")
    assert push(join_over(window, structure), rows(10), rows(0, 12, 13)) == [(10, 0), (10, 12)]
    #        0       8 10        20
    #   L    |       |           |        8 waits until 10, 0 only until 2; the right row waits for 20
    #   R              |
    assert push(join_over(window, structure), rows(0, 8, 20), rows(10)) == [(8, 10), (20, 10)]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("0 seconds", "5 seconds", [(5, 0), (5, 5)]), ("5 seconds", "0 seconds", [(5, 5), (5, 10)])],
)
def test_one_side_may_be_zero(structure: str, left: str, right: str, expected: list[tuple[float, float]]) -> None:
    #        0         5         10
    #   L              |
    #   R    |         |         |        zero: equal times still meet
    window = wm.time_window(left=left, right=right, ts="ts")
    assert push(join_over(window, structure), rows(5), rows(0, 5, 10)) == expected


def test_order_of_arrival_does_not_matter(structure: str) -> None:
    #        0    1    2    3    4    5
    #   L    |         |         |         pushed 4, 0, 2
    #   R         |         |         |    pushed 1, 5, 3; lateness keeps the watermark behind all
    window = wm.time_window("1 second", ts="ts", lateness="1 hour")
    at_once = push(join_over(window, structure), rows(0, 2, 4), rows(1, 3, 5))
    join = join_over(window, structure)
    found = [push(join, rows(4), rows(1)), push(join, rows(0), rows(5)), push(join, rows(2), rows(3))]
    assert sorted(pair for pairs in found for pair in pairs) == at_once
    assert at_once == [(0, 1), (2, 1), (2, 3), (4, 3), (4, 5)]


def test_null_timestamp_and_null_key_never_match_and_are_counted(structure: str) -> None:
    join = join_over(wm.time_window("10 seconds", ts="ts"), structure)
    left = pa.concat_tables([rows(None, 1), rows(2, key=None)])
    assert push(join, left, rows(1, None)) == [(1, 1)]
    assert (join.metrics.left_null, join.metrics.right_null) == (2, 1)


# --- time windows: the watermark --------------------------------------------------------------------------------------


def test_a_row_exactly_at_the_watermark_is_on_time(structure: str) -> None:
    #        0    5   W=10      after the first push: min(10, 12)
    #   L              |10
    #   R                  |12
    #   then L         |10      at the watermark: joined.     L |9.999999: late by a microsecond
    join = join_over(wm.time_window("5 seconds", ts="ts"), structure)
    assert push(join, rows(10), rows(12)) == [(10, 12)]
    assert join.metrics.watermark == 10 * SECOND
    assert push(join, rows(10, 9.999999)) == [(10, 12)]
    assert (join.metrics.left_late, join.metrics.right_late) == (1, 0)


def test_lateness_moves_the_watermark_back(structure: str) -> None:
    #        W=7     10  12         min(10, 12) - 3
    #   L    |7      |10            7 is on time, 6.999999 is late
    #   R                |12
    join = join_over(wm.time_window("5 seconds", ts="ts", lateness="3 seconds"), structure)
    push(join, rows(10), rows(12))
    assert push(join, rows(7, 6.999999)) == [(7, 12)]
    assert join.metrics.left_late == 1


def test_a_silent_stream_holds_the_watermark_back(structure: str) -> None:
    #        0         100
    #   L    |1        |100          the right stream has delivered nothing: no watermark, nothing is late or expires
    #   R    |0
    join = join_over(wm.time_window("5 seconds", ts="ts"), structure)
    assert push(join, rows(100)) == []
    assert join.metrics.watermark is None
    assert push(join, rows(1)) == []
    assert push(join, None, rows(0)) == [(1, 0)]
    assert join.metrics.watermark == 0
    assert join.metrics.left_late == join.metrics.right_late == 0


def test_rows_of_one_push_are_not_late_for_each_other(structure: str) -> None:
    #        0              100
    #   L    |0             |100      the watermark is that of the previous push: none
    #   R    |0             |100
    join = join_over(wm.time_window("5 seconds", ts="ts"), structure)
    assert push(join, rows(100, 0), rows(100, 0)) == [(0, 0), (100, 100)]
    assert join.metrics.watermark == 100 * SECOND


def test_the_watermark_never_goes_back(structure: str) -> None:
    #        10        the watermark W
    #   L    |10   then 10 again       largest left time stays 10
    #   R    |20   then nothing
    join = join_over(wm.time_window("30 seconds", ts="ts"), structure)
    push(join, rows(10), rows(20))
    push(join, rows(10), rows(5))  # 5 is late
    assert join.metrics.watermark == 10 * SECOND
    assert join.metrics.right_late == 1


def test_late_rows_do_not_join_but_move_nothing(structure: str) -> None:
    #        1    W=50
    #   L    |1   |50                  1 is late although a right row at 1 would match
    #   R    |1        |60
    join = join_over(wm.time_window("100 seconds", ts="ts"), structure)
    push(join, rows(50), rows(1, 60))
    assert push(join, rows(1)) == []
    assert push(join, rows(50)) == [(50, 1), (50, 60)]


def test_late_error_refuses_the_push_and_changes_nothing() -> None:
    join = join_over(wm.time_window("5 seconds", ts="ts"), late="error")
    push(join, rows(10), rows(12))
    before = (join.metrics, join.snapshot())
    with pytest.raises(wm.LateRowError, match=r"1 row\(s\) of the left stream"):
        join.push(left=rows(9), right=rows(13))
    assert (join.metrics, join.snapshot()) == before
    assert push(join, rows(13), rows(13)) == [(10, 13), (13, 12), (13, 13)]


# --- time windows: expiry ---------------------------------------------------------------------------------------------


def test_whole_segments_expire_but_no_row_too_early(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    #        0  1  2  ...  99      a push each second, windows of 5
    #   R    |  |  |  ...  |       the left row of second t meets the right rows of t-5 to t
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 2)
    join = join_over(wm.time_window(left=timedelta(0), right="5 seconds", ts="ts"), structure)
    for second in range(100):
        found = push(join, rows(second), rows(second))
        assert found == [(second, earlier) for earlier in range(max(0, second - 5), second + 1)]
    assert join.metrics.left_window_rows + join.metrics.right_window_rows < 60


def test_a_row_stays_exactly_as_long_as_a_row_to_come_can_meet_it(
    structure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    #        0                 W=10
    #   R    |0                         held for 10 seconds: a left row at the watermark, 10, still meets it
    #   L                      |10
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 1)
    join = join_over(wm.time_window("10 seconds", ts="ts"), structure)
    push(join, None, rows(0))
    push(join, rows(10), rows(10))
    assert push(join, rows(10)) == [(10, 0), (10, 10)]
    push(join, rows(10.000001), rows(10.000001))
    assert push(join, rows(10.000001)) == [(10.000001, 10), (10.000001, 10.000001)]


def test_a_long_push_is_cut_into_slices_without_losing_pairs(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    #        0 1 2 3 ... 199           one push, out of order, of forty windows' length
    #   L    | | | |     |
    #   R    | | | |     |
    monkeypatch.setattr("watersmeet.engine.intake.ROWS_PER_SLICE", 8)
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 4)
    order = [(7 * i) % 200 for i in range(200)]
    join = join_over(wm.time_window(left="1 second", right="2 seconds", ts="ts"), structure)
    found = push(join, rows(*order), rows(*reversed(order)))
    expected = [(left, right) for left in range(200) for right in range(left - 2, left + 2) if 0 <= right < 200]
    assert found == expected
    assert join.metrics.left_window_rows < 100


def test_timestamps_of_different_units_meet() -> None:
    #        1.5 s = 1500 ms = 1 500 000 000 ns; the right row one nanosecond beyond the window does not meet it
    left = pa.table({"id": [1], "t": pa.array([1500], pa.timestamp("ms")), "k": [1]})
    right = pa.table(
        {"id": [1, 2], "at": pa.array([2_500_000_000, 2_500_000_001], pa.timestamp("ns", "UTC")), "k": [1, 1]}
    )
    window = wm.time_window("1 second", left_ts="t", right_ts="at")
    join = wm.StreamJoin(left=left.schema, right=right.schema, on=wm.equal("k"), window=window)
    assert join.push(left=left, right=right)["right_id"].to_pylist() == [1]
    assert join.metrics.watermark == 1_500_000_000


# --- count windows ----------------------------------------------------------------------------------------------------


def numbered(*ids: int, order: list[int | None] | None = None, key: int | None = 1) -> pa.Table:
    times = pa.array(order if order is not None else [0] * len(ids), pa.timestamp("us"))
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "ts": times, "k": pa.array([key] * len(ids), pa.int64())}, schema=SCHEMA
    )


def push_ids(join: wm.StreamJoin, left: pa.Table | None = None, right: pa.Table | None = None) -> list[tuple[int, int]]:
    pairs = join.push(left=left, right=right)
    return sorted(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))


def test_the_last_n_rows_are_in_the_window_and_the_one_before_is_not(structure: str) -> None:
    #   left     1  2  3  4
    #   right                  9      sees the last 3 left rows: 2, 3, 4
    join = join_over(wm.count_window(3), structure)
    assert push_ids(join, numbered(1, 2, 3, 4), numbered(9)) == [(2, 9), (3, 9), (4, 9)]
    #   left              5           sees right 9
    #   right  9             10       sees 3, 4, 5
    assert push_ids(join, numbered(5), numbered(10)) == [(3, 10), (4, 10), (5, 9), (5, 10)]


def test_count_windows_differ_by_side(structure: str) -> None:
    #   right  7  8  9                 left row sees the last 2 right rows: 8, 9
    #   left            1  2
    #   right                 10       sees the last left row only: 2
    join = join_over(wm.count_window(left=1, right=2), structure)
    assert push_ids(join, None, numbered(7, 8, 9)) == []
    assert push_ids(join, numbered(1, 2)) == [(1, 8), (1, 9), (2, 8), (2, 9)]
    assert push_ids(join, None, numbered(10)) == [(2, 10)]


def test_order_by_decides_arrival_inside_a_push_and_ties_go_left_first(structure: str) -> None:
    #   order       1     2     2     3
    #   left              1(2)
    #   right       7(1)        8(2)  9(3)
    #   left 1 sees 7; 8 and 9 see 1. With a window of one: 8 and 9 see 1, and 1 sees 7.
    join = join_over(wm.count_window(1, order_by="ts"), structure)
    assert push_ids(join, numbered(1, order=[2]), numbered(9, 7, 8, order=[3, 1, 2])) == [(1, 7), (1, 8), (1, 9)]
    #   order       4     5     6
    #   left              2(5)  3(6)   both see the last right row: 10
    #   right       10(4)              sees left 1
    assert push_ids(join, numbered(3, 2, order=[6, 5]), numbered(10, order=[4])) == [(1, 10), (2, 10), (3, 10)]


def test_order_by_ties_keep_the_order_given(structure: str) -> None:
    #   left  1 2 3 at one moment, window 2: a right row of that moment sees 2, 3
    join = join_over(wm.count_window(2, order_by="ts"), structure)
    assert push_ids(join, numbered(1, 2, 3, order=[5, 5, 5]), numbered(9, order=[5])) == [(2, 9), (3, 9)]


def test_nulls_come_first_in_order_by(structure: str) -> None:
    #   order  null   -5
    #   left          1            sees 9, which came before
    #   right  9(null)             had seen no left row
    join = join_over(wm.count_window(left=1, right=1, order_by="ts"), structure)
    assert push_ids(join, numbered(1, order=[-5]), numbered(9, order=[None])) == [(1, 9)]
    #   left   2(null)  1..3       the null row is the first: only 3 is in the window of one
    assert push_ids(join, numbered(3, 2, order=[1, None]), None) == [(2, 9), (3, 9)]
    assert push_ids(join, None, numbered(10, order=[0])) == [(3, 10)]


def test_rows_that_can_never_match_still_count(structure: str) -> None:
    #   left   1  (null)  (null)
    #   right                     9    the last 2 left rows have no key: nothing
    join = join_over(wm.count_window(2), structure)
    left = pa.concat_tables([numbered(1), numbered(2, 3, key=None)])
    assert push_ids(join, left, numbered(9)) == []
    assert join.metrics.left_null == 2


def test_count_window_expires_whole_segments(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    #   left   0 1 2 ... 99, one a push; right row t sees the last 8: t-7 to t
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 2)
    join = join_over(wm.count_window(left=8, right=1), structure)
    for t in range(100):
        found = push_ids(join, numbered(t), numbered(t))
        expected = [(earlier, t) for earlier in range(max(0, t - 7), t + 1)] + ([(t, t - 1)] if t else [])
        assert found == sorted(expected)
    assert join.metrics.left_window_rows < 40


def test_a_restart_keeps_the_numbers_of_a_count_window(structure: str) -> None:
    #   left   1  2  3 | restart | right 9 sees 2, 3
    join = join_over(wm.count_window(2), structure)
    push_ids(join, numbered(1, 2, 3))
    assert push_ids(wm.StreamJoin.restore(join.snapshot()), None, numbered(9)) == [(2, 9), (3, 9)]
