"""Decoded sides on a real local Spark: the same results and metrics as the same rows as DataFrames."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import ArrayType, IntegerType, StructType

import watersmeet as wm
from streams import ids, metrics_of, run, stream, write_files
from watersmeet.spark.decoding.side import Decoded, Side

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

START = 1_700_000_000_000_000
SECOND = 1_000_000
SCHEMA = "id bigint, ts timestamp, k bigint, s string"
WINDOW = wm.time_window(left="4 seconds", right="2500 milliseconds", ts="ts", lateness="1 second")
FILES = "path string, modificationTime timestamp, length long, content binary"
ON = "left.k BETWEEN right.k - 20 AND right.k + 35"
TIMES = (
    "((l.ts >= r.ts AND l.ts <= r.ts + INTERVAL 2500 MILLISECONDS)"
    " OR (l.ts < r.ts AND r.ts <= l.ts + INTERVAL 4 SECONDS))"
)
ROWS, BATCHES = 150, 3


def tables(seed: int, first_id: int = 0, step: int = 5 * SECOND) -> list[pa.Table]:
    """Return micro-batches of five seconds each, in which some rows are too old and some values are missing."""
    draw = np.random.default_rng(seed)
    made = []
    for number in range(BATCHES):
        times = START + number * step + draw.integers(-3 * SECOND, 5 * SECOND, ROWS)
        made.append(
            pa.table(
                {
                    "id": np.arange(ROWS) + number * ROWS + first_id,
                    "ts": pa.array(times, pa.timestamp("us", "UTC"), mask=draw.random(ROWS) < 0.02),
                    "k": pa.array(draw.integers(0, 1_500, ROWS), mask=draw.random(ROWS) < 0.05),
                    "s": pa.array(draw.choice(["a", "é", ""], ROWS)),
                }
            )
        )
    return made


LEFT, RIGHT = tables(1), tables(2, 10_000)


def json_of(rows: pa.Table) -> pa.Table:
    """Return each row as a JSON object, without the fields that are null."""
    place = rows.schema.get_field_index("ts")
    text = rows.set_column(place, "ts", rows["ts"].cast(pa.timestamp("us")).cast(pa.string()))
    objects = [{name: value for name, value in row.items() if value is not None} for row in text.to_pylist()]
    return pa.table({"value": [json.dumps(one, ensure_ascii=False) for one in objects], "offset": range(len(rows))})


def ipc_of(rows: pa.Table) -> pa.Table:
    """Return rows as two Arrow streams, the first with other columns beside and in another order."""
    blobs = []
    for some in (rows.slice(0, 99).select(["s", "k", "ts", "id"]).append_column("more", pa.nulls(99)), rows.slice(99)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, some.schema) as writer:
            writer.write_table(some, max_chunksize=40)
        blobs.append(sink.getvalue().to_pybytes())
    return pa.table({"value": blobs})


def binary_files(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.format("binaryFile").schema(FILES).option("maxFilesPerTrigger", 1)
    return files.load(str(folder))


@pytest.fixture
def sides(spark: SparkSession, tmp_path: Path) -> Callable[[str, str], Side]:
    """Return a side by its name and its form, as a stream of ``BATCHES`` micro-batches."""

    def side(name: str, form: str) -> Side:
        rows = LEFT if name == "left" else RIGHT
        folder = tmp_path / f"{name} {form}"
        if not folder.exists():
            folder.mkdir()
            write_files(folder, [{"json": json_of, "arrow": ipc_of}.get(form, pa.table)(table) for table in rows])
        match form:
            case "json":
                return wm.decode(stream(spark, folder), schema=SCHEMA)
            case "arrow":
                return wm.decode(stream(spark, folder), "value", "arrow", schema=rows[0].schema)
            case "parquet":
                fields = StructType.fromDDL(SCHEMA)
                assert isinstance(fields, StructType)
                return wm.decode(binary_files(spark, folder), "content", "parquet", schema=fields)
        return stream(spark, folder)

    return side


def told(query: StreamingQuery) -> list[Any]:
    """Return what each micro-batch did, and the query's watermark before it."""
    batches = zip(metrics_of(query), query.recentProgress, strict=True)
    return [
        (one.rows_in, one.pairs, one.late_rows, one.null_rows, one.unmatched_rows, progress.eventTime.get("watermark"))
        for one, progress in batches
    ]


def results(spark: SparkSession, home: Path) -> Counter[Any]:
    return Counter(map(tuple, spark.read.parquet(f"{home}/pairs").collect()))


