"""Many streams: which names they may have, and a predicate taken apart by the streams that it reads."""

from __future__ import annotations

from typing import Any

import pytest

import watersmeet as wm
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import as_written, check_names, read_predicate, take_apart, with_streams

STREAMS = ("a", "b", "c")


@pytest.mark.parametrize("names", [("a",), tuple("abcdefghi"), ("a", "A"), ("a", "b c"), ("a", ""), ("a", 5)], ids=str)
def test_names_refused(names: tuple[Any, ...]) -> None:
    with pytest.raises(wm.SpecificationError, match="allowed:"):
        check_names(names)


@pytest.mark.parametrize("names", [("a", "b"), tuple("abcdefgh"), ("left", "größe_2")], ids=str)
def test_names_allowed(names: tuple[str, ...]) -> None:
    assert check_names(names) == names


def test_what_was_read_is_written_so_that_it_can_be_read_again() -> None:
    on = wm.equal("A.k", "b.k") & wm.band("b.x", "c.x", 5)
    predicate = read_predicate(on, STREAMS)
    assert predicate == read_predicate("a.k = b.k AND b.x BETWEEN c.x - 5 AND c.x + 5", STREAMS)
    assert read_predicate(as_written(predicate), STREAMS) == predicate


@pytest.mark.parametrize("column", ["k", "d.k"])
def test_a_column_without_its_stream_is_refused(column: str) -> None:
    with pytest.raises(wm.SpecificationError, match=column):
        read_predicate(wm.equal(column, "a.k"), STREAMS)


def test_conjuncts_by_the_streams_they_read() -> None:
    on = (
        "a.k = b.k AND c.x < a.x AND a.x > 1 AND b.k < a.k + 9 AND a.x + b.x = c.x AND 1 = 1"
        " AND NOT (b.x = 5 OR c.x = 6)"
    )
    parts = take_apart(parse_predicate(on, STREAMS), STREAMS)
    assert {stream: str(term) for stream, term in parts.filters.items()} == {
        stream: str(parse_predicate(text, STREAMS))
        for stream, text in {"a": "a.x > 1 AND 1 = 1", "b": "b.x <> 5", "c": "c.x <> 6"}.items()
    }
    assert {pair: str(term) for pair, term in parts.pairs.items()} == {
        pair: str(parse_predicate(text, STREAMS))
        for pair, text in {("a", "b"): "a.k = b.k AND b.k < a.k + 9", ("a", "c"): "c.x < a.x"}.items()
    }
    assert [str(term) for term in parts.residual] == [str(parse_predicate("a.x + b.x = c.x", STREAMS))]


@pytest.mark.parametrize("on", ["a.k = b.k", "a.k = b.k AND c.k = 5", "b.k = c.k AND a.k = 1"])
def test_streams_that_nothing_connects_are_named(on: str) -> None:
    with pytest.raises(wm.SpecificationError, match="no condition connects"):
        take_apart(parse_predicate(on, STREAMS), STREAMS)


def test_a_condition_on_all_streams_connects_them() -> None:
    assert len(take_apart(parse_predicate("a.k + b.k = c.k", STREAMS), STREAMS).residual) == 1


def test_streams_are_called_by_other_names() -> None:
    predicate = parse_predicate("a.k = b.k", STREAMS)
    assert with_streams(predicate, {"a": "left", "b": "right"}) == parse_predicate("left.k = right.k")
