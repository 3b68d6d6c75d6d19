"""Many processes that check cases; one that crashes or hangs is a failure with its seed, and the others go on."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections import Counter
from itertools import count
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from soak.record import Record

__all__ = ["check_cases"]

PIECE: Final = 50
"""Cases that are handed out and recorded together."""
PATIENCE: Final = 120.0
"""Seconds after which a case hangs."""
EVERY: Final = 10.0
"""Seconds between two lines that say how far it is."""
ABOUT: Final = ("kind", "window", "structure", "topology", "strategy", "order")
START: Final = multiprocessing.get_context("spawn")


def _work(line: Connection) -> None:
    """Check pieces until there are no more; report each case before and after."""
    from soak.cases import check  # noqa: PLC0415 -- in this process alone: it loads the kernels

    while (piece := line.recv()) is not None:
        counts, kinds, failures = Counter[str](), Counter[str](), []
        begin = time.perf_counter()
        for seed in range(piece * PIECE, (piece + 1) * PIECE):
            line.send(seed)
            try:
                about = check(seed)
            except BaseException as error:  # noqa: BLE001 -- whatever it is, it is recorded
                place = traceback.extract_tb(error.__traceback__)[-1]
                why = f"{type(error).__name__}: {str(error)[:200]} ({place.filename.rpartition('/')[2]}:{place.lineno})"
                failures.append({"case": seed, "why": why})
                counts["cases"] += 1
                continue
            if "refused" in about:
                counts["refused"] += 1
                continue
            counts.update(cases=1, results=about["results"], restarts=about["restarts"])
            kinds.update(f"{name} {about[name]}" for name in ABOUT if about[name] is not None)
        seconds = time.perf_counter() - begin
        line.send({"counts": dict(counts), "kinds": dict(kinds), "failures": failures, "seconds": round(seconds, 3)})


class _Worker:
    """A process, the piece it has, and the case it is at."""

    def __init__(self) -> None:
        self.piece: int | None = None
        self._seed = 0
        self._since = time.monotonic()
        self._start()

    def _start(self) -> None:
        self.line, other = START.Pipe()
        self._process = START.Process(target=_work, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def begin(self, piece: int | None) -> None:
        self.piece, self._since = piece, time.monotonic()
        self.line.send(piece)

    def answer(self, *, ready: bool) -> dict[str, Any] | None:
        """Return what the whole piece has given, if it has ended; a crash and a hang end it too."""
        if not ready and time.monotonic() - self._since <= PATIENCE:
            return None
        why = f"no end after {PATIENCE:.0f} seconds"
        if ready:
            try:
                said = self.line.recv()
            except (EOFError, ConnectionResetError):
                why = "the process crashed"
            else:
                self._since = time.monotonic()
                if isinstance(said, int):
                    self._seed = said
                    return None
                return dict(said)
        self.end()
        self._start()  # another one in its place; the rest of the piece is left out
        return {"counts": {"cases": 1}, "kinds": {}, "failures": [{"case": self._seed, "why": why}], "seconds": 0.0}

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.line.close()


def check_cases(record: Record, cases: int, workers: int, until: float) -> None:
    """Check so many cases, those recorded included, or until a moment (of ``time.monotonic``)."""
    import soak.cases  # noqa: F401, PLC0415 -- what cannot be imported is found out here, not in every process

    done = record.seeds()
    pieces = (piece for piece in count() if piece not in done)
    crew = [_Worker() for _ in range(workers)]

    def checked() -> int:
        return sum(line["counts"].get("cases", 0) for line in record.lines)

    def next_piece() -> int | None:
        return next(pieces) if time.monotonic() < until and checked() < cases else None

    for worker in crew:
        worker.begin(next_piece())
    shown = time.monotonic()
    while busy := [worker for worker in crew if worker.piece is not None]:
        ready = wait([worker.line for worker in busy], timeout=1)
        for worker in busy:
            piece = worker.piece
            if (given := worker.answer(ready=worker.line in ready)) is not None:
                record.add(piece=piece, **given)
                worker.begin(next_piece())
        if time.monotonic() - shown > EVERY:
            shown = time.monotonic()
            failed = sum(len(line["failures"]) for line in record.lines)
            print(f"{checked():,} of {cases:,} cases, {failed} failed", flush=True)
    for worker in crew:
        worker.end()
