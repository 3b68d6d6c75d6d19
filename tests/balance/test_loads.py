"""What cores report, and how it is put together."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.balance.generation import Generation, first_generation
from watersmeet.balance.loads import (
    FADING,
    HEAVIEST,
    CoreLoad,
    GroupCounter,
    GroupLoad,
    GroupReport,
    Held,
    LoadMeter,
    Observation,
    added,
    measure_work,
)

NOTHING = GroupLoad(0, 0, 0, 0)


def test_a_core_reports_its_heaviest_groups_and_the_rest() -> None:
    counter = GroupCounter()
    counter.add("left", np.repeat(np.arange(50, dtype=np.int32), np.arange(50)))
    counter.add("right", np.array([3, 3, 60], np.int32))
    counter.add("pairs", np.array([49], np.int32))
    report = GroupReport.parse(counter.report())
    heaviest, rest = report.heaviest, report.rest
    assert heaviest[0] == GroupLoad(49, 49, 0, 1)
    assert len(heaviest) == HEAVIEST
    assert rest.group == 50 - HEAVIEST  # of 50 groups that had anything: group 0 had nothing, group 60 had
    assert sum(group.left for group in (*heaviest, rest)) == sum(range(50))
    assert sum(group.right for group in (*heaviest, rest)) == 3


def test_a_core_without_rows_reports_nothing() -> None:
    assert GroupReport.parse(GroupCounter().report()) == GroupReport((), NOTHING)


def test_the_last_micro_batches_count_most() -> None:
    meter = LoadMeter()
    meter.add(
        0,
        2.0,
        [CoreLoad(0, 100, 10, 1.0, Held(7), GroupReport((GroupLoad(5, 60, 0, 10), GroupLoad(6, 40, 0, 0)), NOTHING))],
    )
    meter.add(
        1, 1.0, [CoreLoad(0, 50, 20, 0.5, Held(9), GroupReport((GroupLoad(5, 50, 0, 20),), GroupLoad(2, 1, 1, 1)))]
    )
    observation = meter.observation(3)
    assert (observation.micro_batch, observation.oldest) == (1, 3)
    assert observation.seconds == pytest.approx(1 + 2 * FADING)
    (core,) = observation.cores
    assert core.rows == pytest.approx(50 + 100 * FADING)
    assert core.groups.heaviest == (GroupLoad(5, pytest.approx(50 + 60 * FADING), 0, pytest.approx(20 + 10 * FADING)),)
    assert core.groups.rest == GroupLoad(2, pytest.approx(1 + 40 * FADING), 1, 1)


def test_joins_that_share_tables_are_added_up_core_by_core() -> None:
    first = GroupReport((GroupLoad(5, 60, 1, 10), GroupLoad(6, 40, 0, 0)), GroupLoad(3, 3, 4, 5), copies=1)
    second = GroupReport((GroupLoad(5, 6, 2, 1), GroupLoad(9, 8, 0, 0)), GroupLoad(2, 1, 1, 1), copies=2)
    other = CoreLoad(1, 7, 0, 1.0, Held(1), GroupReport((), NOTHING))
    loads = [CoreLoad(0, 100, 10, 1.0, Held(7, 3, 4), first), other, CoreLoad(0, 50, 20, 0.5, Held(9, 4, 5), second)]
    together = GroupReport(
        (GroupLoad(5, 66, 3, 11), GroupLoad(6, 40, 0, 0), GroupLoad(9, 8, 0, 0)), GroupLoad(5, 4, 5, 6), copies=3
    )
    assert added(loads) == [CoreLoad(0, 150, 30, 1.5, Held(16, 7, 9), together), other]


def test_what_is_not_named_is_spread_over_the_other_groups() -> None:
    generation = first_generation(2, 256)
    cores = tuple(
        CoreLoad(core, 1000, 0, 1.0, Held(), GroupReport((GroupLoad(core, 400, 346, 0),), GroupLoad(127, 127, 127, 0)))
        for core in (0, 1)
    )
    work = measure_work(Observation(0, 1.0, 0, cores), generation, 2)
    assert work.left[:4].tolist() == [400, 400, 1, 1]
    assert work.right[:4].tolist() == [346, 346, 1, 1]
    assert work.of_cores(generation) == pytest.approx([1.0, 1.0])


def test_right_rows_of_a_cut_group_count_once() -> None:
    generation = Generation(1, 0, 1, ((0, 1), (1,)), (0, 1))
    cores = (
        CoreLoad(0, 30, 0, 3.0, Held(), GroupReport((GroupLoad(0, 10, 20, 0),), NOTHING)),
        CoreLoad(1, 30, 0, 3.0, Held(), GroupReport((GroupLoad(0, 10, 20, 0),), NOTHING)),
    )
    work = measure_work(Observation(0, 1.0, 1, cores), generation, 2)
    assert (work.left[0], work.right[0]) == (20, 20)
    assert work.of_part(0, 2) == pytest.approx(work.costs.row * 30)


def test_copies_of_right_rows_are_told_from_rows() -> None:
    counter = GroupCounter()
    counter.add("right", np.array([3, 3, ~5], np.int32))
    counter.add("pairs", np.array([~5, ~5], np.int32))
    report = GroupReport.parse(counter.report())
    assert report.heaviest == (GroupLoad(5, 0, 1, 2), GroupLoad(3, 0, 2, 0))
    assert report.copies == 1
    observation = Observation(0, 1.0, 0, (CoreLoad(0, 3, 2, 1.0, Held(), report),))
    assert observation.replication == pytest.approx(1.5)


def test_groups_share_what_their_core_holds_by_their_rows() -> None:
    generation = Generation(1, 0, 0, ((0,), (0, 1), (1,)), (0, 1))
    loads = (GroupLoad(0, 30, 10, 0), GroupLoad(1, 10, 30, 0)), (GroupLoad(1, 10, 30, 0), GroupLoad(2, 10, 10, 0))
    held = Held(5000, 400, 800), Held(1000, 100, 200)  # most bytes of core 0 lie there since before
    cores = tuple(CoreLoad(core, 60, 0, 1.0, held[core], GroupReport(loads[core], NOTHING)) for core in range(2))
    work = measure_work(Observation(0, 1.0, 0, cores), generation, 2)
    scale = 6000 / 1500
    assert work.left_bytes == pytest.approx(scale * np.array([300, 100 + 50, 50]))
    assert work.right_bytes == pytest.approx(scale * np.array([200, (600 + 150) / 2, 50]))
    assert work.bytes_of_cores(generation).sum() == pytest.approx(6000)
