"""Every structure and every kind of predicate, against the nested loop over the full history.

``test_oracle_*`` compares with the oracle; ``test_differential_*`` compares structures with each other, and with
DuckDB, on data that is too large for it.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import get_args

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from strategies import KINDS, STRUCTURES, Case, cases, payload_of
from topologies import ids_of_kind
from watersmeet.spec.kinds import How
from watersmeet.spec.sql import parse_predicate


def run(case: Case, structure: str, how: How) -> Counter[tuple[int | None, int | None]]:
    """Push all of a case's tables, restarting in the middle, and finish; return the ids of the results."""
    with pytest.MonkeyPatch.context() as patch:
        if case.small:  # chains of many segments, slices and chunks with a few rows already
            patch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 4)
            patch.setattr("watersmeet.engine.intake.ROWS_PER_SLICE", 4)
            patch.setattr("watersmeet.subwindow.contract.PAIRS_AT_ONCE", 8)
            patch.setattr("watersmeet.window.chunks.FAN_IN", 2)
            patch.setattr("watersmeet.window.creation.BRANCH_GAIN", 0)
        join = wm.StreamJoin(**case.schemas, on=case.on, window=case.window, structure=structure, how=how)
        found: Counter[tuple[int | None, int | None]] = Counter()
        for number, push in enumerate([*case.pushes, None]):
            if number == case.restart_before:
                join = wm.StreamJoin.restore(join.snapshot())
            results = join.finish() if push is None else join.push(left=push[0], right=push[1])
            assert results.schema == join.schema
            for side, name, payload in (
                ("left", "left_id", "left_p"),
                ("right", "right_id", "right_p"),
                ("left", "id", "p"),  # left rows alone
            ):
                if name in results.column_names:
                    assert results[payload].cast(pa.string()).to_pylist() == [
                        None if number is None else payload_of(side, number) for number in results[name].to_pylist()
                    ]
            found.update(ids_of_kind(results))
        assert join.metrics.pairs == found.total()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), how=st.sampled_from(("inner", "inner", *get_args(How))))
def test_oracle_structure_and_predicate(structure: str, kind: str, how: How, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    pairs = oracle.pairs(parse_predicate(case.on), case.window, case.schemas, case.pushes)
    assert run(case, structure, how) == oracle.of_kind(how, pairs, case.window, case.pushes)


def test_long_profile_tries_at_least_5000_examples() -> None:
    cases = len(STRUCTURES) * len(KINDS)
    assert cases * settings.get_profile("long").max_examples >= 5_000
    in_force = test_oracle_structure_and_predicate._hypothesis_internal_use_settings.max_examples  # type: ignore[attr-defined]
    assert in_force == settings().max_examples, "the test leaves the number of examples to the profile"


# --- larger data ------------------------------------------------------------------------------------------------------

LARGE = {
    "equality": "left.k = right.k",
    "band": "left.x BETWEEN right.x - 0.5D AND right.x + 0.5D",
    "equality and band": "left.k = right.k AND left.x BETWEEN right.x - 5 AND right.x + 5",
    "two equalities": "left.k = right.k AND left.name = right.name",
    "one-sided": "left.x < right.x AND left.k = right.k",
    "not equal": "left.k <> right.k AND left.x > right.x + 90",
    "2-D band": "left.x BETWEEN right.x - 1 AND right.x + 1 AND left.k BETWEEN right.k - 3 AND right.k + 3",
    "bands or": "left.k BETWEEN right.k - 1 AND right.k OR left.k BETWEEN right.k + 10 AND right.k + 11",
    "text order": "left.name >= right.name AND left.name <= right.name AND left.x > right.x",
    "residual": "(left.k + right.k) % 97 = 0 AND left.x > right.x",
    "nan": "left.x >= right.x AND left.x <= right.x",
}


def large_rows(seed: int, count: int) -> pa.Table:
    """Return rows over ten minutes: some keys much more frequent than others, some values null or NaN."""
    random = np.random.default_rng(seed)
    numbers = np.round(random.normal(0, 30, count), 2)
    numbers[random.random(count) < 0.01] = np.nan
    return pa.table(
        {
            "id": np.arange(count),
            "ts": pa.array(np.sort(random.integers(0, 600_000_000, count)), pa.timestamp("us")),
            "k": pa.array(random.zipf(1.5, count) % 1000, pa.int64(), mask=random.random(count) < 0.02),
            "x": pa.array(numbers, pa.float64(), mask=random.random(count) < 0.02),
            "name": pa.array([f"customer {number}" for number in random.integers(0, 50, count)]),
        }
    )


@pytest.mark.parametrize("name", LARGE)
def test_differential_structures_agree_with_duckdb(name: str) -> None:
    text = LARGE[name]
    left, right = large_rows(1, 3_000), large_rows(2, 3_000)
    window = wm.time_window(left="20 seconds", right="45 seconds", ts="ts", lateness="1 minute")
    with duckdb.connect() as connection:
        connection.register("lefts", left)
        connection.register("rights", right)
        condition = text.replace("0.5D", "0.5::DOUBLE").replace("left.", "l.").replace("right.", "r.")
        query = f"""
            SELECT l.id AS a, r.id AS b FROM lefts l JOIN rights r ON ({condition})
            AND epoch_us(l.ts) - epoch_us(r.ts) BETWEEN -20000000 AND 45000000
        """  # noqa: S608 -- the conditions above
        expected = Counter(connection.sql(query).fetchall())
    assert expected.total() > 50
    cuts = sorted(np.random.default_rng(3).integers(0, 3_000, 12).tolist())
    for structure in STRUCTURES:
        join = wm.StreamJoin(left=left.schema, right=right.schema, on=text, window=window, structure=structure)
        found: Counter[tuple[int, int]] = Counter()
        for begin, end in pairwise([0, *cuts, 3_000]):
            pairs = join.push(left=left.slice(begin, end - begin), right=right.slice(begin, end - begin))
            found.update(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))
        assert join.metrics.left_late == join.metrics.right_late == 0
        assert found == expected, structure


