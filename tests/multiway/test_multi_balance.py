"""Joins of many streams while the routing table changes: the real packers and cores, without Spark.

Every micro-batch may have a generation of its own: other owners, cut groups, other widths of buckets. A generation is
forgotten as soon as no core reports rows of it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from stand_in import Checkpoint, Query, forget, multi_query
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.balance.loads import GroupReport
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

CORES = 4
BATCHES = 8
ROWS = 4
SECOND = 1_000
PREDICATES = {
    ("a", "b", "c"): {
        "hash": "a.k = b.k AND b.k = c.k",
        "bucket": "a.k BETWEEN b.k - 1 AND b.k + 2 AND b.k BETWEEN c.k - 2 AND c.k + 1",
    },
    ("a", "b", "c", "d"): {"hash": "a.k = b.k AND b.k = c.k AND a.k = d.k AND b.y <> d.y"},
}
STRATEGIES = ("circular", "stashed")
CASES = [(names, routing, strategy) for names, by in PREDICATES.items() for routing in by for strategy in STRATEGIES]
FAST = CASES[0]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))]
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("ms")), ("k", pa.int64()), ("y", pa.int64())])


class Changing:
    """Stands in for the routing tables of a query."""

    cores = CORES
    balances = True

    def __init__(self) -> None:
        self.generations = [first_generation(CORES)]

    def current(self) -> RoutingTable:
        newest = self.generations[-1]
        return RoutingTable(tuple(self.generations[newest.oldest :]))

    def reasons(self, _: int) -> tuple[str, ...]:
        return ()

    def change(self, random: np.random.Generator, oldest: int) -> None:
        """Give some groups other owners; rows of generations from ``oldest`` on are still stored."""
        last = self.generations[-1]
        owners = list(last.owners)
        for group in np.flatnonzero(random.random(len(owners)) < random.choice([0.02, 0.5])).tolist():
            owners[group] = tuple(random.permutation(CORES)[: random.choice([1, 1, 2, 4])].tolist())
        width = int(random.choice([last.width, last.width, 1, 9]))
        number = last.number + 1
        self.generations.append(Generation(number, 0, oldest, tuple(owners), tuple(range(CORES)), width))


def rows(random: np.random.Generator, batch: int, first: int, count: int) -> pa.Table:
    """Return the rows of one stream in a micro-batch, which spans a second; some have a key that occurs often."""
    keys = np.where(random.random(count) < 0.5, 7, random.integers(0, 9, count))
    ts = pa.array(np.sort(random.integers(batch * SECOND, (batch + 1) * SECOND, count)), pa.timestamp("ms"))
    return pa.table([np.arange(first, first + count), ts, keys, random.integers(0, 3, count)], schema=SCHEMA)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    ("names", "routing", "strategy"),
    [case if case == FAST else pytest.param(*case, marks=pytest.mark.long) for case in CASES],
)
def test_oracle_every_result_is_given_once_while_the_table_changes(
    names: tuple[str, ...],
    routing: str,
    strategy: str,
    counts: bool,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr("watersmeet.spark.state.FAN_IN", 2)  # runs are merged often
    random = np.random.default_rng(seed)
    count = ROWS if len(names) < 4 else 2
    window = wm.count_window(9) if counts else wm.time_window("2500 milliseconds", ts="ts", lateness="2 seconds")
    on = PREDICATES[names][routing]
    batches: list[dict[str, pa.Table | None]] = [
        {name: rows(random, batch, batch * count, count) for name in names} for batch in range(BATCHES)
    ]
    schemas = dict.fromkeys(names, SCHEMA)
    make = partial(multi_query, schemas, on, window, strategy=strategy, routing=routing, cores=CORES)
    tables = Changing()
    found: Counter[tuple[int, ...]] = Counter()
    checkpoint, metrics = Checkpoint(), []
    for batch in batches:
        if random.random() < 0.2:
            forget(tmp_path)
        query: Query = make(checkpoint=checkpoint, tables=tables)  # type: ignore[arg-type]
        result = query.run(batch, random, random)
        found.update(zip(*(result[f"{name}_id"].to_pylist() for name in names), strict=True))
        checkpoint = query.checkpoint
        metrics += query.metrics
        if random.random() < 0.6:
            tables.change(random, min(record["oldest"] for record in query.metrics[-1]))
    truth = oracle.results(read_predicate(on, names), windows_of(window, names), schemas, batches)
    assert found == Counter(map(tuple, truth))
    counted = [GroupReport.parse(record["groups"]) for records in metrics for record in records]
    pairs = sum(group.pairs for report in counted for group in (*report.heaviest, report.rest))
    assert pairs == len(truth)
