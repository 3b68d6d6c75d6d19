"""Options: every join refuses the same mistakes in the same words, and takes what the table allows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spec.options import BESIDE, CHOICES, MOST_THREADS, check_options, check_threads

SCHEMA = pa.schema([("k", pa.int64())])


def two(**options: Any) -> wm.StreamJoin:
    return wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("k"), window=wm.count_window(3), **options)


def many(**options: Any) -> wm.MultiStreamJoin:
    streams = {"a": SCHEMA, "b": SCHEMA}
    return wm.MultiStreamJoin(streams=streams, on="a.k = b.k", window=wm.count_window(3), **options)


@pytest.mark.parametrize("name", CHOICES)
def test_what_the_table_allows_is_taken_and_nothing_else(name: str) -> None:
    for choice in CHOICES[name]:
        check_options(**{name: choice})
    with pytest.raises(wm.SpecificationError) as caught:
        check_options(**{name: "anything"})
    given, allowed, _ = str(caught.value).split("\n")
    assert given == f"{name}='anything'"
    assert allowed == "  allowed: " + ", ".join([*map(repr, CHOICES[name]), *filter(None, [BESIDE.get(name)])])


@pytest.mark.parametrize(("name", "value"), [("late", "hold"), ("structure", "tree"), ("cores", 0), ("cores", True)])
def test_joins_of_two_streams_and_of_many_refuse_in_the_same_words(name: str, value: object) -> None:
    texts = []
    for join in (two, many):
        with pytest.raises(wm.SpecificationError) as caught:
            join(**{name: value})
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert texts[0].startswith(f"{name}={value!r}\n")


@pytest.mark.parametrize("value", [0, -1, 1.0, "2", True, None])
def test_a_count_is_a_whole_number_of_at_least_one(value: object) -> None:
    with pytest.raises(wm.SpecificationError, match="a whole number of at least 1"):
        check_options(block_rows=value)


def test_what_may_be_left_out() -> None:
    check_options(batch_rows=None, batch_seconds=None, order=None, block_rows=1, stash_rows=2**40)
    for seconds in (0, -1, True, "1", float("inf"), float("nan"), 10**400):
        with pytest.raises(wm.SpecificationError, match="seconds, more than 0 and finite"):
            check_options(batch_seconds=seconds)


def test_threads_are_as_many_as_a_machine_can_have() -> None:
    check_threads(MOST_THREADS)
    with pytest.raises(wm.SpecificationError, match=f"at most {MOST_THREADS}"):
        check_threads(MOST_THREADS + 1)
    check_options(cores=MOST_THREADS + 1)
