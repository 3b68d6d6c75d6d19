"""``pushes``: the pairs of ``push`` in tables of bounded size, whoever takes them, and whenever."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import PREDICATES, SCHEMA, TOPOLOGIES, WINDOWS, Push, expected, ids, join_of, small_windows, stream

MOST = 5
"""Pairs in a table, here."""


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.subwindow.contract.PAIRS_AT_ONCE", MOST)


def bounded(tables: Any) -> list[tuple[int, int]]:
    found = []
    for table in tables:
        assert 1 <= table.num_rows <= MOST
        found += ids(table)
    return found


def run_in_portions(join: wm.StreamJoin, pushes: list[Push]) -> list[tuple[int, int]]:
    found = [pair for left, right in pushes for pair in bounded(join.pushes(left=left, right=right))]
    return found + ids(join.finish())


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_the_pairs_of_push(topology: str, window: str) -> None:
    for seed, on in enumerate(PREDICATES.values()):
        pushes = stream(seed, most_rows=16)
        for cores, batch_rows in ((1, None), (3, 20)):
            with (
                small_windows(),
                join_of(
                    on, WINDOWS[window], topology=topology, cores=cores, block_rows=4, batch_rows=batch_rows
                ) as join,
            ):
                found = run_in_portions(join, pushes)
                assert Counter(found) == expected(on, WINDOWS[window], pushes)
                assert join.metrics.pairs == len(found)


@pytest.mark.parametrize("order", ["outer", "inner"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_differential_the_order_of_push(topology: str, window: str, order: Any) -> None:
    pushes = stream(4, most_rows=16, values=4)
    for batch_rows in (None, 40):
        options = {"topology": topology, "cores": 2, "order": order, "block_rows": 4, "batch_rows": batch_rows}
        with small_windows(), join_of(PREDICATES["band"], WINDOWS[window], **options) as join:
            found = run_in_portions(join, pushes)
        with small_windows(), join_of(PREDICATES["band"], WINDOWS[window], **options) as join:
            at_once = [pair for left, right in pushes for pair in ids(join.push(left=left, right=right))]
            at_once += ids(join.finish())
        assert Counter(found) == Counter(at_once)
        if order == "inner":
            assert found == at_once
        else:
            later = arrivals_of_later_rows(pushes, found, by_time="ordered" in window)
            assert later == sorted(later)


def arrivals_of_later_rows(pushes: list[Push], pairs: list[tuple[int, int]], *, by_time: bool) -> list[int]:
    moments: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for push in pushes:
        rows = [
            (row["ts"] if by_time else 0, side, place, row["id"])
            for side, table in enumerate(push)
            if table is not None
            for place, row in enumerate(table.to_pylist())
        ]
        for _, side, _, number in sorted(rows):
            moments[side][number] = len(moments[0]) + len(moments[1])
    return [max(moments[0][left], moments[1][right]) for left, right in pairs]


@pytest.mark.parametrize(
    "what_next", ["push", "pushes", "finish", "snapshot", "same iterator", "snapshot, same iterator"]
)
@pytest.mark.parametrize("order", [None, "inner"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_what_an_iterator_was_not_asked_for_is_owed(topology: str, order: Any, what_next: str) -> None:
    on, window, pushes = PREDICATES["band"], WINDOWS["time"], stream(6, most_rows=20)
    with small_windows():
        join = join_of(on, window, topology=topology, cores=2, order=order, block_rows=4)
        found = []
        for left, right in pushes:
            portions = join.pushes(left=left, right=right)
            found += [pair for table in (next(portions, None),) if table is not None for pair in ids(table)]
            match what_next:
                case "push":
                    found += ids(join.push())
                case "pushes":
                    found += bounded(join.pushes())
                case "snapshot":
                    saved = join.snapshot()
                    join.close()
                    join = wm.StreamJoin.restore(saved)
                case "snapshot, same iterator":
                    join.snapshot()
                    found += bounded(portions)
                case "same iterator":
                    _ = join.metrics, join.explain()
                    found += bounded(portions)
        found += ids(join.finish())
        join.close()
    assert Counter(found) == expected(on, window, pushes)


def test_a_push_that_is_refused_is_refused_at_the_call() -> None:
    (left, right), *_ = stream(1)
    join = join_of(PREDICATES["band"], WINDOWS["time"])
    with pytest.raises(wm.SchemaError):
        join.pushes(left=pa.table({"other": [1]}))
    first = bounded(join.pushes(left=left, right=right))
    assert Counter(first) == expected(PREDICATES["band"], WINDOWS["time"], [(left, right)])
    rest = join.pushes(left=left, right=right)
    join.close()
    with pytest.raises(wm.SpecificationError, match=r"after close\(\), which gave up what was still to come"):
        next(rest)
    with pytest.raises(wm.SpecificationError, match=r"pushes\(\) was called after finish\(\) or close\(\)"):
        join.pushes(left=left)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_threads_that_take_portions_share_the_pairs(topology: str) -> None:
    window, on = wm.time_window("1 hour", ts="ts", lateness="1 hour"), PREDICATES["band"]
    pushes = stream(8, pushes=8, most_rows=10)
    found: list[tuple[int, int]] = []
    with join_of(on, window, topology=topology, cores=2) as join:

        def take(turn: int) -> None:
            for left, right in pushes[turn::2]:
                for table in join.pushes(left=left, right=right):
                    found.extend(ids(table))

        threads = [threading.Thread(target=take, args=(turn,)) for turn in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        found += ids(join.finish())
    assert Counter(found) == expected(on, window, pushes)


@pytest.mark.parametrize("strategy", ["circular", "stashed"])
@pytest.mark.parametrize("cores", [1, 2])
def test_differential_results_of_many_streams_in_portions(strategy: Any, cores: int) -> None:
    names = ("a", "b", "c")
    tables = {name: [left for left, _ in stream(seed, pushes=5, most_rows=12)] for seed, name in enumerate(names)}

    def join() -> wm.MultiStreamJoin:
        on = "a.x = b.x AND b.x BETWEEN c.x - 1 AND c.x + 1"
        return wm.MultiStreamJoin(
            streams=dict.fromkeys(names, SCHEMA), on=on, window=WINDOWS["time"], strategy=strategy, cores=cores
        )

    def rows(table: pa.Table) -> list[tuple[int, ...]]:
        return list(zip(*(table[f"{name}_id"].to_pylist() for name in names), strict=True))

    with join() as at_once, join() as some, join() as given_up:
        for number in range(5):
            pushed = {name: own[number] for name, own in tables.items()}
            wanted = Counter(rows(at_once.push(**pushed)))
            found: Counter[tuple[int, ...]] = Counter()
            for table in some.pushes(**pushed):
                assert 1 <= table.num_rows <= MOST
                found.update(rows(table))
            assert found == wanted
            portions = given_up.pushes(**pushed)
            first = next(portions, None)
            if first is not None:
                with pytest.raises(wm.SpecificationError, match="had not been taken"):
                    given_up.snapshot()
            owed = rows(given_up.push()) if number < 4 else rows(given_up.finish())
            assert Counter(([] if first is None else rows(first)) + owed) == wanted
        assert some.metrics.results == at_once.metrics.results == given_up.metrics.results


def test_long_rows_make_short_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.subwindow.contract.PAIRS_AT_ONCE", 1 << 20)
    monkeypatch.setattr("watersmeet.engine.result.BYTES_AT_ONCE", 1 << 20)
    rows = pa.table({"k": np.zeros(60, np.int64), "text": ["x" * 5000] * 60})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on=wm.equal("k"), window=wm.count_window(100))
    tables = list(join.pushes(left=rows, right=rows))
    assert sum(table.num_rows for table in tables) == 3600
    assert all(table.nbytes < 1.5 * (1 << 20) for table in tables)


PROGRAM = """
import json, resource, sys, time
import numpy as np, pyarrow as pa
import watersmeet as wm

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def pairs(rows, **options):
    left = pa.table({"k": np.zeros(rows, np.int64), "x": np.arange(rows)})
    right = pa.table({"k": np.zeros(rows, np.int64), "y": np.arange(rows)})
    join = wm.StreamJoin(
        left=left.schema, right=right.schema, on=wm.equal("k"), window=wm.count_window(10**6), **options
    )
    found = checked = last = 0
    for table in join.pushes(left=left, right=right):
        found += table.num_rows
        checked += int(table["x"].combine_chunks().to_numpy().sum()) + int(table["y"].combine_chunks().to_numpy().sum())
        if "order" in options:
            later = table["y"].combine_chunks().to_numpy()
            assert later[0] >= last and (np.diff(later) >= 0).all()
            last = later[-1]
    join.close()
    assert found == rows * rows and checked == rows * rows * (rows - 1), found

rows, most, options = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
for some in options:
    pairs(100, **some)
before = peak()
for some in options:
    begin = time.monotonic()
    pairs(rows, **some)
    print(some, peak() - before, "MiB", round(time.monotonic() - begin, 1), "s", flush=True)
    assert peak() - before < most, (some, peak() - before)
"""
FAST = [
    {"topology": "panjoin"},
    {"topology": "kang", "structure": "hash", "order": "outer"},
    {"topology": "splitjoin", "cores": 2, "structure": "rap_table"},
]


def proven(rows: int, most: int, options: list[dict[str, Any]], seconds: int) -> None:
    given = [sys.executable, "-c", PROGRAM, str(rows), str(most), json.dumps(options)]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr


def test_many_pairs_take_little_memory() -> None:
    proven(4_000, 250, FAST, 200)  # 512 MiB at once


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_million_pairs_take_less_than_a_gigabyte() -> None:
    proven(100_000, 1000, [{}], 3600)
