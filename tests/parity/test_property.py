"""Every structure and every kind of predicate, against the nested loop over the full history.

``test_oracle_*`` compares with the oracle; ``test_differential_*`` compares structures with each other, and with DuckDB, on
data that is too large for it.
"""

from __future__ import annotations

from collections import Counter

import oracle
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import KINDS, STRUCTURES, Case, cases

import watersmeet as wm
from watersmeet.spec.sql import parse_predicate


def run(case: Case, structure: str) -> Counter[tuple[int, int]]:
    """Push all of a case's tables, restarting in the middle; return the pairs of ids."""
    with pytest.MonkeyPatch.context() as patch:
        if case.small:  # chains of many segments, slices and chunks with a few rows already
            patch.setattr("watersmeet.window.stream_window.SMALLEST_SEGMENT", 4)
            patch.setattr("watersmeet.engine.intake.ROWS_PER_SLICE", 4)
            patch.setattr("watersmeet.window.segment.CANDIDATES_AT_ONCE", 8)
            patch.setattr("watersmeet.window.payload.FAN_IN", 2)
        join = wm.StreamJoin(**case.schemas, on=case.on, window=case.window, structure=structure)
        found: Counter[tuple[int, int]] = Counter()
        for number, (left, right) in enumerate(case.pushes):
            if number == case.restart_before:
                join = wm.StreamJoin.restore(join.snapshot())
            pairs = join.push(left=left, right=right)
            assert pairs.schema == join.schema
            for side in ("left", "right"):
                assert pairs[f"{side}_p"].to_pylist() == [f"{side}{number}" for number in pairs[f"{side}_id"].to_pylist()]
            found.update(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))
        assert join.metrics.pairs == found.total()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", STRUCTURES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_oracle_structure_and_predicate(structure: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    expected = oracle.pairs(parse_predicate(case.on), case.window, case.schemas, case.pushes)
    assert run(case, structure) == expected
