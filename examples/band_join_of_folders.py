"""A band join over two folders of Parquet files, into a third, on Spark; a second start goes on where the first ended.

Run it: python examples/band_join_of_folders.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import watersmeet as wm

ROWS = 1000


def write(folder: str, number: int, value: str, shift: int) -> None:
    """Write one file of a stream: a row a second, whose value is its number and a shift."""
    first = number * ROWS
    seconds = range(first, first + ROWS)
    rows = pa.table(
        {
            "ts": pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC")),
            value: pa.array([second + shift for second in seconds], pa.int64()),
        }
    )
    pq.write_table(rows, f"{folder}/{number:03d}.parquet")


def run(spark: SparkSession, home: str) -> int:
    """Join all files that have not been joined yet; return how many pairs there are now."""
    trades = spark.readStream.schema("ts timestamp, price bigint").parquet(f"{home}/trades")
    quotes = spark.readStream.schema("ts timestamp, bid bigint").parquet(f"{home}/quotes")
    pairs = wm.join(
        trades,
        quotes,
        on=wm.band("price", "bid", 5),
        window=wm.time_window("10 seconds", ts="ts", lateness="1 minute"),
        name="trades near quotes",
    )
    query = (
        pairs.writeStream.format("parquet")
        .option("path", f"{home}/pairs")
        .option("checkpointLocation", f"{home}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(f"{home}/pairs").count()


def main() -> None:
    """Join two files a side, then one more of each."""
    spark = wm.session(cores=2, memory="1g")
    with tempfile.TemporaryDirectory() as home:
        for folder in ("trades", "quotes"):
            Path(home, folder).mkdir()
        for number in (0, 1):
            write(f"{home}/trades", number, "price", 0)
            write(f"{home}/quotes", number, "bid", 3)
        print(f"first start: {run(spark, home)} pairs")
        write(f"{home}/trades", 2, "price", 0)
        write(f"{home}/quotes", 2, "bid", 3)
        print(f"second start: {run(spark, home)} pairs")
    spark.stop()


if __name__ == "__main__":
    main()
