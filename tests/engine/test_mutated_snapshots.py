"""Snapshots that were changed and got a digest that fits: refused by our own error, or joins that go on as they should.

``mutated_snapshots.py`` says what is changed and what must hold. It runs in processes of its own, which a read out of
bounds would end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import mutated_snapshots

SEED = 20_261_116
MOST_MIB = 1024
"""A join whose window was made longer reserves more at once. Lengths of buffers would ask for much more."""


def try_mutations(first: int, count: int) -> dict[str, int]:
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", mutated_snapshots.__file__, *map(str, (SEED, first, count))],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
        check=False,
    )
    *lines, last = run.stdout.splitlines() or [""]
    assert run.returncode == 0, f"{last or lines[-1:]} ended with {run.returncode}:\n{run.stderr[-3000:]}"
    summary = json.loads(last)
    assert summary["grown_mib"] < MOST_MIB
    outcomes: dict[str, int] = summary["outcomes"]
    assert sum(outcomes.values()) == count
    assert set(outcomes) == {"refused", "another", "as before"}
    return outcomes


def test_some_hundred_mutations() -> None:
    assert min(try_mutations(0, 400).values()) > 10


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 20_000, 2_500))
def test_twenty_thousand_mutations(first: int) -> None:
    assert min(try_mutations(first, 2_500).values()) > 100
