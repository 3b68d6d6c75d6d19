"""The proofs bite: with one rule of a protocol broken, the same check that passes for the real one finds it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from topologies import (
    PREDICATES,
    SCHEMA,
    WINDOWS,
    disturbed,
    expected,
    ids,
    join_of,
    run,
    small_windows,
    stream,
    threads_left,
)
from watersmeet.engine.topologies import gathering, handshake, low_latency_handshake, splitjoin
from watersmeet.engine.topologies.punctuation import Run
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Departed
from watersmeet.window.stream_window import Match

SEEDS = range(6)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads_left() == []


def differences(topology: str) -> tuple[int, int]:
    """Return how many pairs are missed, and how many found too often, over several disturbed runs."""
    missed: Counter[tuple[int, int]] = Counter()
    extra: Counter[tuple[int, int]] = Counter()
    on = PREDICATES["band"]
    for seed in SEEDS:
        pushes = stream(seed, pushes=3, most_rows=30, values=4)
        with disturbed(seed):
            found = run(join_of(on, WINDOWS["time"], topology=topology, cores=4, block_rows=1), pushes)
        truth = expected(on, WINDOWS["time"], pushes)
        missed += truth - found
        extra += found - truth
    return missed.total(), extra.total()


@pytest.mark.parametrize("topology", ["handshake", "low_latency_handshake", "splitjoin"])
def test_nothing_is_missed_or_found_twice(topology: str) -> None:
    assert differences(topology) == (0, 0)


class WithoutAcknowledgements(handshake.HandshakeCore):
    """Forgets a block as soon as it is sent."""

    def _forward(self, side: StreamName, block: KeyedBatch) -> None:
        super()._forward(side, block)
        super()._acknowledged(side)

    def _acknowledged(self, side: StreamName) -> None:
        """Take no notice."""


def test_handshake_without_acknowledgements_misses_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HandshakeCore", WithoutAcknowledgements)
    missed, _ = differences("handshake")
    assert missed > 0


def test_handshake_sends_blocks_on_before_it_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next core waits for this one's comparisons, and the one behind it for both."""
    too_many: list[int] = []

    class LooksBeforeItCompares(handshake.HandshakeCore):
        def partners(self, batch: KeyedBatch, passed_over: int = 0) -> list[Match]:
            side = batch.side
            unsent = list(self.stretches[side].blocks)[self._sent[side] :]
            may_send = self.next[side] is not None and self._sent[side] < handshake.UNACKNOWLEDGED
            if unsent and may_send:
                too_many.append(len(batch) + sum(map(len, unsent)) - self._share[side])
            return super().partners(batch, passed_over)

    monkeypatch.setattr(handshake, "HandshakeCore", LooksBeforeItCompares)
    for seed in range(12):  # in one of five runs threads take such turns that there is nothing to look at
        rows = stream(seed, 3, 30)
        run(join_of(PREDICATES["band"], WINDOWS["count"], topology="handshake", cores=2, block_rows=1), rows)
    assert too_many
    assert max(too_many) <= 0


class WithAcknowledgementsOvertaking(handshake.HandshakeCore):
    """Sends acknowledgements in the lane that has nothing else: blocks no longer keep their place between them."""

    def _send(self, direction: StreamName, message: handshake.Message) -> None:
        neighbour = self.next[direction]
        if isinstance(message, handshake.Acknowledgement) and neighbour is not None:
            neighbour.put_at_once(message, 1 - handshake.LANE[direction])
        else:
            super()._send(direction, message)


def test_acknowledgements_outside_the_fifo_of_blocks_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HandshakeCore", WithAcknowledgementsOvertaking)
    assert differences("handshake") != (0, 0)


class WithCrossingBlocksFoundByBoth(handshake.HandshakeCore):
    """Lets a right block find the left ones that cross it."""

    def partners(self, batch: KeyedBatch, passed_over: int = 0) -> list[Match]:  # noqa: ARG002
        return super().partners(batch)


def test_blocks_that_cross_must_not_both_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HandshakeCore", WithCrossingBlocksFoundByBoth)
    missed, extra = differences("handshake")
    assert missed == 0
    assert extra > 0


class WithoutFreshTupleRule(low_latency_handshake.LowLatencyCore):
    """Lets every left row, not only those at home, look into the fresh right rows that have passed."""

    def handle(self, lane: int, message: low_latency_handshake.Message) -> None:
        if isinstance(message, low_latency_handshake.Fresh) and message.batch.side == "left":
            self.found += self._layout.gather(message.batch, list(self._passed.probe(message.batch)))
        super().handle(lane, message)


def test_low_latency_handshake_without_the_fresh_tuple_rule_finds_pairs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_latency_handshake, "LowLatencyCore", WithoutFreshTupleRule)
    missed, extra = differences("low_latency_handshake")
    assert missed == 0
    assert extra > 0


