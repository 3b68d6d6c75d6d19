"""One generated case in this process: drawn from its seed, joined, and compared with the oracle.

``check(seed)`` is all: nothing but the seed decides what is drawn, so a failure is replayed by its seed alone
(``python -m soak --replay-case SEED``). The join's structure, topology, cores, batches and restarts follow from it too.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from soak.drawing import Dice, Stream, draw_predicate, draw_streams, draw_tables, draw_window
from strategies import STRUCTURES
from topologies import TOPOLOGIES, small_windows
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import CountWindow, windows_of

__all__ = ["Case", "check", "draw_case"]

CASES: Final = 1
"""Keeps the seeds of cases apart from those of queries."""
STRATEGIES: Final = ["auto", "circular", "stashed"]
ROWS: Final = {2: 14, 3: 9, 4: 6, 5: 4}
"""Rows of one stream, for so many streams: few enough for an oracle that looks at all combinations of them."""
MANY_ROWS: Final = 70
"""Now and then: ranges that are longer than a kernel's shortest loop."""
SMALL: Final = {
    "watersmeet.subwindow.contract.PAIRS_AT_ONCE": 8,
    "watersmeet.window.chunks.FAN_IN": 2,
    "watersmeet.engine.waiting.FAN_IN": 2,
    "watersmeet.engine.waiting.NEWEST_PUSHES": 2,
    "watersmeet.engine.marks.LEAST_NUMBERS": 1,
    "watersmeet.engine.multiway.portions.PORTION": 3,
    "watersmeet.engine.multiway.rows.FAN_IN": 2,
    "watersmeet.engine.multiway.rows.SMALLEST_STEP": 2,
    "watersmeet.engine.multiway.probe_order.FIRST_DECISION": 5,
    "watersmeet.engine.multiway.probe_order.FEWEST_SEEN": 1,
    "watersmeet.engine.multiway.ring.PART": 2,
    "watersmeet.engine.multiway.ring.SMALLEST_SHARE": 1,
    "watersmeet.engine.multiway.ring.CAPACITY": 1,
}


@dataclass(frozen=True)
class Case:
    """A join, the way its rows arrive, and how it is run."""

    streams: list[Stream]
    on: str
    window: Any
    pushes: list[Mapping[str, pa.Table | None]]
    options: dict[str, Any]
    restarts: dict[int, dict[str, Any]]
    """Before which pushes the join is saved and restored, and as what."""
    small: bool
    schemas: dict[str, pa.Schema] = field(init=False)

    def __post_init__(self) -> None:
        """Gather the schemas."""
        object.__setattr__(self, "schemas", {stream.name: stream.schema for stream in self.streams})

    @property
    def is_pair(self) -> bool:
        """Whether a ``StreamJoin`` runs it."""
        return "strategy" not in self.options

    def __str__(self) -> str:
        schemas = "; ".join(f"{stream.name}({', '.join(map(str, stream.schema))})" for stream in self.streams)
        rows = [{name: 0 if t is None else t.num_rows for name, t in push.items()} for push in self.pushes]
        return (
            f"{schemas}\nON {self.on}\n{self.window}\n{self.options}, small={self.small}\n"
            f"restarts {self.restarts}\nrows {rows}"
        )


