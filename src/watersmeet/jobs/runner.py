"""Runs a job: makes the session, builds and starts the query, shows its figures and ends it.

*Ending.* When asked to end, the runner waits for the micro-batch that runs. Spark has no call for that, so it asks the
query every few milliseconds, and stops it as soon as it rests or has done one more micro-batch. The next one may just
have begun; Spark breaks it off and runs the same one at the next start, so nothing is lost, and nothing comes twice
where the sink takes each micro-batch once.

*Not starting.* If Spark gives up while it starts, for a package that is not to be had, its log alone has the reason.

*Failing.* A query fails with a long text of the JVM's. If watersmeet raised it, its three parts are what is told.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from watersmeet.jobs.checks import result_of
from watersmeet.jobs.joins import results
from watersmeet.jobs.model import SparkPart
from watersmeet.jobs.observation import observed
from watersmeet.jobs.packages import lines_for
from watersmeet.jobs.reading import JobFile
from watersmeet.jobs.sinks import writer
from watersmeet.jobs.sources import SPARK_ERRORS, missing_format, refused_by_spark, said_by_spark
from watersmeet.jobs.spark_log import reason_in
from watersmeet.jobs.stop import Stop, shielding_children
from watersmeet.live.figures import MicroBatch
from watersmeet.live.history import Figures
from watersmeet.live.watch import looks
from watersmeet.spark.session import RECOMMENDED, check_session
from watersmeet.spec.errors import WatersmeetError

__all__ = ["NotStartedError", "QueryFailedError", "Show", "job_session", "run_job"]

STOPPING_POLL_SECONDS: Final = 0.01
LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
OURS: Final = re.compile(r"watersmeet\.spec\.errors\.\w+: (.*)\n +allowed: (.*)\n +next step: (.*)")


class QueryFailedError(WatersmeetError):
    """A query has failed while it ran."""


class NotStartedError(WatersmeetError):
    """Spark has not started."""


class Show(Protocol):
    """What shows a running job."""

    def started(self) -> None:
        """Show that the query has started."""

    def micro_batch(self, batch: MicroBatch) -> None:
        """Show what a micro-batch did."""

    def results(self, batch: int, results: pa.Table) -> None:
        """Show results, of a console sink."""

    def stopping(self, why: str) -> None:
        """Show that the query has been asked to end."""


def run_job(
    file: JobFile,
    show: Show,
    stop: Stop,
    figures: Figures,
    spark: SparkSession | None = None,
    *,
    log: Path | None = None,
) -> None:
    """Run a job until it ends or is asked to.

    Parameters
    ----------
    file
        The job.
    show
        What shows it.
    stop
        Tells when it is asked to end.
    figures
        Get what its micro-batches do.
    spark
        The session; one of its own, which ends with it, if not given.
    log
        Where Spark's log goes, if not to the screen.
    """
    if spark is not None:
        _run(spark, file, show, stop, figures)
        return
    with shielding_children():
        own = job_session(file.job.spark, file.job.name, log)
    stop.listen()
    try:
        _run(own, file, show, stop, figures)
    except (Py4JNetworkError, ConnectionError) as error:
        raise QueryFailedError(
            "Spark's JVM has ended",
            "a JVM that lives as long as the job; it may have been killed, or out of memory",
            "look at the end of Spark's log; the job goes on from its checkpoint when it is started again",
        ) from error
    except BaseException:
        own.stop()
        raise
    own.stop()


def job_session(part: SparkPart, name: str, log: Path | None = None) -> SparkSession:
    """Return the session of a job; raise with the reason, which ``log`` may have, if Spark does not start."""
    try:
        return _session(part, name)
    except SPARK_ERRORS as error:
        raise _not_started(error, log) from error


def _session(part: SparkPart, name: str) -> SparkSession:
    """Return a local session, or one of a cluster with the settings that joins need."""
    settings = {"spark.ui.showConsoleProgress": "false"}
    settings |= {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in part.settings.items()
    }
    local = LOCAL.fullmatch(part.master or "local[*]")
    if local is not None:
        cores = {"*": None, None: 1}.get(local[1]) if not (local[1] or "").isdecimal() else int(local[1])
        return wm.session(cores, name=name, memory=part.memory, more=settings)
    builder = SparkSession.builder.appName(name).master(part.master or "")
    needed = {**RECOMMENDED, "spark.sql.session.timeZone": "UTC", "spark.driver.memory": part.memory}
    for key, value in (needed | settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _not_started(error: Exception, log: Path | None) -> NotStartedError:
    """Return why Spark has not started, and what to do."""
    reason = None if log is None else reason_in(log)
    step = f"correct [spark] in the job file; the whole story is in Spark's log: {log or 'on stderr, above'}"
    if reason is not None and "kafka" in reason:
        step = "\n    ".join(("have in the table [spark.settings]:", *lines_for("kafka", pyspark.__version__)))
    return NotStartedError(
        f"Spark did not start: {reason or said_by_spark(error)}",
        "settings with which Spark starts, and packages that its repositories have in that version",
        step,
    )


def _run(spark: SparkSession, file: JobFile, show: Show, stop: Stop, figures: Figures) -> None:
    if stop.asked is not None:
        return
    check_session(spark)  # what is wrong with the session is not wrong with the job
    rows = results(spark, file)
    last = file.job.joins[result_of(file.job)]
    writing = writer(observed(rows, has_late=last.late == "keep" and "late" in rows.frame.columns), file, show.results)
    try:
        query = writing.start()
    except SPARK_ERRORS as error:
        missing = missing_format(error, file, ("sink",), file.job.sink.format)
        raise missing or refused_by_spark(error, file, ("sink",)) from error
    show.started()
    try:
        _follow(query, figures, show, stop)
    except BaseException:
        with suppress(Py4JNetworkError, ConnectionError):  # of a JVM that has ended; why it failed is what counts
            query.stop()
        raise


def _follow(query: StreamingQuery, figures: Figures, show: Show, stop: Stop) -> None:
    """Show the query's micro-batches until it has ended; raise if it failed."""
    for new in looks(query, figures, time.sleep):
        for batch in new:
            show.micro_batch(batch)
        if stop.asked is not None and query.isActive:
            show.stopping(stop.asked)
            _finish_batch(query)
            query.stop()
    failure = query.exception()
    if failure is not None:
        raise _failed(str(failure)) from failure


def _finish_batch(query: StreamingQuery) -> None:
    """Wait until the micro-batch that runs is done."""
    last = query.lastProgress
    before = -1 if last is None else last.batchId
    while query.isActive and query.status["isTriggerActive"]:
        last = query.lastProgress
        if last is not None and last.batchId > before:
            return
        time.sleep(STOPPING_POLL_SECONDS)


def _failed(text: str) -> QueryFailedError:
    """Return what a query failed with: what watersmeet said, or else the first lines of what Spark says."""
    ours = OURS.search(text)
    if ours is not None:
        return QueryFailedError(f"the query failed: {ours[1]}", ours[2], ours[3])
    told = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    first = (
        re.sub(r"^\[STREAM_FAILED\] .*? terminated with exception: ", "", told[0]) if told else "no reason was given"
    )
    causes = [line for line in told if re.match(r"(Caused by: |\w+(\.\w+)+(Error|Exception): )", line)]
    return QueryFailedError(
        f"the query failed: {first}" + (f"\n  because: {causes[-1].removeprefix('Caused by: ')}" if causes else ""),
        "a query goes on from its checkpoint as soon as the reason is gone",
        "look at Spark's log for the whole story, then start the job again",
    )
