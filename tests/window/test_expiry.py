"""What leaves a window: every row once, oldest first, with its own values, whatever holds it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import TOPOLOGIES, WINDOWS, join_of, small_windows, stream
from watersmeet.engine.driver import Tactic
from watersmeet.engine.multiway.multi_stream_join import MultiStreamJoin
from watersmeet.engine.topologies.splitjoin import JoinCore, SplitJoin
from watersmeet.spec.expression import StreamName
from watersmeet.spec.window import Window
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, expired_before
from watersmeet.window.plan import JoinPlan, plan_join
from watersmeet.window.stream_window import StreamWindow

PLAIN = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("x", pa.int64())])
ANY = PLAIN.append(pa.field("text", pa.string()))


def listen(tactic: Tactic, heard: dict[StreamName, list[int]]) -> None:
    """Take down the ids of all rows that leave."""
    expire = tactic.expire

    def heard_expire(before: Bounds) -> dict[StreamName, list[Departed]]:
        left = expire(before)
        for side, parts in left.items():
            for part in parts:
                heard[side] += part.rows["id"].to_pylist()
        return left

    tactic.expire = heard_expire  # type: ignore[method-assign]
    for core in tactic._cores if isinstance(tactic, SplitJoin) else ():  # each knows by itself
        listen_to_core(core, heard)


def listen_to_core(core: JoinCore, heard: dict[StreamName, list[int]]) -> None:
    """Take down the ids of all rows that leave a core."""
    drop = core.drop

    def heard_drop(side: StreamName, before: int | None) -> list[Departed]:
        left = drop(side, before)
        for part in left:
            heard[side] += part.rows["id"].to_pylist()
        return left

    core.drop = heard_drop  # type: ignore[method-assign]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("window", list(WINDOWS))
@pytest.mark.parametrize("cores", [1, 3])
def test_every_row_leaves_once_or_is_held(topology: str, window: str, cores: int) -> None:
    pushes = stream(seed=5, pushes=30)
    with small_windows(), join_of("left.x <= right.x + 3", WINDOWS[window], topology=topology, cores=cores) as join:
        heard: dict[StreamName, list[int]] = {"left": [], "right": []}
        listen(join._topology, heard)
        given: dict[StreamName, Counter[int]] = {"left": Counter(), "right": Counter()}
        for left, right in pushes:
            join.push(left=left, right=right)
            for side, rows in (("left", left), ("right", right)):
                if rows is not None:
                    given[side].update(rows["id"].to_pylist())
        join._topology.settle()
        join._topology.expire({"left": None, "right": None})  # tells what has left since
        metrics = join.metrics
        out = {"left": metrics.left_null + metrics.left_late, "right": metrics.right_null + metrics.right_late}
        for side, left_out in out.items():
            held = sum(rows.num_rows for rows, _ in join._topology.save(side))
            gone = Counter(heard[side])
            assert gone <= given[side], "no row leaves that never came"
            assert len(heard[side]) + held == given[side].total() - left_out
            assert heard[side], "some have left"


def test_rows_of_many_streams_leave_once() -> None:
    schemas = dict.fromkeys("abc", PLAIN)
    join = MultiStreamJoin(streams=schemas, on="a.x = b.x AND b.x = c.x", window=wm.time_window("5 seconds", ts="ts"))
    heard: dict[StreamName, list[int]] = {name: [] for name in schemas}
    listen(join._strategy, heard)
    for number in range(60):
        ids = np.arange(number * 3000, number * 3000 + 3000)
        moments = pa.array(ids * 1000, pa.timestamp("us"))
        join.push(**{name: pa.table({"id": ids, "ts": moments, "x": ids % 7 * 1000 + ids}) for name in schemas})
    for name in schemas:
        assert heard[name] == list(range(len(heard[name])))
        assert len(heard[name]) + join.metrics.window_rows[name] == 180_000


def plan_of(schema: pa.Schema, window: Window) -> JoinPlan:
    return plan_join(schema, schema, wm.band("x", "x", 1), window, "auto")


@pytest.mark.parametrize("schema", [PLAIN, ANY], ids=["plain", "any"])
@pytest.mark.parametrize("counted", [False, True], ids=["time", "count"])
def test_a_window_gives_up_rows_in_their_order_with_their_numbers(schema: pa.Schema, *, counted: bool) -> None:
    window = wm.count_window(1000) if counted else wm.time_window("1 millisecond", ts="ts")
    plan = plan_of(schema, window)
    own = StreamWindow(plan, "left")
    heard: list[int] = []
    numbers: list[int] = []
    with small_windows():
        for first in range(0, 5000, 50):
            ids = np.arange(first, first + 50)
            columns = {"id": ids, "ts": pa.array(ids, pa.timestamp("us")), "x": ids % 9, "text": list(map(str, ids))}
            rows = pa.table({name: columns[name] for name in schema.names}, schema=schema).to_batches()[0]
            own.insert(KeyedBatch(plan, "left", rows, Arrival(ids, ids) if counted else None), None)
            (before,) = set(expired_before(plan, dict.fromkeys(plan.schemas, first + 50)).values())
            assert before == first + 50 - 1000
            for left in own.expire(before):
                assert max(left.rows["id"].to_pylist()) < before
                heard += left.rows["id"].to_pylist()
                numbers += [] if left.numbers is None else left.numbers.tolist()
                if "text" in schema.names:
                    assert left.rows["text"].to_pylist() == list(map(str, left.rows["id"].to_pylist()))
    assert heard == list(range(len(heard)))
    assert len(heard) + own.rows == 5000
    assert len(heard) > 3000
    assert numbers == (heard if counted else [])
