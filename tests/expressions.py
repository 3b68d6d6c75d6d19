"""Predicates of every shape that can be written, drawn at random."""

from __future__ import annotations

from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from watersmeet.spec import expression as ex


def not_of_intervals(operation: ex.Arithmetic) -> bool:
    """Exclude an interval with a further constant: two intervals are read as one, and no other can be added."""
    kinds = [side.kind for side in operation.children() if isinstance(side, ex.Constant)]
    return not (len(kinds) == 2 and kinds[0] == "interval")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6) | st.sampled_from(
    ["x", "y", "select", "left"]
)
DIGITS = st.integers(1 - 10**76, 10**76 - 1)
CONSTANTS = st.one_of(
    st.integers(1 - 10**76, 10**76 - 1).map(lambda n: ex.Constant(n, "int")),
    st.builds(lambda digits, scale: ex.Constant(Decimal(f"{digits}E-{scale}"), "decimal"), DIGITS, st.integers(0, 76)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda f: ex.Constant(f, "double")),
    st.text(max_size=8).map(lambda text: ex.Constant(text, "string")),
    st.booleans().map(lambda flag: ex.Constant(flag, "boolean")),
    st.just(ex.Constant(None, "null")),
    st.dates().map(lambda day: ex.Constant(day, "date")),
    st.datetimes(timezones=st.just(UTC)).map(lambda moment: ex.Constant(moment, "timestamp")),
    st.timedeltas(min_value=timedelta(days=-(10**6)), max_value=timedelta(days=10**6)).map(
        lambda span: ex.Constant(span, "interval")
    ),
)
COLUMNS = st.builds(ex.Column, st.sampled_from(["left", "right"]), NAMES)


def not_constant(value: ex.Expression) -> bool:
    """Exclude what is carried out when it is read: the sign and the cast of a constant."""
    return not isinstance(value, ex.Constant)


def values_of(inner: st.SearchStrategy[ex.Expression]) -> st.SearchStrategy[ex.Expression]:
    """Draw values that are made of others."""
    return st.one_of(
        st.builds(ex.Arithmetic, st.sampled_from("+-*/%"), inner, inner).filter(not_of_intervals),
        st.builds(ex.Negative, inner.filter(not_constant)),
        st.builds(ex.Call, st.just("abs"), st.tuples(inner)),
        st.builds(ex.Call, st.sampled_from(["least", "greatest"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(
            ex.Cast, inner.filter(not_constant), st.sampled_from(["int", "decimal(10,2)", "timestamp_ntz", "string"])
        ),
    )


def conditions_on(operands: st.SearchStrategy[ex.Expression]) -> st.SearchStrategy[ex.Expression]:
    """Draw conditions that are more than a column or constant."""
    return st.one_of(
        st.builds(ex.Compare, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), operands, operands),
        st.builds(ex.Same, operands, operands),
        st.builds(ex.IsNull, operands),
        st.builds(lambda a, b: a & b, PREDICATES, PREDICATES),
        st.builds(lambda a, b: a | b, PREDICATES, PREDICATES),
        st.builds(ex.Not, PREDICATES),
    )


BOOLEANS: st.SearchStrategy[Any] = st.builds(
    ex.Boolean, COLUMNS | st.sampled_from([ex.Constant(True, "boolean"), ex.Constant(None, "null")])
)
OPERANDS: st.SearchStrategy[ex.Expression] = st.deferred(
    lambda: COLUMNS | CONSTANTS | values_of(OPERANDS) | conditions_on(OPERANDS)
)
"""Conditions stand among the operands of comparisons, functions and arithmetic: types are not looked at."""
PREDICATES: st.SearchStrategy[Any] = st.deferred(lambda: BOOLEANS | conditions_on(OPERANDS))
