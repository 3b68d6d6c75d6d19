"""Kinds of joins on the processor, without a JVM: after every micro-batch just the rows that have to be there.

A row that met nobody comes out in the first micro-batch whose watermark (or count) has passed its reach: not before,
not later, and once. So the results are compared after each micro-batch, not only at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from dressed import UTC, PlainCase, plain_cases, possible
from stand_in import Checkpoint, forget, pair_query, replayed, run_in_a_new_process
from strategies import KINDS
from watersmeet.spec.kinds import gives_pairs, preserved
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import TimeWindow
from watersmeet.window.admission import admit
from watersmeet.window.plan import plan_join

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
HOWS = ("left", "right", "full", "semi", "anti")
SIDES = ("left", "right")
ROUTINGS = ("hash", "bucket", "broadcast")
Results = Counter[tuple[Any, ...]]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give cores a folder for their cache; runs are merged often, and marks have many pieces."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    monkeypatch.setattr("watersmeet.spark.state.FAN_IN", 2)
    monkeypatch.setattr("watersmeet.spark.marks.PIECE_ROWS", 3)
    return tmp_path / "scratch"


class Row(NamedTuple):
    """A row that takes part: where it lies in its window, and when it came."""

    place: Any
    batch: int


class History:
    """What the oracle says of a join's rows."""

    def __init__(self, case: PlainCase, how: str) -> None:
        self.how, self.window = how, case.window
        pushes = [(batch["left"], batch["right"]) for batch in case.batches]
        self.pairs = set(oracle.pairs(parse_predicate(case.on), case.window, case.schemas, pushes))
        self.came = {
            side: {number: at for at, push in enumerate(case.batches) for number in _ids(push[side])} for side in SIDES
        }
        rows = [(oracle.rows_of("left", left), oracle.rows_of("right", right)) for left, right in pushes]
        plan = plan_join(*(case.schemas[side] for side in SIDES), parse_predicate(case.on), case.window, "auto")
        self.lone: dict[str, set[int]] = {side: set() for side in SIDES}
        for push in case.batches:
            for side in SIDES:
                for some in [] if push[side] is None else push[side].to_batches():  # type: ignore[union-attr]
                    keep = admit(plan, side, some).keep
                    self.lone[side] |= set(np.asarray(some["id"])[~keep].tolist())
        if isinstance(case.window, TimeWindow):
            kept, _ = oracle.on_time(dict.fromkeys(SIDES, "ts"), case.window, rows)
            timeless = [
                [row for push in rows for row in push[at] if row[side, "ts"] is None] for at, side in enumerate(SIDES)
            ]
            every = [some + more for some, more in zip(kept, timeless, strict=True)]
            places = [[row[side, "ts"] for row in some] for side, some in zip(SIDES, every, strict=True)]
        else:
            every = oracle.in_order(dict.fromkeys(SIDES, case.window.order_by), rows)
            places = [
                [row[side, "#"][at] for row in some] for at, (side, some) in enumerate(zip(SIDES, every, strict=True))
            ]
        self.rows = {
            side: {
                row[side, "id"]: Row(place, self.came[side][row[side, "id"]])
                for row, place in zip(some, its, strict=True)
            }
            for side, some, its in zip(SIDES, every, places, strict=True)
        }

    def results(self, batch: int, reached: dict[str, Any] | None) -> Results:
        """Return all results up to a micro-batch in which streams had ``reached`` places; None: it was the last."""
        found: Results = Counter()
        pairs = [
            (left, right)
            for left, right in self.pairs
            if max(self.came["left"][left], self.came["right"][right]) <= batch
        ]
        if gives_pairs(self.how):  # type: ignore[arg-type]
            found.update(pairs)
        elif self.how == "semi":
            found.update({(left,) for left, _ in pairs})
        for at, side in enumerate(SIDES):
            if side not in preserved(self.how):  # type: ignore[arg-type]
                continue
            met = {pair[at] for pair in self.pairs}
            length = oracle.constant(getattr(self.window, side))
            for number, row in self.rows[side].items():
                is_due = reached is None or (
                    number not in self.lone[side] and reached[side] is not None and row.place < reached[side] - length
                )
                if row.batch <= batch and number not in met and (is_due or number in self.lone[side]):
                    found[(number,) if self.how == "anti" else (number, None) if at == 0 else (None, number)] += 1
        return found


def _ids(rows: pa.Table | None) -> list[int]:
    return [] if rows is None else rows["id"].to_pylist()


def _results(found: pa.Table) -> Results:
    names = ("left_id", "right_id") if "left_id" in found.column_names else ("id",)
    return Counter(zip(*(found[name].to_pylist() for name in names), strict=True))


def _reached(query: Any, counted: dict[str, int]) -> dict[str, Any]:
    if query.ts is None:
        return dict(counted)
    watermark = query.checkpoint.watermark
    return dict.fromkeys(SIDES, oracle.Fraction(watermark, 1000) if watermark > 0 else None)


