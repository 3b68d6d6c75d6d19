"""The normal form: which axes are found, what is left to verify, and that nothing is lost on the way."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import DOMAINS, KINDS, key_types, predicates
from watersmeet.spec import expression as ex
from watersmeet.spec.normal import Axis, NormalForm, normal_form, without_negation
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.typing import check_predicate

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("w", pa.decimal128(38, 10)),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("n", pa.timestamp("ns")),
        ("day", pa.date32()),
        ("b", pa.bool_()),
        ("u", pa.uint64()),
        ("k", pa.uint32()),
    ]
)
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}


def form_of(text: str) -> NormalForm:
    predicate = parse_predicate(text)
    check_predicate(predicate, SCHEMAS)
    return normal_form(predicate, SCHEMAS)


def described(axis: Axis) -> tuple[str, list[tuple[Fraction | None, Fraction | None]]]:
    scale = 10**axis.domain.scale
    parts = [tuple(None if end is None else end / scale for end in part) for part in axis.differences.parts]
    return f"{axis.left} ~ {axis.right}, {axis.domain.kind}", parts  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("text", "axis", "parts"),
    [
        ("left.i = right.i", "left.i ~ right.i, integer", [(0, 0)]),
        ("right.i = left.i", "left.i ~ right.i, integer", [(0, 0)]),
        ("left.i BETWEEN right.i - 5 AND right.i + 7", "left.i ~ right.i, integer", [(-5, 7)]),
        ("left.i < right.i", "left.i ~ right.i, integer", [(None, -1)]),
        ("right.i < left.i", "left.i ~ right.i, integer", [(1, None)]),
        ("NOT (left.i < right.i)", "left.i ~ right.i, integer", [(0, None)]),
        ("left.i <> right.i", "left.i ~ right.i, integer", [(None, -1), (1, None)]),
        ("ABS(left.i - right.i) <= 3", "left.i ~ right.i, integer", [(-3, 3)]),
        ("3 > ABS(right.i - left.i)", "left.i ~ right.i, integer", [(-2, 2)]),
        ("ABS(left.i - right.i) = 3", "left.i ~ right.i, integer", [(-3, -3), (3, 3)]),
        ("left.i - 3 = right.j + 4", "left.i ~ right.j, integer", [(7, 7)]),
        ("left.j + 2 * left.i > right.j - 5", "(left.j + (left.i * 2)) ~ right.j, double_offset", [(-5, None)]),
        ("left.j + 2 * left.j > right.j - 5", "(left.j * 3) ~ right.j, integer", [(-4, None)]),
        ("left.j + right.j = 5", "left.j ~ (- right.j), integer", [(5, 5)]),
        ("left.d = right.i", "left.d ~ right.i, wrapped", [(0, 0)]),
        ("left.d BETWEEN right.d - 0.5 AND right.d", "left.d ~ right.d, integer", [(Fraction(-1, 2), 0)]),
        ("left.d < right.d", "left.d ~ right.d, integer", [(None, Fraction(-1, 100))]),
        ("left.w = right.w", "left.w ~ right.w, wrapped", [(0, 0)]),
        ("left.w = right.w AND left.w < right.w + 1", "left.w ~ right.w, double_offset", [(0, 0)]),
        ("left.u = right.u", "left.u ~ right.u, unsigned", [(0, 0)]),
        ("left.u BETWEEN right.k - 5 AND right.k", "left.u ~ right.k, unsigned", [(-5, 0)]),
        ("left.u = right.i", "left.u ~ right.i, wrapped", [(0, 0)]),
        ("left.u <= right.i", "left.u ~ right.i, double_offset", [(None, 0)]),
        ("left.f = right.f", "left.f ~ right.f, double_order", [(0, 0)]),
        ("left.f < right.i", "left.f ~ right.i, double_order", [(None, -1)]),
        ("left.g >= right.f", "left.g ~ right.f, double_order", [(0, None)]),
        ("left.f BETWEEN right.f - 1 AND right.f + 1", "left.f ~ right.f, double_offset", [(-1, 1)]),
        ("left.s = right.s", "left.s ~ right.s, hash", [(0, 0)]),
        ("left.s <= right.s", "left.s ~ right.s, text", [(None, 0)]),
        ("left.t = right.t", "left.t ~ right.t, integer", [(0, 0)]),
        ("left.t > right.t - INTERVAL 1 SECOND", "left.t ~ right.t, integer", [(Fraction(-999_999, 10**6), None)]),
        ("left.day = right.day + 1", "left.day ~ right.day, integer", [(1, 1)]),
        ("left.day <= right.day + INTERVAL 2 DAYS", "left.day ~ right.day, integer", [(None, 2)]),
        ("left.b = right.b", "left.b ~ right.b, integer", [(0, 0)]),
        ("left.i = right.i OR left.i = right.i + 2", "left.i ~ right.i, integer", [(0, 0), (2, 2)]),
        ("left.i = right.i OR left.i = right.i + 1", "left.i ~ right.i, integer", [(0, 1)]),
        ("left.i > right.i AND left.i > right.i + 4 AND left.i < right.i + 9", "left.i ~ right.i, integer", [(5, 8)]),
        ("left.i > right.i + 9223372036854775807", "left.i ~ right.i, double_offset", [(2**63 - 1, None)]),
    ],
)
def test_axis(text: str, axis: str, parts: list[tuple[int | None, int | None]]) -> None:
    form = form_of(text)
    assert [described(found) for found in form.axes] == [(axis, parts)]
    exact = form.axes[0].domain.is_exact
    assert (form.residual is None) == exact == form.axes[0].required


@pytest.mark.parametrize(
    ("text", "axis", "parts"),
    [
        ("left.i <=> right.i", "left.i ~ right.i, integer", [(0, 0)]),
        ("right.f <=> left.f", "left.f ~ right.f, double_order", [(0, 0)]),
        ("left.s <=> right.s", "left.s ~ right.s, hash", [(0, 0)]),
        ("left.w <=> right.w", "left.w ~ right.w, wrapped", [(0, 0)]),
        ("left.day <=> right.t", "CAST(left.day AS TIMESTAMP) ~ right.t, wrapped", [(0, 0)]),
        ("left.i + 1 <=> right.i - 1", "(left.i + 1) ~ (right.i - 1), wrapped", [(0, 0)]),
        ("left.d <=> right.d OR left.d = right.d + 1", "left.d ~ right.d, integer", [(0, 0), (1, 1)]),
        ("left.j = right.j OR (left.j IS NULL AND right.j IS NULL)", "left.j ~ right.j, integer", [(0, 0)]),
        ("(right.j IS NULL AND left.j IS NULL) OR right.j = left.j", "left.j ~ right.j, integer", [(0, 0)]),
    ],
)
def test_axis_on_which_nulls_meet(text: str, axis: str, parts: list[tuple[int, int]]) -> None:
    form = form_of(text)
    assert [described(found) for found in form.axes] == [(axis, parts)]
    assert form.axes[0].domain.nulls
    assert form.residual is not None


@pytest.mark.parametrize(
    "text",
    [
        "left.i - right.j <=> right.i",  # nulls of right.j and right.i meet whatever left.i is
        "NOT (left.i <=> right.i)",
        "left.i = right.i OR (left.i IS NULL AND right.j IS NULL)",
        "left.i * right.i > 1",
        "left.i = 1 OR left.j = right.j",
        "left.i > right.i OR left.i < right.i + 5",
        "left.s <> right.s",
        "left.i % right.i = 0",
        "left.i = NULL OR right.i = 1 AND left.j = 2",
        "LEAST(left.i, right.i) = 3",
        "left.f - right.f >= 1",
        "(left.i = right.i) = (left.j = right.j)",
    ],
)
def test_no_axis(text: str) -> None:
    form = form_of(text)
    assert form.axes == ()
    assert form.residual is not None


def test_conjuncts_of_one_side_are_filters() -> None:
    form = form_of("left.i = right.i AND left.j > 3 AND right.s IS NULL AND TRUE AND left.i * right.i > 0")
    assert form.left_filter == parse_predicate("left.j > 3 AND TRUE")
    assert form.right_filter == parse_predicate("right.s IS NULL")
    assert form.residual == parse_predicate("left.i * right.i > 0")
    assert [axis.is_equality for axis in form.axes] == [True]


def test_several_axes_and_their_kinds() -> None:
    form = form_of(
        "left.i = right.i AND left.s = right.s AND left.j BETWEEN right.j - 1 AND right.j + 1 AND left.t < right.t"
    )
    assert [str(axis.left) for axis in form.equalities] == ["left.i", "left.s"]
    assert [str(axis.left) for axis in form.ranges] == ["left.j", "left.t"]
    assert form.residual == parse_predicate("left.s = right.s")  # a hash may collide


def test_an_axis_shared_by_all_branches_of_or_bounds_without_being_exact() -> None:
    form = form_of("left.i = right.i AND left.j = 1 OR left.i = right.i + 3 AND right.j = 2")
    assert [described(axis) for axis in form.axes] == [("left.i ~ right.i, integer", [(0, 0), (3, 3)])]
    assert form.residual is not None
    assert not form.axes[0].required


@pytest.mark.parametrize(
    ("text", "branches"),
    [
        ("left.i = right.i OR left.j = right.j", [["left.i = right.i"], ["left.j = right.j"]]),
        (
            "left.s = right.s AND (left.i = right.i AND left.f < right.f OR left.d = right.d OR left.d = right.d + 1)",
            [["left.i = right.i", "left.f - right.f in […, -1]"], ["left.d - right.d in [0, 0] or [1, 1]"]],
        ),
        ("left.i = right.i OR left.j > 3", []),
        ("left.i = right.i OR left.i * right.i = 4", []),
        ("left.i = right.i AND left.j = 1 OR left.i = right.i + 1 AND left.j = 2", []),
        ("left.i = right.i OR left.f - right.f > 1", []),  # NaN is beyond any bound
    ],
)
def test_terms_of_a_disjunction_are_branches(text: str, branches: list[list[str]]) -> None:
    form = form_of(text)
    assert [[str(axis) for axis in branch] for branch in form.branches] == branches
    assert all(axis.domain.nulls for branch in form.branches for axis in branch)
    assert form.residual is not None


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_oracle_normal_form_says_the_same(kind: str, data: st.DataObject) -> None:
    """Where the predicate is true, filters and residual are, and no axis is null; without axes, exactly there."""
    types = data.draw(key_types())
    text = data.draw(predicates(kind, types))
    tables = [pa.table({"x": pa.array(DOMAINS[name][1], DOMAINS[name][0])}) for name in types]
    tables = [
        table.append_column("y", pa.array([i % 4 - 1 for i in range(len(table))], pa.int32())) for table in tables
    ]
    schemas = {"left": tables[0].schema, "right": tables[1].schema}
    predicate = parse_predicate(text)
    form = normal_form(predicate, schemas)
    truth = oracle.Evaluator(schemas)
    parts = [part for part in (form.left_filter, form.right_filter, form.residual) if part is not None]
    plain = without_negation(predicate)
    for left in oracle.rows_of("left", tables[0]):
        for right in oracle.rows_of("right", tables[1]):
            pair = {**left, **right}
            expected = truth.value(predicate, pair)
            assert truth.value(plain, pair) is expected
            if expected is True:
                assert all(truth.value(part, pair) is True for part in parts)
                assert all(
                    axis.domain.nulls or truth.value(side, pair) is not None
                    for axis in form.axes
                    for side in (axis.left, axis.right)
                )
            if not form.axes:
                assert (expected is True) == all(truth.value(part, pair) is True for part in parts)


def test_negation_leaves_only_leaves_negated() -> None:
    text = "NOT (left.i = right.i AND (left.j < right.j OR NOT (left.s IS NULL)) AND NOT left.b)"
    expected = "left.i <> right.i OR (left.j >= right.j AND left.s IS NULL) OR left.b"
    assert without_negation(parse_predicate(text)) == parse_predicate(expected)
    assert without_negation(parse_predicate("NOT (left.s IS NULL)")) == ex.Not(ex.IsNull(ex.Column("left", "s")))
