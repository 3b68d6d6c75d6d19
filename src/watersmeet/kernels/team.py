"""A team: threads that carry out one compiled function together, and hold no interpreter lock while they do.

Design. A *job* is a function, the address of its arguments, and a number of *stretches*. Whoever is free takes the next
stretch and calls the function with it: the caller, and threads that live in :func:`serve`, which is compiled and does
not return between jobs. All that they share is a block of words, the *team*, which everybody knows by its address. So a
job costs no thread its turn in the interpreter, and a team of one costs nothing at all: the caller does everything.

One word, the *ticket*, has the job's number and how many of its stretches nobody has taken yet. To take one is to count
it down as one step. So who looks late at a job that is done takes nothing, and who has taken a stretch knows that the
job's other words do not change before it has said that the stretch is done.

A thread that finds nothing to do looks again for some microseconds and then sleeps until it is called, each on a
condition of its own, so that those who wake up do not wait for each other. ``asleep`` is set before a last look at the
ticket, and the ticket is written before ``asleep`` is read: nobody sleeps through a job.

Invariant: what a job writes must not depend on who takes which stretch, or when. Jobs raise nothing.

Cost. About a microsecond for each thread that must be woken, and less than one for a job to those that are awake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.core.typing import signature

from watersmeet.arrays import Int64s
from watersmeet.kernels.atomic import add, call, exchange_if, load, relax, store
from watersmeet.kernels.compile import kernel

__all__ = ["ALONE", "CAN_SHARE", "address_of", "hold", "job", "new_team", "run", "serve", "shake", "stop", "stretches"]

ALONE: Final = 0
"""The team of a caller without threads."""
CAN_SHARE: Final = sys.platform != "win32" and not numba.config.DISABLE_JIT
"""Whether there can be threads: they sleep by POSIX."""

LINE: Final = 64
TICKET: Final = 0
DONE: Final = LINE
JOB: Final = 2 * LINE
ARGUMENTS: Final = JOB + 8
STRETCHES: Final = JOB + 16
STOPPED: Final = 3 * LINE
MEMBERS: Final = STOPPED + 8
SHAKEN: Final = STOPPED + 16
LEAST: Final = STOPPED + 24
BUSY: Final = 4 * LINE
FIRST: Final = 5 * LINE
"""Where things stand in a team, in bytes; what different threads write lies on different lines."""
ASLEEP: Final = 0
MUTEX: Final = LINE
CONDITION: Final = 3 * LINE
MEMBER: Final = 5 * LINE
"""Where things stand for each member, the caller first. POSIX's types have less than two lines everywhere."""
LEFT: Final = (1 << 32) - 1
LOOKS: Final = 1500
"""How often a thread looks for work before it sleeps: some tens of microseconds."""
STRETCHES_PER_MEMBER: Final = 4
"""So that a member that is held up takes fewer."""


def _nothing(*words: int) -> int:  # noqa: ARG001 -- it stands for any function of words
    return 0


def _posix(name: str, words: int) -> Callable[..., int]:
    if not CAN_SHARE:
        return kernel(_nothing)
    function: Callable[..., int] = types.ExternalFunction(name, signature(types.int32, *[types.int64] * words))
    return function


pthread_mutex_init = _posix("pthread_mutex_init", 2)
pthread_mutex_lock = _posix("pthread_mutex_lock", 1)
pthread_mutex_unlock = _posix("pthread_mutex_unlock", 1)
pthread_cond_init = _posix("pthread_cond_init", 2)
pthread_cond_wait = _posix("pthread_cond_wait", 2)
pthread_cond_signal = _posix("pthread_cond_signal", 1)
sched_yield = _posix("sched_yield", 0)


# --- jobs ------------------------------------------------------------------------------------------------------------


def job(function: Callable[[int, int], None]) -> Callable[[], int]:
    """Make a job of a function of the arguments' address and a stretch's number; return what gives the job's address.

    It is compiled when that is first asked for.
    """

    @cache
    def address() -> int:
        if numba.config.DISABLE_JIT:
            return function  # type: ignore[return-value] # what watersmeet.kernels.atomic.call calls then
        kind = types.void(types.int64, types.int64)
        try:
            compiled = numba.cfunc(kind, cache=True, error_model="numpy")(function)
        except RuntimeError:  # as in watersmeet.kernels.compile
            compiled = numba.cfunc(kind, error_model="numpy")(function)
        return int(compiled.address)

    return address


@kernel
def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's first value."""
    return int(array.ctypes.data)


