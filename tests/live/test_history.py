"""The history of a query: sums, changes of balance, and what needs attention."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from watersmeet.live import history
from watersmeet.live.history import Figures
from watersmeet.live.notices import notices

Shown = list[dict[str, Any]]


def figures_of(shown: Shown) -> Figures:
    figures = Figures()
    for progress in shown:
        figures.add(progress)
    return figures


def kinds(figures: Figures, after: float = 0.0) -> list[tuple[str, str]]:
    view = figures.view()
    return [(notice.level, notice.kind) for notice in notices(view, view.heard + after)]


def test_a_micro_batch_counts_once(classic: Shown) -> None:
    once, often = figures_of(classic), figures_of([one for one in classic for _ in range(2)] + classic[:5])
    assert often.view().sums == once.view().sums
    assert often.view().micro_batches == len(classic)
    assert once.view().rows == sum(one["numInputRows"] for one in classic)


def test_progress_of_another_query_is_left_out(classic: Shown, connect: Shown) -> None:
    figures = figures_of(classic)
    before = figures.view().version
    figures.add(connect[0])
    assert figures.view().version == before


def test_the_history_is_bounded(classic: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT", 7)
    view = figures_of(classic).view()
    assert [point.batch.number for point in view.points] == list(range(37, 44))
    assert view.micro_batches == 44, "the sums have all"
    assert not any(join.cores for point in view.points for join in point.batch.joins.values())


def test_changes_of_balance_are_noted_once(classic: Shown) -> None:
    view = figures_of(classic).view()
    assert [decided.generation for decided in view.decided] == [1, 2, 3, 4, 5, 6]
    assert view.sums["near"].changes == 6
    assert "a core's fair share" in view.decided[0].reasons[0]


def test_a_hot_key_a_stalled_stream_and_late_rows_are_noticed(classic: Shown) -> None:
    assert kinds(figures_of(classic[:6])) == [("warn", "hot")]
    assert ("info", "hot") in kinds(figures_of(classic[:20])), "it is shared by now"
    assert ("warn", "late") in kinds(figures_of(classic[:20]))
    assert kinds(figures_of(classic))[0] == ("bad", "waits")


def test_a_watermark_that_stands_is_measured_from_when_it_last_moved(classic: Shown) -> None:
    assert figures_of(classic[:36]).view().unmoved == (0, 0.0)
    view = figures_of(classic).view()
    standing, seconds = view.unmoved
    assert standing == 7
    assert seconds == pytest.approx(view.points[-1].batch.ended - view.points[-8].batch.ended)


def test_a_quiet_query_and_its_end_are_noticed(connect: Shown) -> None:
    figures = figures_of(connect[:5])
    assert ("warn", "quiet") not in kinds(figures, after=20)
    assert ("warn", "quiet") in kinds(figures, after=1_000)
    figures.end("out of memory")
    figures.end()
    view = figures.view()
    assert notices(view, view.heard + 1_000)[0].text == "The query failed: out of memory"
    assert ("warn", "quiet") not in kinds(figures, after=1_000)


def test_waiting_ends_with_the_next_micro_batch(classic: Shown) -> None:
    figures = figures_of(classic[:1])
    seen = figures.view().version
    assert not figures.wait(seen, 0.01)
    threading.Timer(0.05, figures.add, [classic[1]]).start()
    assert figures.wait(seen, 10)
