"""``decode``: a side of a join whose rows lie in messages, and are decoded where they are packed.

The packer gets one column of bytes from Spark, turns it into Arrow columns and packs them: the rows are never rows of
the JVM. What Spark then knows of a row's time is what the envelopes say, so the query's watermark is taken from them
(:mod:`watersmeet.spark.event_time`); it is the same.

To its checkpoint a join of decoded sides is the join of the same rows as DataFrames: a query may change from one to the
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from watersmeet.spark.decoding.decoder import Decoder
from watersmeet.spark.decoding.fitting import parts_in
from watersmeet.spark.decoding.json_rows import unreadable_column
from watersmeet.spark.decoding.side import Decoded
from watersmeet.spark.decoding.zones import MOMENT, zone_in_arrow
from watersmeet.spark.event_time import DELAY
from watersmeet.spark.schema import arrow_schema, spark_schema
from watersmeet.spark.session import is_case_sensitive
from watersmeet.spec.errors import ColumnTypeError, SchemaError, SpecificationError
from watersmeet.spec.options import BadMessages, MessageFormat, check_options

__all__ = ["decode"]

ZONE: Final = "spark.sql.session.timeZone"


def decode(
    df: DataFrame,
    column: str = "value",
    format: MessageFormat = "json",  # noqa: A002 -- as Spark's readers call it
    *,
    schema: pa.Schema | StructType | str,
    keep: Sequence[str] = (),
    bad: BadMessages = "error",
) -> Decoded:
    """Return a side of a join whose rows are decoded from a column of messages, where they are packed.

    Parameters
    ----------
    df
        A DataFrame with a column of messages, streaming or batch: records of Kafka, or files with ``binaryFile``.
    column
        The name of that column: bytes, or with ``"json"`` also text.
    format
        ``"json"``: each message is one object, and one row. ``"arrow"``: an Arrow IPC stream or file, of any number of
        rows. ``"parquet"``: the bytes of a Parquet file.
    schema
        The columns of a row: Spark's DDL text such as ``"ts timestamp, price bigint"``, a ``StructType`` or a
        ``pyarrow.Schema``. They are found by name; others that messages have are left out. JSON leaves out fields that
        are null; Arrow and Parquet have to have all columns, of the same kinds.
    keep
        Other columns of ``df`` that all rows of a message get, behind their own: such as Kafka's ``partition`` and
        ``offset``. Without it, only the columns of ``schema`` travel.
    bad
        What becomes of a message that cannot be decoded: ``"error"`` fails the query and says which it is; ``"drop"``
        leaves it out as a whole and counts it (``bad_messages`` of :func:`watersmeet.metrics`).

    Returns
    -------
    Decoded
        What :func:`watersmeet.join` and :func:`watersmeet.multijoin` take where they take a DataFrame, in a window.
    """
    check_options(format=format, bad=bad)
    if not isinstance(df, DataFrame):
        raise SpecificationError(
            f"decode was given a {type(df).__module__.partition('.')[0]} {type(df).__name__}",
            "a Spark DataFrame, streaming or batch, with a column of messages",
            "make it one with spark.createDataFrame(…)",
        )
    _check_watermark(df)
    places = [_place(df, column, "column"), *(_place(df, name, "keep") for name in _listed(keep))]
    messages, *beside = (df.schema.fields[place] for place in places)
    kinds = (BinaryType, StringType) if format == "json" else (BinaryType,)
    if not isinstance(messages.dataType, kinds):
        raise ColumnTypeError(
            f"column {column!r} has the Spark type {messages.dataType.simpleString()}",
            "binary, or string with JSON" if format == "json" else f"binary, which {format!r} is",
            "name the column that has the messages, such as value of Kafka or content of binaryFile",
        )
    rows = _struct(schema).toNullable()  # as from_json has it
    whole = StructType([StructField(field.name, field.dataType) for field in (*rows.fields, *beside)])
    arrow = arrow_schema(whole)
    _check_names(whole)
    own = pa.schema(list(arrow)[: len(rows)])
    unreadable = unreadable_column(own) if format == "json" else None
    if unreadable is not None:
        raise ColumnTypeError(
            f"column {unreadable!r} is to be {rows[unreadable].dataType.simpleString()} out of JSON",
            "numbers, decimals, strings, booleans, dates, timestamps, arrays, structs",
            "leave it out of the schema, or use Spark's from_json",
        )
    zone = "UTC"
    if format == "json" and MOMENT in (kind for field in own for kind in parts_in(field.type)):
        zone = zone_in_arrow(df.sparkSession.conf.get(ZONE) or zone)
    decoder = Decoder(format, own, pa.schema(list(arrow)[len(rows) :]), zone, drops_bad=bad == "drop")
    plain = df.toDF(*(f"column_{place}" for place in range(len(df.columns))))
    return Decoded(plain.select(*(f"column_{place}" for place in places)), whole, decoder)


def _struct(schema: pa.Schema | StructType | str) -> StructType:
    """Return the columns of a row as Spark knows them."""
    found: DataType | None = None
    said = f"schema is a {type(schema).__name__}"
    if isinstance(schema, pa.Schema):
        found = spark_schema(schema)
    elif isinstance(schema, str):
        try:
            found = StructType.fromDDL(schema)
            said = f"schema={schema!r} is the type of one value"
        except PySparkException as error:
            said = f"schema={schema!r}: {str(error).strip().splitlines()[0]}"
    elif isinstance(schema, StructType):
        found = schema
    if isinstance(found, StructType) and len(found):
        return found
    raise SpecificationError(
        "schema has no column" if isinstance(found, StructType) else said,
        "names and types of columns: Spark's DDL text, a StructType or a pyarrow.Schema",
        'write for example schema="ts timestamp, symbol string, price bigint"',
    )


def _listed(keep: Sequence[str]) -> Sequence[str]:
    if isinstance(keep, str) or not all(isinstance(name, str) for name in keep):
        raise SpecificationError(f"keep={keep!r}", "a list of names of columns", 'write for example keep=["offset"]')
    return keep


def _place(df: DataFrame, name: str, option: str) -> int:
    """Return the number of a column of a DataFrame, by its name as Spark resolves it."""
    names = df.columns
    found = [place for place, own in enumerate(names) if own == name]
    if not found and not is_case_sensitive(df.sparkSession):
        found = [place for place, own in enumerate(names) if own.casefold() == str(name).casefold()]
    if len(found) == 1:
        return found[0]
    raise SchemaError(
        f"{option} {name!r} of decode is {'no column' if not found else 'more than one column'} of the DataFrame",
        f"one of {', '.join(names)}",
        "check the spelling, or rename it before",
    )


def _check_names(schema: StructType) -> None:
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise SchemaError(
            f"decoded rows have the column {twice[0]!r} twice",
            "columns of different names, those of keep too",
            "leave it out of keep, or rename it before: .withColumnRenamed(…)",
        )


def _check_watermark(df: DataFrame) -> None:
    """Raise where messages have a watermark: the join takes it from what they contain."""
    timed = [field.name for field in df.schema.fields if DELAY in (field.metadata or {})]
    if timed:
        raise SpecificationError(
            f"the DataFrame of decode has a watermark on {timed[0]}",
            "a DataFrame without one: the join takes its watermark from the decoded rows, with the window's lateness",
            f"leave withWatermark({timed[0]!r}, …) out",
        )