@kernel
def stretches(team: int, rows: int) -> int:
    """Return into how many stretches a team cuts so many rows."""
    if team == ALONE:
        return 1
    members = load(team + MEMBERS)
    return 1 if members == 1 else max(1, min(members * STRETCHES_PER_MEMBER, rows // load(team + LEAST)))


@kernel
def _wake(member: int) -> None:
    if load(member + ASLEEP) != 0:
        pthread_mutex_lock(member + MUTEX)
        pthread_cond_signal(member + CONDITION)
        pthread_mutex_unlock(member + MUTEX)


@kernel
def _work(team: int) -> None:
    """Take stretches until none is left."""
    while True:
        ticket = load(team + TICKET)
        left = ticket & LEFT
        if left == 0:
            return
        if not exchange_if(team + TICKET, ticket, ticket - 1):
            continue
        count = load(team + STRETCHES)
        if load(team + SHAKEN) != 0:
            for _ in range((ticket * 2654435761 + load(team + SHAKEN) * left) >> 7 & 31):
                sched_yield()
        call(load(team + JOB), load(team + ARGUMENTS), count - left)
        if add(team + DONE, 1) + 1 == count:
            _wake(team + FIRST)


@kernel
def hold(arrays: tuple[npt.NDArray[Any], ...]) -> None:
    """Do nothing: arrays of which a job knows the address must be named behind it, or they are freed before."""


@kernel
def run(team: int, function: int, given: Int64s, count: int) -> None:
    """Carry out all stretches of a job with the given words; return when they are done.

    A caller who finds the team busy works alone.
    """
    arguments = address_of(given)
    if count < 2 or team == ALONE or not exchange_if(team + BUSY, 0, 1):
        for number in range(count):
            call(function, arguments, number)
        return
    store(team + JOB, function)
    store(team + ARGUMENTS, arguments)
    store(team + STRETCHES, count)
    store(team + DONE, 0)
    store(team + TICKET, ((load(team + TICKET) & ~LEFT) + (LEFT + 1)) | count)
    members = load(team + MEMBERS)
    for number in range(1, min(members, count)):
        _wake(team + FIRST + number * MEMBER)
    _work(team)
    looks = 0
    while load(team + DONE) != count:
        looks += 1
        if looks < LOOKS:
            relax()
            continue
        own = team + FIRST
        pthread_mutex_lock(own + MUTEX)
        store(own + ASLEEP, 1)
        while load(team + DONE) != count:
            pthread_cond_wait(own + CONDITION, own + MUTEX)
        store(own + ASLEEP, 0)
        pthread_mutex_unlock(own + MUTEX)
    store(team + BUSY, 0)


# --- members ---------------------------------------------------------------------------------------------------------


@kernel
def _begin(team: int, members: int, least_rows: int) -> None:
    for number in range(members):
        own = team + FIRST + number * MEMBER
        pthread_mutex_init(own + MUTEX, 0)
        pthread_cond_init(own + CONDITION, 0)
    store(team + LEAST, least_rows)
    store(team + MEMBERS, members)


def new_team(members: int, least_rows: int) -> Int64s:
    """Return the words of a team of so many members, the caller counted. It is known by their address.

    Stretches of fewer than ``least_rows`` are not worth handing over.
    """
    words = np.zeros((LINE + FIRST + members * MEMBER) // 8, np.int64)
    words = words[(-words.ctypes.data % LINE) // 8 :]
    _begin(words.ctypes.data, members, least_rows)
    return words


@kernel
def serve(team: int, number: int) -> None:
    """Be a member until the team is stopped."""
    own = team + FIRST + number * MEMBER
    looks = 0
    while load(team + STOPPED) == 0:
        if load(team + TICKET) & LEFT != 0:
            _work(team)
            looks = 0
        elif looks < LOOKS:
            looks += 1
            relax()
        else:
            pthread_mutex_lock(own + MUTEX)
            store(own + ASLEEP, 1)
            while load(team + TICKET) & LEFT == 0 and load(team + STOPPED) == 0:
                pthread_cond_wait(own + CONDITION, own + MUTEX)
            store(own + ASLEEP, 0)
            pthread_mutex_unlock(own + MUTEX)
            looks = 0


@kernel
def stop(team: int) -> None:
    """Let all threads return from :func:`serve`; from here on the caller works alone."""
    members = load(team + MEMBERS)
    store(team + MEMBERS, 1)
    store(team + STOPPED, 1)
    for number in range(1, members):
        _wake(team + FIRST + number * MEMBER)


@kernel
def shake(team: int, seed: int) -> None:
    """Let members give way before each stretch, as often as follows from a seed: for tests. 0: never."""
    store(team + SHAKEN, seed)
