"""Records of one answer came in two tables of ``pushes``: those of the second were refused, and their pairs lost."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.subwindow import contract

SCHEMA = pa.schema([("x", pa.int64())])


@pytest.mark.parametrize("restored", [False, True])
def test_every_table_of_records_stands_for_its_pairs(restored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PAIRS_AT_ONCE", 7)
    rows = pa.table({"x": range(50)}, schema=SCHEMA)
    join = wm.StreamJoin(
        left=SCHEMA, right=SCHEMA, on=wm.band("x", "x", 1), window=wm.count_window(99), result="ranges"
    )
    join.submit(left=rows, right=rows)
    if restored:
        join = wm.StreamJoin.restore(join.snapshot())
    tables = [join.pairs_of(records) for records in join.pushes()]
    assert len(tables) > 2
    pairs = pa.concat_tables(tables)
    assert pairs.num_rows == 50 + 2 * 49
    with pytest.raises(wm.SpecificationError, match="other results"):
        join.pairs_of(first_records(join, rows))


def first_records(join: wm.StreamJoin, rows: pa.Table) -> pa.Table:
    """Return records that later results have ended."""
    records = join.push(left=rows)
    join.push(right=rows)
    return records
