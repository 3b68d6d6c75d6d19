"""Real jobs on real Spark: results as Spark SQL's batch join has them, restarts, several joins, the end by a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streams import write_files
from watersmeet.jobs.model import KafkaSource
from watersmeet.jobs.problems import JobError
from watersmeet.jobs.reading import JobFile, read_job
from watersmeet.jobs.runner import QueryFailedError, run_job
from watersmeet.jobs.sources import _of_kafka
from watersmeet.jobs.stop import Stop
from watersmeet.live.figures import MicroBatch
from watersmeet.live.history import Figures

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

ROOT = Path(__file__).resolve().parents[2]
STREAMS = """\
checkpoint = "checkpoint"

[streams.trades]
format = "parquet"
path = "trades"
schema = "ts TIMESTAMP, symbol STRING, price INT"
files_per_trigger = 1
arrival = "arrived"

[streams.quotes]
format = "parquet"
path = "quotes"
schema = "ts TIMESTAMP, symbol STRING, bid INT"
files_per_trigger = 1
arrival = "arrived"

[joins.pairs]
left = "trades"
right = "quotes"
on = "left.symbol = right.symbol AND left.price BETWEEN right.bid - 5 AND right.bid + 5"
window = { time = "1 second", ts = "ts", lateness = "1 minute" }
"""
TO_FILES = """
[sink]
format = "parquet"
path = "out"

[trigger]
available_now = true
"""
IN_SPARK_SQL = """
    SELECT l.ts AS left_ts, l.symbol AS left_symbol, price, r.ts AS right_ts, r.symbol AS right_symbol, bid
    FROM trades l JOIN quotes r
    ON l.symbol = r.symbol AND price BETWEEN bid - 5 AND bid + 5
    AND l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND
"""


class Shown:
    """What a run showed."""

    def __init__(self) -> None:
        self.all: list[MicroBatch] = []
        self.tables: list[pa.Table] = []

    def started(self) -> None:
        pass

    def micro_batch(self, batch: MicroBatch) -> None:
        self.all.append(batch)

    def results(self, batch: int, results: pa.Table) -> None:  # noqa: ARG002 -- as it is called
        self.tables.append(results)

    def stopping(self, why: str) -> None:
        pass


def rows(seed: int, value: str, seconds: int) -> pa.Table:
    """Draw a micro-batch of one stream, some seconds after nine."""
    draw = np.random.default_rng(seed)
    moments = 1_767_603_600_000_000 + seconds * 1_000_000 + draw.integers(0, 10_000_000, 300)
    return pa.table(
        {
            "ts": pa.array(moments).cast(pa.timestamp("us", "UTC")),
            "symbol": pa.array([f"S{number}" for number in draw.integers(0, 4, 300)]),
            value: pa.array(draw.integers(0, 100, 300).astype(np.int32)),
        }
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with both streams, two files each."""
    for number, (name, value) in enumerate((("trades", "price"), ("quotes", "bid"))):
        (tmp_path / name).mkdir()
        write_files(tmp_path / name, [rows(10 * number + batch, value, 10 * batch) for batch in range(2)])
    return tmp_path


def job(home: Path, text: str) -> JobFile:
    (home / "job.toml").write_text(text, encoding="utf-8")
    return read_job(home / "job.toml")


def run(spark: SparkSession, file: JobFile) -> Shown:
    shown = Shown()
    with Stop() as stop:
        run_job(file, shown, stop, Figures(), spark)
    return shown


def multiset(frame: DataFrame, columns: list[str]) -> Counter[Any]:
    return Counter(tuple(row) for row in frame.select(columns).collect())


def expected(spark: SparkSession, home: Path) -> Counter[Any]:
    for name in ("trades", "quotes"):
        spark.read.parquet(str(home / name)).createOrReplaceTempView(name)
    frame = spark.sql(IN_SPARK_SQL)
    return multiset(frame, frame.columns)


COLUMNS = ["left_ts", "left_symbol", "price", "right_ts", "right_symbol", "bid"]


