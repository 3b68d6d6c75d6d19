"""Spark's schemas as Arrow's, against PySpark's own translation. No session is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

import watersmeet as wm
from watersmeet.spark.schema import SIMPLE, arrow_schema, spark_result_schema

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
