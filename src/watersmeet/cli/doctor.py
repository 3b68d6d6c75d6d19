"""``watersmeet doctor``: looks at what joins on Spark need, and says what to change.

Design: a check is a function that returns a finding; what it looks at is asked of the part of the package that uses it.
The last checks start a Spark, that of the job if one is given: only that shows whether workers can run joins.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from watersmeet import __version__
from watersmeet.cli.demo.screen import SCREEN, say, stage
from watersmeet.cli.extras import is_installed
from watersmeet.jobs.spark_log import stderr_into
from watersmeet.spec.errors import WatersmeetError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from watersmeet.jobs.reading import JobFile

__all__ = ["Finding", "Level", "examine"]

GIGABYTE: Final = 1 << 30
LEAST_MEMORY: Final = 4 * GIGABYTE
LEAST_DISK: Final = 5 * GIGABYTE
MANY_PARTITIONS: Final = 4
"""Shuffle partitions for each core of the machine from which on there are too many."""
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Level(Enum):
    """How a check has ended: the mark and colour of its line."""

    FINE = ("ok", "green")
    BETTER = ("!!", "yellow")
    """It works, and can be better."""
    WRONG = ("no", "red")


@dataclass(frozen=True)
class Finding:
    """What a check has found, and what to do unless all is fine."""

    level: Level
    found: str
    next_step: str = ""


def examine(job: Path | None) -> int:
    """Look at everything; return 0 if joins can run, 1 if something has to be changed first."""
    findings = []
    for check in (_python, _packages, _java, _memory, _disk, _kernels):
        findings.append(check())
        _tell(findings[-1])
    if all(finding.level is not Level.WRONG for finding in findings):
        for finding in _on_spark(job):
            findings.append(finding)
            _tell(finding)
    else:
        say("Spark is not started before this is changed")
    wrong = sum(finding.level is Level.WRONG for finding in findings)
    better = sum(finding.level is Level.BETTER for finding in findings)
    say()
    if wrong:
        say(f"{wrong} to change before joins run on Spark")
    else:
        say("joins run here" + (f"; {better} could be better" if better else ""))
    return 1 if wrong else 0


def _tell(finding: Finding) -> None:
    mark, colour = finding.level.value
    SCREEN.print(Text.assemble((f"{mark}  ", colour), finding.found))
    if finding.next_step:
        say(f"      next step: {finding.next_step}")


# --- without Spark --------------------------------------------------------------------------------------------------


def _python() -> Finding:
    numbers = ".".join(map(str, sys.version_info[:3]))
    return Finding(Level.FINE, f"Python {numbers}, watersmeet {__version__}, {os.cpu_count() or 1} cores")


def _packages() -> Finding:
    missing = [name for name in ("pyspark", "pandas", "google.protobuf", "pydantic") if not _is_there(name)]
    if missing:
        return Finding(Level.WRONG, f"not installed: {', '.join(missing)}", "pip install 'watersmeet[spark]'")
    told = []
    for name in ("pyspark", "pandas", "protobuf", "pydantic", "pyarrow", "numba"):
        try:
            told.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # without metadata, as in an image
            told.append(name)
    return Finding(Level.FINE, ", ".join(told))


def _is_there(name: str) -> bool:
    try:
        return is_installed(name)
    except ModuleNotFoundError:  # of the package around it
        return False


def _java() -> Finding:
    from watersmeet.spark.java import find_java  # noqa: PLC0415 -- PySpark may be missing

    try:
        find_java()
    except WatersmeetError as error:
        return Finding(Level.WRONG, error.given, error.next_step)
    home = os.environ.get("JAVA_HOME")
    return Finding(Level.FINE, f"Java: {home or shutil.which('java')}")


def _memory() -> Finding:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    machine = pages * size
    bound = _group_limit()
    memory = machine if bound is None else min(machine, bound)
    found = f"{memory / GIGABYTE:.1f} GB of memory" + (" (this container's)" if memory < machine else "")
    if memory < LEAST_MEMORY:
        return Finding(
            Level.BETTER, found, 'give the JVM less: [spark] memory = "1g", and one core: master = "local[1]"'
        )
    return Finding(Level.FINE, found)


def _group_limit() -> int | None:
    """Return how much memory the container may have, on Linux."""
    try:
        given = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(given) if given.isdecimal() else None


def _disk() -> Finding:
    folder = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    found = f"{free / GIGABYTE:.1f} GB free in {folder}, where Spark keeps state and decoded runs"
    if free < LEAST_DISK:
        return Finding(Level.BETTER, found, 'free some, or set "spark.local.dir" to a folder on a larger disk')
    return Finding(Level.FINE, found)


def _kernels() -> Finding:
    from watersmeet.cli.warm_up import cached_kernels  # noqa: PLC0415 -- as all that is needed here alone

    cached, kernels, folder = cached_kernels()
    found = f"{cached} of {kernels} kernels are compiled, in {folder}"
    if cached < kernels:
        step = "watersmeet warm-up; without it they are compiled when they are first used, which takes minutes in all"
        return Finding(Level.BETTER, found, step)
    return Finding(Level.FINE, found)


# --- on Spark -------------------------------------------------------------------------------------------------------


def _on_spark(path: Path | None) -> Iterator[Finding]:
    from watersmeet.jobs.model import SparkPart  # noqa: PLC0415 -- optional packages, which are there
    from watersmeet.jobs.reading import read_job  # noqa: PLC0415
    from watersmeet.jobs.runner import job_session  # noqa: PLC0415

    file = None if path is None else read_job(path)
    part = SparkPart.model_validate({"memory": "1g"}) if file is None else file.job.spark
    with _quiet() as log:
        try:
            with stage(f"Spark starts on {part.master or 'this machine'}"):
                spark = job_session(part, "watersmeet doctor", log)
        except WatersmeetError as error:
            yield Finding(Level.WRONG, error.given, error.next_step)
            return
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is what the doctor is asked for
            yield Finding(Level.WRONG, f"Spark does not start: {str(error).splitlines()[0]}", f"look at {log}")
            return
        try:
            yield from _of_session(spark, file)
        finally:
            spark.stop()


@contextmanager
def _quiet() -> Iterator[Path]:
    """Keep Spark's log off the screen; yield the file that it is in."""
    log = Path(tempfile.mkdtemp(prefix="watersmeet-")) / "spark.log"
    with stderr_into(log):
        yield log


