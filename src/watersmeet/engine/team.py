"""A join's own threads for kernels: :mod:`watersmeet.kernels.team` says how they work together.

Invariant: they belong to one join, start when it first has work for them, and never run Python until they end. After
``close`` none is left. A forked child has none of them: nothing is closed there, and a join refuses to be used.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from watersmeet.arrays import Int64s
from watersmeet.engine.threads import join_thread
from watersmeet.kernels import team as teams

__all__ = ["Team"]

shaken: int = 0
"""A number that tests set: threads of later teams then give way before each stretch, as often as follows from it."""
NAME: Final = "watersmeet member"
LEAST_ROWS: Final = 1024
"""Rows of a stretch that are worth handing over: they take some ten microseconds."""


class Team:
    """A caller and its threads, known to kernels by their ``address``."""

    def __init__(self, members: int) -> None:
        self._process = os.getpid()
        self._words = teams.new_team(members, LEAST_ROWS) if members > 1 and teams.CAN_SHARE else None
        self._threads: list[threading.Thread] = []
        self.address = teams.ALONE
        if self._words is not None:
            self.address = teams.address_of(self._words)
            teams.shake(self.address, shaken)
            self._threads = [
                threading.Thread(target=_serve, args=(self._words, number), name=f"{NAME} {number}", daemon=True)
                for number in range(1, members)
            ]

    def begin(self) -> None:
        """Start the threads, unless they have been started."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def close(self) -> None:
        """Stop all threads and wait until they have ended; jobs of later are the caller's. May be called repeatedly."""
        if os.getpid() != self._process or self._words is None:
            return
        teams.stop(self.address)
        for thread in self._threads:
            if thread.ident is not None:
                join_thread(thread)


def _serve(words: Int64s, number: int) -> None:
    teams.serve(teams.address_of(words), number)
