"""Samples: evenly spread rows, the share of pairs in an axis' ranges, and borders where texts begin alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.spec.normal import Axis, normal_form
from watersmeet.spec.sql import parse_predicate
from watersmeet.window.sample import MOST_BORDERS, SAMPLE, choose_borders, key_fractions, sample_rows

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}
RANDOM = np.random.default_rng(5)


def axis_of(on: str) -> Axis:
    (axis,) = normal_form(parse_predicate(on), SCHEMAS).axes
    return axis


def rows_of(numbers: list[int], texts: list[str] | None = None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts or [""] * len(numbers))], schema=SCHEMA)


@pytest.mark.parametrize("size", [0, 1, SAMPLE, SAMPLE + 1, 10 * SAMPLE])
def test_a_sample_is_spread_over_all_rows(size: int) -> None:
    sampled = sample_rows(rows_of(list(range(size))))["x"].to_pylist()
    assert len(sampled) == min(size, SAMPLE)
    assert sampled == sorted(sampled)
    assert not sampled or (sampled[0], sampled[-1]) == (0, size - 1)


@pytest.mark.parametrize("on", ["left.x = right.x", "left.x BETWEEN right.x - 3 AND right.x + 9", "left.x < right.x"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_oracle_the_share_of_pairs_that_satisfy_an_axis(on: str, side: str) -> None:
    left, right = RANDOM.integers(0, 20, 50), RANDOM.integers(5, 40, 30)
    holds = {"=": left[:, None] == right, "BETWEEN": (left[:, None] >= right - 3) & (left[:, None] <= right + 9)}
    pairs = int(holds.get(on.split()[1], left[:, None] < right).sum())
    rows = {"left": rows_of(left.tolist()), "right": rows_of(right.tolist())}
    own, opposite = (rows[side], rows["right" if side == "left" else "left"])
    assert key_fractions(axis_of(on), side, own, opposite, SCHEMAS) == (pairs + 0.5) / (50 * 30 + 1)


def test_while_the_other_stream_is_unknown_a_row_does_not_count_as_its_own_partner() -> None:
    distinct, equal = rows_of(list(range(20))), rows_of([7] * 20)
    assert key_fractions(axis_of("left.x = right.x"), "left", distinct, None, SCHEMAS) == 0.5 / 401
    assert key_fractions(axis_of("left.x = right.x"), "left", equal, None, SCHEMAS) == 380.5 / 401


def test_borders_are_kept_while_they_tell_texts_apart() -> None:
    order = axis_of("left.s < right.s")
    alike = rows_of([0] * 200, [f"customer-number-{n:03d}" for n in range(200)])
    others = rows_of([0] * 200, [f"merchant-number-{n:03d}" for n in range(200)])
    short = rows_of([0] * 200, [f"{n:03d}" for n in range(200)])
    assert choose_borders([axis_of("left.x < right.x")], "left", alike, None, SCHEMAS, used=[]) == ()
    assert choose_borders([order], "left", short, alike.slice(0, 1), SCHEMAS, used=[("a",)]) == ()
    borders = choose_borders([order], "left", alike, None, SCHEMAS, used=[])
    assert 1 < len(borders) <= MOST_BORDERS
    assert choose_borders([order], "right", alike, alike, SCHEMAS, used=[("zzz",), borders]) == borders
    assert choose_borders([order], "left", others, None, SCHEMAS, used=[borders]) != borders
