"""Comparisons in a chain without brackets were read otherwise than Spark reads them: ``f = x < 5`` as ``f = (x < 5)``.

Spark's comparisons have one rank and are read from the left.
"""

from __future__ import annotations

import pytest

import watersmeet as wm
from watersmeet.spec.sql import parse_predicate


@pytest.mark.parametrize(
    "text",
    [
        "left.f = right.x < 5",
        "left.f = right.x BETWEEN 1 AND 2",
        "left.x BETWEEN 1 AND 2 = right.f",
        "left.f = right.x IN (1, 2)",
        "left.f = NOT right.g",
        "left.a = left.b = right.c",
    ],
)
def test_brackets_are_asked_for(text: str) -> None:
    with pytest.raises(wm.SpecificationError, match="without brackets"):
        parse_predicate(text)


def test_with_brackets() -> None:
    assert str(parse_predicate("(left.f = right.x) < left.g")) == "(left.f = right.x) < left.g"
    assert str(parse_predicate("left.f = (right.x < 5)")) == "left.f = (right.x < 5)"
    assert parse_predicate("NOT left.x = right.x") == ~wm.equal("x")
