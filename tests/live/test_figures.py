"""Figures of micro-batches: what the progress of real queries says, on Classic and on Connect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from watersmeet.live.figures import MicroBatch, read
from watersmeet.live.history import Figures

Shown = list[dict[str, Any]]


def figures_of(shown: Shown) -> Figures:
    figures = Figures()
    for progress in shown:
        figures.add(progress)
    return figures


@pytest.fixture(params=["classic", "connect"])
def shown(request: pytest.FixtureRequest) -> Shown:
    found: Shown = request.getfixturevalue(request.param)
    return found


def test_cores_add_up_to_their_join(shown: Shown) -> None:
    for batch in map(read, shown):
        join = batch.joins["near"]
        for name in ("rows_in", "pairs", "late_rows", "window_rows", "state_bytes"):
            assert sum(getattr(core, name) for core in join.cores) == getattr(join, name)
        assert sum(source.rows for source in batch.sources) == batch.rows > 0


def test_what_the_recorded_join_met_is_seen(shown: Shown) -> None:
    figures = figures_of(shown).view()
    sums, latest = figures.sums["near"], figures.latest
    assert latest is not None
    assert sums.pairs > 100_000
    assert sums.late_rows > 0
    assert sums.null_rows > 0
    assert sums.unmatched_rows == 0
    assert latest.name == "prices"
    assert latest.joins["near"].waiting_for == "right"
    assert [source.name for source in latest.sources] == [
        "FileStreamSource[file:/data/left]",
        "FileStreamSource[file:/data/right]",
    ]
    assert [source.rows > 0 for source in latest.sources] == [True, False]


def test_watermark_lag_grows_while_a_stream_has_stalled(classic: Shown) -> None:
    lags = [batch.lag for batch in map(read, classic)]
    assert lags[0] is None, "there is no watermark yet"
    known = [lag for lag in lags if lag is not None]
    # 1.2 s of window by which the query's watermark lies further back, and one micro-batch of 0.5 s
    assert known[:36] == pytest.approx([1.7] * 36, abs=0.002)
    assert known[36:] == pytest.approx([2.2 + 0.5 * step for step in range(len(known) - 36)], abs=0.002)


def test_the_hot_group_is_the_one_with_half_of_the_rows(classic: Shown) -> None:
    batches = list(map(read, classic))
    before, after = batches[8].joins["near"], batches[14].joins["near"]
    assert [group.is_hot for group in before.groups] == [True] + [False] * 7
    assert (before.groups[0].row_share, before.groups[0].cores) == (pytest.approx(0.5, abs=0.03), 1)
    assert after.groups[0].group == before.groups[0].group
    assert (after.groups[0].cores, after.groups[0].is_hot) == (4, False), "the balancer has cut it"
    assert max(batch.joins["near"].skew or 0 for batch in batches[14:30]) < max(
        batch.joins["near"].skew or 0 for batch in batches[1:12]
    )


def test_sides_hold_all_bytes_unless_load_has_just_moved(classic: Shown) -> None:
    for batch in map(read, classic):
        join = batch.joins["near"]
        held = sum(side.state_bytes for side in join.sides)
        assert join.state_bytes is not None
        assert [side.name for side in join.sides] == ["left", "right"]
        if join.sides[0].is_all:
            assert held == join.state_bytes
        else:
            assert held < join.state_bytes


def test_a_job_tells_of_its_results_and_of_what_is_unread(job: Shown) -> None:
    batches = [read(progress) for progress in job]
    assert [batch.results for batch in batches] == [batch.joins["near"].pairs for batch in batches]
    assert [batch.unread for batch in batches] == [20_000, 16_000, 12_000, 8_000, 4_000, 0, 0]
    assert (batches[-1].event_latency, batches[-1].arrival_latency) == (None, None), "it had no results"
    for progress, batch in zip(job[:-1], batches, strict=False):
        assert batch.event_latency is not None
        assert batch.arrival_latency is not None
        told = progress["observedMetrics"]["watersmeet results"]
        assert batch.event_latency.p50 == pytest.approx(batch.ended - told["event"][0] / 1e6, abs=1e-3)
        assert batch.event_latency.p95 == pytest.approx(batch.ended - told["event"][1] / 1e6, abs=1e-3)
        assert 0 < batch.arrival_latency.p50 <= batch.arrival_latency.p95 < batch.event_latency.p50
    figures = figures_of(job).view()
    assert figures.results == figures.sums["near"].pairs


@pytest.mark.parametrize("offsets", [str, json.dumps, lambda offsets: offsets], ids=["text", "JSON", "values"])
def test_unread_rows_are_read_from_every_form_of_offsets(job: Shown, offsets: Callable[[Any], Any]) -> None:
    sources = [source | {"endOffset": offsets(source["endOffset"])} for source in job[0]["sources"]]
    assert read(job[0] | {"sources": sources}).unread == 20_000


def test_without_balance_no_group_is_counted(connect: Shown) -> None:
    for batch in map(read, connect):
        assert batch.joins["near"].groups == ()
        assert [side.rows for side in batch.joins["near"].sides] in ([None, None], [])


def test_a_query_that_is_no_job_tells_neither(shown: Shown) -> None:
    for batch in map(read, shown):
        assert (batch.results, batch.event_latency, batch.arrival_latency, batch.unread) == (None,) * 4
    assert figures_of(shown).view().results is None


def test_classic_and_connect_are_read_alike(classic: Shown, connect: Shown) -> None:
    """Both had the same rows until the first join was balanced."""

    def plain(batch: MicroBatch) -> list[Any]:
        join = batch.joins["near"]
        return [batch.number, batch.rows, batch.newest, batch.watermark, join.rows_in, join.pairs, join.null_rows]

    same = range(8)
    assert [plain(read(classic[number])) for number in same] == [plain(read(connect[number])) for number in same]
