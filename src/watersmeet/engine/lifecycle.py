"""The life of a join: it is open, and then finished, closed or failed. All joins that users open have this in common.

*Turns.* Threads may share a join; it takes their calls one after the other. A call's turn is the time in which it holds
the join's lock. A call from within a turn, by a signal handler for example, would find the join in the middle of
something, so it is refused.

*Failure.* A turn first checks, and may refuse, and then calls :meth:`~Lifecycle._changing`. Any exception after that,
until the caller has the result, leaves the join *failed*: rows may be stored whose pairs no caller has got, or late
rows be forgotten. A failed join refuses all further work.

*Portions.* ``pushes`` takes rows at once and joins them when its results are asked for. Results that have not been
asked for go to the next caller that has a turn.

*Processes.* A forked child has a copy of the join, but not its threads, and cannot know who held its locks. There all
calls are refused, and closing does nothing.
"""
# ruff: noqa: SLF001 -- the decorator belongs to the class

from __future__ import annotations

import os
import textwrap
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

import pyarrow as pa

from watersmeet.engine.intake import Intake
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import Predicate, StreamName

__all__ = ["Lifecycle", "in_turn"]

LONGEST_REPR: Final = 100
"""Characters of the predicate in a join's ``repr``."""

Given = ParamSpec("Given")
Result = TypeVar("Result")
Join = TypeVar("Join", bound="Lifecycle")


@dataclass(eq=False, slots=True)
class _Turn:
    """One call; ``changes`` is set once it has begun to change the join."""

    what: str
    changes: bool = False


def in_turn(
    what: str,
) -> Callable[[Callable[Concatenate[Join, Given], Result]], Callable[Concatenate[Join, Given], Result]]:
    """Let a method of a join wait for its turn; errors call it ``what``. See the module's header."""

    def decorated(method: Callable[Concatenate[Join, Given], Result]) -> Callable[Concatenate[Join, Given], Result]:
        @wraps(method)
        def call(join: Join, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
            turn = _Turn(what)
            try:
                join._check_process(what)
                with join._lock:
                    try:
                        join._begin(turn)
                        result = method(join, *args, **kwargs)
                        join._turn = None
                        return result  # noqa: TRY300 -- exceptions while returning count too
                    except BaseException:
                        join._give_up(turn)  # before the next turn begins
                        raise
            except BaseException as error:
                join._give_up(turn)  # also if the work was done and only returning was interrupted
                if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
                    raise error.__cause__ from None  # a compiled function was called, which hides it
                raise

        return call

    return decorated


class Lifecycle:
    """A join that ends with ``close``, or with its ``with`` statement, or with an error in a push."""

    _stop: Callable[[], object]
    """Stops all threads; may be called more than once."""
    _intake: Intake
    _predicate: Predicate | None = None
    """What is joined on; None while the join is being built."""

    def __init__(self) -> None:
        self._finished = False
        self._failed = False
        self._gave_up = False
        self._lock = threading.RLock()
        self._turn: _Turn | None = None
        self._process = os.getpid()
        self._under_way: deque[Iterator[pa.Table]] = deque()

    def __repr__(self) -> str:
        """Return what kind of join this is, on what, and whether rows may still be pushed."""
        state = "failed" if self._failed else "finished" if self._finished else "open"
        on = textwrap.shorten(str(self._predicate), LONGEST_REPR, placeholder="…")
        return f"<{type(self).__name__} on {on}, {state}>"

    @property
    @in_turn("late")
    def late(self) -> dict[StreamName, pa.Table]:
        """With ``late="keep"``: each stream's late rows, as they were pushed, that :meth:`take_late` has not taken."""
        return self._intake.kept_late()

    @in_turn("take_late()")
    def take_late(self) -> dict[StreamName, pa.Table]:
        """Return each stream's late rows and forget them; a join with ``late="keep"`` holds them until then."""
        taken = self._intake.kept_late()
        self._changing()
        self._intake.forget_late()
        return taken

    def close(self) -> None:
        """Stop all threads and discard results that were not taken. A ``with`` statement closes its join at the end."""
        if os.getpid() == self._process:
            self._close()

    @in_turn("close()")
    def _close(self) -> None:
        self._finished = True
        self._gave_up = bool(self._under_way)
        self._under_way.clear()
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _portions(self) -> Iterator[pa.Table]:
        """Return an iterator over the results of all rows that ``pushes`` has taken."""
        return iter(self._next_portion, None)

    @in_turn("pushes()")
    def _next_portion(self) -> pa.Table | None:
        self._check_not_failed("pushes()")
        if self._gave_up:
            raise SpecificationError(
                "more of pushes() was asked for after close(), which gave up what was still to come",
                "asking until the iterator ends, or finish(), before close()",
                "take all tables first; a with statement closes the join at its end",
            )
        self._take_owed()
        if self._under_way:
            self._changing()
        table = self._next_under_way()
        if table is not None:
            self._hand_out(table)
        return table

    def _take_owed(self) -> None:
        """Give results that a snapshot has found to the next iterator: no caller has got them."""

    def _hand_out(self, results: pa.Table) -> None:
        """Take note that a caller gets these results."""
        raise NotImplementedError

    def _rest(self) -> list[pa.Table]:
        """Return all results of rows that ``pushes`` has taken."""
        return list(iter(self._next_under_way, None))

    def _next_under_way(self) -> pa.Table | None:
        while self._under_way:
            table = next(self._under_way[0], None)
            if table is not None:
                return table
            self._under_way.popleft()
        return None

    def _check_process(self, what: str) -> None:
        if os.getpid() != self._process:
            raise SpecificationError(
                f"{what} was called in another process (a fork, number {os.getpid()}) than the one that built the "
                f"join (number {self._process})",
                "calls in the process that built it: its threads exist there alone",
                f"build a {type(self).__name__} in the new process, or restore one there from a snapshot",
            )

    def _begin(self, turn: _Turn) -> None:
        if self._turn is not None:  # the lock lets in the thread that holds it
            raise SpecificationError(
                f"{turn.what} was called in the middle of {self._turn.what}, in the same thread",
                "calls from outside of each other, in any thread",
                "let a signal handler or finaliser take note, and make the call later",
            )
        self._turn = turn

    def _changing(self) -> None:
        """Note that the turn has made all checks and begins to change the join."""
        assert self._turn is not None, "only a call in its turn changes a join"
        self._turn.changes = True

    def _give_up(self, turn: _Turn) -> None:
        if turn.changes:
            self._failed = True
        if self._turn is turn:
            self._turn = None
        if turn.changes:
            self._stop()

    def _check_not_failed(self, what: str) -> None:
        if self._failed:
            raise SpecificationError(
                f"{what} was called after a push that failed",
                "calls before any error in a push; what the windows held is no longer certain",
                f"restore the last snapshot, or build a new {type(self).__name__}",
            )

    def _check_open(self, what: str) -> None:
        self._check_not_failed(what)
        if self._finished and what in ("push()", "pushes()", "submit()"):
            raise SpecificationError(
                f"{what} was called after finish() or close()",
                "pushes before finish()",
                f"build a new {type(self).__name__} for further rows",
            )
