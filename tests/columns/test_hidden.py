"""Hidden columns: behind the rows' own, found by place, and under names that no user's column has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.columns.hidden import (
    add_hidden,
    ends_hidden,
    hidden_at,
    hidden_field,
    hidden_names,
    hidden_of,
    is_hidden,
    labelled,
    own_schema,
    split_hidden,
    unlabelled,
    with_hidden,
)

SCHEMA = pa.schema([pa.field("x", pa.int32(), nullable=False), ("text", pa.string())], {"from": "a test"})
ROWS = pa.RecordBatch.from_pydict({"x": [3, 1, 2], "text": ["c", None, "b"]}, schema=SCHEMA)
NUMBERS = {"number": np.array([7, 8, 9]), "kept": np.array([True, False, True]), "small": np.array([1, 2, 3], np.int32)}


def test_rows_come_back_with_what_was_hidden_behind_them() -> None:
    own, hidden = split_hidden(add_hidden(ROWS, NUMBERS), SCHEMA)
    assert own.equals(ROWS, check_metadata=True)
    assert list(hidden) == list(NUMBERS)
    for name, values in NUMBERS.items():
        assert hidden[name].dtype == values.dtype
        assert np.array_equal(hidden[name], values)


def test_names_on_the_way_are_those_of_every_format_so_far() -> None:
    wide = add_hidden(ROWS, labelled("count ", NUMBERS))
    assert wide.schema.names == ["x", "text", "\0count number", "\0count kept", "\0count small"]
    assert hidden_names(wide.schema, 2) == ["count number", "count kept", "count small"]
    assert [is_hidden(field) for field in wide.schema] == [False, False, True, True, True]


def test_a_schema_with_hidden_columns_is_that_of_the_rows_with_them() -> None:
    wide = add_hidden(ROWS, {"a": NUMBERS["number"], "b": NUMBERS["number"]}).schema
    assert with_hidden(SCHEMA, ["a", "b"]).equals(wide, check_metadata=True)
    assert own_schema(wide, 2).equals(SCHEMA, check_metadata=True)
    assert ends_hidden(wide, ["a", "b"])
    assert ends_hidden(wide, ["b"])
    assert ends_hidden(wide, [])
    assert not ends_hidden(wide, ["a"])
    assert not ends_hidden(wide, ["b", "a"])
    assert not ends_hidden(pa.schema([hidden_field("a")]), ["a", "a"])
    assert not ends_hidden(add_hidden(ROWS, {"small": NUMBERS["small"]}).schema, ["small"])  # another type


def test_nothing_hidden_leaves_rows_as_they_are() -> None:
    assert add_hidden(ROWS, {}) is ROWS
    assert split_hidden(ROWS, SCHEMA)[1] == {}


def test_own_columns_may_have_any_name() -> None:
    odd = ROWS.rename_columns(["\0number", "\0text"])
    own, hidden = split_hidden(add_hidden(odd, {"number": NUMBERS["number"]}), odd.schema)
    assert own.equals(odd)
    assert np.array_equal(hidden["number"], NUMBERS["number"])


def test_a_hidden_column_is_found_by_place_and_by_name() -> None:
    wide = add_hidden(ROWS, NUMBERS)
    assert np.array_equal(hidden_at(wide, -1), NUMBERS["small"])
    assert np.array_equal(hidden_at(wide, -3), NUMBERS["number"])
    assert np.array_equal(hidden_of(wide, "kept"), NUMBERS["kept"])
    assert np.array_equal(hidden_of(pa.Table.from_batches([wide, wide]), "number"), [7, 8, 9, 7, 8, 9])


def test_rows_without_columns_of_their_own_have_hidden_ones() -> None:
    wide = add_hidden(pa.RecordBatch.from_arrays([], names=[]), {"number": NUMBERS["number"]})
    assert wide.num_rows == len(NUMBERS["number"])


def test_numbers_are_not_copied() -> None:
    wide = add_hidden(ROWS, {"number": NUMBERS["number"]})
    assert np.shares_memory(split_hidden(wide, SCHEMA)[1]["number"], NUMBERS["number"])


def test_a_hidden_column_with_nulls_was_never_added() -> None:
    wide = ROWS.append_column(hidden_field("number"), pa.array([1, None, 3]))
    with pytest.raises(ValueError, match="'number' has nulls"):
        split_hidden(wide, SCHEMA)


def test_labels_tell_columns_of_one_name_apart() -> None:
    both = labelled("key ", {"a": NUMBERS["number"]}) | labelled("row ", {"a": NUMBERS["small"]})
    assert list(both) == ["key a", "row a"]
    assert unlabelled("row ", both) == {"a": NUMBERS["small"]}
