"""A program in the background, and all that it starts: found, killed, and never left behind.

Each is a session of processes (in the sense of ``setsid``), so whatever it has started is found and killed with it.
Nothing outlives the process that started it, not even one that is killed: each session has a keeper, which waits for
the end of a pipe.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

__all__ = ["Daemon", "kill"]

KEEPER: Final = 'exec 3<&0; (cat <&3; kill -KILL 0) & exec "$@" 3<&- </dev/null'
"""A shell command that becomes the one it is given; the keeper kills the process group when standard input ends."""
PATIENCE_SECONDS: Final = 60.0
MOMENT_SECONDS: Final = 0.02


class Daemon:
    """A program, and all processes that it starts: a session of their own. ``folder`` gets its log."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str],
        *,
        processor: int | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self._name = folder.name
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- a program of the caller's
                ["/bin/sh", "-c", KEEPER, "sh", *command],
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if processor is not None:
            os.sched_setaffinity(self._process.pid, {processor})  # still a script of one thread: all else inherits it

    def await_line(self, pattern: str) -> str:
        """Wait until the log has a line with ``pattern``, and return its first group."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            log = self._log.read_text(encoding="utf-8", errors="replace")
            if found := re.search(pattern, log):
                return found[1]
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self._name} does not start:\n{log}")
            time.sleep(MOMENT_SECONDS)

    @property
    def runs(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def stop(self) -> int:
        """Ask the program to end, wait until it has, and kill what it leaves behind; return its exit code."""
        self._process.terminate()
        code = self._process.wait(PATIENCE_SECONDS)
        self.kill()
        return code

    def kill(self) -> None:
        """Kill the program, and all that it has started."""
        while self.runs or self.started():
            for process in (self._process.pid, *self.started()):
                kill(process)
            time.sleep(MOMENT_SECONDS)
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.close()

    def started(self, program: str = "") -> list[int]:
        """Return the processes, beside the program, whose command names ``program``."""
        own = self._process.pid
        return [
            one.pid
            for one in psutil.process_iter(["status", "cmdline"])
            if one.pid != own
            and one.info["status"] != psutil.STATUS_ZOMBIE
            and program in " ".join(one.info["cmdline"] or ())
            and _session(one.pid) == own
        ]


def kill(process: int) -> bool:
    """Kill a process; return whether it was still there."""
    with suppress(ProcessLookupError):  # ended meanwhile
        os.kill(process, signal.SIGKILL)
        return True
    return False


def _session(process: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or another user's
        return os.getsid(process)
    return None
