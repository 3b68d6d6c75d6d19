"""Ctrl-C while a compiled function was called left ``push`` as ``SystemError``, which ``except Exception`` takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.pairing import Pairing


def test_interrupt_stays_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": [1]})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on=wm.equal("x"), window=wm.count_window(2))

    def interrupted(*_: object) -> None:
        raise SystemError("a compiled function returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(Pairing, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        join.push(left=rows)
    with pytest.raises(wm.SpecificationError, match="failed"):
        join.push(left=rows)
