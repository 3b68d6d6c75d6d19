"""What is compacted for the state store comes back as it was, whatever the values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.spark.compact_integers import compact, restore

INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 300), st.sampled_from([2**62, 2**62 + 2**32]))
COLUMNS = st.lists(st.tuples(INT64, INT64, st.one_of(st.none(), INT64), st.floats(allow_nan=False), st.text()))
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("some", pa.int64()),
        pa.field("v", pa.float64(), metadata={b"kept": b"yes"}),
        ("s", pa.string()),
    ],
    metadata={b"of": b"the schema"},
)


@given(rows=COLUMNS)
def test_oracle_narrowed_rows_come_back(rows: list[tuple[int, int, int | None, float, str]]) -> None:
    values = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    whole = pa.record_batch(
        [pa.array(list(some), field.type) for some, field in zip(values, SCHEMA, strict=True)], SCHEMA
    )
    back = restore(compact(whole), SCHEMA)
    assert back.equals(whole)
    assert back.schema.equals(SCHEMA, check_metadata=True)


@pytest.mark.parametrize(
    ("span", "width"), [(255, 8), (256, 16), (65_535, 16), (65_536, 32), (2**32 - 1, 32), (2**32, 64)]
)
def test_a_column_gets_the_narrowest_type_that_holds_its_span(span: int, width: int) -> None:
    smallest = -(2**63)
    rows = pa.record_batch({"k": pa.array([smallest, smallest + span], pa.int64())})
    assert compact(rows).schema.field("k").type.bit_width == width
    assert restore(compact(rows), rows.schema).equals(rows)


def test_a_slice_is_narrowed_alone() -> None:
    rows = pa.record_batch({"k": pa.array([2**60, 5, 6, 7], pa.int64())}).slice(1)
    assert compact(rows).schema.field("k").type == pa.uint8()
    assert restore(compact(rows), rows.schema).equals(rows)
