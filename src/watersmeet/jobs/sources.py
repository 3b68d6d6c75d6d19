"""Makes DataFrames of a job's streams and tables.

A relative folder is one beside the job file. What Spark refuses here is an error about a key of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.types import StructType

from watersmeet.jobs.model import DeltaSource, FileSource, KafkaSource, RateSource, Table
from watersmeet.jobs.packages import lines_for
from watersmeet.jobs.problems import JobError
from watersmeet.jobs.reading import JobFile
from watersmeet.jobs.toml_lines import Path

__all__ = [
    "SPARK_ERRORS",
    "Rows",
    "column",
    "missing_format",
    "read_stream",
    "read_table",
    "refused_by_spark",
    "said_by_spark",
    "select",
    "texts",
]

NOT_FOUND: Final = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source")
SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""What Spark raises: PySpark knows most errors of the JVM, and wraps the others as they are."""


@dataclass(frozen=True)
class Rows:
    """A DataFrame, and which of its columns tell when its rows happened and when they came."""

    frame: DataFrame
    times: tuple[str, ...] = ()
    """Timestamps by which rows were joined: a result's event time is the latest of them."""
    arrivals: tuple[str, ...] = ()
    """When each stream's row arrived; empty unless all streams tell."""


def read_stream(spark: SparkSession, file: JobFile, name: str) -> Rows:
    """Return a stream of the job."""
    source, path = file.job.streams[name], ("streams", name)
    reader = spark.readStream.format(source.format).options(**texts(source.options))
    if isinstance(source, KafkaSource):
        reader = reader.option("kafka.bootstrap.servers", source.servers).option("subscribe", source.topic)
        reader = reader.option("startingOffsets", source.starting_offsets)
        schema = _schema(file, path, source.columns)
        frame = _loaded(file, path, reader.load).select(*_of_kafka(source, schema))
    elif isinstance(source, RateSource):
        frame = _loaded(file, path, reader.option("rowsPerSecond", source.rows_per_second).load)
        frame = _with_arrival(frame, source.arrival, "timestamp")
    else:
        if source.files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", source.files_per_trigger)
        if isinstance(source, FileSource):
            reader = reader.schema(_schema(file, path, source.columns))
        folder = file.folder(source.path)
        frame = _loaded(file, path, lambda: reader.load(folder))
        if isinstance(source, FileSource):
            frame = _with_arrival(frame, source.arrival, "_metadata.file_modification_time")
    names = [one.casefold() for one in frame.columns]
    more = [(key, getattr(source, key, None)) for key in ("key", "arrival")]
    more += [("keep", name) for name in getattr(source, "keep", ())]
    for key, given in more:
        if given is not None and names.count(given.casefold()) > 1:
            raise file.error((*path, key), f"{given} is also in the schema", "a name of its own", "choose another name")
    frame = select(frame, file, path, source.select)
    arrival = None if isinstance(source, DeltaSource) else source.arrival
    return Rows(frame, arrivals=(arrival,) if arrival in frame.columns and arrival is not None else ())


def read_table(spark: SparkSession, file: JobFile, name: str) -> DataFrame:
    """Return a table of the job."""
    table, path = file.job.tables[name], ("tables", name)
    reader = spark.read.format(table.format).options(**texts(table.options))
    if table.columns is not None:
        reader = reader.schema(_schema(file, path, table.columns))
    elif table.format == "csv" and "inferSchema" not in table.options:
        reader = reader.option("inferSchema", "true")
    folder = file.folder(table.path)
    return select(_loaded(file, path, lambda: reader.load(folder)), file, path, table.select)


def select(frame: DataFrame, file: JobFile, path: Path, expressions: list[str] | None) -> DataFrame:
    """Return the columns that a part of the job goes on with."""
    if expressions is None:
        return frame
    try:
        return frame.selectExpr(*expressions)
    except SPARK_ERRORS as error:
        has = f"SQL expressions over the columns {', '.join(frame.columns)}"
        raise file.error((*path, "select"), said_by_spark(error), has, "correct the expression") from error


def column(name: str) -> Any:  # noqa: ANN401 -- a Column of Spark Classic or of Connect
    """Return a column by its name, whatever letters that has."""
    return F.col("`" + name.replace("`", "``") + "`")


def texts(options: dict[str, Any]) -> dict[str, str]:
    """Return options as Spark takes them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def missing_format(error: Exception, file: JobFile, path: Path, format_: str) -> JobError | None:
    """Return what to do where Spark does not know a format; None if that is not what the error says."""
    if NOT_FOUND.search(str(error)) is None:
        return None
    return file.error(
        (*path, "format"),
        f'Spark has no package for "{format_}"',
        "formats whose package the session loads, from Maven by `spark.jars.packages` or from files by `spark.jars`",
        "\n    ".join(("add to the table [spark.settings]:", *lines_for(format_, pyspark.__version__))),
    )


def refused_by_spark(error: Exception, file: JobFile, path: Path) -> JobError:
    """Return the error for a part of the job that Spark refuses."""
    return file.error(
        path, said_by_spark(error), "what Spark can read", "correct it, or look at Spark's own documentation"
    )


def _loaded(file: JobFile, path: Path, load: Callable[[], DataFrame]) -> DataFrame:
    """Return what a reader loads; raise an error about the job if Spark cannot."""
    try:
        return load()
    except SPARK_ERRORS as error:
        part = file.job.streams[str(path[1])] if path[0] == "streams" else file.job.tables[str(path[1])]
        missing = missing_format(error, file, path, part.format)
        if missing is not None:
            raise missing from error
        if isinstance(part, FileSource | DeltaSource | Table):
            path = (*path, "path")
        raise refused_by_spark(error, file, path) from error


def _schema(file: JobFile, path: Path, text: str) -> StructType:
    """Return the schema that a text of Spark's DDL stands for."""
    given = f"{text!r} is the type of one value"
    try:
        schema = StructType.fromDDL(text)
        if isinstance(schema, StructType):
            return schema
    except SPARK_ERRORS as error:
        given = said_by_spark(error)
    allowed = "names and types of columns, as Spark's DDL text"
    raise file.error((*path, "schema"), given, allowed, 'write for example "ts TIMESTAMP, symbol STRING, price INT"')


def _of_kafka(source: KafkaSource, schema: StructType) -> list[Any]:
    """Return the columns of a record's value, and those of its key, time and place that are asked for."""
    value = F.from_json(F.col("value").cast("string"), schema, {"mode": "PERMISSIVE"})
    found = [value[field.name].alias(field.name) for field in schema.fields]
    if source.key is not None:
        found.append(F.col("key").cast("string").alias(source.key))
    if source.arrival is not None:
        found.append(F.col("timestamp").alias(source.arrival))
    return found + [F.col(name) for name in source.keep]


def _with_arrival(frame: DataFrame, name: str | None, moment: str) -> DataFrame:
    return frame if name is None else frame.select("*", F.col(moment).alias(name))


def said_by_spark(error: Exception) -> str:
    """Return the first sentence of what Spark says, without its codes."""
    lines = str(error).strip().split("\n")
    text = lines[1] if isinstance(error, Py4JJavaError) and len(lines) > 1 else lines[0]  # the first names a method
    return re.sub(r"^(: )?([\w.$]+: )?(\[[A-Z_.]+\] )?", "", text).split(" SQLSTATE")[0]
