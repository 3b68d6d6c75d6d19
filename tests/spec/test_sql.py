"""SQL text to predicates: both ways of writing are equal, text reads back, and refusals say what, why and what next."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given

import watersmeet as wm
from expressions import PREDICATES
from watersmeet.spec import expression as ex
from watersmeet.spec.saved_form import predicate_to_json
from watersmeet.spec.sql import parse_predicate

X, Y = ex.Column("left", "x"), ex.Column("right", "y")


def number(value: int) -> ex.Constant:
    return ex.Constant(value, "int")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("left.x = right.y", wm.equal("x", "y")),
        ("left.x == right.y", wm.equal("x", "y")),
        ("LEFT.x = Right.x", wm.equal("x")),
        ("left.x <> right.y", wm.not_equal("x", "y")),
        ("left.x != right.y", wm.not_equal("x", "y")),
        ("left.x < right.y", wm.less("x", "y")),
        ("left.x <= right.y", wm.less_equal("x", "y")),
        ("left.x > right.y", wm.greater("x", "y")),
        ("left.x >= right.y", wm.greater_equal("x", "y")),
        ("left.x BETWEEN right.y - 5 AND right.y + 5", wm.band("x", "y", 5)),
        ("left.x BETWEEN right.y - 1 AND right.y + 0.5", wm.band("x", "y", below=1, above=Decimal("0.5"))),
        ("left.x BETWEEN right.y - 5e-1 AND right.y + 0.5D", wm.band("x", "y", 0.5)),
        (
            "left.x BETWEEN right.y - INTERVAL 90 MINUTES AND right.y + INTERVAL '1 hour 30 minutes'",
            wm.band("x", "y", "90 minutes"),
        ),
        (
            "left.x = right.y AND (left.a < right.a AND left.b < right.b)",
            wm.equal("x", "y") & (wm.less("a") & wm.less("b")),
        ),
        (
            "left.x = right.y OR (left.a < right.a OR left.b < right.b)",
            wm.equal("x", "y") | wm.less("a") | wm.less("b"),
        ),
        ("NOT left.x = right.y", ~wm.equal("x", "y")),
        ("left.`odd name` = right.`a``b`", wm.equal("odd name", "a`b")),
    ],
)
def test_text_and_functions_give_equal_predicates(text: str, written: ex.Predicate) -> None:
    assert parse_predicate(text) == written
    assert hash(parse_predicate(text)) == hash(written)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "left.x NOT BETWEEN 1 AND 2",
            ex.Not(ex.And((ex.Compare(">=", X, number(1)), ex.Compare("<=", X, number(2))))),
        ),
        ("left.x IN (1, right.y)", ex.OneOf(X, (number(1), Y))),
        ("left.x IN (1)", ex.Compare("=", X, number(1))),
        ("left.x NOT IN (1)", ex.Not(ex.Compare("=", X, number(1)))),
        ("left.x IS NULL", ex.IsNull(X)),
        ("left.x <=> right.y", ex.Same(X, Y)),
        ("left.x IS NOT DISTINCT FROM right.y", ex.Same(X, Y)),
        ("left.x IS DISTINCT FROM right.y", ex.Not(ex.Same(X, Y))),
        ("(left.x <=> right.y) <=> TRUE", ex.Same(ex.Same(X, Y), ex.Constant(True, "boolean"))),
        ("left.x IS NOT NULL", ex.Not(ex.IsNull(X))),
        ("left.x", ex.Boolean(X)),
        ("TRUE", ex.Boolean(ex.Constant(True, "boolean"))),
        ("left.x = -5", ex.Compare("=", X, number(-5))),
        ("left.x = -right.y", ex.Compare("=", X, ex.Negative(Y))),
        ("left.x = 0.50", ex.Compare("=", X, ex.Constant(Decimal("0.50"), "decimal"))),
        ("left.x = 1e3", ex.Compare("=", X, ex.Constant(1000.0, "double"))),
        ("left.x = 'it\\'s'", ex.Compare("=", X, ex.Constant("it's", "string"))),
        ("left.x = NULL", ex.Compare("=", X, ex.Constant(None, "null"))),
        ("left.x = DATE '2024-02-29'", ex.Compare("=", X, ex.Constant(date(2024, 2, 29), "date"))),
        (
            "left.x = TIMESTAMP '2024-02-29 12:00:00+02:00'",
            ex.Compare("=", X, ex.Constant(datetime(2024, 2, 29, 10, tzinfo=UTC), "timestamp")),
        ),
        ("left.x = INTERVAL -3 SECONDS", ex.Compare("=", X, ex.Constant(timedelta(seconds=-3), "interval"))),
        ("left.x = CAST(right.y AS DECIMAL(10,2))", ex.Compare("=", X, ex.Cast(Y, "decimal(10,2)"))),
        ("left.x = CAST(right.y AS STRING)", ex.Compare("=", X, ex.Cast(Y, "string"))),
        ("ABS(left.x - right.y) <= 2", ex.Compare("<=", ex.Call("abs", (ex.Arithmetic("-", X, Y),)), number(2))),
        ("LEAST(left.x, right.y, 3) = 3", ex.Compare("=", ex.Call("least", (X, Y, number(3))), number(3))),
        (
            "left.x - right.y - 1 = 2",
            ex.Compare("=", ex.Arithmetic("-", ex.Arithmetic("-", X, Y), number(1)), number(2)),
        ),
        (
            "left.x - (right.y - 1) = 2",
            ex.Compare("=", ex.Arithmetic("-", X, ex.Arithmetic("-", Y, number(1))), number(2)),
        ),
        (
            "left.x + 2 * right.y = 2",
            ex.Compare("=", ex.Arithmetic("+", X, ex.Arithmetic("*", number(2), Y)), number(2)),
        ),
    ],
)
def test_text_reads_as(text: str, expected: ex.Predicate) -> None:
    assert parse_predicate(text) == expected


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("left.x = ", "left.x = "),
        ("", "''"),
        ("left.x = right.y; left.x = right.y", "is 2 conditions"),
        ("SELECT 1", "SELECT 1"),
        ("left.x + right.y", "left.x + right.y"),
        ("x = right.y", "write left.x or right.x"),
        ("middle.x = right.y", "middle.x"),
        ("db.left.x = right.y", "db.left.x"),
        ("sqrt(left.x) = right.y", "SQRT(left.x)"),
        ("upper(left.x) = right.y", "UPPER(left.x)"),
        ("my_function(left.x) = right.y", "my_function(left.x)".upper()),
        ("left.x LIKE 'a%'", "LIKE"),
        ("left.x IN (SELECT 1)", "SELECT 1"),
        ("left.x = (SELECT 1)", "SELECT 1"),
        ("CASE WHEN left.x = 1 THEN true ELSE false END", "CASE"),
        ("SUM(left.x) = right.y", "SUM(left.x)"),
        ("rand() < left.x", "not deterministic"),
        ("uuid() = left.x", "not deterministic"),
        ("current_timestamp() > left.x", "not deterministic"),
        ("now() > left.x", "not deterministic"),
        ("left.x = INTERVAL 1 MONTH", "MONTH"),
        ("left.x > right.y + INTERVAL 2 YEARS", "YEAR"),
        ("left.x = INTERVAL right.y SECONDS", "constant interval"),
        ("left.x = CAST(right.y AS BINARY)", "BINARY"),
        ("left.x = DATE '2024-02-30'", "2024-02-30"),
        ("left.x = 1e999", "finite"),
        ("left.x = CAST('inf' AS DOUBLE)", "double"),
    ],
)
def test_refusal_names_the_fragment_what_is_allowed_and_the_next_step(text: str, fragment: str) -> None:
    with pytest.raises(wm.SpecificationError) as caught:
        parse_predicate(text)
    message = str(caught.value)
    assert fragment.lower() in message.lower()
    assert "allowed:" in message
    assert "next step:" in message


def test_text_is_never_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(wm.SpecificationError):
        parse_predicate("__import__('builtins').print('run') = left.x")
    assert capsys.readouterr().out == ""


@given(PREDICATES)
def test_printed_predicate_reads_back_equal(predicate: ex.Predicate) -> None:
    again = parse_predicate(str(predicate))
    assert again == predicate
    assert predicate_to_json(again) == predicate_to_json(predicate)  # 0.5 and 0.50 are equal, but not the same literal