def test_oracle_a_job_over_files_gives_spark_sqls_pairs_and_goes_on_from_its_checkpoint(
    spark: SparkSession, home: Path
) -> None:
    file = job(home, STREAMS + TO_FILES)
    shown = run(spark, file)
    result = spark.read.parquet(str(home / "out"))
    pairs = multiset(result, COLUMNS)
    assert pairs == expected(spark, home)
    assert sum(pairs.values()) > 100

    # The figures are those of the results, and latency is measured by both clocks.
    assert sum(one.results or 0 for one in shown.all) == sum(pairs.values())
    assert sum(one.rows for one in shown.all) == 1_200
    busiest = max(shown.all, key=lambda one: one.results or 0)
    assert busiest.event_latency is not None
    assert busiest.event_latency.p95 >= busiest.event_latency.p50 > 0
    ends = time.time()
    arrived = [moment[0].timestamp() for moment in result.selectExpr("greatest(left_arrived, right_arrived)").collect()]
    assert busiest.arrival_latency is not None
    assert busiest.arrival_latency.p50 <= ends - min(arrived)
    assert busiest.joins["pairs"].window_rows is not None
    assert all(0 <= core.busy_seconds <= busiest.seconds for core in busiest.joins["pairs"].cores)

    # New files meet rows from before; what has been given is not given again.
    write_files(home / "quotes", [rows(99, "bid", 5)])
    run(spark, file)
    assert multiset(spark.read.parquet(str(home / "out")), COLUMNS) == expected(spark, home)

    # Another join on its checkpoint fails in a micro-batch, with what watersmeet says.
    write_files(home / "quotes", [rows(98, "bid", 5)])
    other = job(home, (STREAMS + TO_FILES).replace('time = "1 second"', 'time = "2 seconds"'))
    with pytest.raises(QueryFailedError, match="the checkpoint holds the state of another join") as failed:
        run(spark, other)
    assert "new checkpoint" in failed.value.next_step


@pytest.mark.long
def test_oracle_two_joins_and_a_table_in_one_job(spark: SparkSession, home: Path) -> None:
    (home / "levels").mkdir()
    (home / "levels" / "levels.csv").write_text("level,low,up\nlow,0,49\nhigh,50,99\n", encoding="utf-8")
    text = (
        STREAMS
        + """
[tables.levels]
format = "csv"
path = "levels"
schema = "level STRING, low INT, up INT"
options = { header = true }

[joins.again]
left = "pairs"
right = "trades"
on = "left.left_symbol = right.symbol AND right.price BETWEEN left.price - 2 AND left.price + 2"
window = { time = "1 second", ts = { left = "left_ts", right = "ts" }, lateness = "1 minute" }
select = ["left_ts", "left_price AS price", "right_price AS later", "bid"]

[joins.graded]
left = "again"
right = "levels"
on = "left.bid BETWEEN right.low AND right.up"
select = ["left_ts", "price", "later", "bid", "level"]

[sink]
format = "console"

[trigger]
available_now = true
"""
    )
    shown = run(spark, job(home, text))
    found = Counter(tuple(row.values()) for table in shown.tables for row in table.to_pylist())
    for name in ("trades", "quotes"):
        spark.read.parquet(str(home / name)).createOrReplaceTempView(name)
    spark.sql(IN_SPARK_SQL).createOrReplaceTempView("pairs")
    expected = spark.sql("""
        SELECT left_ts, pairs.price, t.price AS later, bid, IF(bid < 50, 'low', 'high') AS level
        FROM pairs JOIN trades t ON left_symbol = t.symbol AND t.price BETWEEN pairs.price - 2 AND pairs.price + 2
        AND left_ts BETWEEN t.ts - INTERVAL 1 SECOND AND t.ts + INTERVAL 1 SECOND
    """)
    assert Counter(tuple(row.values()) for row in expected.toArrow().to_pylist()) == found
    assert sum(found.values()) > 100
    assert set(shown.all[0].joins) == {"pairs", "again"}
    assert all(one.event_latency is None for one in shown.all), "select has left right_ts and ts out"


