"""A child that was forked while a thread pushed, and built a join of its own, waited for ever.

What rows take part was a cached property. Python 3.11 computes such a one under a lock that all objects share.
"""

from __future__ import annotations

import os
import signal
import threading

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.window import admission

ROWS = pa.table({"x": [1, 2]})


def count() -> int:
    join = wm.StreamJoin(left=ROWS.schema, right=ROWS.schema, on=wm.equal("x"), window=wm.count_window(9))
    return int(join.push(left=ROWS, right=ROWS).num_rows)


def test_child_joins_while_its_parent_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count() == 2, "what is compiled is compiled here"
    begun, forked = threading.Event(), threading.Event()
    real = admission.np.ones

    def slow(*args: object, **kwargs: object) -> object:
        if threading.current_thread() is pushing:
            begun.set()
            forked.wait(60)
        return real(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(admission.np, "ones", slow)
    pushing = threading.Thread(target=count)
    pushing.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if count() == 2 else 1)
    forked.set()
    pushing.join()
    assert os.waitpid(child, 0)[1] == 0
