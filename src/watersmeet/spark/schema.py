"""Translates Spark schemas to Arrow schemas and back, for the types that both have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from watersmeet.spec.errors import SchemaError
from watersmeet.spec.expression import StreamName

__all__ = ["Columns", "arrow_schema", "ddl", "spark_result_schema", "spark_schema"]

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
ALIKE: Final[tuple[tuple[Callable[[pa.DataType], bool], type[spark.DataType]], ...]] = (
    (pa.types.is_uint8, spark.ShortType),
    (pa.types.is_uint16, spark.IntegerType),
    (pa.types.is_uint32, spark.LongType),
    (pa.types.is_large_string, spark.StringType),
    (pa.types.is_large_binary, spark.BinaryType),
    (pa.types.is_date, spark.DateType),
    (pa.types.is_duration, spark.DayTimeIntervalType),
)
"""Further Arrow types, all of whose values Spark has in a type of its own."""


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema for rows of a DataFrame with ``schema``."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType, field.name)) for field in schema.fields])


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return the Spark schema for rows of an Arrow schema; unsigned numbers get a wider type."""
    return spark.StructType([spark.StructField(field.name, _spark_type(field.type, field.name)) for field in schema])


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


def _spark_type(given: pa.DataType, column: str) -> spark.DataType:
    for its, own in SIMPLE.items():
        if given == own:
            return its()
    for holds, its in ALIKE:
        if holds(given):
            return its()
    if pa.types.is_timestamp(given):
        return spark.TimestampNTZType() if given.tz is None else spark.TimestampType()
    if pa.types.is_decimal128(given):
        return spark.DecimalType(given.precision, given.scale)
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return spark.ArrayType(_spark_type(given.value_type, column))
    if pa.types.is_map(given):
        return spark.MapType(_spark_type(given.key_type, column), _spark_type(given.item_type, column))
    if pa.types.is_struct(given):
        return spark.StructType([spark.StructField(field.name, _spark_type(field.type, column)) for field in given])
    raise SchemaError(
        f"column {column!r} has the Arrow type {given}",
        "numbers, decimals, strings, binaries, booleans, dates, timestamps, durations, lists, maps, structs",
        "leave the column out, or name a type that Spark has",
    )
