"""The proofs of outer and semi joins bite: with one rule broken, the check that the real one passes finds it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import oracle
from topologies import PREDICATES, TOPOLOGIES, WINDOWS, disturbed, expected, ids_of_kind, join_of, stream, threads_left
from watersmeet.arrays import Int64s
from watersmeet.engine.marks import Marks
from watersmeet.engine.topologies.handshake import Handshake
from watersmeet.engine.topologies.low_latency_handshake import LowLatencyHandshake
from watersmeet.engine.topologies.splitjoin import SplitJoin
from watersmeet.engine.unmatched import Unmatched
from watersmeet.window.expiry import Bounds

THREADED = {"low_latency_handshake": LowLatencyHandshake, "splitjoin": SplitJoin}


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads_left() == []


def differences(
    topology: str, how: str = "full", *, order: Any = None, flows: bool = False, values: int = 12
) -> tuple[int, int]:
    """Return how many results are missed, and how many are wrong or come too often, over several disturbed runs."""
    missed: Counter[Any] = Counter()
    extra: Counter[Any] = Counter()
    for seed in range(6):
        pushes = stream(seed, pushes=8, most_rows=20, values=values)
        options = {"topology": topology, "cores": 3, "block_rows": 2, "order": order, "how": how}
        found: Counter[Any] = Counter()
        with disturbed(seed), join_of(PREDICATES["band"], WINDOWS["time"], **options) as join:
            for left, right in pushes:
                if flows:
                    join.submit(left=left, right=right)
                    found.update(ids_of_kind(join.poll()))
                else:
                    found.update(ids_of_kind(join.push(left=left, right=right)))
            found.update(ids_of_kind(join.finish()))
        pairs = expected(PREDICATES["band"], WINDOWS["time"], pushes)
        truth = oracle.of_kind(how, pairs, WINDOWS["time"], pushes)
        missed += truth - found
        extra += found - truth
    return missed.total(), extra.total()


@pytest.mark.parametrize("flows", [False, True])
@pytest.mark.parametrize("how", ["full", "semi"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nothing_is_missed_or_given_out_twice(topology: str, how: str, flows: bool) -> None:
    assert differences(topology, how, flows=flows) == (0, 0)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_mark_that_is_forgotten_is_found_out(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(marks: Marks, numbers: Int64s) -> None:
        real(marks, numbers[1:])

    def mark_new(marks: Marks, numbers: Int64s) -> Int64s:
        return real_new(marks, numbers[1:])

    real, real_new = Marks.mark, Marks.mark_new
    monkeypatch.setattr(Marks, "mark", mark)
    monkeypatch.setattr(Marks, "mark_new", mark_new)
    missed, extra = differences(topology)
    assert missed == 0
    assert extra > 0, "rows that have met somebody come out alone too"
    missed, extra = differences(topology, "semi")
    assert missed > 0


@pytest.mark.parametrize("topology", ["kang", "panjoin", "splitjoin", "low_latency_handshake"])
def test_rows_that_are_given_out_one_moment_early_are_found_out(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:

    def decide(unmatched: Unmatched, bounds: Bounds) -> None:
        real(unmatched, {side: None if place is None else place + late for side, place in bounds.items()})

    real = Unmatched._decide
    monkeypatch.setattr(Unmatched, "_decide", decide)
    late = 0
    assert differences(topology, values=60) == (0, 0)
    late = 1
    missed, extra = differences(topology, values=60)
    assert missed == 0
    assert extra > 0


@pytest.mark.parametrize("topology", ["splitjoin", "low_latency_handshake"])
def test_deciding_while_rows_move_is_found_out(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(THREADED[topology], "is_quiet", True)
    missed, extra = differences(topology, flows=True)
    assert missed == 0
    assert extra > 0


def test_a_chain_whose_rows_have_not_met_all_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """In handshake a row may have met nobody by now though its partner has come."""
    monkeypatch.setattr(Handshake, "met_before", lambda *_: None)
    missed, extra = differences("handshake")
    assert missed == 0
    assert extra > 0


def test_pairs_that_are_held_back_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"order": "outer", "values": 60}
    assert differences("handshake", **given) == (0, 0)
    assert differences("handshake", "semi", **given) == (0, 0)
    monkeypatch.setattr(Handshake, "held_back", lambda _: [])
    assert differences("handshake", **given) != (0, 0)