def _draw(data: st.DataObject) -> PlainCase:
    """Draw a join whose timestamps are Spark's."""
    case = data.draw(plain_cases(data.draw(st.sampled_from(KINDS))))
    schemas = {
        side: pa.schema([(f.name, UTC if f.name == "ts" else f.type) for f in case.schemas[side]]) for side in SIDES
    }
    batches = [
        {side: None if rows is None else rows.cast(schemas[side]) for side, rows in batch.items()}
        for batch in case.batches
    ]
    return PlainCase(schemas, case.on, case.window, batches)


def _make(case: PlainCase, how: str, data: st.DataObject) -> Any:
    make = partial(pair_query, case.schemas, case.on, case.window, cores=data.draw(st.integers(1, 3)), how=how)
    routings = possible(ROUTINGS, lambda routing: make(routing=routing))
    return partial(make, routing=data.draw(st.sampled_from(routings)))


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_rows_come_out_when_they_are_due(data: st.DataObject, scratch: Path) -> None:
    case, how = _draw(data), data.draw(st.sampled_from(HOWS))
    make, history = _make(case, how, data), History(case, how)
    forget(scratch)
    query, random = make(), np.random.default_rng(1)
    found: Results = Counter()
    counted = dict.fromkeys(SIDES, 0)
    for at, batch in enumerate([*case.batches, {}]):  # the last one has no input: only timers expire
        if data.draw(st.booleans(), label="restart"):
            forget(scratch)
            query = make(checkpoint=query.checkpoint)
        counted = {side: counted[side] + len(_ids(batch.get(side))) for side in SIDES}
        reached = _reached(query, counted)
        found += _results(query.run(batch, random, random))
        assert found == history.results(at, reached), at
    given = sum(record["unmatched_rows"] for records in query.metrics for record in records)
    assert given <= found.total()


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_batch_dataframes_have_all_at_the_end(data: st.DataObject, scratch: Path) -> None:
    case, how = _draw(data), data.draw(st.sampled_from(HOWS))
    whole = {
        side: pa.concat_tables([some for batch in case.batches if (some := batch[side]) is not None])
        if any(batch[side] is not None for batch in case.batches)
        else None
        for side in SIDES
    }
    case = PlainCase(case.schemas, case.on, case.window, [whole])
    forget(scratch)
    random = np.random.default_rng(1)
    found = _results(_make(case, how, data)(ends=True).run(whole, random, random))
    assert found == History(case, how).results(0, None)


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_marks_mean_the_same_to_two_attempts(data: st.DataObject, scratch: Path) -> None:
    """A late attempt, its rows in another order, replaces the files of the one before."""
    case, how = _draw(data), data.draw(st.sampled_from(HOWS))
    make, history = _make(case, how, data), History(case, how)
    found: Results = Counter()
    state = files = Checkpoint()
    random = np.random.default_rng(1)
    forget(scratch)
    counted = dict.fromkeys(SIDES, 0)
    for at, batch in enumerate([*case.batches, {}]):
        if data.draw(st.booleans(), label="restart"):
            forget(scratch)
            state = files
        own, late = make(checkpoint=state), make(checkpoint=files)
        counted = {side: counted[side] + len(_ids(batch.get(side))) for side in SIDES}
        reached = _reached(own, counted)
        found += _results(own.run(batch, random))
        assert found == history.results(at, reached), at
        if data.draw(st.booleans(), label="the late one's files win"):
            again = {side: _shuffled(rows, random) if own.ts else rows for side, rows in batch.items()}
            late.run(again, random, random)
            files = late.checkpoint
        else:
            files = replayed(files, state, own.checkpoint)
        state = deepcopy(own.checkpoint)


def _shuffled(rows: pa.Table | None, random: np.random.Generator) -> pa.Table | None:
    return None if rows is None else rows.take(random.permutation(rows.num_rows))


SCHEMA = pa.schema([("id", pa.int64()), ("ts", UTC), ("k", pa.int64())])


def _rows(*rows: tuple[int, int, int]) -> pa.Table:
    """Return rows of ``(id, milliseconds, k)``."""
    numbers, times, keys = zip(*rows, strict=True)
    moments = pa.array([1000 * time for time in times], UTC)
    return pa.table({"id": pa.array(numbers, pa.int64()), "ts": moments, "k": pa.array(keys, pa.int64())}, SCHEMA)


