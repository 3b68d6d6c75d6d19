"""Keys and ranges: no range excludes a pair that satisfies its axis, and those of exact domains include no other."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oracle
from strategies import DOMAINS, FAMILIES, KINDS, key_types, predicates
from watersmeet.columns.keys import axis_keys, axis_valid, key_ranges, spread_borders
from watersmeet.spec.normal import normal_form
from watersmeet.spec.sql import parse_predicate

FLOATS = st.floats(width=64) | st.sampled_from(
    [0.0, -0.0, 1.0, 5e-324, 1.7976931348623157e308, float("inf"), float("nan")]
)
Y = [None, 0, 1, 2, 3, -1]


def tables(left: pa.Array, right: pa.Array) -> dict[str, pa.RecordBatch]:
    columns = {"left": left, "right": right}
    return {
        side: pa.record_batch(
            {"id": np.arange(len(x)), "x": x, "y": pa.array([Y[i % len(Y)] for i in range(len(x))], pa.int32())}
        )
        for side, x in columns.items()
    }


def check_ranges(text: str, batches: dict[str, pa.RecordBatch]) -> int:
    """Assert what the module promises, for rows of either side probing; return how many axes there were."""
    schemas = {side: batch.schema for side, batch in batches.items()}
    predicate = parse_predicate(text)
    form = normal_form(predicate, schemas)
    rows = {side: oracle.rows_of(side, pa.table(batch)) for side, batch in batches.items()}
    truth = oracle.Evaluator(schemas)
    satisfied = np.array(
        [[truth.value(predicate, {**a, **b}) is True for b in rows["right"]] for a in rows["left"]], bool
    ).reshape(len(rows["left"]), len(rows["right"]))
    for axis in form.axes:
        keys, valid = {}, {}
        for side, batch in batches.items():
            keys[side] = axis_keys(axis, side, batch, schemas)
            known = axis_valid(axis, side, batch, schemas)
            valid[side] = np.ones(batch.num_rows, bool) if known is None or axis.domain.nulls else known
        for probing, stored in (("left", "right"), ("right", "left")):
            order = np.argsort(keys[probing], kind="stable")
            hits = np.zeros((len(order), len(keys[stored])), int)
            for wanted in key_ranges(axis, probing, keys[probing][order]):
                assert np.count_nonzero(wanted.lo > wanted.hi) == wanted.empty
                if wanted.empty == 0:
                    assert (wanted.lo[1:] >= wanted.lo[:-1]).all()
                    assert (wanted.hi[1:] >= wanted.hi[:-1]).all()
                hits[order] += (wanted.lo[:, None] <= keys[stored]) & (keys[stored] <= wanted.hi[:, None])
            assert hits.max(initial=0) <= 1, "ranges of one row are disjoint"
            hits *= valid[probing][:, None] & valid[stored]
            found = (hits if probing == "left" else hits.T).astype(bool)
            assert not (satisfied & ~found).any(), "a satisfying pair was excluded"
            if (
                axis.required
                and form.residual is None
                and len(form.axes) == 1
                and form.left_filter is form.right_filter is None
            ):
                np.testing.assert_array_equal(found, satisfied)
    return len(form.axes)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_oracle_ranges_over_all_types(kind: str, data: st.DataObject) -> None:
    types = data.draw(key_types())
    arrays = [pa.array(values, arrow) for arrow, values in (DOMAINS[name] for name in types)]
    check_ranges(data.draw(predicates(kind, types)), tables(*arrays))


@pytest.mark.parametrize(
    "text",
    [
        "left.x BETWEEN right.x - {w} AND right.x + {w}",
        "left.x - right.x <= {w} AND left.x - right.x >= -{w}",
        "right.x - left.x < {w} AND right.x - left.x > -{w}",
        "ABS(left.x - right.x) <= {w}",
        "ABS(right.x - left.x) = {w}",
        "left.x + {w} = right.x",
        "left.x < right.x - {w}",
    ],
)
@given(
    left=st.lists(FLOATS, max_size=12),
    right=st.lists(FLOATS, max_size=12),
    near=st.lists(st.tuples(st.integers(0, 11), st.integers(-3, 3)), max_size=8),
    width=st.floats(0, allow_nan=False, allow_infinity=False),
    single=st.booleans(),
)
@example(left=[float("inf")], right=[-float("inf"), float("nan")], near=[], width=1.7976931348623157e308, single=False)
@example(left=[1e16], right=[1.0], near=[(0, 1)], width=0.1, single=False)
def test_oracle_ranges_over_floats(
    text: str, left: list[float], right: list[float], near: list[tuple[int, int]], width: float, single: bool
) -> None:
    rights = list(right)
    for at, steps in near:  # pairs whose distance is the width, to a few units in the last place
        if at < len(left) and np.isfinite(left[at]):
            value = left[at] + width
            for _ in range(abs(steps)):
                value = math.nextafter(value, steps * math.inf)
            rights.append(value)
    arrow = pa.float64()
    if single:
        with np.errstate(over="ignore"):
            left, rights = (np.array(values, np.float32).astype(float).tolist() for values in (left, rights))
        arrow = pa.float32()
    predicate = text.format(w=f"{width!r}D")
    check_ranges(predicate, tables(pa.array(left, arrow), pa.array(rights, pa.float64())))


@pytest.mark.parametrize("name", [name for names in FAMILIES.values() for name in names])
def test_equality_has_an_axis_for_every_type(name: str) -> None:
    arrow, values = DOMAINS[name]
    array = pa.array(values, arrow)
    assert check_ranges("left.x = right.x", tables(array, array)) == 1


TEXTS = st.text("abc\0ä\uffff", max_size=4).flatmap(
    lambda end: st.sampled_from(["", "customer-0", "customer-00000", "zz"]).map(lambda begin: (begin + end).encode())
)


@given(texts=st.lists(TEXTS, min_size=1, max_size=30), borders=st.lists(TEXTS, max_size=12), most=st.integers(1, 12))
def test_oracle_keys_of_text_keep_their_order_with_any_borders(
    texts: list[bytes], borders: list[bytes], most: int
) -> None:
    rows = pa.record_batch({"x": pa.array(texts, pa.binary())})
    schemas = {"left": rows.schema, "right": rows.schema}
    (axis,) = normal_form(parse_predicate("left.x < right.x"), schemas).axes
    cut = spread_borders(pa.array(borders, pa.binary()), most)
    assert len(cut) <= most
    assert {border.encode("latin-1") for border in cut} <= set(borders)
    keys = axis_keys(axis, "left", rows, schemas, cut).tolist()
    for text, key in zip(texts, keys, strict=True):
        for other, its in zip(texts, keys, strict=True):
            assert text >= other or key <= its
            assert text != other or key == its


def test_borders_tell_texts_apart_that_begin_alike() -> None:
    texts = [f"{kind}-account-number-{number:06d}" for kind in ("customer", "merchant") for number in range(0, 999, 3)]
    rows = pa.record_batch({"x": pa.array([*texts, "", "zzz"])})
    schemas = {"left": rows.schema, "right": rows.schema}
    (axis,) = normal_form(parse_predicate("left.x < right.x"), schemas).axes
    assert len(set(axis_keys(axis, "left", rows, schemas).tolist())) == 4
    borders = spread_borders(rows["x"].cast(pa.large_binary()).slice(1, 300), 63)  # of customers alone, but for 1
    assert len(set(axis_keys(axis, "left", rows, schemas, borders).tolist())) > 300