def _of_session(spark: SparkSession, file: JobFile | None) -> Iterator[Finding]:
    from watersmeet.spark.session import check_session  # noqa: PLC0415 -- as above

    yield _tried(lambda: check_session(spark), "the workers have all that joins need; the state store is RocksDB")
    yield _partitions(spark)
    if spark.conf.get(CHANGELOG, "false") != "true":
        yield Finding(Level.BETTER, "checkpoints write whole files", f'[spark.settings] "{CHANGELOG}" = true')
    if not (
        spark.conf.get("spark.watersmeet.balanceDir", "")
        or spark.conf.get("spark.sql.streaming.checkpointLocation", "")
    ):
        step = '[spark.settings] "spark.watersmeet.balanceDir" = a folder that all machines share'
        yield Finding(Level.BETTER, "load does not move between cores: there is no folder for balance", step)
    if file is not None:
        from watersmeet.jobs.joins import results  # noqa: PLC0415 -- as above

        yield _tried(lambda: results(spark, file), f"{file.file.name}: Spark accepts its streams and joins")


def _partitions(spark: SparkSession) -> Finding:
    partitions, cores = int(spark.conf.get(PARTITIONS, "200") or 200), spark.sparkContext.defaultParallelism
    found = f"{partitions} shuffle partitions for {cores} cores"
    if partitions > MANY_PARTITIONS * cores:
        step = f"[spark.settings] {PARTITIONS} = {cores} or {2 * cores}, before the first start on a checkpoint"
        return Finding(Level.BETTER, found, step)
    return Finding(Level.FINE, found)


def _tried(check: Callable[[], object], fine: str) -> Finding:
    """Return a finding about something that raises if it is wrong."""
    try:
        check()
    except WatersmeetError as error:
        return Finding(Level.WRONG, str(error).splitlines()[0], error.next_step)
    return Finding(Level.FINE, fine)
