"""Ctrl-C while the pairs of a push were put together: its rows were stored, its pairs gone, and the join went on."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine import stream_join
from watersmeet.engine.multiway import multi_stream_join


def _interrupted(*_: object, **__: object) -> pa.Table:
    raise KeyboardInterrupt


def test_a_join_of_two_streams_says_that_it_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": [1]})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on=wm.equal("x"), window=wm.count_window(10))
    with monkeypatch.context() as patch:
        patch.setattr(stream_join.pa, "concat_tables", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            join.push(left=rows, right=rows)
    for call in (join.push, join.snapshot, join.finish):
        with pytest.raises(wm.SpecificationError, match="after a push that failed"):
            call()


def test_a_join_of_many_streams_says_that_it_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": [1]})
    join = wm.MultiStreamJoin(streams={"a": rows.schema, "b": rows.schema}, on="a.x = b.x", window=wm.count_window(10))
    with monkeypatch.context() as patch:
        patch.setattr(multi_stream_join.pa, "concat_tables", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            join.push(a=rows, b=rows)
    for call in (join.push, join.snapshot, join.finish):
        with pytest.raises(wm.SpecificationError, match="after a push that failed"):
            call()
