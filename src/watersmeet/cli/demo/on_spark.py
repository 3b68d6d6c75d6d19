"""``watersmeet demo``: the streaming join on a local Spark, fed with files, one of each stream a micro-batch.

What the line shows comes from the query's own progress, as any user of Spark can read it. The proof is Spark SQL's
batch join over the same files.

Kernels are compiled here while Spark starts: they are kept on disk, where Spark's workers, each of which would have to
compile them, find them. The first micro-batch is small, since workers start in it; the others are as large as the join
needs to run at its rate, for a micro-batch costs Spark half a second whatever is in it.

Spark is talkative: its JVM and its Python workers write to the stderr they were started with. That is a file here,
shown only if something goes wrong.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from watersmeet.cli.demo.in_process import warm_up
from watersmeet.cli.demo.market import COUNT_PAIRS, ON, QUESTION, WINDOW, WINDOW_LENGTH, cut, describe, generate
from watersmeet.cli.demo.screen import SHOWN, LiveLine, judge, say, show_pairs, stage, status
from watersmeet.cli.extras import load
from watersmeet.jobs.spark_log import stderr_into
from watersmeet.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["join_on_spark"]

TRADES: Final = "ts timestamp, symbol string, price bigint, size bigint"
QUOTES: Final = "ts timestamp, symbol string, bid bigint, bid_size bigint"
BATCH: Final = timedelta(seconds=10)
FIRST_BATCH: Final = timedelta(milliseconds=200)
FIRST_WRITTEN: Final = 1_700_000_000
"""Spark reads files in the order of their times, which are set one second apart."""
POLL_SECONDS: Final = 0.1
LOG_SHOWN: Final = 4_000
EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass
class _Tally:
    """What micro-batches took; the first is kept apart, since Spark's Python workers start in it."""

    batches: int = 0
    first_seconds: float = 0.0
    rows: int = 0
    pairs: int = 0
    seconds: float = 0.0


def join_on_spark(*, rows: int, seed: int) -> int:
    """Generate, join, show and check; return 0 when the check agrees."""
    pyspark = load("pyspark", needed_for="the demo (all but `watersmeet demo --in-process`)", extra="spark,java")
    find_java()  # first, for it may have something to say
    with (
        tempfile.TemporaryDirectory(prefix="watersmeet-demo-", ignore_cleanup_errors=True) as name,
        ThreadPoolExecutor(1) as aside,
    ):
        folder = Path(name)
        log = folder / "spark.log"
        try:
            with stage(f"Spark {pyspark.__version__} starts, beside it kernels are compiled and rows generated"):
                preparing = aside.submit(_prepare, folder, rows, seed)
                with stderr_into(log):
                    spark = wm.session(name="watersmeet demo", more={"spark.ui.showConsoleProgress": "false"})
                about, files = preparing.result()
            say(f"{about}, in micro-batches of {BATCH.seconds} s of their time")
            say(QUESTION)
            try:
                return _run(spark, folder, rows, files)
            finally:
                spark.stop()
        except Exception:
            print(f"\nthe end of Spark's log:\n{log.read_text(errors='replace')[-LOG_SHOWN:]}", file=sys.stderr)
            raise


def _prepare(folder: Path, rows: int, seed: int) -> tuple[str, int]:
    """Compile, generate, write the streams' files; return what was generated, and the number of files of each."""
    warm_up()
    trades, quotes = generate(rows, seed)
    batches = cut(trades, quotes, BATCH, FIRST_BATCH)
    _write(folder / "trades", [left for left, _ in batches])
    _write(folder / "quotes", [right for _, right in batches])
    return describe(trades, quotes, seed), len(batches)


