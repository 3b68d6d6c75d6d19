"""Messages that wait in an inbox are joined, and blocks that follow each other are one again."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.threads import Crew
from watersmeet.engine.topologies.blocks import blocks_of, joined_blocks
from watersmeet.spec.sql import parse_predicate
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import plan_join

SCHEMA = pa.schema([("x", pa.int64())])


def neighbours_joined(first: str, second: str) -> str | None:
    """Letters are joined as long as they follow each other in the alphabet."""
    return first + second if ord(second[0]) == ord(first[-1]) + 1 else None


def test_what_waits_is_joined_and_counted_as_handled() -> None:
    crew, busy, go_on = Crew(), threading.Event(), threading.Event()
    handled: list[tuple[int, str]] = []

    def handle(lane: int, message: str) -> None:
        handled.append((lane, message))
        busy.set()
        assert go_on.wait(10)

    inbox = crew.hire("watersmeet test", handle, lanes=2, joined=neighbours_joined)
    inbox.put("a")
    assert busy.wait(10)  # from here on messages wait
    for message in "bcxyz":
        inbox.put(message)
    inbox.put("d", lane=1)
    go_on.set()
    crew.wait_until_quiet()
    crew.close()
    assert sorted(handled) == [(0, "a"), (0, "bc"), (0, "xyz"), (1, "d")]
    assert [message for lane, message in handled if lane == 0] == ["a", "bc", "xyz"]


def test_joining_makes_room_for_senders_that_wait() -> None:
    crew, busy, go_on = Crew(), threading.Event(), threading.Event()
    handled: list[str] = []

    def handle(_: int, message: str) -> None:
        handled.append(message)
        busy.set()
        assert go_on.wait(10)

    inbox = crew.hire("watersmeet test", handle, capacity=2, joined=neighbours_joined)
    inbox.put("a")
    assert busy.wait(10)
    senders = [threading.Thread(target=inbox.put, args=(message,)) for message in "mtzk"]
    for sender in senders:
        sender.start()
    go_on.set()
    for sender in senders:
        sender.join(10)
        assert not sender.is_alive()
    crew.wait_until_quiet()
    crew.close()
    assert sorted("".join(handled)) == sorted("amtzk")


def batch_of(rows: int) -> KeyedBatch:
    plan = plan_join(SCHEMA, SCHEMA, parse_predicate("left.x = right.x"), wm.count_window(10), "auto")
    numbers = np.arange(rows)
    return KeyedBatch(plan, "left", pa.record_batch([pa.array(numbers)], schema=SCHEMA), Arrival(numbers, 2 * numbers))


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 4), (1, 3), (2, 2), (3, 4)])
def test_blocks_in_a_row_are_a_stretch_of_their_batch(first: int, last: int) -> None:
    blocks = list(blocks_of(batch_of(14), 3))  # the last has 2 rows
    joined = joined_blocks(blocks[first : last + 1])
    assert joined is not None
    wanted = list(range(3 * first, min(14, 3 * last + 3)))
    assert joined.rows.column(0).to_pylist() == wanted
    assert joined.arrival is not None
    assert joined.arrival.sequence.tolist() == wanted
    assert joined.arrival.seen.tolist() == [2 * number for number in wanted]


def test_joined_blocks_can_be_joined_again() -> None:
    batch = batch_of(14)
    one, two, three, four, five = blocks_of(batch, 3)
    front, back = joined_blocks([one, two]), joined_blocks([three, four, five])
    assert front is not None
    assert back is not None
    assert joined_blocks([front, back]) is batch


def test_blocks_with_a_gap_or_of_two_batches_stay_apart() -> None:
    blocks, others = list(blocks_of(batch_of(9), 3)), list(blocks_of(batch_of(9), 3))
    assert joined_blocks([blocks[0], blocks[2]]) is None
    assert joined_blocks([blocks[1], blocks[0]]) is None
    assert joined_blocks([blocks[0], others[1]]) is None
    assert joined_blocks([batch_of(3), batch_of(3)]) is None