def compared(
    spark: SparkSession, sides: Callable[[str, str], Side], home: Path, forms: tuple[str, str], **options: Any
) -> Counter[Any]:
    """Join decoded sides and the same rows as DataFrames; return the results, which are the same, batch by batch."""
    window = options.pop("window", WINDOW)
    found = []
    for name, (left, right) in (("plain", ("rows", "rows")), ("decoded", forms)):
        pairs = wm.join(sides("left", left), sides("right", right), ON, window, cores=2, **options)
        query = run(pairs, home / name)
        found.append((results(spark, home / name), told(query)))
    assert found[0] == found[1]
    assert len(found[0][0]) > 20
    return found[0][0]


def test_streams_of_messages_equal_streams_of_rows(
    spark: SparkSession, sides: Callable[[str, str], Side], tmp_path: Path
) -> None:
    """The same pairs, late rows and watermarks, micro-batch by micro-batch."""
    compared(spark, sides, tmp_path, ("json", "parquet"))


@pytest.mark.long
def test_batches_equal_spark_sql(spark: SparkSession, sides: Callable[[str, str], Side], tmp_path: Path) -> None:
    for name, form in (("left", "rows"), ("right", "rows"), ("left", "json"), ("right", "arrow")):
        sides(name, form)
    spark.read.parquet(f"{tmp_path}/left rows").createOrReplaceTempView("l")
    spark.read.parquet(f"{tmp_path}/right rows").createOrReplaceTempView("r")
    predicate = ON.replace("left.", "l.").replace("right.", "r.")
    truth = ids(
        spark.table("l")
        .join(spark.table("r"), F.expr(f"{predicate} AND {TIMES}"))
        .selectExpr("l.id left_id", "r.id right_id")
    )
    left = wm.decode(spark.read.parquet(f"{tmp_path}/left json"), schema=SCHEMA, keep=["OFFSET"])
    right = wm.decode(spark.read.parquet(f"{tmp_path}/right arrow"), format="arrow", schema=SCHEMA)
    pairs = wm.join(left, right, ON, WINDOW)
    assert ids(pairs) == truth
    assert pairs.columns == [*(f"left_{name}" for name in ("id", "ts", "k", "s")), "offset"] + [
        f"right_{name}" for name in ("id", "ts", "k", "s")
    ]
    assert pairs.filter("left_id % 150 <> offset").isEmpty()


@pytest.mark.long
@pytest.mark.parametrize(
    ("forms", "options"),
    [
        (("rows", "json"), {"how": "full"}),
        (("json", "arrow"), {"how": "anti", "order": "outer"}),
        (("parquet", "json"), {"late": "keep", "how": "left"}),
        (("json", "rows"), {"window": replace(WINDOW, idle=timedelta(seconds=3))}),
        (("arrow", "parquet"), {"window": wm.count_window(200, order_by="ts")}),
        (("json", "rows"), {"window": wm.count_window(left=70, right=90), "how": "full"}),
        (("parquet", "arrow"), {"routing": "broadcast", "order": "inner"}),
    ],
    ids=str,
)
def test_options(
    spark: SparkSession,
    sides: Callable[[str, str], Side],
    tmp_path: Path,
    forms: tuple[str, str],
    options: dict[str, Any],
) -> None:
    compared(spark, sides, tmp_path, forms, **options)


@pytest.mark.long
def test_joins_of_many(spark: SparkSession, sides: Callable[[str, str], Side], tmp_path: Path) -> None:
    found = []
    for forms in (("rows", "rows", "rows"), ("json", "arrow", "rows")):
        given = {"a": sides("left", forms[0]), "b": sides("right", forms[1]), "c": sides("left", forms[2])}
        many = wm.multijoin(given, "a.k = b.k AND b.k = c.k", wm.time_window("4 seconds", ts="ts"), cores=2)
        query = run(many, tmp_path / str(forms))
        found.append((results(spark, tmp_path / str(forms)), told(query)))
    assert found[0] == found[1]
    assert found[0][0]


