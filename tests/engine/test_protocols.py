"""The proofs bite: with one rule of a protocol broken, the same check that passes for the real one finds it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from topologies import PREDICATES, WINDOWS, disturbed, expected, join_of, run, stream, threads_left
from watersmeet.engine.topologies import handshake, low_latency_handshake, splitjoin
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import KeyedBatch
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
    run(join_of(PREDICATES["band"], WINDOWS["count"], topology="handshake", cores=2, block_rows=1), stream(0, 3, 30))
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
