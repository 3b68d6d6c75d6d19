"""Streams that come from Kafka's topics, and results that go to one."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA: Final = "id BIGINT, ts TIMESTAMP, k BIGINT, s STRING"
"""What a message has, as JSON."""
ORIGIN: Final = ("left_partition", "left_offset", "right_partition", "right_offset")
"""Where both rows of a result come from: what it can be known by."""
SERVERS: Final = "kafka.bootstrap.servers"
ROWS_AT_ONCE: Final = 100


def topic_stream(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a topic's messages as a stream, some a micro-batch, each with where it stands."""
    messages = (
        spark.readStream.format("kafka")
        .option(SERVERS, servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_AT_ONCE)
        .load()
    )
    row = F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")
    return messages.select(row, "partition", "offset").select("row.*", "partition", "offset")


def start(pairs: DataFrame, servers: str, topic: str, home: str) -> StreamingQuery:
    """Start a query over all there is, into a topic: ids as the value, and as the key where both rows come from."""
    messages = pairs.select(
        F.to_json(F.struct(*ORIGIN)).alias("key"), F.to_json(F.struct("left_id", "right_id")).alias("value")
    )
    return (
        messages.writeStream.format("kafka")
        .option(SERVERS, servers)
        .option("topic", topic)
        .option("checkpointLocation", f"{home}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
