"""Threads that handle messages: all topologies with more than one core are built from them.

Design. A *crew* is a number of threads, each with an *inbox*. An inbox has one or more lanes, and every lane is a
bounded FIFO. A thread sleeps while its inbox is empty; a sender sleeps while the lane is full. The crew counts messages
that were put and not yet handled, including those that were put while handling one. When the count is zero, nothing
moves any more, and that is what a caller waits for.

A thread that falls behind catches up: messages that wait one behind the other are *joined* into one, if the crew is
told how. So a thread handles single messages while it keeps up, and many at a time when it does not.

Invariant: the first exception in any thread stops the whole crew and is raised in the caller. After ``close`` no thread
is left, in whatever state it was. Threads start with the first message, so a join that was only built or restored has
none.

A forked child has none of the threads, and perhaps a lock that one of them held, so there nothing is closed.

Cost. There is one lock for the crew. A message is a block of rows, so the lock is taken thousands of times a second,
not millions.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Crew", "Inbox", "join_thread"]

Message = TypeVar("Message")
Joined = Callable[[Message, Message], Message | None]

disturbance: Callable[[int], int] | None = None
"""A function that tests set. It is called with the number of lanes before a thread takes a message, may sleep, and
returns the lane to look into first."""


class _StopWorkError(Exception):
    """Ends a thread's work."""


class Inbox(Generic[Message]):
    """The messages for one thread, in lanes. Senders wait while their lane has ``capacity`` messages.

    Lanes take turns, or with ``ranked`` an earlier lane goes first.
    """

    def __init__(
        self, crew: Crew, lanes: int, capacity: int, joined: Joined[Message] | None, *, ranked: bool = False
    ) -> None:
        self._crew = crew
        self._joined = joined
        self._lanes: list[deque[Message]] = [deque() for _ in range(lanes)]
        self._capacity = capacity
        self._filled = threading.Condition(crew.lock)
        self._emptied = threading.Condition(crew.lock)
        self._first = 0
        self._ranked = ranked

    def put(self, message: Message, lane: int = 0) -> None:
        """Add a message to a lane; wait while the lane is full."""
        with self._crew.lock:
            while len(self._lanes[lane]) >= self._capacity and not self._crew.stopped:
                self._emptied.wait()
            self._add(message, lane)

    def put_at_once(self, message: Message, lane: int = 0) -> None:
        """Add a message without waiting, for senders whose protocol bounds the number of their messages."""
        with self._crew.lock:
            self._add(message, lane)

    def offer(self, message: Message, lane: int = 0) -> bool:
        """Add a message if its lane has room; tell whether it was added."""
        with self._crew.lock:
            if len(self._lanes[lane]) >= self._capacity:
                return False
            self._add(message, lane)
            return True

    def _add(self, message: Message, lane: int) -> None:
        self._crew.count_one_more()
        self._lanes[lane].append(message)
        self._filled.notify()

    def take(self) -> tuple[int, Message]:
        """Wait for a message; return its lane and the message, joined with those behind it."""
        first = None if disturbance is None else disturbance(len(self._lanes))
        with self._crew.lock:
            while not any(self._lanes) and not self._crew.stopped:
                self._filled.wait()
            if self._crew.stopped:
                raise _StopWorkError
            lane = self._first if first is None else first
            while not self._lanes[lane]:
                lane = (lane + 1) % len(self._lanes)
            self._first = 0 if self._ranked else (lane + 1) % len(self._lanes)
            return lane, self._taken_from(self._lanes[lane])

    def _taken_from(self, waiting: deque[Message]) -> Message:
        message = waiting.popleft()
        self._emptied.notify()
        while self._joined is not None and waiting and (longer := self._joined(message, waiting[0])) is not None:
            message = longer
            waiting.popleft()
            self._emptied.notify()
            self._crew.count_one_less()
        return message

    def wake(self) -> None:
        """Wake all threads that wait for this inbox (the caller holds the lock)."""
        self._filled.notify_all()
        self._emptied.notify_all()


def join_thread(thread: threading.Thread) -> None:
    """Wait until a thread has ended, also one whose start was interrupted before it was marked as started."""
    while True:
        try:
            thread.join()
        except RuntimeError:
            time.sleep(0.001)
        else:
            return


class Crew:
    """Threads, the number of their unhandled messages, and their first error."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stopped = False
        self._process = os.getpid()
        self._quiet = threading.Condition(self.lock)
        self._under_way = 0
        self._error: BaseException | None = None
        self._inboxes: list[Inbox[object]] = []
        self._threads: list[threading.Thread] = []

    def hire(
        self,
        name: str,
        handle: Callable[[int, Message], None],
        *,
        lanes: int = 1,
        capacity: int = 64,
        ranked: bool = False,
        joined: Joined[Message] | None = None,
    ) -> Inbox[Message]:
        """Add a thread that calls ``handle(lane, message)`` for every message; return its inbox.

        ``joined`` returns one message for two successive ones, or None if there is none. It must be quick.
        """
        inbox: Inbox[Message] = Inbox(self, lanes, capacity, joined, ranked=ranked)
        self._inboxes.append(inbox)  # type: ignore[arg-type] # only to wake them
        self._threads.append(threading.Thread(target=self._work, args=(name, inbox, handle), name=name, daemon=True))
        return inbox

    def count_one_more(self) -> None:
        """Count a message that is put (the caller holds the lock); the first one starts the threads."""
        if self.stopped:
            self._raise_error()
            raise _StopWorkError
        if self._under_way == 0 and self._threads[0].ident is None:
            for thread in self._threads:
                thread.start()
        self._under_way += 1

    def count_one_less(self) -> None:
        """Count a message that was handled (the caller holds the lock)."""
        self._under_way -= 1
        if not self._under_way:
            self._quiet.notify_all()

    def wait_until_quiet(self) -> None:
        """Wait until every message has been handled; raise the first error of any thread."""
        self.rest()
        self.check()

    def rest(self) -> None:
        """Wait until every message has been handled, or the threads have been stopped."""
        with self.lock:
            while self._under_way and not self.stopped:
                self._quiet.wait()

    def check(self) -> None:
        """Raise the first error of any thread."""
        with self.lock:
            self._raise_error()

    @property
    def is_quiet(self) -> bool:
        """Whether every message has been handled."""
        with self.lock:
            return not self._under_way

    def close(self) -> None:
        """Stop all threads and wait until they have ended. May be called at any time, and more than once."""
        if os.getpid() != self._process:
            return
        with self.lock:
            self._stop()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                join_thread(thread)

    def _work(self, name: str, inbox: Inbox[Message], handle: Callable[[int, Message], None]) -> None:
        try:
            while True:
                handle(*inbox.take())
                with self.lock:
                    self.count_one_less()
        except _StopWorkError:
            return
        except BaseException as error:  # noqa: BLE001 -- it is raised again, in the caller's thread
            error.add_note(f"raised in {name}")
            with self.lock:
                self._error = self._error or error
                self._stop()

    def _stop(self) -> None:
        self.stopped = True
        self._quiet.notify_all()
        for inbox in self._inboxes:
            inbox.wake()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
