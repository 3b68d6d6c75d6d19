"""A real Spark cluster on this machine: a master and workers of Spark's standalone mode, all on loopback.

Everything is started from the installed PySpark. A worker offers one core and has a scratch folder of its own, as a
machine of its own would; an application gets one executor from it. A worker may be bound to one of this machine's
processors, with all that it starts: otherwise the one executor that is busy would also use the processors of those that
are not.

Workers can be killed and added at any time, with the executors and Python workers that they have started, and nothing
outlives the process that started the cluster (see :mod:`benchmarks.daemon`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.daemon import Daemon, kill
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


class _SparkDaemon(Daemon):
    """A JVM of Spark's."""

    def __init__(
        self, program: str, arguments: list[str], folder: Path, environment: Mapping[str, str], *, processor: int | None
    ) -> None:
        found = find_spec("pyspark")
        assert found is not None, "who needs a cluster has PySpark"
        assert found.origin is not None, "it is an ordinary package"
        home = Path(found.origin).parent
        command = [str(home / "bin" / "spark-class"), program, *arguments]
        everything = {"SPARK_HOME": str(home), **DAEMON_SETTINGS, **environment}
        super().__init__(command, folder, everything, processor=processor)


class SparkWorker(_SparkDaemon):
    """One worker of a cluster, with its executors."""

    def kill_executors(self) -> int:
        """Kill the executors alone, which the worker then starts anew; return how many."""
        return sum(map(kill, self.started(EXECUTOR)))


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
        self._master = _SparkDaemon(
            "org.apache.spark.deploy.master.Master", ports, folder / "master", {}, processor=None
        )
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
