"""Ctrl-C while a thread was being started: closing the join then failed, for Python does not join such a thread."""

from __future__ import annotations

import threading

import pytest

from watersmeet.engine.threads import Crew, Inbox


def test_a_thread_that_has_not_said_yet_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Crew()
    inbox: Inbox[str] = crew.hire("worker", lambda *_: None)
    inbox.put("first")
    crew.wait_until_quiet()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "worker")
    joins = iter([RuntimeError("cannot join thread before it is started"), None])
    join = thread.join

    def interrupted() -> None:
        error = next(joins)
        if error is not None:
            raise error
        join()

    monkeypatch.setattr(thread, "join", interrupted)
    crew.close()
    assert not thread.is_alive()
    assert next(joins, "done") == "done"
