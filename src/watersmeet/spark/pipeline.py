"""The query plan of all joins on Spark: from DataFrames, streaming or batch, to a DataFrame of results.

``mapInArrow`` packs each stream into envelopes, which Spark shuffles by core. ``transformWithStateInPandas`` joins
them. Its results come in files or blobs, which ``mapInArrow`` unpacks. See ``ARCHITECTURE.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import TimestampNTZType

from watersmeet.spark.core_ids import core_ids
from watersmeet.spark.envelope import ENVELOPE, arranger, packer, unpacker
from watersmeet.spark.ordering import ResultOrder, merger
from watersmeet.spark.output import OUTPUT, REPORT, Total, totals
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.schema import ddl, spark_result_schema
from watersmeet.spark.sequencer import Sequencer
from watersmeet.spark.session import bytes_setting
from watersmeet.spec.durations import format_duration
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import StreamName
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, Window, Windows
from watersmeet.window.streams import Streams

__all__ = ["cache_bytes", "check_frames", "ids_of", "partitions_of", "pipeline"]

WATERMARK: Final = "spark.watermarkDelayMs"
CACHE_BYTES: Final = "spark.watersmeet.cacheBytes"
"""Setting of a session: bytes of decoded runs that each executor may keep on its disk."""
DEFAULT_CACHE_BYTES: Final = 8 << 30


def pipeline(
    frames: Mapping[StreamName, DataFrame],
    *,
    streams: Streams,
    window: Window | Windows,
    routes: Routes,
    core_ids: tuple[int, ...],
    processor: StatefulProcessor,
    result: pa.Schema,
    name: str,
    digest: str,
    order: ResultOrder | None = None,
) -> DataFrame:
    """Return the results of ``processor``, which takes envelopes and gives rows of ``OUTPUT``.

    The query's progress shows the metrics under ``name``; ``digest`` tells listeners the join that they belong to.
    """
    timed = {stream: _with_plain_names(_watermarked(frame, stream, window)) for stream, frame in frames.items()}
    if isinstance(window, CountWindow | CountWindows):
        routed = _sequenced(timed, streams, routes, core_ids)
    else:
        routed = _united(
            frame.mapInArrow(packer(streams, stream, routes, core_ids), ddl(ENVELOPE))
            for stream, frame in timed.items()
        )
    is_streaming = next(iter(frames.values())).isStreaming
    joined = routed.groupBy("core").transformWithStateInPandas(
        processor,
        outputStructType=ddl(OUTPUT),
        outputMode="Append",
        timeMode="EventTime" if is_streaming and streams.lateness is not None else "None",
    )
    columns = spark_result_schema([frame.schema for frame in frames.values()], result.names)
    observed = _observed(joined, name, digest)
    if order is not None:
        return observed.select("place", "blob").repartition(1).mapInArrow(merger(order), columns)
    return observed.select("blob", "file").mapInArrow(unpacker(), columns)


def _watermarked(frame: DataFrame, stream: StreamName, window: Window | Windows) -> DataFrame:
    """Return a stream of a time window with a watermark; one that the user has set is checked and kept."""
    if not frame.isStreaming or isinstance(window, CountWindow | CountWindows):
        return frame
    ts = ({"left": window.left_ts, "right": window.right_ts} if isinstance(window, TimeWindow) else window.ts)[stream]
    delays = {field.name: (field.metadata or {}).get(WATERMARK) for field in frame.schema.fields}
    watermarked = [name for name, delay in delays.items() if delay is not None]
    if not watermarked:
        _check_watermark_column(frame, stream, ts)
        place = frame.columns.index(ts)
        plain = _with_plain_names(frame)
        return plain.withWatermark(plain.columns[place], format_duration(window.lateness))
    if ts not in watermarked:
        raise SpecificationError(
            f"the {stream} stream has a watermark on {', '.join(watermarked)}, its window is on {ts}",
            "a watermark on the window's own column, or none: then it gets one with the window's lateness",
            f"call withWatermark({ts!r}, …) instead, or leave it out",
        )
    delay = timedelta(milliseconds=int(delays[ts] or 0))
    if delay < window.lateness:
        raise SpecificationError(
            f"the {stream} stream has a watermark of {format_duration(delay)}, its window a lateness of "
            f"{format_duration(window.lateness)}",
            "a watermark of the window's lateness at least, or none: then it gets one of just that",
            f"leave withWatermark({ts!r}, …) out, or give both the same length",
        )
    return frame


def _check_watermark_column(frame: DataFrame, stream: StreamName, ts: str) -> None:
    """Raise for a timestamp column that cannot have a watermark in Spark."""
    if isinstance(frame.schema[ts].dataType, TimestampNTZType):
        raise SpecificationError(
            f"the window's column {ts!r} of the {stream} stream has the Spark type timestamp_ntz",
            "timestamp, in a streaming join: Spark's watermarks know no other",
            f'cast it before the join: .withColumn("{ts}", col("{ts}").cast("timestamp"))',
        )


def _with_plain_names(frame: DataFrame) -> DataFrame:
    """Return the DataFrame with names by which PySpark finds every column: plain ones that differ in more than case.

    Packers find columns by position, so the names do not matter to them.
    """
    names = frame.columns
    are_plain = all(name.isascii() and name.isidentifier() for name in names)
    if are_plain and len({name.lower() for name in names}) == len(names):
        return frame
    return frame.toDF(*(f"column_{place}" for place in range(len(names))))


def _sequenced(
    frames: Mapping[StreamName, DataFrame], streams: Streams, routes: Routes, core_ids: tuple[int, ...]
) -> DataFrame:
    """Return envelopes of rows that have been numbered, for a count window."""
    arranged = _united(
        frame.mapInArrow(arranger(streams, stream, core_ids[0]), ddl(ENVELOPE)) for stream, frame in frames.items()
    )
    return arranged.groupBy("core").transformWithStateInPandas(
        Sequencer(streams, routes, core_ids), outputStructType=ddl(ENVELOPE), outputMode="Append", timeMode="None"
    )


def _united(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _observed(joined: DataFrame, name: str, digest: str) -> DataFrame:
    """Add totals and each core's record to the query's progress."""
    is_record = F.col("core") >= 0
    decisions = F.split(F.coalesce(F.max("decisions"), F.lit("")), "\n")
    return joined.observe(
        name,
        *(F.coalesce(F.sum(total), F.lit(0)).alias(total) for total in totals(Total.DONE)),
        *(F.sum(F.when(is_record, F.col(total))).alias(total) for total in totals(Total.HELD)),
        F.collect_list(F.when(is_record, F.struct(*REPORT))).alias("cores"),
        F.struct(
            F.max("generation").alias("generation"),
            F.filter(decisions, lambda reason: reason != "").alias("decisions"),
        ).alias("balance"),
        F.coalesce(F.max(F.lit(digest)), F.lit(digest)).alias("join"),  # also where no core heard of it
    )


# --- checks and settings of all joins -------------------------------------------------------------------------------


def check_frames(frames: Mapping[StreamName, DataFrame]) -> SparkSession:
    """Return the session of the DataFrames; raise unless all are streaming or all are batch."""
    for stream, frame in frames.items():
        if not isinstance(frame, DataFrame):
            raise SpecificationError(
                f"{stream} is a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}",
                "a Spark DataFrame, streaming or batch",
                "make it one with spark.createDataFrame(…), or join tables in this process with wm.StreamJoin",
            )
    modes = {stream: "streaming" if frame.isStreaming else "batch" for stream, frame in frames.items()}
    if len(set(modes.values())) > 1:
        raise SpecificationError(
            ", ".join(f"{stream} is {mode}" for stream, mode in modes.items()),
            "streaming DataFrames or batch DataFrames alone",
            "read all with readStream, or all with read; in a join of two a batch side may be a table to look up: then "
            "give window=None",
        )
    return next(iter(frames.values())).sparkSession


def ids_of(spark: SparkSession, cores: int | None) -> tuple[int, ...]:
    """Return ids of cores, spread over the session's shuffle partitions; by default as many as partitions."""
    partitions = partitions_of(spark)
    return core_ids(cores or partitions, partitions)


def partitions_of(spark: SparkSession) -> int:
    """Return the number of the session's shuffle partitions."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def cache_bytes(spark: SparkSession) -> int:
    """Return the bytes of decoded runs that an executor may keep."""
    given = bytes_setting(spark, CACHE_BYTES, example=DEFAULT_CACHE_BYTES)
    return DEFAULT_CACHE_BYTES if given is None else given