def _run(spark: SparkSession, folder: Path, rows: int, batches: int) -> int:
    """Join, show and check."""
    pairs = wm.join(_stream(spark, folder / "trades", TRADES), _stream(spark, folder / "quotes", QUOTES), ON, WINDOW)
    begin = time.perf_counter()
    query = (
        pairs.writeStream.format("parquet")
        .option("path", str(folder / "pairs"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    tally = _watch(query, batches)
    seconds = time.perf_counter() - begin
    result = spark.read.schema(pairs.schema).parquet(str(folder / "pairs"))  # there may be no file to infer it from
    found = result.count()
    in_order = result.selectExpr("*", "greatest(left_ts, right_ts) AS complete").orderBy("complete", "left_ts")
    show_pairs(in_order.limit(SHOWN).toArrow(), found)
    say(
        f"\njoined {rows:,} rows into {found:,} pairs in {seconds:.1f} s,"
        f" the first of {tally.batches} micro-batches took {tally.first_seconds:.1f} s of them"
    )
    if tally.seconds:
        say(f"the others: {tally.rows / tally.seconds:,.0f} rows/s, {tally.pairs / tally.seconds:,.0f} pairs/s")
    return _prove(spark, folder, found)


def _write(folder: Path, tables: list[pa.Table]) -> None:
    """Write tables as the files of a stream."""
    folder.mkdir()
    for number, table in enumerate(tables):
        file = folder / f"{number:04d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (FIRST_WRITTEN + number, FIRST_WRITTEN + number))


def _stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _watch(query: StreamingQuery, batches: int) -> _Tally:
    """Show the query's progress until it has ended; raise if it failed."""
    tally = _Tally()
    seen = -1
    active = True
    with LiveLine(batches, "Spark's Python workers start") as line:
        while active:
            time.sleep(POLL_SECONDS)
            active = query.isActive  # asked first: so the last progress is not missed
            fresh = [progress for progress in query.recentProgress if progress.batchId > seen and progress.numInputRows]
            for progress in fresh:
                seen = progress.batchId
                _count(tally, progress)
                started = f"Spark's Python workers have started, in {tally.first_seconds:.1f} s"
                line.show(tally.batches, started if tally.batches == 1 else _status(progress))
    query.awaitTermination()  # raises what the query failed with
    return tally


def _count(tally: _Tally, progress: StreamingQueryProgress) -> None:
    """Add a micro-batch."""
    tally.batches += 1
    seconds = progress.batchDuration / 1000
    if tally.batches == 1:
        tally.first_seconds = seconds
        return
    tally.rows += progress.numInputRows
    tally.pairs += _metrics(progress).pairs
    tally.seconds += seconds


def _metrics(progress: StreamingQueryProgress) -> wm.JoinProgress:
    """Return what the demonstration's only join did in a micro-batch."""
    (metrics,) = wm.metrics(progress).values()
    return metrics


def _status(progress: StreamingQueryProgress) -> str:
    """Return the live line for one micro-batch, with its own rates; the join is ahead of the query's watermark."""
    metrics = _metrics(progress)
    seconds = progress.batchDuration / 1000
    watermark = datetime.fromisoformat(progress.eventTime["watermark"])
    return status(
        progress.numInputRows / seconds,
        metrics.pairs / seconds,
        metrics.window_rows or 0,
        watermark + WINDOW_LENGTH if watermark > EPOCH else None,  # the epoch stands for none yet
    )


def _prove(spark: SparkSession, folder: Path, pairs: int) -> int:
    """Let Spark SQL count the pairs in one batch join, and say whether it finds as many."""
    begin = time.perf_counter()
    for name, price in (("trades", "price"), ("quotes", "bid")):
        rows = spark.read.parquet(str(folder / name))
        rows.selectExpr("symbol", "unix_micros(ts) AS moment", price).createOrReplaceTempView(name)
    say()
    with stage("checking"):
        expected = int(spark.sql(COUNT_PAIRS).collect()[0][0])
    code = judge("Spark SQL, one batch join over all rows", expected, pairs, time.perf_counter() - begin)
    say(
        "(it had all rows before it began; the streaming join took them as they came, and kept its state for a restart)"
    )
    return code
