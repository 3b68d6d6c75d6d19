"""A real Spark cluster on this machine: a master and workers of Spark's standalone mode, all on loopback.

Everything is started from the installed PySpark. A worker offers one core and has a scratch folder of its own, as a
machine of its own would; an application gets one executor from it. A worker may be bound to one of this machine's
processors, with all that it starts: otherwise the one executor that is busy would also use the processors of those that
are not.

Workers can be killed and added at any time. Each is a session of processes (in the sense of ``setsid``), so whatever a
worker has started, executors and their Python workers, is found and killed with it. Nothing outlives the process that
started it, not even one that is killed: each session has a keeper, which waits for the end of a pipe.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from benchmarks.process import SEARCH_PATH
from watersmeet.spark.java import find_java

__all__ = ["SparkWorker", "StandaloneCluster"]

LOOPBACK: Final = "127.0.0.1"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
DAEMON_SETTINGS: Final = {
    "SPARK_LOCAL_IP": LOOPBACK,
    "SPARK_PUBLIC_DNS": LOOPBACK,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # they do little, and should start quickly
    "PYTHONPATH": SEARCH_PATH,  # executors inherit it
}
KEEPER: Final = 'exec 3<&0; (cat <&3; kill -KILL 0) & exec "$@" 3<&- </dev/null'
"""A shell command that becomes the one it is given; the keeper kills the process group when standard input ends."""
PATIENCE_SECONDS: Final = 60.0
MOMENT_SECONDS: Final = 0.02


class _Daemon:
    """A JVM of Spark's, and all processes that it starts: a session of their own."""

    def __init__(
        self, program: str, arguments: list[str], folder: Path, environment: Mapping[str, str], *, processor: int | None
    ) -> None:
        found = find_spec("pyspark")
        assert found is not None, "who needs a cluster has PySpark"
        assert found.origin is not None, "it is an ordinary package"
        home = Path(found.origin).parent
        folder.mkdir(parents=True)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 -- Spark's own script
                ["/bin/sh", "-c", KEEPER, "sh", home / "bin" / "spark-class", program, *arguments],
                env={**os.environ, "SPARK_HOME": str(home), **DAEMON_SETTINGS, **environment},
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
                raise RuntimeError(f"a part of the Spark cluster does not start:\n{log}")
            time.sleep(MOMENT_SECONDS)

    def kill(self) -> None:
        """Kill the JVM, and all that it has started."""
        while self._process.poll() is None or self.started():
            for process in (self._process.pid, *self.started()):
                _kill(process)
            time.sleep(MOMENT_SECONDS)
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.close()

    def started(self, program: str = "") -> list[int]:
        """Return the processes, beside the JVM, whose command names ``program``."""
        own = self._process.pid
        return [
            one.pid
            for one in psutil.process_iter(["status", "cmdline"])
            if one.pid != own
            and one.info["status"] != psutil.STATUS_ZOMBIE
            and program in " ".join(one.info["cmdline"] or ())
            and _session(one.pid) == own
        ]


class SparkWorker(_Daemon):
    """One worker of a cluster, with its executors."""

    def kill_executors(self) -> int:
        """Kill the executors alone, which the worker then starts anew; return how many."""
        return sum(map(_kill, self.started(EXECUTOR)))


class StandaloneCluster:
    """A master and its workers; a ``with`` statement ends them all."""

    def __init__(self, folder: Path, *, memory: str = "1g") -> None:
        """Start a master; each worker will have ``memory`` for executors, and its files in ``folder``."""
        find_java()
        self._folder = folder
        self._memory = memory
        self._begun = 0
        self.workers: list[SparkWorker] = []
        ports = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        self._master = _Daemon("org.apache.spark.deploy.master.Master", ports, folder / "master", {}, processor=None)
        try:
            self.master = self._master.await_line(r"Starting Spark master at (spark://\S+)")
        except RuntimeError:
            self._master.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for daemon in (*self.workers, self._master):
            daemon.kill()

    def settings(self, memory: str, *, executors: int | None = None) -> dict[str, str]:
        """Return a session's settings: executors of one core and so much memory, as many as there are workers.

        If their number is given, they are all there before the first task, so that they share the state evenly: Spark
        goes on with it where it was first.
        """
        settings = {"spark.master": self.master, "spark.executor.cores": "1", "spark.executor.memory": memory}
        if executors is not None:
            settings["spark.cores.max"] = str(executors)
            settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
        return settings

    def add_worker(self, *, processor: int | None = None, host: str = LOOPBACK) -> SparkWorker:
        """Start a worker, bound to a processor of this machine if one is given; it registers by itself.

        Workers at different addresses of the loopback seem to be on different machines, which matters to Spark where it
        runs a slow task a second time: never where the first attempt is.
        """
        folder = self._folder / f"worker-{self._begun}"
        self._begun += 1
        arguments = ["--host", host, "--cores", "1", "--memory", self._memory, "--port", "0", "--webui-port", "0"]
        arguments += ["--work-dir", str(folder / "work"), self.master]
        scratch = {"SPARK_LOCAL_DIRS": str(folder / "scratch"), "SPARK_LOCAL_IP": host, "SPARK_PUBLIC_DNS": host}
        worker = SparkWorker("org.apache.spark.deploy.worker.Worker", arguments, folder, scratch, processor=processor)
        self.workers.append(worker)
        return worker

    def await_workers(self) -> None:
        """Wait until all workers are registered."""
        for worker in self.workers:
            worker.await_line(r"(Successfully registered) with master")

    def kill_worker(self, worker: SparkWorker) -> None:
        """Kill a worker and its executors, as when a machine is lost."""
        self.workers.remove(worker)
        worker.kill()


def _session(process: int) -> int | None:
    with suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or another user's
        return os.getsid(process)
    return None


def _kill(process: int) -> bool:
    with suppress(ProcessLookupError):  # ended meanwhile
        os.kill(process, signal.SIGKILL)
        return True
    return False
