"""One call at a time, all or nothing: threads that share a join, and calls that are interrupted anywhere in them."""

from __future__ import annotations

import linecache
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from topologies import PREDICATES, SCHEMA, TOPOLOGIES, expected, ids, join_of, small_windows, stream
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

PACKAGE = str(Path(wm.__file__).parent)
LONG = {
    "time": wm.time_window("1 hour", ts="ts", lateness="1 hour"),
    "count": wm.count_window(10**6),
}
"""Windows in which the order of pushes does not matter."""
MANY = "a.x = b.x AND b.x BETWEEN c.x - 1 AND c.x + 1"


@contextmanager
def switching_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def at_the_same_time(*work: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(some: Callable[[], None]) -> None:
        try:
            some()
        except BaseException as error:  # noqa: BLE001 -- raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(some,)) for some in work]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


# --- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flows", [False, True], ids=["pushes", "submits"])
@pytest.mark.parametrize("window", LONG)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_many_threads_push_to_one_join(topology: str, window: str, *, flows: bool) -> None:
    pushes = stream(5, pushes=12, most_rows=16)
    found: Counter[tuple[int, int]] = Counter()
    with small_windows(), join_of(PREDICATES["band"], LONG[window], topology=topology, cores=3, block_rows=4) as join:

        def push(side: int, turn: int) -> None:
            for tables in pushes[turn::3]:
                table = tables[side]
                rows = {"left" if side == 0 else "right": table}
                if flows:
                    join.submit(**rows)
                own = join.poll() if flows else join.push(**rows)
                with adding:
                    found.update(ids(own))

        def look() -> None:
            for _ in range(4):
                assert join.metrics.pairs >= 0
                assert join.explain()
                wm.StreamJoin.restore(join.snapshot()).close()

        adding = threading.Lock()
        work = [lambda side=side, turn=turn: push(side, turn) for side in (0, 1) for turn in range(3)]
        at_the_same_time(*work, look)
        found.update(ids(join.finish()))
        assert found == expected(PREDICATES["band"], LONG[window], pushes)
        assert join.metrics.pairs == found.total()


@pytest.mark.parametrize("cores", [1, 3])
def test_oracle_many_threads_push_to_one_join_of_many_streams(cores: int) -> None:
    tables = {name: [left for left, _ in stream(seed, pushes=6, most_rows=8)] for seed, name in enumerate("abc")}
    found: Counter[tuple[int, ...]] = Counter()
    adding = threading.Lock()
    with wm.MultiStreamJoin(
        streams=dict.fromkeys(tables, SCHEMA), on=MANY, window=LONG["time"], strategy="stashed", cores=cores
    ) as join:

        def push(name: str) -> None:
            for table in tables[name]:
                results = join.push(**{name: table})
                with adding:
                    found.update(zip(*(results[f"{stream}_id"].to_pylist() for stream in tables), strict=True))

        def look() -> None:
            for _ in range(4):
                assert join.metrics.results >= 0
                assert join.explain()
                wm.MultiStreamJoin.restore(join.snapshot()).close()

        at_the_same_time(*(lambda name=name: push(name) for name in tables), look)
    given = [{name: own[number] for name, own in tables.items()} for number in range(6)]
    windows = windows_of(LONG["time"], list(tables))
    schemas = dict.fromkeys(tables, SCHEMA)
    assert found == oracle.results(read_predicate(MANY, list(tables)), windows, schemas, given)


def test_close_waits_for_a_push_and_ends_what_comes_after() -> None:
    pushes = stream(9, pushes=40, most_rows=20)
    join = join_of(PREDICATES["band"], LONG["time"], topology="splitjoin", cores=3)
    refused = []

    def push() -> None:
        try:
            for left, right in pushes:
                join.push(left=left, right=right)
        except wm.SpecificationError as error:
            refused.append(str(error))

    at_the_same_time(push, push, join.close)
    assert all("after finish() or close()" in error for error in refused)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_waiting_for_a_turn_can_be_interrupted() -> None:
    (left, right), *_ = stream(1)
    join = join_of(PREDICATES["band"], LONG["time"])
    holds, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with join._lock:
            holds.set()
            let_go.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    holds.wait()
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            join.push(left=left, right=right)
    finally:
        signal.signal(signal.SIGALRM, before)
        let_go.set()
        holder.join()
    pairs = join.push(left=left, right=right)
    assert Counter(ids(pairs)) == expected(PREDICATES["band"], LONG["time"], [(left, right)]), "nothing had changed"


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


# --- interruptions --------------------------------------------------------------------------------------------------


class Interruption:
    """Raises an error before the ``at``-th line of the package that this thread comes to.

    Not where a lock is let go: Python looks for signals after that, which the line that follows stands for.
    """

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.left = at
        self.error = error

    def __enter__(self) -> None:
        sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and not self._is_lock(frame):
            self.left -= 1
            if self.left == 0:
                raise self.error
        return self._line

    @staticmethod
    def _is_lock(frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        return line.lstrip().startswith("with ")


JOINS: dict[str, Callable[[], Any]] = {
    **{
        f"{topology}, {name}": lambda topology=topology, window=window, options=options: join_of(
            PREDICATES["residual" if topology == "kang" else "band"],
            LONG[window],
            topology=topology,
            cores=2,
            block_rows=8,
            **options,
        )
        for topology in TOPOLOGIES
        for name, window, options in (
            ("time", "time", {}),
            ("count, in order", "count", {"order": "inner"}),
            ("time, collected", "time", {"batch_rows": 10}),
        )
    },
    "many, circular": lambda: many("circular", 1),
    "many, stashed, on threads": lambda: many("stashed", 2),
}


def many(strategy: Any, cores: int) -> wm.MultiStreamJoin:
    return wm.MultiStreamJoin(
        streams=dict.fromkeys(("left", "right"), SCHEMA),
        on=PREDICATES["band"],
        window=LONG["time"],
        strategy=strategy,
        cores=cores,
    )


CALLS: dict[str, Callable[[Any, pa.Table, pa.Table], pa.Table | None]] = {
    "push": lambda join, left, right: join.push(left=left, right=right),
    "submit": lambda join, left, right: join.submit(left=left, right=right),
    "poll": lambda join, _left, _right: join.poll(),
    "snapshot": lambda join, _left, _right: join.snapshot() and None,
    "finish": lambda join, _left, _right: join.finish(),
}


EACH_CALL = [(name, call) for name in JOINS for call in CALLS if "many" not in name or call not in ("submit", "poll")]


def interrupted(name: str, call: str, at: int, error: type[BaseException]) -> bool:
    """Interrupt the second of three calls; tell whether it came so far. Whatever happens, no pair may be missing."""
    join = JOINS[name]()
    pushes = stream(2, pushes=6, most_rows=10)[:3]
    first = {"left": pushes[0][0], "right": pushes[0][1]}
    if call == "poll":
        join.submit(**first)
    found = [] if call == "poll" else ids(join.push(**first))
    happened = False
    try:
        with Interruption(at, error):
            result = CALLS[call](join, *pushes[1])
    except error:
        happened = True
        try:
            result = CALLS[call](join, *pushes[1])
        except wm.SpecificationError as refused:
            assert "after a push that failed" in str(refused)  # noqa: PT017 -- either this or it goes on
            for again in (join.snapshot, join.finish, join.push):
                with pytest.raises(wm.SpecificationError, match="after a push that failed"):
                    again()
            join.close()
            return True
    found += [] if result is None else ids(result)
    given = pushes[:2] if call in ("push", "submit") else pushes[:1]
    if call != "finish":
        found += ids(join.push(left=pushes[2][0], right=pushes[2][1]))
        found += ids(join.finish())
        given = [*given, pushes[2]]
    on = PREDICATES["residual" if name.startswith("kang") else "band"]
    assert Counter(found) == expected(on, LONG["count" if "count" in name else "time"], given)
    join.close()
    return happened


@pytest.mark.parametrize(("name", "call"), EACH_CALL)
def test_oracle_a_call_interrupted_at_some_lines(name: str, call: str) -> None:
    at = 1
    error: type[BaseException] = KeyboardInterrupt
    while interrupted(name, call, at, error):
        at += 1 + at // 2  # every line of the first few, then fewer
        error = MemoryError if error is KeyboardInterrupt else KeyboardInterrupt


@pytest.mark.long
@pytest.mark.parametrize(("name", "call"), EACH_CALL)
def test_oracle_a_call_interrupted_at_every_line(name: str, call: str) -> None:
    at = 1
    while interrupted(name, call, at, MemoryError if at % 2 else KeyboardInterrupt):
        at += 1
    assert at > 5


def _interrupt_in_package(_number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            raise KeyboardInterrupt
        frame = frame.f_back


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # where a finaliser was interrupted
@pytest.mark.parametrize("name", [name for name in JOINS if name.endswith("time") or "many" in name])
def test_oracle_a_push_interrupted_by_a_signal(name: str) -> None:
    before = signal.signal(signal.SIGALRM, _interrupt_in_package)
    pushes = stream(2, pushes=6, most_rows=10)[:3]
    on = PREDICATES["residual" if name.startswith("kang") else "band"]
    outcomes: Counter[bool] = Counter()
    try:
        for number in range(40):
            join, found, failed = JOINS[name](), [], False
            join.push()
            signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + 7 * number))
            for left, right in pushes:
                try:
                    found += ids(join.push(left=left, right=right))
                except (KeyboardInterrupt, SystemError):  # a compiled function turns the one into the other
                    try:
                        found += ids(join.push(left=left, right=right))
                    except wm.SpecificationError:
                        failed = True
                        break
            signal.setitimer(signal.ITIMER_REAL, 0)
            outcomes[failed] += 1
            if not failed:
                found += ids(join.finish())
                assert Counter(found) == expected(on, LONG["time"], pushes)
            join.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert outcomes[True], "some were interrupted where rows had been stored"
