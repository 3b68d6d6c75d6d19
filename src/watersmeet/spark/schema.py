"""Translates Spark schemas to Arrow schemas and back, for the types that both have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from watersmeet.spec.errors import SchemaError
from watersmeet.spec.expression import StreamName

__all__ = ["Columns", "arrow_schema", "ddl", "spark_result_schema"]

Columns = dict[str, str]
"""Names of columns, and their Spark types."""

BINARY_COLLATION: Final = "UTF8_BINARY"
SIMPLE: Final[dict[type[spark.DataType], pa.DataType]] = {
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.BooleanType: pa.bool_(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    spark.NullType: pa.null(),
}


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema for rows of a DataFrame with ``schema``."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType, field.name)) for field in schema.fields])


def ddl(columns: Columns) -> str:
    """Return the text by which Spark knows a table of these columns."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def spark_result_schema(
    streams: Mapping[StreamName, spark.StructType],
    names: list[str],
    metadata: Callable[[StreamName, spark.StructField], dict[str, Any]],
) -> spark.StructType:
    """Return the Spark schema of results: all columns of one stream after the other, under these ``names``.

    ``metadata`` says of a stream's column what its results' have; that of the column itself is left out.
    """
    fields = ((stream, field) for stream, schema in streams.items() for field in schema.fields)
    return spark.StructType(
        [
            spark.StructField(name, field.dataType, nullable=True, metadata=metadata(stream, field))
            for name, (stream, field) in zip(names, fields, strict=True)
        ]
    )


def _arrow_type(given: spark.DataType, column: str) -> pa.DataType:
    if isinstance(given, spark.StringType) and given.collation != BINARY_COLLATION:
        raise SchemaError(
            f"column {column!r} has the collation {given.collation}",
            f"strings that compare byte by byte ({BINARY_COLLATION})",
            f"write collate({column}, '{BINARY_COLLATION}') before the join",
        )
    if type(given) in SIMPLE:
        return SIMPLE[type(given)]
    match given:
        case spark.DecimalType():
            return pa.decimal128(given.precision, given.scale)
        case spark.ArrayType():
            return pa.list_(_arrow_type(given.elementType, column))
        case spark.MapType():
            return pa.map_(_arrow_type(given.keyType, column), _arrow_type(given.valueType, column))
        case spark.StructType():
            return pa.struct([pa.field(field.name, _arrow_type(field.dataType, column)) for field in given.fields])
    raise SchemaError(
        f"column {column!r} has the Spark type {given.simpleString()}",
        "numbers, decimals, strings, binaries, booleans, dates, timestamps, intervals, arrays, maps, structs",
        "drop or cast the column before the join",
    )
