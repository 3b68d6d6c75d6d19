"""A forked child that used its parent's join waited for ever for threads that only the parent has."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

SECONDS = 20


def _in_child(work: Callable[[], object]) -> str:
    """Return what ``work`` raised in a forked child, "nothing" or "it hung"."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            work()
        except BaseException as error:  # noqa: BLE001 -- whatever it is, the parent asks for it
            said = f"{type(error).__name__}: {error}"
        os.write(sink, said.encode())
        os._exit(0)
    os.close(sink)
    for _ in range(100 * SECONDS):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "it hung"
    with os.fdopen(source, "rb") as said_by_child:
        return said_by_child.read().decode()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_pushes_to_its_parents_join_is_refused() -> None:
    rows = pa.table({"x": np.arange(1000)})
    with wm.StreamJoin(
        left=rows.schema,
        right=rows.schema,
        on=wm.equal("x"),
        window=wm.count_window(10**6),
        topology="splitjoin",
        cores=2,
    ) as join:
        join.push(left=rows, right=rows)
        for call in (lambda: join.push(left=rows), join.finish, join.snapshot, join.explain, lambda: join.metrics):
            assert _in_child(call).startswith("SpecificationError: ")
        assert "another process" in _in_child(join.finish)
        assert _in_child(join.close) == "nothing"
        assert join.push(left=rows).num_rows == 1000, "the parent goes on"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_pushes_to_its_parents_join_of_many_is_refused() -> None:
    rows = pa.table({"x": np.arange(1000)})
    with wm.MultiStreamJoin(
        streams={"a": rows.schema, "b": rows.schema}, on="a.x = b.x", window=wm.count_window(10**6), cores=2
    ) as join:
        join.push(a=rows, b=rows)
        for call in (lambda: join.push(a=rows), join.finish, join.snapshot, join.explain, lambda: join.metrics):
            assert _in_child(call).startswith("SpecificationError: ")
        assert _in_child(join.close) == "nothing"
        assert join.push(a=rows).num_rows == 1000, "the parent goes on"
