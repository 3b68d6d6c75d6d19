"""Spark's schemas as Arrow's, against PySpark's own translation. No session is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

import watersmeet as wm
from watersmeet.spark.schema import SIMPLE, arrow_schema, spark_result_schema, spark_schema

NESTED = spark.StructType(
    [
        spark.StructField("list", spark.ArrayType(spark.DecimalType(9, 2))),
        spark.StructField("map", spark.MapType(spark.StringType(), spark.LongType())),
        spark.StructField("row", spark.StructType([spark.StructField("x", spark.DateType())])),
    ]
)


def struct(**columns: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])


def test_types_are_those_that_pyspark_sends() -> None:
    schema = struct(**{kind.__name__: kind() for kind in SIMPLE}, decimal=spark.DecimalType(38, 18), nested=NESTED)
    expected = to_arrow_schema(schema, timezone="UTC")
    found = arrow_schema(schema)
    assert found.names == expected.names
    for own, its in zip(found.types, expected.types, strict=True):
        assert own == its or str(own) == str(its)


def test_arrow_schemas_come_back_as_they_were() -> None:
    schema = struct(**{kind.__name__: kind() for kind in SIMPLE}, decimal=spark.DecimalType(38, 18), nested=NESTED)
    assert spark_schema(arrow_schema(schema)) == schema


def test_wider_types_for_what_spark_has_no_type_of_its_own() -> None:
    names = {
        "smallint": pa.uint8(),
        "int": pa.uint16(),
        "bigint": pa.uint32(),
        "string": pa.large_string(),
        "binary": pa.large_binary(),
        "date": pa.date64(),
        "timestamp": pa.timestamp("ns", "Europe/Berlin"),
        "timestamp_ntz": pa.timestamp("s"),
        "interval day to second": pa.duration("ms"),
        "array<smallint>": pa.large_list(pa.uint8()),
    }
    found = spark_schema(pa.schema(list(names.items())))
    assert [field.dataType.simpleString() for field in found] == list(names)
    for refused in (pa.uint64(), pa.float16(), pa.list_(pa.time64("us")), pa.decimal256(50, 2)):
        with pytest.raises(wm.SchemaError, match="column 'x' has the Arrow type"):
            spark_schema(pa.schema([("x", refused)]))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (spark.StringType("UNICODE_CI"), "collation UNICODE_CI"),
        (spark.CalendarIntervalType(), "interval"),
        (spark.VariantType(), "variant"),
    ],
    ids=str,
)
def test_types_refused(kind: spark.DataType, text: str) -> None:
    for given in (kind, spark.ArrayType(kind)):
        with pytest.raises(wm.SchemaError, match=text) as caught:
            arrow_schema(struct(column=given))
        assert "'column'" in str(caught.value)


def test_results_have_all_columns_under_their_new_names() -> None:
    left, right = struct(k=spark.LongType(), x=spark.DateType()), struct(k=spark.StringType())
    result = spark_result_schema({"left": left, "right": right}, ["left_k", "x", "right_k"], lambda *_: {})
    assert [(field.name, type(field.dataType), field.nullable) for field in result] == [
        ("left_k", spark.LongType, True),
        ("x", spark.DateType, True),
        ("right_k", spark.StringType, True),
    ]
    assert arrow_schema(result).types == [pa.int64(), pa.date32(), pa.string()]