@pytest.mark.long
def test_a_query_may_change_from_rows_to_messages_and_back(
    spark: SparkSession, sides: Callable[[str, str], Side], tmp_path: Path
) -> None:
    """To the checkpoint it is the same join. The source is one and the same: text that Spark or the packer decodes."""
    whole = compared(spark, sides, tmp_path / "whole", ("json", "rows"))
    messages, right = tmp_path / "messages", tmp_path / "right"
    for folder in (messages, right):
        folder.mkdir(parents=True)
    for number, form in enumerate(("spark", "packer", "spark")):
        write_files(messages, [json_of(LEFT[number])])
        write_files(right, [RIGHT[number]])
        source = stream(spark, messages)
        row = F.from_json("value", SCHEMA).alias("row")
        left = wm.decode(source, schema=SCHEMA) if form == "packer" else source.select(row).select("row.*")
        run(wm.join(left, stream(spark, right), ON, WINDOW, cores=2), tmp_path / "changed")
    assert results(spark, tmp_path / "changed") == whole


@pytest.mark.long
def test_another_schema_on_the_checkpoint_is_refused(
    spark: SparkSession, sides: Callable[[str, str], Side], tmp_path: Path
) -> None:
    messages = tmp_path / "messages"
    messages.mkdir()
    write_files(messages, [json_of(LEFT[0])])

    def pairs(schema: str) -> DataFrame:
        left = wm.decode(stream(spark, messages), schema=schema)
        return wm.join(left, sides("right", "rows"), ON, WINDOW, cores=2)

    run(pairs("ts timestamp, k bigint"), tmp_path)
    write_files(messages, [json_of(LEFT[1])])
    with pytest.raises(StreamingQueryException, match="columns of left, k: was int64, is int32"):
        run(pairs("ts timestamp, k int"), tmp_path)
    run(pairs("id bigint, ts timestamp, k bigint"), tmp_path)  # columns may be added


