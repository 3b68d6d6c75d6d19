"""The query plan of all joins on Spark: from DataFrames, streaming or batch, to a DataFrame of results.

``mapInArrow`` packs each stream into envelopes, which Spark shuffles by core. ``transformWithStateInPandas`` joins
them. Its results come in files or blobs, which ``mapInArrow`` unpacks. See ``ARCHITECTURE.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StringType

from watersmeet.spark.core_ids import core_ids
from watersmeet.spark.decoding.decoder import Decoder
from watersmeet.spark.decoding.side import Decoded, Side
from watersmeet.spark.envelope import ENVELOPE, arranger, packer
from watersmeet.spark.event_time import EventTime
from watersmeet.spark.late_rows import LATE
from watersmeet.spark.ordering import ResultOrder, merger
from watersmeet.spark.output import OUTPUT, REPORT, Total, totals
from watersmeet.spark.result_files import unpacker
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.schema import ddl, spark_result_schema
from watersmeet.spark.sequencer import Sequencer
from watersmeet.spark.session import bytes_setting
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import StreamName
from watersmeet.window.streams import Streams

__all__ = ["cache_bytes", "check_frames", "ids_of", "partitions_of", "pipeline"]

CACHE_BYTES: Final = "spark.watersmeet.cacheBytes"
"""Setting of a session: bytes of decoded runs that each executor may keep on its disk."""
DEFAULT_CACHE_BYTES: Final = 8 << 30


def pipeline(
    frames: Mapping[StreamName, Side],
    *,
    streams: Streams,
    times: EventTime,
    keeps_late: bool = False,
    routes: Routes,
    core_ids: tuple[int, ...],
    processor: StatefulProcessor,
    result: pa.Schema,
    name: str,
    digest: str,
    returned: Iterable[StreamName] | None = None,
    order: ResultOrder | None = None,
) -> DataFrame:
    """Return the results of ``processor``, which takes envelopes and gives rows of ``OUTPUT``.

    They have the columns of the streams ``returned``, by default of all. The query's progress shows the metrics under
    ``name``; ``digest`` tells listeners the join that they belong to.
    """
    if streams.lateness is None:
        routed = _sequenced(frames, streams, times, routes, core_ids)
    else:
        packed = []
        for stream, side in frames.items():
            pack = packer(streams, stream, routes, core_ids, decoder=_decoder_of(side), marks_first=keeps_late)
            envelopes = times.on_stream(side, stream).mapInArrow(pack, ddl(ENVELOPE))
            packed.append(times.on_packed(envelopes, side, stream))
        routed = times.on_envelopes(_united(packed))
    is_streaming = next(iter(frames.values())).isStreaming
    joined = routed.groupBy("core").transformWithStateInPandas(
        processor,
        outputStructType=ddl(OUTPUT),
        outputMode="Append",
        timeMode="EventTime" if is_streaming and streams.lateness is not None else "None",
    )
    columns = spark_result_schema(
        {stream: frames[stream].schema for stream in returned or frames}, result.names, times.of_results
    )
    if keeps_late:
        columns = columns.add(LATE, StringType())
    observed = _observed(joined, name, digest)
    if order is not None:
        return observed.select("place", "blob").repartition(1).mapInArrow(merger(order), columns)
    return observed.select("blob", "file").mapInArrow(unpacker(), columns)


def _sequenced(
    frames: Mapping[StreamName, Side], streams: Streams, times: EventTime, routes: Routes, core_ids: tuple[int, ...]
) -> DataFrame:
    """Return envelopes of rows that have been numbered, for a count window."""
    arranged = _united(
        times.on_stream(side, stream).mapInArrow(
            arranger(streams, stream, core_ids[0], _decoder_of(side)), ddl(ENVELOPE)
        )
        for stream, side in frames.items()
    )
    return arranged.groupBy("core").transformWithStateInPandas(
        Sequencer(streams, routes, core_ids), outputStructType=ddl(ENVELOPE), outputMode="Append", timeMode="None"
    )


def _decoder_of(side: Side) -> Decoder | None:
    return side.decoder if isinstance(side, Decoded) else None


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
        F.max("waiting_for").alias("waiting_for"),
        F.coalesce(F.max(F.lit(digest)), F.lit(digest)).alias("join"),  # also where no core heard of it
    )


# --- checks and settings of all joins -------------------------------------------------------------------------------


def check_frames(frames: Mapping[StreamName, Side]) -> SparkSession:
    """Return the session of the DataFrames; raise unless all are streaming or all are batch."""
    for stream, frame in frames.items():
        if not isinstance(frame, Side):
            raise SpecificationError(
                f"{stream} is a {type(frame).__module__.partition('.')[0]} {type(frame).__name__}",
                "a Spark DataFrame, streaming or batch, or what wm.decode returns",
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
