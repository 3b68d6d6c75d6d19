"""An OR of conditions on different columns took every stored row for a candidate, however selective each was."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from watersmeet.spec.sql import parse_predicate
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Matches, Probes, count_matches

WINDOW = wm.time_window("20 seconds", ts="ts", lateness="1 hour")


def rows_of(seed: int, count: int) -> pa.Table:
    """Return rows whose keys agree on both columns now and then, some without one."""
    random = np.random.default_rng(seed)
    columns = {
        name: pa.array(random.integers(0, 60, count), kind, mask=random.random(count) < 0.1)
        for name, kind in (("a", pa.int64()), ("b", pa.float64()), ("c", pa.int32()))
    }
    times = pa.array(np.sort(random.integers(0, 60_000_000, count)), pa.timestamp("us"))
    return pa.table({"id": range(count), "ts": times, **columns, "s": columns["a"].cast(pa.string())})


@pytest.mark.parametrize(
    "on",
    [
        "left.a = right.a OR left.c = right.c",
        "left.a = right.a OR left.b BETWEEN right.b - 0.5D AND right.b + 0.5D",
        "ABS(left.b - right.b) <= 0.5D OR left.b + right.b = 7 OR left.s = right.s AND left.c < right.c",
        "left.s = right.s OR (left.a = right.a AND left.c = right.c) OR left.c <=> right.c",
    ],
)
@pytest.mark.parametrize("structure", ["auto", "hash", "rap_table", "wib_tree"])
@pytest.mark.parametrize("topology", ["kang", "panjoin", "splitjoin"])
def test_every_branch_has_an_index_and_each_pair_is_found_once(
    on: str, structure: str, topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 40)
    left, right = rows_of(71, 150), rows_of(72, 150)
    schemas = {"left": left.schema, "right": right.schema}
    join = wm.StreamJoin(**schemas, on=on, window=WINDOW, structure=structure, topology=topology)  # type: ignore[arg-type]
    pushes = [(left.slice(at, 30), right.slice(at, 30)) for at in range(0, 150, 30)]
    found: Counter[tuple[int, int]] = Counter()
    for number, (some, others) in enumerate(pushes):
        if number == 3:
            join = wm.StreamJoin.restore(join.snapshot())
        pairs = join.push(left=some, right=others)
        found.update(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))
    join.close()
    assert found == oracle.pairs(parse_predicate(on), WINDOW, schemas, pushes)


def test_candidates_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates: list[int] = []
    probe = BiSort.probe

    def counted(index: BiSort, probes: Probes) -> list[Matches]:
        found = list(probe(index, probes))
        candidates.append(count_matches(found))
        return found

    monkeypatch.setattr(BiSort, "probe", counted)
    random = np.random.default_rng(73)
    rows = pa.table({"a": random.integers(0, 500, 1000), "b": random.integers(0, 500, 1000), "id": range(1000)})
    on = "left.a = right.a OR left.b = right.b"
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on=on, window=wm.count_window(2000))
    join.push(right=rows)
    pairs = join.push(left=rows)
    assert 3000 < pairs.num_rows <= sum(candidates) < 1.5 * pairs.num_rows
    assert "or, by an index of its own: left.b = right.b" in join.explain()
