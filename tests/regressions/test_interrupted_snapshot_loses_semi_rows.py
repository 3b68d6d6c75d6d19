"""Ctrl-C in a ``snapshot`` left rows marked as returned that nobody had got, and the join lost them without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine import pairing

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])
PUSHES = 30


def _interrupted(*_: object) -> list[object]:
    raise KeyboardInterrupt


def _rows(how: str, monkeypatch: pytest.MonkeyPatch, *, interrupt: bool) -> int:
    """Return how many rows come of pushes to a join in which some always have not met yet."""
    dice = np.random.default_rng(1)
    found: list[int] = []
    options: dict[str, Any] = {"topology": "handshake", "cores": 3, "block_rows": 1, "how": how}
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("x"), window=wm.count_window(60), **options)
    for number in range(PUSHES):
        left, right = (
            pa.table({"id": np.arange(3) + 100 * number, "x": dice.integers(0, 50, 3)}, schema=SCHEMA) for _ in range(2)
        )
        found.append(join.push(left=left, right=right).num_rows)
        if interrupt and number == PUSHES - 5:
            with monkeypatch.context() as patch:
                patch.setattr(pairing, "without_numbers", _interrupted)
                with pytest.raises(KeyboardInterrupt):
                    join.snapshot()
    return sum(found) + len(join.finish())


@pytest.mark.parametrize("how", ["semi", "anti", "full"])
def test_an_interrupted_snapshot_changes_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _rows(how, monkeypatch, interrupt=True) == _rows(how, monkeypatch, interrupt=False)
