"""Processes that run streaming queries (``query_program.py``) and may be killed, with all that they have started."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import psutil
import pyspark

import query_program
from query_program import Job


class Driver:
    """A process that runs queries, and all that it has started."""

    def __init__(self, master: str, scratch: Path, settings: Mapping[str, str]) -> None:
        self._errors = (scratch / "errors").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, query_program.__file__, scratch, json.dumps({"spark.master": master, **settings})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env=os.environ
            | {"PYTHONPATH": ":".join(filter(None, sys.path)), "SPARK_LOCAL_IP": "127.0.0.1"}
            | {"SPARK_HOME": str(_spark_home(scratch))},
        )
        assert self.answer() == "ready"

    def begin(self, job: Job) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(job.line())
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    @property
    def has_answered(self) -> bool:
        """Whether there is an answer to be read."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def kill(self) -> None:
        """Kill Python and the JVMs together."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def kill_executor(self, random: np.random.Generator) -> int:
        """Kill one executor's JVM; return how many processes were killed."""
        return _kill(random.permutation(self._started("CoarseGrainedExecutorBackend"))[:1].tolist())

    def kill_workers(self, *, daemons: bool = False) -> int:
        """Kill all Python workers, or the daemons that they were forked from; return how many."""
        return kill_workers(self.python_workers(), daemons=daemons)

    def python_workers(self) -> list[int]:
        """Return all Python workers, and the daemons that they were forked from."""
        return self._started("pyspark.worker")

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._close()

    def _started(self, program: str) -> list[int]:
        """Return the processes below this one whose command names ``program``."""
        below = {child.pid for child in psutil.Process(self._process.pid).children(recursive=True)}
        running = psutil.process_iter(["cmdline"])
        return [one.pid for one in running if one.pid in below and program in " ".join(one.info["cmdline"] or ())]

    def _close(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


def kill_workers(workers: list[int], *, daemons: bool = False) -> int:
    """Kill those of some Python workers that were forked, or the daemons that forked them; return how many."""
    parents = {one.info["ppid"] for one in psutil.process_iter(["ppid"]) if one.pid in workers}
    return _kill([pid for pid in workers if (pid in parents) == daemons])


def _spark_home(scratch: Path) -> Path:
    """Return a folder that leads to all of Spark: executors write their logs into Spark's home, wherever it is."""
    home = scratch / "spark"
    if not home.exists():
        home.mkdir()
        for part in Path(pyspark.__file__).parent.iterdir():
            (home / part.name).symlink_to(part)
    return home


def _kill(processes: list[int]) -> int:
    killed = 0
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has just ended by itself
            continue
        killed += 1
    return killed


class Drivers:
    """One driver for each master, started when first needed and again after it has been killed."""

    def __init__(self, scratch: Path, settings: Mapping[str, str] | None = None) -> None:
        self._scratch = scratch
        self._settings = settings or {}
        self._running: dict[str, Driver] = {}

    def on(self, master: str) -> Driver:
        if master not in self._running:
            for idle in list(self._running):  # the machine need not carry more than one
                self._running.pop(idle).stop()
            self._running[master] = Driver(master, self._scratch, self._settings)
        return self._running[master]

    def kill(self, master: str) -> None:
        self._running.pop(master).kill()

    def stop(self) -> None:
        while self._running:
            self._running.popitem()[1].stop()
