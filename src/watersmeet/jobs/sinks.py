"""Where the results of a job go: the writer of its query, and what its sink guarantees."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.jobs.model import ConsoleSink, KafkaSink
from watersmeet.jobs.reading import JobFile
from watersmeet.jobs.sources import column, texts

__all__ = ["ShowResults", "writer"]

ShowResults = Callable[[int, pa.Table], None]
"""Shows a micro-batch's number and results."""


def writer(frame: DataFrame, file: JobFile, show: ShowResults) -> DataStreamWriter:
    """Return the writer of a job's results; ``show`` is for a console sink."""
    job, sink = file.job, file.job.sink
    named = [("key", sink.key)] if isinstance(sink, KafkaSink) and sink.key is not None else []
    named += [("partition_by", one) for one in getattr(sink, "partition_by", ())]
    for key, name in named:
        if name.casefold() not in [one.casefold() for one in frame.columns]:
            columns = ", ".join(frame.columns)
            raise file.error(("sink", key), f"the results have no column {name}", columns, "name one of these")
    writing = (_as_records(frame, sink) if isinstance(sink, KafkaSink) else frame).writeStream
    writing = writing.queryName(job.name).outputMode("append")
    if job.checkpoint is not None:
        writing = writing.option("checkpointLocation", file.folder(job.checkpoint))
    if job.trigger.available_now:
        writing = writing.trigger(availableNow=True)
    elif job.trigger.every is not None:
        writing = writing.trigger(processingTime=job.trigger.every)
    if isinstance(sink, ConsoleSink):
        return writing.foreachBatch(lambda batch, number: show(number, batch.toArrow()))
    writing = writing.format(sink.format).options(**texts(sink.options))
    if isinstance(sink, KafkaSink):
        return writing.option("kafka.bootstrap.servers", sink.servers).option("topic", sink.topic)
    if sink.partition_by:
        writing = writing.partitionBy(*sink.partition_by)
    return writing.option("path", file.folder(sink.path))


def _as_records(frame: DataFrame, sink: KafkaSink) -> DataFrame:
    """Return results as JSON objects, with a key where one is asked for."""
    value = F.to_json(F.struct(*(column(name) for name in frame.columns)), {"ignoreNullFields": "false"})
    key = [] if sink.key is None else [column(sink.key).cast("string").alias("key")]
    return frame.select(value.alias("value"), *key)
