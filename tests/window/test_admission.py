"""Which rows take part, and why others do not. A null may lie in a column or, in a dictionary column, behind it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.multiway.plan import plan_streams
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of
from watersmeet.window.admission import Verdict, admit, is_late, times_of
from watersmeet.window.plan import plan_join
from watersmeet.window.streams import Streams

WITHOUT_ROW_1 = {
    "a null": pa.array(["a", None, "c"]),
    "a null index": pa.array(["a", None, "c"]).dictionary_encode(),
    "an index of a null": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["a", None, "c"])),
}


@pytest.mark.parametrize("key", WITHOUT_ROW_1.values(), ids=list(WITHOUT_ROW_1))
def test_a_row_whose_key_is_null_matches_nothing(key: pa.Array) -> None:
    rows = pa.table({"key": key, "ts": pa.array([0, 1, 2], pa.timestamp("us"))})
    join = wm.StreamJoin(
        left=rows.schema, right=rows.schema, on=wm.equal("key"), window=wm.time_window("1 second", ts="ts")
    )
    pairs = join.push(left=rows, right=rows)
    assert pairs["left_key"].to_pylist() == pairs["right_key"].to_pylist()
    assert sorted(pairs["left_key"].to_pylist()) == ["a", "c"]
    assert (join.metrics.left_null, join.metrics.right_null) == (1, 1)


ROWS = pa.table(
    {
        "ts": pa.array([50, 10, None, 10, 50, 50, None], pa.timestamp("us")),
        "x": pa.array([1, 1, 1, None, None, 9, None], pa.int64()),
    }
).to_batches()[0]
FIRST_REASON = [Verdict.TAKES_PART, Verdict.LATE, Verdict.NULL, Verdict.LATE, Verdict.NULL, Verdict.FAILS, Verdict.NULL]


def plans(condition: str) -> list[Streams]:
    """Return the same condition on a stream of a join of two, and of three."""
    window = wm.time_window("1 second", ts="ts")
    two = plan_join(ROWS.schema, ROWS.schema, parse_predicate(f"left.x = right.x AND left.{condition}"), window, "auto")
    names = ("left", "b", "c")
    on = read_predicate(f"left.x = b.x AND left.x = c.x AND left.{condition}", names)
    many = plan_streams(dict.fromkeys(names, ROWS.schema), on, windows_of(window, names), "auto")
    return [two, many]


@pytest.mark.parametrize("number", [0, 1], ids=["two", "many"])
def test_the_first_reason_counts(number: int) -> None:
    streams = plans("x < 5")[number]
    admission = admit(streams, "left", ROWS, times_of(streams, "left", ROWS), watermark=20)
    assert admission.verdicts.tolist() == FIRST_REASON
    assert admission.keep.tolist() == [verdict is Verdict.TAKES_PART for verdict in FIRST_REASON]
    assert {verdict: admission.count(verdict) for verdict in Verdict} == Counter(FIRST_REASON)


@pytest.mark.parametrize("number", [0, 1], ids=["two", "many"])
def test_without_a_watermark_no_row_is_late_and_a_row_without_time_takes_no_part(number: int) -> None:
    streams = plans("x < 5")[number]
    whole = admit(streams, "left", ROWS)
    assert whole.count(Verdict.LATE) == 0
    assert whole.keep.tolist() == [True, True, False, False, False, False, False]
    assert whole.verdicts.tolist() == admit(streams, "left", ROWS, times_of(streams, "left", ROWS)).verdicts.tolist()


def test_a_row_at_the_watermark_is_in_time() -> None:
    #   watermark ──────────┐
    #   19            20    │ 21
    #   late          in time
    assert is_late(np.array([19, 20, 21]), 20) is not None
    assert np.asarray(is_late(np.array([19, 20, 21]), 20)).tolist() == [True, False, False]
    assert is_late(np.array([20, 21]), 20) is None