def draw_case(seed: int) -> Case:
    """Return the case of a seed."""
    dice = Dice(CASES, seed)
    pair = dice.chance(0.7)
    names = ["left", "right"] if pair else ["a", "b", "c", "d", "e"][: dice.pick([2, 3, 3, 3, 4, 4, 5])]
    streams, keys = draw_streams(dice, names)
    on = draw_predicate(dice, names, keys)
    window = draw_window(dice, streams)
    pushes_of: dict[str, list[pa.Table | None]] = {}
    count = dice.number(1, 6)
    rows = MANY_ROWS if pair and dice.chance(0.04) else ROWS[len(names)]
    for stream in streams:
        pushes_of[stream.name] = draw_tables(dice, stream, dice.number(rows // 2, rows), count)
    pushes: list[Mapping[str, pa.Table | None]] = [
        {name: tables[number] for name, tables in pushes_of.items()} for number in range(count)
    ]
    options: dict[str, Any] = {"structure": dice.pick(STRUCTURES), "cores": dice.pick([1, 1, 2, 3])}
    restarts: dict[int, dict[str, Any]] = {}
    if pair:
        options |= _pair_options(dice, options["cores"])
    else:
        options |= {"strategy": dice.pick(STRATEGIES), "stash_rows": dice.pick([1, 3, 9, 1 << 20])}
    for _ in range(dice.pick([0, 1, 1, 2])):
        topology = dice.pick(TOPOLOGIES)
        restarts[dice.number(0, count)] = (
            {"topology": topology, "cores": dice.number(1, 3)} if pair and dice.chance(0.7) else {}
        )
    return Case(streams, on, window, pushes, options, restarts, small=dice.chance(0.5))


def _pair_options(dice: Dice, cores: int) -> dict[str, Any]:
    topology = dice.pick(TOPOLOGIES)
    options: dict[str, Any] = {"topology": topology, "block_rows": dice.pick([1, 3, 256])}
    if dice.chance(0.3):
        options["order"] = dice.pick(["outer", "inner"])
    if dice.chance(0.15):
        options["batch_rows"] = dice.pick([2, 9, 40])
    if dice.chance(0.4):
        options["how"] = dice.pick(["left", "right", "full", "semi", "anti"])
    if topology == "handshake" and dice.chance(0.3):
        options["weights"] = [dice.pick([0.5, 1, 3]) for _ in range(cores)]
    return options


def check(seed: int) -> dict[str, Any]:
    """Run the case of a seed; return what it was, and how many results it had; raise where they are wrong."""
    case = draw_case(seed)
    kind = "two streams" if case.is_pair else "many streams"
    about: dict[str, Any] = {
        "kind": kind,
        "window": "count" if "count" in type(case.window).__name__.lower() else "time",
    }
    about |= {name: case.options.get(name) for name in ("structure", "topology", "strategy", "order", "how")}
    try:
        join = _join_of(case)
    except wm.WatersmeetError as error:
        return about | {"refused": str(error).partition("\n")[0][:120]}
    with _small(case.small):
        found = _found(case, join)
    expected = _expected(case)
    assert Counter(found) == expected, _difference(Counter(found), expected)
    if case.options.get("order") is not None:
        _check_order(case, found)
    return about | {"results": len(found), "restarts": len(case.restarts)}


def _difference(found: Counter[Any], expected: Counter[Any]) -> str:
    lost, extra = list((expected - found).elements()), list((found - expected).elements())
    return f"{len(lost)} lost {lost[:5]}, {len(extra)} wrong or double {extra[:5]}, of {expected.total()}"


def _join_of(case: Case) -> Any:  # noqa: ANN401 -- a StreamJoin or a MultiStreamJoin, of which the same is asked
    if case.is_pair:
        return wm.StreamJoin(**case.schemas, on=case.on, window=case.window, **case.options)
    return wm.MultiStreamJoin(streams=case.schemas, on=case.on, window=case.window, **case.options)


def _expected(case: Case) -> Counter[Any]:
    names = tuple(case.schemas)
    on = read_predicate(case.on, names)
    if case.is_pair:
        pushes = [(push["left"], push["right"]) for push in case.pushes]
        pairs = oracle.pairs(on, case.window, case.schemas, pushes)
        return oracle.of_kind(case.options.get("how", "inner"), pairs, case.window, pushes)
    return oracle.results(on, windows_of(case.window, names), case.schemas, case.pushes)


def _found(case: Case, join: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 -- as above
    """Push everything and finish; return the ids of the results as they came."""
    rows = {name: _Rows([push[name] for push in case.pushes]) for name in case.schemas}
    results = []
    for number, push in enumerate([*case.pushes, None]):
        if number in case.restarts:
            saved = join.snapshot()
            join.close()
            join = type(join).restore(saved, **case.restarts[number])
        part = join.finish() if push is None else join.push(**push)
        assert part.schema == join.schema, "the schema of results"
        results.append(part)
    metrics = join.metrics
    table = pa.concat_tables(results)
    assert (metrics.pairs if case.is_pair else metrics.results) == table.num_rows, "the number of results"
    ids, begin = [], 0
    for name, schema in case.schemas.items():
        if begin == table.num_columns:  # left rows alone
            ids.append([None] * table.num_rows)
            continue
        own = table.select(range(begin, begin + len(schema))).rename_columns(schema.names)
        begin += len(schema)
        ids.append(rows[name].check(own))
    return list(zip(*ids, strict=True))


class _Rows:
    """All rows of a stream, by id."""

    def __init__(self, tables: list[pa.Table | None]) -> None:
        given = [table for table in tables if table is not None]
        self._all = pa.concat_tables(given) if given else None
        self._at = {} if self._all is None else {key: at for at, key in enumerate(self._all["id"].to_pylist())}

    def check(self, found: pa.Table) -> list[Any]:
        """Return the ids of some rows; every column has to be as it was given."""
        ids: list[Any] = found["id"].to_pylist()
        if self._all is None:
            assert set(ids) <= {None}
            return ids
        given = self._all.take(pa.array([None if key is None else self._at[key] for key in ids], pa.int64()))
        for name in found.column_names:
            assert _plain(found[name]).equals(_plain(given[name])), f"column {name} of the rows found"
        return ids


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose values equal themselves: NaN as its bits, a dictionary's values."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        width = {32: np.int32, 64: np.int64}[column.type.bit_width]
        filled = column.fill_null(0).to_numpy().view(width)
        return pa.chunked_array([pa.array(filled, mask=column.is_null().to_numpy())])
    return column


def _check_order(case: Case, found: list[tuple[Any, ...]]) -> None:
    """Raise unless pairs came in the order of arrival asked for."""
    order_by = case.window.order_by if isinstance(case.window, CountWindow) else None
    history = [tuple(oracle.rows_of(name, push[name]) for name in case.schemas) for push in case.pushes]
    arrived = oracle.in_order({"left": order_by, "right": order_by}, history)
    left, right = (
        {row[name, "id"]: sum(row[name, "#"]) for row in rows} for name, rows in zip(case.schemas, arrived, strict=True)
    )
    moments = [sorted((left[a], right[b]), reverse=True) for a, b in found if None not in (a, b)]  # the later first
    inner = case.options["order"] == "inner"
    for before, after in pairwise(moments if inner else [moment[:1] for moment in moments]):
        assert before <= after, f"order={case.options['order']}: {before} before {after}"


@contextmanager
def _small(small: bool) -> Iterator[None]:  # noqa: FBT001 -- the case's flag
    """Make chains of many segments, slices, chunks and portions with a few rows already."""
    if not small:
        yield
        return
    switch = sys.getswitchinterval()
    with small_windows(), pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(name, value)
        sys.setswitchinterval(1e-5)  # threads take turns often
        try:
            yield
        finally:
            sys.setswitchinterval(switch)
