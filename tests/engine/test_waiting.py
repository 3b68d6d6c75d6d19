"""Marks and waiting rows, against plain sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.arrays import Int64s
from watersmeet.engine import marks, waiting
from watersmeet.engine.marks import Marks
from watersmeet.engine.waiting import Unmet, Waiting


def rows(numbers: list[int]) -> tuple[pa.RecordBatch, Int64s]:
    """Return rows whose text is their number, and the numbers."""
    own = pa.RecordBatch.from_pydict({"name": pa.array([str(number) for number in numbers], pa.string())})
    return own, np.array(numbers, np.int64)


def names(found: list[Unmet]) -> list[str]:
    """Return the texts of rows, which belong to their numbers."""
    texts = [text for unmet in found if unmet.rows is not None for text in unmet.rows["name"].to_pylist()]
    assert texts == [str(number) for unmet in found for number in unmet.numbers]
    return sorted(texts)


@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.integers(0, 12), max_size=9),
            st.lists(st.integers(0, 199), max_size=5),
            st.sampled_from([0, 1, 2, 3, 5, 8, 40]),
        ),
        min_size=9,
    ),
    fan_in=st.integers(2, 4),
    sparse=st.sampled_from([0, 1, 8]),
    least=st.sampled_from([1, 30]),
    ascends=st.booleans(),
)
def test_rows_come_out_once_unless_they_were_marked(
    steps: list[tuple[list[int], list[int], int]], fan_in: int, sparse: int, least: int, *, ascends: bool
) -> None:
    """Rows come with places, some are marked, and a bound grows; numbers need not ascend from step to step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "FAN_IN", fan_in)
        patch.setattr(waiting, "NEWEST_PUSHES", fan_in)
        patch.setattr(marks, "SPARSE", sparse)
        patch.setattr(marks, "LEAST_NUMBERS", least)
        held, waits = Waiting(), dict[int, int]()
        bound = 0
        for step, (offsets, met, advance) in enumerate(steps):
            begin = 20 * (step if ascends else step ^ 1)  # the other side has numbers too
            numbers = list(range(begin, begin + len(offsets)))
            places = [bound + offset for offset in offsets]
            held.add(*rows(numbers), np.array(places, np.int64))
            waits |= dict(zip(numbers, places, strict=True))
            some = [number for number in met if number in waits]
            held.marks.mark(np.array(some, np.int64))
            for number in some:
                waits.pop(number, None)
            assert sorted(held.numbers().tolist()) == sorted(waits)
            bound += advance
            due = [number for number, place in waits.items() if place < bound]
            assert names(held.take_before(bound)) == sorted(map(str, due))
            for number in due:
                del waits[number]
        assert names(held.take_all()) == sorted(map(str, waits))
        assert held.take_all() == []


def test_marks_are_forgotten_but_those_of_watched_rows() -> None:
    """One row that is watched for ever does not keep the marks of all that came after it."""
    kept = Marks()
    for end in range(1 << 15, 1 << 23, 1 << 15):
        if not kept.has_room(end):
            kept.make_room(end, np.array([7, end - 5, end - 4]))
        kept.mark(np.array([end - 5]))
    assert kept.nbytes < 1 << 19
    assert kept.unmarked(np.array([7, 100, end - 5, end - 4]), 0, 4).tolist() == [0, 3]
    assert kept.mark_new(np.array([7, end - 4, 7, 100])).tolist() == [0, 1]
    kept.watch(np.array([2, 3, 5, end - 3]))  # they come late
    assert kept.mark_new(np.array([4, 5, 5, 3, end - 3])).tolist() == [1, 3, 4]
    assert kept.unmarked(np.array([2, 3, 4, 5, end - 2]), 0, 5).tolist() == [0, 4]
    assert kept.unmarked(np.array([2, 3, 4, 5, end - 2]), 1, 4).tolist() == []
    copied = kept.copy()
    copied.mark(np.array([end - 2, 2, 4]))
    assert copied.unmarked(np.array([end - 2, 2]), 0, 2).tolist() == []
    assert kept.unmarked(np.array([end - 2, 2]), 0, 2).tolist() == [0, 1]


def test_rows_that_have_met_somebody_are_not_held() -> None:
    """Most rows match soon; what waits is little, however long the window is."""
    held, most = Waiting(), 0
    for number in range(400):
        first = 1000 * number
        held.add(*rows(list(range(first, first + 1000))), np.arange(first, first + 1000))
        held.marks.mark(np.arange(first, first + 1000)[np.arange(1000) % 100 != 3])
        held.take_before(first - 300_000)
        most = max(most, sum(len(block.numbers) for block in held._blocks()))
    assert len(held.numbers()) <= 3010
    assert most < 100_000, "of 300,000 in the window"


def test_blocks_of_too_much_text_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.window.chunks.MOST_BYTES", 30)
    monkeypatch.setattr(waiting, "FAN_IN", 2)
    monkeypatch.setattr(waiting, "NEWEST_PUSHES", 2)
    held = Waiting()
    for number in range(20):
        held.add(*rows([number]), np.array([number]))
    assert names(held.take_before(7)) == sorted(map(str, range(7)))
    assert names(held.take_all()) == sorted(map(str, range(7, 20)))