class WithoutRememberingPassed(low_latency_handshake.LowLatencyCore):
    """Does not let left rows look into the right rows that passed before them."""

    def _meet_passed(self, home: KeyedBatch) -> list[Match]:
        super()._meet_passed(home)
        return []


def test_low_latency_handshake_without_the_rows_that_passed_misses_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_latency_handshake, "LowLatencyCore", WithoutRememberingPassed)
    missed, extra = differences("low_latency_handshake")
    assert missed > 0
    assert extra == 0


def test_splitjoin_that_stores_on_two_cores_finds_pairs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def share(batch: KeyedBatch, counted: int, core: int, cores: int) -> KeyedBatch:
        return share_of(batch, counted + (core == 1), core, cores)

    share_of = splitjoin.share_of
    monkeypatch.setattr(splitjoin, "share_of", share)  # core 1 takes core 0's turn
    missed, extra = differences("splitjoin")
    assert missed > 0
    assert extra > 0


# --- SplitJoin: stars, and expiry by each core ------------------------------------------------------------------------


def disorder(order: Any, values: int = 4) -> tuple[int, int]:
    """Return how many pairs are missed or found too often, and how many stand behind one that should come later."""
    both = []
    for seed in SEEDS:
        pushes = stream(seed, pushes=3, most_rows=30, values=values)
        join = join_of(PREDICATES["band"], WINDOWS["time"], topology="splitjoin", cores=3, block_rows=8, order=order)
        found = []
        with disturbed(seed):
            for left, right in pushes:
                join.submit(left=left, right=right)
                found += ids(join.poll())
            found += ids(join.finish())
        both.append(wrong_and_behind(found, pushes, order))
    wrong, behind = np.sum(both, axis=0).tolist()
    return wrong, behind


def wrong_and_behind(found: list[tuple[int, int]], pushes: list[Any], order: Any) -> tuple[int, int]:
    truth = expected(PREDICATES["band"], WINDOWS["time"], pushes)
    arrived = [{}, {}]  # type: list[dict[int, int]]
    for push in pushes:
        for side, table in enumerate(push):
            for number in [] if table is None else table["id"].to_pylist():
                arrived[side][number] = len(arrived[0]) + len(arrived[1])
    moments = [sorted((arrived[0][a], arrived[1][b]), reverse=True) for a, b in found]
    keys = moments if order == "inner" else [moment[:1] for moment in moments]
    wrong = ((truth - Counter(found)) + (Counter(found) - truth)).total()
    return wrong, sum(one > two for one, two in pairwise(keys))


@pytest.mark.parametrize("order", ["outer", "inner"])
def test_stars_keep_results_in_order(order: str) -> None:
    assert disorder(order) == (0, 0)


# --- handshake join: punctuations -------------------------------------------------------------------------------------


class CountingPunctuationsTooEarly(handshake.HandshakeCore):
    """Does not let a right punctuation wait for the left blocks that it crosses."""

    def must_arrive(self, side: StreamName) -> int:
        super().must_arrive(side)
        return 0


class SendingPunctuationsTooEarly(handshake.HandshakeCore):
    """Sends punctuations on at once: they overtake the blocks that they follow."""

    def _ahead(self, side: StreamName) -> int:
        super()._ahead(side)
        return 0


def punctuated_disorder(order: str) -> Iterator[tuple[int, int]]:
    """Yield the same for handshake join, of several runs in which left blocks that cross right ones arrive late."""
    for seed in range(12):
        pushes = stream(seed, pushes=8, most_rows=12, values=4)
        options = {"topology": "handshake", "cores": 2, "block_rows": 1, "order": order}
        with (
            pytest.MonkeyPatch.context() as patch,
            join_of(PREDICATES["band"], WINDOWS["time"], **options) as join,
            disturbed(seed, first_lane=handshake.LANE["right"]),
        ):
            patch.setattr(handshake, "BLOCKS_PER_PUNCTUATION", 1)
            found = []
            for left, right in pushes:
                join.submit(left=left, right=right)
                while not join._topology._crew.is_quiet:  # type: ignore[attr-defined] # that of the chain
                    found += ids(join.poll())
            found += ids(join.finish())
        yield wrong_and_behind(found, pushes, order)


@pytest.mark.parametrize("order", ["outer", "inner"])
def test_punctuations_keep_results_in_order(order: str) -> None:
    assert set(islice(punctuated_disorder(order), 3)) == {(0, 0)}


