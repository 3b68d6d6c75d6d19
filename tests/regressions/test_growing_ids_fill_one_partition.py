"""Ids that grow, fall or jump filled one partition of a RaP-Table, which probes then scanned: keys "do not drift".

Growth was known for orders by a band alone: one by equality has no further key that was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.arrays import Int64s
from watersmeet.subwindow import choose
from watersmeet.subwindow.contract import Matches, Probes
from watersmeet.subwindow.rap_table import FULLEST, RapTable

WINDOW = 1 << 15
BATCH = 100
BEHIND = 12_000
Ids = Callable[[Int64s], Int64s]


def steady(number: Int64s) -> Int64s:
    return number * 7_919 % 50_021


SHAPES: dict[str, tuple[Ids, Ids]] = {
    "growing": (lambda number: number, lambda number: number - BEHIND),
    "falling": (lambda number: -number, lambda number: BEHIND - number),
    "jumping": (lambda number: steady(number) + number // 7_000 % 2 * 10**9,) * 2,
    "slowly drifting": (lambda number: steady(number) + 2 * number,) * 2,
    "gathering": (lambda number: steady(number) * np.where(number // 7_000 % 2, 1, 10**6),) * 2,
    "drifting on the left alone": (lambda number: number, steady),
}


@pytest.mark.parametrize(
    ("shape", "width"), [*((shape, 0) for shape in SHAPES), ("growing", 1), ("falling", 1), ("jumping", 1)]
)
def test_no_probe_scans_a_partition_that_drifting_ids_have_filled(
    shape: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "LARGE_BATCH", 10 * BATCH)
    on = wm.band("id", "id", width) if width else wm.equal("id")
    fullest = [0]
    probe = RapTable.probe

    def watched(index: RapTable, probes: Probes) -> Iterator[Matches]:
        fullest[0] = max(fullest[0], int(index.histogram()[0].max()))
        return probe(index, probes)

    monkeypatch.setattr(RapTable, "probe", watched)
    schema = pa.schema([("id", pa.int64())])
    join, tree = (
        wm.StreamJoin(left=schema, right=schema, on=on, window=wm.count_window(WINDOW), structure=structure)
        for structure in ("auto", "wib_tree")
    )
    pairs = expected = 0
    for first in range(0, 2 * WINDOW, BATCH):
        number = np.arange(first, first + BATCH)
        left, right = (pa.table({"id": ids(number)}) for ids in SHAPES[shape])
        pairs += join.push(left=left, right=right).num_rows
        expected += tree.push(left=left, right=right).num_rows
    assert pairs == expected
    assert fullest[0] <= FULLEST + BATCH