@pytest.mark.parametrize("routing", ["bucket", "broadcast"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("side", SIDES)
def test_a_match_at_the_last_possible_moment(side: str, how: str, routing: str, scratch: Path) -> None:
    """A row waits for exactly as long as another may meet it that is not late.

    watermark                 0          0        1400       1401
    micro-batch               0          1          2          3
    own side       1 at 1000, k=5   9 at 1400   9 at 1401      -      1 stays until 1400, the watermark at which
                   2 at 1000, k=7                                      a row at 1400 is not late
    other side                -     8 at 1400   1 at 1400, k=5  -      it meets 1, just in time; nothing meets 2
                                                8 at 1401
    """
    other = "right" if side == "left" else "left"
    window = wm.time_window("400 milliseconds", ts="ts")
    schemas = dict.fromkeys(SIDES, SCHEMA)
    forget(scratch)
    query = pair_query(schemas, "left.k BETWEEN right.k - 1 AND right.k + 1", window, routing=routing, how=how)  # type: ignore[arg-type]
    batches: list[dict[str, pa.Table | None]] = [
        {side: _rows((1, 1000, 5), (2, 1000, 7)), other: None},
        {side: _rows((9, 1400, 900)), other: _rows((8, 1400, -900))},
        {side: _rows((9, 1401, 950)), other: _rows((1, 1400, 5), (8, 1401, -950))},
        {},
    ]
    given = [_results(query.run(batch)) for batch in batches]
    pair = Counter({(1, 1): 1} if gives_pairs(how) else {(1,): 1} if how == "semi" else {})  # type: ignore[arg-type]
    row: tuple[Any, ...] = (2,) if how == "anti" else (2, None) if side == "left" else (None, 2)
    kept = Counter({row: 1} if side in preserved(how) else {})  # type: ignore[arg-type]
    assert given == [Counter(), Counter(), pair, kept]


@pytest.mark.parametrize("how", ["full", "semi"])
def test_marks_last_from_process_to_process(how: str) -> None:
    """Every micro-batch runs in a process of its own, which knows nothing but the checkpoint."""
    window = wm.time_window("400 milliseconds", ts="ts")
    make = partial(pair_query, dict.fromkeys(SIDES, SCHEMA), "left.k = right.k", window, how=how)  # type: ignore[arg-type]
    checkpoint, found = Checkpoint(), []
    for batch in (
        {"left": _rows((1, 1000, 5), (2, 1000, 6), (3, 1000, 7)), "right": _rows((1, 1000, 5), (2, 1000, 8))},
        {"left": _rows((4, 1100, 8)), "right": _rows((3, 1100, 5), (4, 1100, 6))},
        {"left": _rows((9, 2000, 90)), "right": _rows((9, 2000, 91))},
        {},
    ):
        results, checkpoint = run_in_a_new_process(make, checkpoint, batch)
        found.append(_results(results))
    if how == "semi":
        assert found == [Counter({(1,): 1}), Counter({(2,): 1, (4,): 1}), Counter(), Counter()]
    else:
        pairs = [{(1, 1): 1}, {(1, 3): 1, (2, 4): 1, (4, 2): 1}, {}, {(3, None): 1}]
        assert found == list(map(Counter, pairs))


def test_marks_are_put_together_when_runs_are_merged(scratch: Path) -> None:
    """Rows meet one before their runs are merged, between merges, and after; all but one do."""
    window = wm.time_window("10 seconds", ts="ts")
    forget(scratch)
    query = pair_query(dict.fromkeys(SIDES, SCHEMA), "left.k = right.k", window, how="anti", cores=1)
    meet = {
        0: 0,
        3: 1,
        4: 2,
        6: 6,
        7: 5,
        9: 3,
        12: 4,
        15: 7,
        16: 9,
        17: 10,
    }  # the number of a row, and when it meets one
    for at in range(12):
        left = _rows((at, 1000 + at, at), (12 + at, 1000 + at, 12 + at))
        rights = [(key, 1000 + at, key) for key, when in meet.items() if when == at]
        assert query.run({"left": left, "right": _rows(*rights, (99, 1000 + at, 99))}).num_rows == 0
    assert max(run["level"] for run in _runs(query, "left")) >= 2, "runs have been merged, and merged runs too"
    query.run({"left": _rows((90, 60_000, 90)), "right": _rows((98, 60_000, 98))})
    assert _results(query.run({})) == Counter({(at,): 1 for at in range(24) if at not in meet})


def _runs(query: Any, side: str) -> list[dict[str, Any]]:
    """Return a side's runs, of all cores."""
    manifests = [json.loads(cells["manifest", None][0]) for cells in query.checkpoint.joined.values()]
    return [run for manifest in manifests for run in manifest["runs"][side]]


def test_a_mark_means_the_same_in_whatever_order_an_attempt_had_its_rows(scratch: Path) -> None:
    """The late attempt's run takes the place of the executor's, whose marks come behind it."""
    window = wm.time_window("10 seconds", ts="ts")
    make = partial(pair_query, dict.fromkeys(SIDES, SCHEMA), "left.k = right.k", window, how="left", cores=1)
    rows = [(number, 1000 + number % 3, number % 7) for number in range(14)]
    forget(scratch)
    own, late = make(), make()
    own.run({"left": _rows(*rows), "right": None})
    late.run({"left": _rows(*reversed(rows)), "right": None})
    before = deepcopy(own.checkpoint)
    pairs = _results(own.run({"left": None, "right": _rows((1, 1001, 2), (2, 1001, 5))}))
    assert pairs == Counter([(2, 1), (9, 1), (5, 2), (12, 2)])
    forget(scratch)
    restarted = make(checkpoint=replayed(late.checkpoint, before, own.checkpoint))
    restarted.run({"left": _rows((90, 60_000, 90)), "right": _rows((91, 60_000, 91))})
    assert _results(restarted.run({})) == Counter({(number, None): 1 for number, _, key in rows if key not in (2, 5)})
