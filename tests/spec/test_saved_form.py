"""Joins as JSON: what is written reads back equal and has one form; anything else is refused by our own error."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from expressions import PREDICATES
from strategies import windows
from watersmeet.spec import expression as ex
from watersmeet.spec.saved_form import (
    predicate_from_json,
    predicate_to_json,
    schema_to_json,
    window_from_json,
    window_to_json,
)
from watersmeet.spec.strict_json import canonical, read_json
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, TimeWindows

STREAM_WINDOWS = [
    wm.time_window({"a": "1 minute", "b": timedelta(0)}, ts={"a": "ts", "b": "at"}, lateness="1 day"),
    wm.count_window({"a": 3, "b": 4}),
    wm.count_window({"a": 3, "b": 4}, order_by={"a": "x", "b": "y"}),
]


@given(PREDICATES)
def test_predicate_reads_back_equal(predicate: ex.Predicate) -> None:
    text = canonical(predicate_to_json(predicate))
    again = predicate_from_json(read_json(text))
    assert again == predicate
    assert canonical(predicate_to_json(again)) == text


@given(windows() | st.sampled_from(STREAM_WINDOWS))
def test_window_reads_back_equal(window: TimeWindow | CountWindow | TimeWindows | CountWindows) -> None:
    assert window_from_json(read_json(canonical(window_to_json(window)))) == window


def changed(content: Any, rng: random.Random) -> Any:
    """Return JSON with one place changed: dropped, doubled, or replaced by something else."""
    places: list[tuple[Any, Any]] = []
    pending = [content]
    while pending:
        node = pending.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        places += [(node, key) for key in keys]
        pending += [node[key] for key in keys]
    node, key = rng.choice(places)
    match rng.randrange(3):
        case 0:
            del node[key]
        case 1 if isinstance(node, list):
            node.insert(key, node[key])
        case _:
            node[key] = rng.choice([None, True, 0, -1, 2**70, 10**45, 1.5, "", "x", "decimal(1,2)", [], {}, node[key]])
    return content


@given(PREDICATES, st.integers(0, 2**32))
def test_changed_predicate_is_refused_or_another(predicate: ex.Predicate, seed: int) -> None:
    content = changed(json.loads(canonical(predicate_to_json(predicate))), random.Random(seed))
    try:
        found = predicate_from_json(content)
    except wm.SpecificationError:
        return
    assert predicate_from_json(predicate_to_json(found)) == found


@given(windows() | st.sampled_from(STREAM_WINDOWS), st.integers(0, 2**32))
def test_changed_window_is_refused_or_another(window: Any, seed: int) -> None:
    content = changed(json.loads(canonical(window_to_json(window))), random.Random(seed))
    try:
        found = window_from_json(content)
    except wm.SpecificationError:
        return
    assert window_from_json(window_to_json(found)) == found


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": 1, "a": 1}', "NaN", "[Infinity]", "[" * 100_000, "1" * 5_000, b"\xff", "1e999x"]
)
def test_other_text_is_refused(text: str | bytes) -> None:
    with pytest.raises(wm.SpecificationError, match="next step:"):
        read_json(text)


@pytest.mark.parametrize("content", [["column", "middle", "x"], ["constant", "double", float("inf")], 5, None])
def test_predicate_of_another_kind_is_refused(content: Any) -> None:
    for given_one in (content, {"form": 1, "predicate": ["is_null", content]}, {"form": 2, "predicate": content}):
        with pytest.raises(wm.SpecificationError):
            predicate_from_json(given_one)


def test_deep_nesting_is_refused() -> None:
    content: Any = ["boolean", ["column", "left", "x"]]
    for _ in range(900):
        content = ["not", content]
    with pytest.raises(wm.SpecificationError, match="nested too deeply"):
        predicate_from_json({"form": 1, "predicate": content})


def test_types_that_differ_are_written_differently() -> None:
    integer, text = pa.int64(), pa.string()
    types = [
        *(pa.int8(), integer, pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.null(), pa.date32(), pa.date64()),
        *(text, pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3), pa.binary(4)),
        *(pa.decimal128(9, 2), pa.decimal128(9, 3), pa.decimal256(9, 2), pa.decimal128(9, -2)),
        *(pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.duration("s"), pa.duration("us")),
        *(pa.time32("s"), pa.time64("us"), pa.month_day_nano_interval()),
        *(pa.list_(integer), pa.list_(text), pa.large_list(integer), pa.list_(integer, 3), pa.list_view(integer)),
        pa.list_(pa.field("item", integer, nullable=False)),
        *(pa.struct([("a", integer)]), pa.struct([("b", integer)]), pa.struct([("a", integer), ("b", text)])),
        *(pa.map_(text, integer), pa.map_(text, integer, keys_sorted=True)),
        *(pa.dictionary(pa.int8(), text), pa.dictionary(pa.int32(), text), pa.dictionary(pa.int8(), text, True)),
        pa.run_end_encoded(pa.int32(), text),
        *(pa.dense_union([pa.field("a", integer)]), pa.sparse_union([pa.field("a", integer)])),
        pa.dense_union([pa.field("a", integer)], [7]),
    ]
    written = [canonical(schema_to_json(pa.schema([("x", arrow)]))) for arrow in types]
    assert len(set(written)) == len(types)
    assert len({canonical(schema_to_json(pa.schema([pa.field("x", integer, nullable=n)]))) for n in (True, False)}) == 2
