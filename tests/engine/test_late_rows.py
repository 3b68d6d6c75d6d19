"""Late rows are data: with ``late="keep"`` a join counts them, leaves them out, and gives them to whoever asks."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from topologies import PREDICATES, SCHEMA, WINDOWS, expected, join_of, run, stream

WINDOW = WINDOWS["time"]
ON = PREDICATES["band"]
PUSHES = stream(seed=23, pushes=12)


def numbers(late: dict[str, pa.Table]) -> dict[str, list[int]]:
    return {side: table["id"].to_pylist() for side, table in late.items()}


def late_ids() -> dict[str, list[int]]:
    """Return the ids of rows that the oracle does not let in, though they have a timestamp, in the order pushed."""
    history = [(oracle.rows_of("left", left), oracle.rows_of("right", right)) for left, right in PUSHES]
    kept, counted = oracle.on_time({"left": "ts", "right": "ts"}, WINDOW, history)
    found = {}
    for place, side in enumerate(("left", "right")):
        is_kept = {row[side, "id"] for row in kept[place]}
        timed = [row for push in history for row in push[place] if row[side, "ts"] is not None]
        found[side] = [row[side, "id"] for row in timed if row[side, "id"] not in is_kept]
        assert len(found[side]) == counted[side]
    return found


def test_oracle_late_rows_are_kept_until_they_are_taken() -> None:
    join, taken = join_of(ON, WINDOW, late="keep"), Counter[tuple[str, int]]()
    for number, (left, right) in enumerate(PUSHES):
        join.push(left=left, right=right)
        if number % 4 == 3:
            held = join.late
            assert join.late == held, "looking at them does not take them"
            assert join.take_late() == held
            assert numbers(join.late) == {"left": [], "right": []}
            assert all(table.schema == SCHEMA for table in held.values())
            taken.update((side, number) for side, ids in numbers(held).items() for number in ids)
    assert taken == Counter((side, number) for side, ids in late_ids().items() for number in ids)
    assert join.metrics.left_late == len(late_ids()["left"]) > 0
    assert join.metrics.right_late == len(late_ids()["right"]) > 0


def test_late_rows_do_not_change_the_pairs() -> None:
    assert run(join_of(ON, WINDOW, late="keep"), PUSHES) == expected(ON, WINDOW, PUSHES)


def test_a_snapshot_has_the_late_rows_that_nobody_has_taken() -> None:
    join = join_of(ON, WINDOW, late="keep")
    for left, right in PUSHES:
        join = wm.StreamJoin.restore(join.snapshot())
        join.push(left=left, right=right)
    assert numbers(join.late) == late_ids()
    again = wm.StreamJoin.restore(join.snapshot())
    join.take_late()
    assert numbers(again.late) == late_ids()
    assert numbers(wm.StreamJoin.restore(join.snapshot()).late) == {"left": [], "right": []}


def test_a_refused_push_keeps_nothing() -> None:
    join = join_of(ON, WINDOW, late="keep")
    join.push(left=PUSHES[5][0], right=PUSHES[5][1])
    with pytest.raises(wm.SchemaError):
        join.push(left=PUSHES[0][0], right=pa.table({"other": [1]}))
    assert numbers(join.late) == {"left": [], "right": []}


def test_late_rows_are_there_after_the_join_has_ended() -> None:
    join = join_of(ON, WINDOW, late="keep")
    run(join, PUSHES)
    join.close()
    assert numbers(join.take_late()) == late_ids()


@pytest.mark.parametrize("late", ["drop", "error"])
def test_joins_that_keep_none_say_so(late: str) -> None:
    join = join_of(ON, wm.time_window("1 second", ts="ts", lateness="1 day"), late=late)
    with pytest.raises(wm.SpecificationError, match='late="keep"'):
        join.take_late()
    with pytest.raises(wm.SpecificationError, match='late="keep"'):
        _ = join.late


def test_count_windows_keep_none_because_none_is_late() -> None:
    join = join_of(ON, wm.count_window(5), late="keep")
    run(join, PUSHES)
    assert numbers(join.late) == {"left": [], "right": []}


def test_many_streams_keep_theirs() -> None:
    join = wm.MultiStreamJoin(
        streams=dict.fromkeys("abc", SCHEMA), on="a.x = b.x AND b.x = c.x", window=WINDOWS["time"], late="keep"
    )
    late = Counter[str]()
    for left, right in PUSHES:
        join = wm.MultiStreamJoin.restore(join.snapshot())
        join.push(a=left, b=right, c=left)
    for stream_name, table in join.take_late().items():
        late[stream_name] = table.num_rows
    assert late == join.metrics.late
    assert late.total() > 0
    assert sum(table.num_rows for table in join.late.values()) == 0