REFUSED = {
    "a schema": ('"ts TIMESTAMP, symbol STRING, bid INT"', '"ts TIMESTAMPP, symbol STRING, bid INT"', 13, "TIMESTAMPP"),
    "an expression": (
        'arrival = "arrived"\n\n[joins',
        'select = ["bid +", "ts"]\n\n[joins',
        15,
        "streams.quotes.select",
    ),
    "a column of the predicate": ("right.bid - 5", "right.ask - 5", 20, "ask"),
    "a column of the window": ('ts = "ts"', 'ts = "at"', 21, "left has no column at"),
    "types that do not compare": ("left.symbol = right.symbol", "left.symbol = right.bid", 20, "joins.pairs.on"),
    "a routing that does not apply": (
        "left.symbol = right.symbol AND left.price BETWEEN right.bid - 5 AND right.bid + 5",
        'left.price < right.bid"\nrouting = "hash" # ',
        21,
        "joins.pairs.routing",
    ),
    "a package that is not there": (
        'format = "parquet"\npath = "quotes"\nschema = "ts TIMESTAMP, symbol STRING, bid INT"\nfiles_per_trigger = 1',
        'format = "kafka"\nservers = "localhost:1"\ntopic = "quotes"\nschema = "ts TIMESTAMP, symbol STRING, bid INT"',
        11,
        "spark.jars.packages",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_only_spark_can_refuse_has_its_line_too(spark: SparkSession, home: Path, case: str) -> None:
    old, new, line, told = REFUSED[case]
    assert STREAMS.count(old) == 1
    with pytest.raises(JobError) as raised:
        run(spark, job(home, STREAMS.replace(old, new) + TO_FILES))
    assert [number for number, _ in raised.value.problems] == [line]
    assert told in str(raised.value)


def test_a_record_of_kafka_keeps_where_it_stands(spark: SparkSession) -> None:
    given = {"format": "kafka", "servers": "localhost:1", "topic": "t", "schema": "id INT"}
    source = KafkaSource.model_validate({**given, "keep": ["partition", "offset"]})
    records = spark.createDataFrame([(b'{"id": 5}', 1, 42)], "value binary, partition int, offset long")
    (row,) = records.select(*_of_kafka(source, StructType.fromDDL("id INT"))).collect()
    assert row.asDict() == {"id": 5, "partition": 1, "offset": 42}


def test_delta_without_its_package_says_what_to_add(spark: SparkSession, home: Path) -> None:
    with pytest.raises(JobError) as raised:
        run(spark, job(home, STREAMS + TO_FILES.replace('"parquet"', '"delta"')))
    assert "sink.format" in str(raised.value)
    assert "io.delta:delta-spark" in raised.value.next_step


@pytest.mark.long
def test_a_signal_ends_a_job_after_its_micro_batch_even_if_all_its_processes_get_it(home: Path) -> None:
    """The group has Spark's JVM in it: it must not end before the query has."""
    text = STREAMS + TO_FILES.replace("available_now = true", 'every = "1 second"')
    text += '\n[spark]\nmaster = "local[2]"\nmemory = "1g"\n'
    (home / "job.toml").write_text(text, encoding="utf-8")
    program = f"import sys; sys.path[:] = {sys.path!r}; from watersmeet.cli.main import main; sys.exit(main())"
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "run", str(home / "job.toml")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        said = [next(line for line in lines if line.startswith("batch 0"))]
        os.killpg(process.pid, signal.SIGTERM)
        said += list(lines)
        assert process.wait(60) == 0, (home / "log").read_text(errors="replace")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert "SIGTERM: ends after this micro-batch" in "".join(said)
    assert re.search(r"watersmeet: \d+ micro-batch", said[-1])
    started, committed = (len(list((home / "checkpoint" / name).glob("[0-9]*"))) for name in ("offsets", "commits"))
    assert committed >= 1
    assert started - committed <= 1
    assert "Traceback" not in (home / "log").read_text(errors="replace")
