"""What tests of streaming joins share: files as streams, running to the end, pairs as a multiset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet.spark.pipeline import METRICS

Pairs = Counter[tuple[int, int]]


def stream(spark: SparkSession, folder: Path | str) -> DataFrame:
    """Return a folder's files as a stream, one a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def start(pairs: DataFrame, home: Path | str) -> StreamingQuery:
    """Start a query over all there is, into files."""
    return (
        pairs.writeStream.format("parquet")
        .option("path", f"{home}/pairs")
        .option("checkpointLocation", f"{home}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )


def run(pairs: DataFrame, home: Path | str) -> StreamingQuery:
    """Run a query over all there is, into files."""
    query = start(pairs, home)
    query.awaitTermination()
    return query


def ids(frame: DataFrame) -> Pairs:
    """Return the pairs of ids that a frame holds, each as often as it holds it."""
    return Counter((row.left_id, row.right_id) for row in frame.select("left_id", "right_id").collect())


def committed(spark: SparkSession, home: Path | str) -> Pairs:
    """Return the pairs that a query has committed: the sink's log says which files count."""
    return ids(spark.read.parquet(f"{home}/pairs"))


def metrics_of(query: StreamingQuery) -> list[Any]:
    """Return the join's metrics, micro-batch by micro-batch."""
    return [p.observedMetrics[METRICS] for p in query.recentProgress if METRICS in p.observedMetrics]
