"""What tests of streaming joins share: files as streams, running to the end, pairs as a multiset."""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Pairs = Counter[tuple[int, int]]
FIRST_WRITTEN: Final = 1_700_000_000
PATIENT: Final = {
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.network.timeout": "600s",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # few rows: better code would not pay for its making
}
"""Settings of a session whose tests are right on a busy machine too."""
TOO_SLOW: Final = "Python worker failed to connect back"
"""What a query fails with when its first Python process takes ten seconds to start, which no setting changes."""
MOST_STARTS: Final = 5


def write_files(folder: Path, tables: list[pa.Table]) -> Path:
    """Write tables as the files of a stream, after those that are there already; Spark reads them in this order."""
    for number, table in enumerate(tables, start=len(list(folder.iterdir()))):
        file = folder / f"{number:03d}.parquet"
        pq.write_table(table, file)
        os.utime(file, (FIRST_WRITTEN + number, FIRST_WRITTEN + number))
    return folder


def begin_query(home: Path) -> str:
    """Give a query that has not begun its id, so that its routing tables can be written before; return the id."""
    name = str(uuid.uuid4())
    (home / "checkpoint").mkdir(parents=True)
    (home / "checkpoint" / "metadata").write_text(json.dumps({"id": name}))
    return name


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
    return run_to_end(lambda: start(pairs, home))


def run_to_end(begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query to its end; start it again where the machine was too busy for its first batch."""
    for attempt in range(1, MOST_STARTS + 1):
        query = begin()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error) or attempt == MOST_STARTS:
                raise
        else:
            break
    return query


def ids(frame: DataFrame) -> Pairs:
    """Return the pairs of ids that a frame holds, each as often as it holds it."""
    return Counter((row.left_id, row.right_id) for row in frame.select("left_id", "right_id").collect())


def committed(spark: SparkSession, home: Path | str) -> Pairs:
    """Return the pairs that a query has committed: the sink's log says which files count."""
    return ids(spark.read.parquet(f"{home}/pairs"))


def metrics_of(query: StreamingQuery) -> list[Any]:
    """Return the metrics of a query's only join, micro-batch by micro-batch, as Spark shows them."""
    return [metrics for progress in query.recentProgress for metrics in progress.observedMetrics.values()]