@pytest.mark.long
def test_from_json_has_the_same_rows(spark: SparkSession) -> None:
    """Where both can read a message; in a session of another time zone too."""
    messages = [
        '{"ts":"2026-01-05T09:30:00.1234567Z","x":1,"s":"a","d":"2026-01-05","m":1.5,"f":NaN}',
        '{"ts":"2026-07-05T09:30:00","x":-128,"n":"2026-07-05T09:30:00","l":[{"y":1},null,{"z":2}]}',
        '{"ts":"2026-01-05T09:30:00+02:00","f":1,"s":"\\u00e9\\n","b":true,"x":null}',
        ' \n{"unknown":{"x":[1]},"S":"not s"}\t',
        "",
        "  ",
        None,
        "{}",
        '{"ts":"2038-07-01T12:00:00","n":"2038-07-01T12:00:00.1234567","o":{},"e":[null]}',
    ]
    schema = (
        "x tinyint, ts timestamp, n timestamp_ntz, s string, d date, m decimal(9, 3), f double, b boolean,"
        " l array<struct<y: int>>, o struct<y: int not null>, e array<int>, key string"
    )
    frame = spark.createDataFrame([(message, "k") for message in messages], "value string, key string")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        row = F.from_json("value", schema.removesuffix(", key string")).alias("row")
        expected = frame.select(row, "key").select("row.*", "key")
        side = wm.decode(frame, schema=schema.removesuffix(", key string"), keep=["key"])
        other = spark.createDataFrame([("k",)], "other string")
        found = wm.join(side, other, "left.key = right.other", wm.count_window(100)).drop("other")
        assert Counter(map(repr, found.collect())) == Counter(map(repr, expected.collect()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.long
@pytest.mark.parametrize("window", [WINDOW, wm.count_window(100)], ids=["time", "count"])
def test_bad_messages_fail_the_query_or_are_counted(spark: SparkSession, tmp_path: Path, window: wm.TimeWindow) -> None:
    folder = tmp_path / "messages"
    folder.mkdir()
    bad = pa.table({"value": ['{"k":', "[]"], "offset": [7, 8]})
    write_files(folder, [pa.concat_tables([json_of(LEFT[0]), bad])])
    source = stream(spark, folder)

    def pairs(**options: Any) -> DataFrame:
        left = wm.decode(source, schema=SCHEMA, keep=["offset"], **options)
        return wm.join(left, wm.decode(source, schema="k bigint, ts timestamp", bad="drop"), ON, window, cores=2)

    with pytest.raises(
        StreamingQueryException, match=r"cannot be decoded as json: it is not one JSON object"
    ) as caught:
        run(pairs(), tmp_path / "fails")
    assert "offset 7" in str(caught.value)
    query = run(pairs(bad="drop"), tmp_path / "drops")
    assert sum(one.bad_messages for progress in query.recentProgress for one in wm.metrics(progress).values()) == 4
    assert results(spark, tmp_path / "drops")


@pytest.mark.long
def test_results_carry_their_event_time(spark: SparkSession, sides: Callable[[str, str], Side], tmp_path: Path) -> None:
    """A count by windows may follow, and closes as it does behind DataFrames."""
    found = []
    for forms in (("rows", "rows"), ("json", "arrow")):
        pairs = wm.join(sides("left", forms[0]), sides("right", forms[1]), ON, WINDOW, cores=2)
        counted = pairs.groupBy(F.window("right_ts", "2 seconds").alias("w")).agg(F.count("*").alias("pairs"))
        home = tmp_path / str(forms)
        run(counted.select("w.start", "pairs"), home)
        found.append(results(spark, home))
    assert found[0] == found[1]
    assert len(found[0]) > 3


def test_what_decode_refuses(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([], "value binary, n int, a string, A string, ts timestamp")
    good = {"schema": "ts timestamp, k long"}
    for given, said in [
        ({**good, "column": "values"}, "column 'values' of decode is no column of the DataFrame"),
        ({**good, "column": "n"}, "column 'n' has the Spark type int"),
        ({**good, "column": "a", "format": "arrow"}, "column 'a' has the Spark type string"),
        ({**good, "format": "avro"}, "format='avro'"),
        ({**good, "bad": "null"}, "bad='null'"),
        ({**good, "keep": "n"}, "keep='n'"),
        ({**good, "keep": ["m"]}, "keep 'm' of decode is no column"),
        ({**good, "keep": ["ts"]}, "decoded rows have the column 'ts' twice"),
        ({"schema": "k long, k int"}, "decoded rows have the column 'k' twice"),
        ({"schema": "ts timestam"}, "schema='ts timestam'"),
        ({"schema": "int"}, "schema='int'"),
        ({"schema": ""}, "schema"),
        ({"schema": StructType()}, "schema has no column"),
        ({"schema": 5}, "schema is a int"),
        ({"schema": pa.schema([("x", pa.uint64())])}, "column 'x' has the Arrow type uint64"),
        ({"schema": "m map<string, int>"}, "column 'm' is to be map<string,int> out of JSON"),
        ({"schema": "b array<binary>"}, "column 'b' is to be array<binary> out of JSON"),
    ]:
        with pytest.raises(wm.WatersmeetError, match=said.replace("(", r"\(")):
            wm.decode(frame, **given)  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="decode was given a pyarrow Table"):
        wm.decode(pa.table({"value": [b""]}), **good)  # type: ignore[arg-type]
    spark.conf.set("spark.sql.session.timeZone", "PST")
    try:
        with pytest.raises(wm.SpecificationError, match="timeZone is 'PST'"):
            wm.decode(frame, schema="l array<struct<ts: timestamp>>")
        wm.decode(frame, schema="n timestamp_ntz, d date")
        wm.decode(frame, **good, format="parquet")  # type: ignore[arg-type]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    side = wm.decode(frame, **good)
    assert isinstance(side, Decoded)
    deep = StructType().add("l", ArrayType(IntegerType(), containsNull=False), nullable=False)
    assert wm.decode(frame, schema=deep).schema == deep.toNullable()
    with pytest.raises(wm.SpecificationError, match="window=None, and the left side is decoded"):
        wm.join(side, frame, "left.k = right.n", None)
    (tmp_path / "rows").mkdir()
    rows = spark.readStream.schema("value binary, k long, ts timestamp").parquet(str(tmp_path / "rows"))
    with pytest.raises(wm.SpecificationError, match="the DataFrame of decode has a watermark on ts"):
        wm.decode(rows.withWatermark("ts", "1 second"), **good)
    window = wm.time_window("1 second", ts="ts")
    with pytest.raises(wm.SpecificationError, match="'ts' of the left stream has the Spark type timestamp_ntz"):
        wm.join(wm.decode(rows, schema="ts timestamp_ntz, k long"), rows, wm.equal("k"), window)
    with pytest.raises(wm.SpecificationError, match="left is batch, right is streaming"):
        wm.join(side, wm.decode(rows, **good), wm.equal("k"), window)


def test_a_decoded_side_says_what_it_is(spark: SparkSession) -> None:
    """Names are found as Spark finds them, in whatever letters."""
    frame = spark.createDataFrame([(b"{}", 1)], "`a.Value é` binary, n int")
    side = wm.decode(frame, "A.vALUE É", schema=pa.schema([("x", pa.uint16()), ("t", pa.large_string())]), keep=["N"])
    assert side.schema.simpleString() == "struct<x:int,t:string,n:int>"
    assert not side.isStreaming
    assert side.frame.columns == ["column_0", "column_1"]