KIND_QUERIES = {
    "left": "SELECT l.id, r.id FROM lefts l LEFT JOIN rights r ON {on}",
    "right": "SELECT l.id, r.id FROM lefts l RIGHT JOIN rights r ON {on}",
    "full": "SELECT l.id, r.id FROM lefts l FULL JOIN rights r ON {on}",
    "semi": "SELECT l.id, NULL FROM lefts l WHERE EXISTS (SELECT 1 FROM rights r WHERE {on})",
    "anti": "SELECT l.id, NULL FROM lefts l WHERE NOT EXISTS (SELECT 1 FROM rights r WHERE {on})",
}


@pytest.mark.parametrize("how", KIND_QUERIES)
@pytest.mark.parametrize("name", ["equality and band", "nan", "residual"])
def test_differential_kinds_agree_with_duckdb(name: str, how: How) -> None:
    left, right = large_rows(1, 3_000), large_rows(2, 3_000)
    text = f"({LARGE[name]}) AND left.k < 500 AND right.x IS NOT NULL"
    condition = text.replace("left.", "l.").replace("right.", "r.")
    condition += " AND epoch_us(l.ts) - epoch_us(r.ts) BETWEEN -20000000 AND 45000000"
    with duckdb.connect() as connection:
        connection.register("lefts", left)
        connection.register("rights", right)
        expected = Counter(connection.sql(KIND_QUERIES[how].format(on=condition)).fetchall())
    window = wm.time_window(left="20 seconds", right="45 seconds", ts="ts", lateness="1 minute")
    cuts = sorted(np.random.default_rng(4).integers(0, 3_000, 30).tolist())
    options = {"topology": "panjoin", "cores": 2, "how": how}
    with wm.StreamJoin(left=left.schema, right=right.schema, on=text, window=window, **options) as join:
        found: Counter[tuple[int | None, int | None]] = Counter()
        for begin, end in pairwise([0, *cuts, 3_000]):
            results = join.push(left=left.slice(begin, end - begin), right=right.slice(begin, end - begin))
            found.update(ids_of_kind(results))
        early = found.total()
        found.update(ids_of_kind(join.finish()))
    assert found == expected
    assert early > 0.6 * expected.total(), "what is certain comes before the end"
