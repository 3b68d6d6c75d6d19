"""All kinds of joins of streams that pause, with late rows kept: each result once and in its push, late rows apart."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from pausing_streams import ON, WINDOWS, late_rows, pausing_streams, timetable, watermarks
from topologies import TOPOLOGIES, disturbed, ids_of_kind, join_of, small_windows
from watersmeet.spec.kinds import How

KINDS = get_args(How)


@given(
    pushes=pausing_streams(),
    how=st.sampled_from(KINDS),
    on=st.sampled_from(sorted(ON)),
    window=st.sampled_from(sorted(WINDOWS)),
    order=st.sampled_from([None, "outer", "inner"]),
    cores=st.integers(1, 3),
    block_rows=st.sampled_from([1, 3, 100]),
    seed=st.integers(0, 1000),
)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_each_result_comes_with_its_push_and_late_rows_apart(
    topology: str, how: str, pushes: list[Any], on: str, window: str, seed: int, **given: Any
) -> None:
    """Neither sooner nor later; in ``handshake``, where rows meet as they move, no sooner. Restarts change nothing."""
    dice, came, late = random.Random(seed), dict[Any, int](), Counter[tuple[str, int]]()
    known = ON[on], WINDOWS[window], pushes

    def take(results: Any, number: int) -> None:
        for result in ids_of_kind(results):
            assert result not in came, "each result once"
            came[result] = number

    with small_windows(), disturbed(seed):
        join = join_of(*known[:2], how=how, topology=topology, late="keep", **given)
        for number, (left, right) in enumerate(pushes):
            if dice.random() < 0.5:
                take(join.push(left=left, right=right), number)
            else:
                for some in join.pushes(left=left, right=right):
                    take(some, number)
            if dice.random() < 0.5:
                late.update((side, each) for side, rows in join.take_late().items() for each in rows["id"].to_pylist())
            if dice.random() < 0.2:
                saved = join.snapshot()
                join.close()
                join = wm.StreamJoin.restore(saved, topology=topology)
        take(join.finish(), len(pushes))
    late.update((side, each) for side, rows in join.take_late().items() for each in rows["id"].to_pylist())
    due = timetable(how, *known, watermarks(*known[1:]))
    assert late == late_rows(*known[1:])
    if topology == "handshake":
        assert came.keys() == due.keys()
        assert all(came[result] >= number for result, number in due.items())
    else:
        assert came == due