@pytest.mark.parametrize("core", [CountingPunctuationsTooEarly, SendingPunctuationsTooEarly])
def test_a_punctuation_that_is_too_early_is_found_out(
    core: type[handshake.HandshakeCore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "HandshakeCore", core)
    seen = []
    for wrong, behind in punctuated_disorder("outer"):
        seen.append(behind)
        assert wrong == 0
        if behind:
            break
    assert seen[-1] > 0


# --- SplitJoin: stars and mergers -------------------------------------------------------------------------------------


def without_star(run: Run, star: int) -> Run:
    """Lose a star on the way; the results before it are before the next one then."""
    return replace(run, **{name: np.delete(getattr(run, name), star) for name in ("ends", "outer", "inner", "of_left")})


class LosingAStar(splitjoin.JoinCore):
    """Loses the first of several stars in a message, on one core."""

    def punctuated(self, *given: Any) -> Run:
        run = super().punctuated(*given)
        return without_star(run, 0) if self.number == 1 and len(run.ends) > 1 else run


class SendingAStarTooEarly(splitjoin.JoinCore):
    """Sends every star but a message's last before the result that it should follow, on one core."""

    def punctuated(self, *given: Any) -> Run:
        run = super().punctuated(*given)
        if self.number == 1 and len(run.ends) > 1:
            sizes = np.diff(run.ends, prepend=0)
            return replace(run, ends=run.ends - (np.arange(len(run.ends)) < len(run.ends) - 1) * (sizes > 0))
        return run


class KeepingALastStarToItself(splitjoin.JoinCore):
    """Does not say that it is done where it has found nothing, on one core."""

    def handle(self, lane: int, block: Any) -> None:
        hand_on = self.hand_on
        if self.number == 1:
            self.hand_on = lambda run: hand_on(run) if len(run.place) else None
        super().handle(lane, block)
        self.hand_on = hand_on


@pytest.mark.parametrize("order", ["outer", "inner"])
@pytest.mark.parametrize("core", [LosingAStar, SendingAStarTooEarly])
def test_a_star_that_is_lost_or_too_early_is_found_out(
    core: type[splitjoin.JoinCore], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitjoin, "JoinCore", core)
    wrong, behind = disorder(order)
    assert wrong == 0
    assert behind > 0


def test_a_last_star_that_is_kept_back_keeps_results_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitjoin, "JoinCore", KeepingALastStarToItself)
    wrong, behind = disorder("outer", values=300)
    assert wrong > 0
    assert behind == 0


class ReleasingWithoutWaiting(gathering.Merger):
    """Hands on what one input has completed, whatever the others have."""

    def handle(self, lane: int, run: Run) -> None:
        self._complete = [run.complete] * len(self._complete)
        super().handle(lane, run)
        self._handed_on = -1


def test_a_merger_that_does_not_wait_for_all_stars_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "Merger", ReleasingWithoutWaiting)
    wrong, behind = disorder("outer")
    assert wrong == 0
    assert behind > 0


class ExpiringByRowsOfTheSamePart(splitjoin.JoinCore):
    """Takes what has been seen for what has been reached, in the middle of a part, whose rows come in any order."""

    def _expire(self, block: Any) -> None:
        self.seen.begin()
        super()._expire(block)


class ExpiringOneStepTooEarly(splitjoin.JoinCore):
    """Drops the row that only just can be met."""

    def drop(self, side: StreamName, before: int | None) -> list[Departed]:
        return super().drop(side, None if before is None else before + 1)


@cache
def jumbled(seed: int) -> list[tuple[pa.Table, pa.Table]]:
    """Return pushes that span more than the window, their rows in any order."""
    dice = np.random.default_rng(seed)
    return [
        tuple(
            pa.table(
                {
                    "id": 1000 * number + np.arange(40),
                    "ts": pa.array((8 * number + dice.integers(0, 12, 40)) * 1_000_000, pa.timestamp("us")),
                    "x": dice.integers(0, 3, 40),
                    "k": dice.integers(0, 2, 40),
                },
                schema=SCHEMA,
            )
            for _ in range(2)
        )
        for number in range(5)
    ]  # type: ignore[misc] # two


def lost_by_expiry(window: str) -> tuple[int, int]:
    missed: Counter[tuple[int, int]] = Counter()
    extra: Counter[tuple[int, int]] = Counter()
    on = PREDICATES["band"]
    for seed in SEEDS[:3]:
        pushes = jumbled(seed)
        with small_windows(), pytest.MonkeyPatch.context() as patch:
            patch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 1)
            patch.setattr("watersmeet.window.creation.SEGMENTS_PER_WINDOW", 10**9)  # every insertion is one
            patch.setattr(splitjoin.SplitJoin, "_joined", lambda *_: None)
            found = run(join_of(on, WINDOWS[window], topology="splitjoin", cores=4, block_rows=2), pushes)
        truth = expected(on, WINDOWS[window], pushes)
        missed += truth - found
        extra += found - truth
    return missed.total(), extra.total()


@pytest.mark.parametrize("window", WINDOWS)
def test_cores_expire_no_row_that_can_still_be_met(window: str) -> None:
    assert lost_by_expiry(window) == (0, 0)


@pytest.mark.parametrize("core", [ExpiringByRowsOfTheSamePart, ExpiringOneStepTooEarly])
@pytest.mark.parametrize("window", ["time", "count, two lengths, ordered"])
def test_expiring_too_early_is_found_out(
    window: str, core: type[splitjoin.JoinCore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitjoin, "JoinCore", core)
    missed, extra = lost_by_expiry(window)
    assert missed > 0
    assert extra == 0
