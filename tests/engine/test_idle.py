"""A stream that pauses: with ``idle`` the other one draws the watermark along, without it the metrics say who waits.

The hour of pause, in minutes of event time; the right stream is silent from minute 1 to minute 61:

    left     0 1 2 3 … 60 61 62
    right    0 1              61 (and rows of minutes 2 to 60, which come late)
    idle 5   watermark: 1 1 1 … newest left - 5
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import PREDICATES, TOPOLOGIES, expected, join_of, run, small_windows, stream
from watersmeet.spec.window import TimeWindow

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("s"))])
ON = wm.band("id", "id", 2)
IDLE_WINDOWS = {
    "idle": wm.time_window("3 seconds", ts="ts", idle="2 seconds"),
    "idle, lateness": wm.time_window(
        left="1 second", right="4 seconds", ts="ts", lateness="2 seconds", idle="1 second"
    ),
    "never behind": wm.time_window("3 seconds", ts="ts", idle="0 seconds"),
}


def rows(*minutes: int) -> pa.Table:
    return pa.table({"id": list(minutes), "ts": [60 * minute for minute in minutes]}, schema=SCHEMA)


def of_minutes(**more: str) -> TimeWindow:
    return wm.time_window("2 minutes", ts="ts", **more)


@pytest.mark.parametrize("window", IDLE_WINDOWS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_idle(topology: str, window: str) -> None:
    for seed, on in enumerate(PREDICATES.values()):
        pushes = stream(seed=seed, pushes=10)
        with small_windows():
            found = run(join_of(on, IDLE_WINDOWS[window], topology=topology, cores=2, block_rows=3), pushes)
        assert found == expected(on, IDLE_WINDOWS[window], pushes)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_an_hour_of_pause(topology: str) -> None:
    window, held = of_minutes(idle="5 minutes"), []
    with (
        small_windows(),
        wm.StreamJoin(
            left=SCHEMA, right=SCHEMA, on=ON, window=window, topology=topology, cores=2, block_rows=1
        ) as join,
    ):
        join.push(left=rows(0, 1), right=rows(0, 1))
        for minute in range(2, 61):
            join.push(left=rows(minute))
            held.append(join.metrics.left_window_rows)
            assert join.metrics.waiting_for == ("right" if 3 < minute <= 6 else None)
        assert max(held) <= 24, "the window, idle, and rows that leave in steps"
        assert join.metrics.watermark == (60 - 5) * 60 * 10**6
        join.push(left=rows(61), right=rows(*range(2, 55), 61))  # judged by the push before: 55 and later are on time
        assert (join.metrics.left_late, join.metrics.right_late) == (0, 53)
        join.push(left=rows(62), right=rows(60))
        assert join.metrics.right_late == 54, "both are at minute 61 now, so idle no longer matters"
        join.finish()
        assert join.metrics.pairs == 7 + 3 + 1, "of minutes 0 to 3, of 61 with 59 to 61, and of 62 with 61"


def test_without_idle_a_pause_holds_everything_and_the_metrics_say_so() -> None:
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=ON, window=of_minutes())
    assert join.metrics.waiting_for is None
    join.push(left=rows(0))
    assert join.metrics.waiting_for == "right", "it has had no row"
    join.push(right=rows(0))
    assert join.metrics.waiting_for is None
    for minute in range(1, 61):
        join.push(left=rows(minute))
    assert join.metrics.waiting_for == "right"
    assert join.metrics.left_window_rows == 61
    assert wm.StreamJoin.restore(join.snapshot()).metrics.waiting_for == "right"
    join.push(right=rows(60))
    assert join.metrics.waiting_for is None


def test_a_stream_that_never_begins_is_drawn_along() -> None:
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=ON, window=of_minutes(idle="5 minutes"))
    join.push(left=rows(*range(60)))
    assert join.metrics.watermark == 54 * 60 * 10**6
    assert join.metrics.waiting_for is None
    assert join.push(right=rows(53, 54)).num_rows == 5
    assert join.metrics.right_late == 1


def test_streams_of_equal_pace_are_not_held_back_by_idle() -> None:
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=ON, window=of_minutes(idle="1 hour"))
    for minute in range(30):
        join.push(left=rows(minute), right=rows(minute))
    assert join.metrics.watermark == 29 * 60 * 10**6, "the slower stream's, not an hour behind"


def test_a_restart_decides_the_same() -> None:
    pushes = stream(seed=11, pushes=12)
    window, on = IDLE_WINDOWS["idle, lateness"], PREDICATES["band"]
    whole = join_of(on, window)
    found = run(whole, pushes)
    join, again = join_of(on, window), Counter[tuple[int, int]]()
    for number, (left, right) in enumerate(pushes):
        if number % 3 == 1:
            join = wm.StreamJoin.restore(join.snapshot())
        pairs = join.push(left=left, right=right)
        again.update(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))
    assert again == found
    assert (join.metrics.left_late, join.metrics.right_late) == (whole.metrics.left_late, whole.metrics.right_late)
    assert sum((join.metrics.left_late, join.metrics.right_late)) > 0


def test_three_streams_one_of_which_pauses() -> None:
    join = wm.MultiStreamJoin(
        streams=dict.fromkeys("abc", SCHEMA),
        on="a.id = b.id AND b.id = c.id",
        window=wm.time_window("2 minutes", ts="ts", idle="5 minutes"),
    )
    with small_windows():
        for minute in range(60):
            join.push(a=rows(minute), b=rows(minute), c=rows(minute) if minute < 4 else None)
    assert join.metrics.results == 4
    assert join.metrics.watermark == 54 * 60 * 10**6
    assert max(join.metrics.window_rows.values()) <= 24
    assert join.metrics.waiting_for is None
    join.push(c=rows(10, 58))
    assert join.metrics.late == {"a": 0, "b": 0, "c": 1}
    assert join.metrics.results == 5


@pytest.mark.parametrize("given", ["-1 second", "soon"])
def test_an_idle_that_cannot_be_is_refused(given: str) -> None:
    with pytest.raises(wm.SpecificationError, match="next step"):
        wm.time_window("1 minute", ts="ts", idle=given)
