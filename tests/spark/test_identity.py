"""What a checkpoint is bound to: what may change on it changes, what may not is refused by name. Without a JVM."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from stand_in import Checkpoint, Query, forget, multi_query, pair_query
from watersmeet.engine.multiway.plan import MultiPlan, plan_streams
from watersmeet.spark import earlier
from watersmeet.spark.core_ids import KEEPER, core_ids
from watersmeet.spark.identity import FORMAT, MAY_CHANGE, Identity, identity_of, join_identity
from watersmeet.spark.multiway.routing import choose_multi_routing
from watersmeet.spark.multiway.spots import Spot, Spots
from watersmeet.spark.routing.choose import choose_routing
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of
from watersmeet.window.plan import JoinPlan, plan_join

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("x", pa.int64())])
WIDER = pa.schema([("note", pa.string()), *SCHEMA, ("more", pa.struct([("a", pa.int8())]))])
ON = "left.k = right.k AND left.x < right.x + 40"
BAND = "left.x BETWEEN right.x - 3 AND right.x + 3"
CHAIN = "a.k = b.k AND b.x BETWEEN c.x - 9 AND c.x + 9"
WINDOW = wm.time_window("2 seconds", ts="ts")
ROWS = 20


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a test a node's scratch folder of its own, and forget afterwards what its worker remembers."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    yield tmp_path
    forget(tmp_path)


def rows(batch: int, schema: pa.Schema = SCHEMA, seed: int = 3) -> pa.Table:
    ids = range(batch * ROWS, (batch + 1) * ROWS)
    table = pa.table(
        {
            "note": [f"row {n}" for n in ids],
            "id": ids,
            "ts": [n * 50_000 + n * 7919 * seed % 40_000 for n in ids],
            "k": [n * seed % 4 for n in ids],
            "x": [n * 17 * seed % 61 for n in ids],
            "more": [{"a": n % 100} for n in ids],
        },
        schema=WIDER,
    )
    return table.select(schema.names)


def both(batch: int, schema: pa.Schema = SCHEMA) -> dict[str, pa.Table]:
    return {"left": rows(batch, schema), "right": rows(batch, schema, 5)}


def begun(on: str = ON, window: Any = WINDOW, **options: Any) -> tuple[Checkpoint, list[pa.Table]]:
    """Return the checkpoint and the pairs of a join after two micro-batches."""
    query = pair_query({"left": SCHEMA, "right": SCHEMA}, on, window, **options)
    return query.checkpoint, [query.run(both(0)), query.run(both(1))]


def ids(pairs: list[pa.Table]) -> Counter[tuple[int, int]]:
    table = pa.concat_tables([some.select(["left_id", "right_id"]) for some in pairs])
    return Counter(zip(table["left_id"].to_pylist(), table["right_id"].to_pylist(), strict=True))


def manifests(checkpoint: Checkpoint) -> dict[int, Any]:
    return {key: json.loads(cells["manifest", None][0]) for key, cells in checkpoint.joined.items()}


# --- what may change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True], ids=["same worker", "new process"])
@pytest.mark.parametrize("structure", ["rap_table", "scan"])
def test_lateness_and_structure_may_change(scratch: Path, structure: str, cold: bool) -> None:
    checkpoint, before = begun()
    if cold:
        forget(scratch)
    patient = wm.time_window("2 seconds", ts="ts", lateness="1 hour")
    query = pair_query({"left": SCHEMA, "right": SCHEMA}, ON, patient, structure=structure, checkpoint=checkpoint)
    unchanged = pair_query({"left": SCHEMA, "right": SCHEMA}, ON, WINDOW)
    whole = [unchanged.run(both(batch)) for batch in range(3)]
    assert ids([*before, query.run(both(2))]) == ids(whole)


@pytest.mark.parametrize("where", ["this worker's memory", "the node's cache", "the state store"])
@pytest.mark.parametrize(
    ("on", "window"),
    [(ON, WINDOW), (BAND, WINDOW), ("left.x < right.x", WINDOW), (BAND, wm.count_window(30, order_by="ts"))],
    ids=["hash", "bucket", "broadcast", "count"],
)
def test_columns_may_be_added(scratch: Path, on: str, window: Any, where: str) -> None:
    """Rows stored before have null in them, wherever they are found; all pairs are there."""
    checkpoint, before = begun(on, window)
    if where == "the state store":
        forget(scratch)
    elif where == "the node's cache":
        forget(scratch / "not here")
    wider = pair_query({"left": WIDER, "right": WIDER}, on, window, checkpoint=checkpoint)
    after = [wider.run(both(2, WIDER)), wider.run(both(3, WIDER))]
    plain = pair_query({"left": SCHEMA, "right": SCHEMA}, on, window)
    assert ids(before + after) == ids([plain.run(both(batch)) for batch in range(4)])
    pairs = pa.concat_tables(after).to_pylist()
    first = 2 * ROWS
    assert {pair["left_id"] < first for pair in pairs} == {pair["right_id"] < first for pair in pairs} == {False, True}
    for pair in pairs:
        for side in ("left", "right"):
            number = pair[f"{side}_id"]
            is_new = number >= first
            assert pair[f"{side}_note"] == (f"row {number}" if is_new else None)
            assert pair[f"{side}_more"] == ({"a": number % 100} if is_new else None)


def test_columns_of_many_streams_may_be_added(scratch: Path) -> None:
    windows = wm.time_window(dict.fromkeys("abc", "2 seconds"), ts="ts")

    def push(batch: int, schema: pa.Schema) -> dict[str, pa.Table]:
        return {stream: rows(batch, schema, seed) for stream, seed in (("a", 3), ("b", 5), ("c", 7))}

    def found(results: list[pa.Table]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(row[f"{s}_id"] for s in "abc") for some in results for row in some.to_pylist())

    narrow = multi_query(dict.fromkeys("abc", SCHEMA), CHAIN, windows)
    before = [narrow.run(push(0, SCHEMA)), narrow.run(push(1, SCHEMA))]
    for cold in (False, True):
        if cold:
            forget(scratch)
        wider = multi_query(dict.fromkeys("abc", WIDER), CHAIN, windows, checkpoint=narrow.checkpoint)
        after = wider.run(push(2, WIDER))
        plain = multi_query(dict.fromkeys("abc", SCHEMA), CHAIN, windows)
        assert found([*before, after]) == found([plain.run(push(batch, SCHEMA)) for batch in range(3)])
        notes = {(row["b_id"] < 2 * ROWS, row["b_note"] is None) for row in after.to_pylist()}
        assert notes == {(True, True), (False, False)}


def test_merging_takes_older_and_newer_rows_together(scratch: Path) -> None:
    """Eight runs are merged into one: of the first, rows lack the new columns."""
    long = wm.time_window("1 hour", ts="ts")
    checkpoint, before = begun(ON, long)
    wider = pair_query({"left": WIDER, "right": WIDER}, ON, long, checkpoint=checkpoint)
    after = [wider.run(both(batch, WIDER)) for batch in range(2, 10)]
    forget(scratch)
    again = pair_query({"left": WIDER, "right": WIDER}, ON, long, checkpoint=wider.checkpoint)
    after.append(again.run(both(10, WIDER)))
    plain = pair_query({"left": SCHEMA, "right": SCHEMA}, ON, long)
    assert ids(before + after) == ids([plain.run(both(batch)) for batch in range(11)])
    last = [pair for pair in after[-1].to_pylist() if pair["right_id"] >= 10 * ROWS]
    assert {(pair["left_id"] < 2 * ROWS, pair["left_note"] is None) for pair in last} == {(True, True), (False, False)}


TYPES = (
    pa.string(),
    pa.binary(),
    pa.bool_(),
    pa.int8(),
    pa.float64(),
    pa.decimal128(20, 3),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.int64()),
    pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
)
DATED = (pa.date32(), pa.timestamp("us", "UTC"))
MORE = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(TYPES)), max_size=3)
STARTS = st.lists(st.tuples(MORE, MORE, st.sampled_from(["same worker", "new process", "another worker"])), max_size=4)
KINDS = ((ON, WINDOW), (BAND, WINDOW), ("left.x < right.x", WINDOW), (ON, wm.count_window(25, order_by="ts")))


@given(st.sampled_from(KINDS), STARTS)
def test_any_columns_may_be_added_at_any_start(
    tmp_path_factory: pytest.TempPathFactory,
    kind: tuple[str, Any],
    starts: list[tuple[list[tuple[int, pa.DataType]], list[tuple[int, pa.DataType]], str]],
) -> None:
    """Wherever they stand, whatever their type; each value is that of its row, null before the column came."""
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_DIRS", str(scratch))
        schemas = {"left": SCHEMA, "right": SCHEMA}
        came: dict[str, dict[str, int]] = {"left": {}, "right": {}}
        checkpoint, found = None, []
        for batch, (lefts, rights, worker) in enumerate([([], [], "same worker"), *starts]):
            for side, more in (("left", lefts), ("right", rights)):
                for place, its_type in more:
                    name = f"{side} {len(came[side])}"
                    came[side][name] = batch * ROWS
                    column = pa.field(name, its_type)
                    schemas[side] = schemas[side].insert(min(place, len(schemas[side])), column)
            if worker != "same worker":
                forget(scratch if worker == "new process" else scratch / "not here")
            query = pair_query(schemas, *kind, checkpoint=checkpoint)
            given = {side: grown(table, schemas[side]) for side, table in both(batch).items()}
            found.append(query.run(given))
            checkpoint = query.checkpoint
        forget(scratch)
    plain = pair_query({"left": SCHEMA, "right": SCHEMA}, *kind)
    assert ids(found) == ids([plain.run(both(batch)) for batch in range(len(starts) + 1)])
    for pairs in found:
        for side, columns in came.items():
            for name in set(columns) & set(pairs.column_names):
                is_null = pairs[name].is_null().to_pylist()
                assert is_null == [number < columns[name] for number in pairs[f"{side}_id"].to_pylist()]


def grown(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns that it lacks: values that are not null."""
    count = table.num_rows
    columns = [
        table[field.name] if field.name in table.column_names else pa.repeat(_value(field.type), count)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _value(its_type: pa.DataType) -> pa.Scalar:
    if pa.types.is_map(its_type) or pa.types.is_list(its_type):
        return pa.scalar([], its_type)
    if pa.types.is_struct(its_type):
        return pa.scalar({"a": 1, "b": ["x"]}, its_type)
    return pa.scalar("1", pa.string()).cast(its_type) if its_type not in DATED else pa.scalar(0, its_type)


# --- what may not ---------------------------------------------------------------------------------------------------

TYPED = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("x", pa.float64())])
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "predicate": (
        {"on": "left.k = right.k AND left.x < right.x + 41"},
        r"predicate: was left.k = right.k AND left.x < .right.x . 40., is left.k = right.k AND left.x < .right.x . 41",
    ),
    "window": (
        {"window": wm.time_window(left="3 seconds", right="2 seconds", ts="ts")},
        "window, left: was 2 seconds, is 3 seconds",
    ),
    "kind of window": ({"window": wm.count_window(5)}, "window, kind: was time, is count"),
    "a column's type": ({"left": TYPED}, "columns of left, x: was int64, is double"),
    "a column gone": (
        {"right": SCHEMA, "left": WIDER, "gone": True},
        "of left, note: was string, is not there",
    ),
    "routing": ({"routing": "broadcast"}, "routing, kind: was hash, is broadcast"),
    "cores": ({"cores": 3}, "cores: was 2, is 3"),
}


def changed(checkpoint: Checkpoint | None, change: dict[str, Any]) -> Query:
    given = {"left": SCHEMA, "right": SCHEMA, "on": ON, "window": WINDOW, **change}
    schemas = {"left": given.pop("left"), "right": given.pop("right")}
    given.pop("gone", None)
    return pair_query(schemas, given.pop("on"), given.pop("window"), checkpoint=checkpoint, **given)


@pytest.mark.parametrize("part", REFUSED)
def test_a_refusal_says_which_part_differs(part: str) -> None:
    """What it was and what it is; every core says so, and the keeper, which never gets rows."""
    change, message = REFUSED[part]
    if "gone" in change:
        first = changed(None, change)
        first.run({"left": rows(0, WIDER), "right": rows(0)})
        checkpoint, query = first.checkpoint, changed(first.checkpoint, {})
    else:
        checkpoint, _ = begun()
        query = changed(checkpoint, change)
    with pytest.raises(wm.SnapshotError, match=message) as refused:
        query.run(
            {side: schema.empty_table() for side, schema in query.streams.schemas.items()} if query.ts else both(2)
        )
    assert MAY_CHANGE in str(refused.value)
    for key, saved in manifests(checkpoint).items():
        with pytest.raises(wm.SnapshotError, match=message):
            query.core()._identity.check(saved)
        assert key == KEEPER or saved["runs"]


def test_a_changed_format_is_no_other_join() -> None:
    checkpoint, _ = begun()
    for cells in checkpoint.joined.values():
        content = json.loads(cells["manifest", None][0])
        cells["manifest", None] = (json.dumps(content | {"format": FORMAT + 1}),)
    query = pair_query({"left": SCHEMA, "right": SCHEMA}, ON, WINDOW, checkpoint=checkpoint)
    with pytest.raises(wm.SnapshotError, match=f"state format {FORMAT + 1}") as refused:
        query.run(both(2))
    assert "another join" not in str(refused.value)


def test_what_is_stored_is_readable() -> None:
    """Named parts, versioned; the digest is that of what is written."""
    checkpoint, _ = begun()
    for saved in manifests(checkpoint).values():
        assert list(saved["identity"]) == [
            "version",
            "predicate",
            "window",
            "columns",
            "routing",
            "cores",
            "shuffle partitions",
        ]
        assert Identity(saved["identity"], "").digest == saved["join"]
    assert saved["identity"]["window"] == {
        "kind": "time",
        "left_ts": "ts",
        "right_ts": "ts",
        "left": 2_000_000,
        "right": 2_000_000,
    }
    assert saved["identity"]["columns"]["left"]["k"] == "int32"


# --- state of format 3 ----------------------------------------------------------------------------------------------


def aged(checkpoint: Checkpoint, identity: Identity) -> Checkpoint:
    """Return a checkpoint as format 3 had it."""
    old = deepcopy(checkpoint)
    for cells in old.joined.values():
        runs = json.loads(cells["manifest", None][0])["runs"]
        cells["manifest", None] = (json.dumps({"format": 3, "join": identity.earlier, "runs": runs}),)
    return old


def test_a_digest_alone_is_adopted_or_refused() -> None:
    """The first micro-batch writes the parts; before it, nothing may change."""
    checkpoint, before = begun()
    old = aged(checkpoint, changed(None, {}).core()._identity)
    patient = {"window": wm.time_window("2 seconds", ts="ts", lateness="1 hour")}
    with pytest.raises(wm.SnapshotError, match="state format 3, which keeps a digest of its join and nothing else"):
        changed(old, patient).run(both(2))
    query = changed(old, {})
    before.append(query.run(both(2)))
    assert {saved["format"] for saved in manifests(query.checkpoint).values()} == {FORMAT}
    before.append(changed(query.checkpoint, patient).run(both(3)))
    plain = changed(None, {})
    assert ids(before) == ids([plain.run(both(batch)) for batch in range(4)])


@dataclass
class Routing:
    """How format 3 called a routing of two streams."""

    kind: Any
    cores: int
    axis: int | None = None


@dataclass
class MultiRouting:
    """How format 3 called a routing of many streams."""

    kind: Any
    cores: int
    spots: Spots
    centre: str | None


SPOTS = (("a", Spot(("a", "b"), 0)), ("b", Spot(("a", "b"), 0)), ("c", Spot(("b", "c"), 0)))
PAIRS = (Routing("hash", 3), Routing("bucket", 3, 0), Routing("broadcast", 3))
MULTI = (
    MultiRouting("hash", 2, SPOTS, None),
    MultiRouting("bucket", 2, SPOTS, "a"),
    MultiRouting("replicate", 2, (), "b"),
)


def pair_of(routing: Any, window: Any) -> tuple[JoinPlan, Identity]:
    plan = plan_join(SCHEMA, SCHEMA, parse_predicate(f"{ON} AND {BAND} AND left.id != 5"), window, "auto")
    return plan, join_identity(plan, choose_routing(routing, plan, 3), core_ids(3, 2), 2)


def many_of(routing: Any, window: Any) -> tuple[MultiPlan, Identity]:
    on = "a.k = b.k AND b.k = c.k AND a.x BETWEEN b.x - 1 AND b.x + 2 AND b.x BETWEEN c.x - 9 AND c.x"
    names = ("a", "b", "c")
    plan = plan_streams(dict.fromkeys(names, SCHEMA), read_predicate(on, names), windows_of(window, names), "auto")
    return plan, join_identity(plan, choose_multi_routing(routing, plan, 2, "b"), core_ids(2, 2), 2)


def digest_of_format_3(plan: JoinPlan | MultiPlan, window: Any, routing: Any, cores: tuple[int, ...]) -> str:
    """It is that of Python's own text of the objects of then."""
    columns = {side: [(field.name, str(field.type)) for field in schema] for side, schema in plan.schemas.items()}
    text = repr((str(plan.predicate), window, columns, routing, cores)).replace(", idle=None", "")  # windows had none
    return earlier.hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@pytest.mark.parametrize(
    "window",
    [WINDOW, wm.time_window(left="0 seconds", right="1 day", ts="ts", lateness="3 milliseconds"), wm.count_window(5)],
    ids=["time", "sides", "count"],
)
@pytest.mark.parametrize("routing", PAIRS)
def test_the_digest_of_format_3(window: Any, routing: Routing) -> None:
    plan, identity = pair_of(routing.kind, window)
    assert identity.earlier == digest_of_format_3(plan, window, routing, core_ids(3, 2))


@pytest.mark.parametrize("routing", MULTI)
@pytest.mark.parametrize("window", [WINDOW, wm.count_window(5, order_by="ts"), wm.count_window(7)])
def test_the_digest_of_format_3_for_many_streams(window: Any, routing: MultiRouting) -> None:
    plan, identity = many_of(routing.kind, window)
    assert identity.earlier == digest_of_format_3(plan, plan.window, routing, core_ids(2, 2))


def test_the_digest_of_format_4_stays() -> None:
    """Checkpoints that are in use have it, whatever the classes that route are called."""
    assert [pair_of(routing.kind, WINDOW)[1].digest for routing in PAIRS] == [
        "f00fb14e8062b20d387b3b17fe47b984",
        "c6f8173b257c3bd0a75a0fde7304139c",
        "ef4de71641e1417359b73001337443d8",
    ]
    assert [many_of(routing.kind, WINDOW)[1].digest for routing in MULTI] == [
        "178b70afe009e563a4d05594f194d442",
        "a49f259eae5333e4095eafb359a73cc1",
        "59534d32f26ce01aaa2553fce022dbc1",
    ]


# --- any change -----------------------------------------------------------------------------------------------------

PARTS = {
    "on": st.sampled_from([ON, BAND, "left.x < right.x", "left.k = right.k"]),
    "window": st.sampled_from([WINDOW, wm.time_window("3 seconds", ts="ts"), wm.count_window(4), wm.count_window(5)]),
    "columns": st.sampled_from([SCHEMA, TYPED, WIDER]),
    "cores": st.integers(1, 3),
    "partitions": st.integers(1, 3),
}


@given(st.fixed_dictionaries(PARTS), st.fixed_dictionaries(PARTS))
def test_equal_joins_have_equal_digests(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two joins are taken for each other exactly when all their parts are equal, or the second has more columns."""
    first, second = map(_identity, (one, other))
    assert (first.digest == second.digest) == (one == other)
    saved = {"format": FORMAT, "join": first.digest, "identity": json.loads(json.dumps(first.parts))}
    adds = (one["columns"], other["columns"]) == (SCHEMA, WIDER)
    if other == one | ({"columns": WIDER} if adds else {}):
        second.check(saved)
    else:
        with pytest.raises(wm.SnapshotError, match=r"was .*, is "):
            second.check(saved)


def _identity(given: dict[str, Any]) -> Identity:
    schemas = {"left": given["columns"], "right": SCHEMA}
    return identity_of(
        parse_predicate(given["on"]),
        given["window"],
        schemas,
        {"kind": "hash"},
        cores=given["cores"],
        partitions=given["partitions"],
        earlier="",
    )


def test_the_kind_of_join_is_a_part_of_all_but_inner_ones() -> None:
    """Checkpoints of inner joins stay as they were; one of another kind is refused by name, and one of format 3 too."""
    plan, inner = pair_of("hash", WINDOW)
    spread = choose_routing("hash", plan, 3)
    left, full = (join_identity(plan, spread, core_ids(3, 2), 2, how) for how in ("left", "full"))  # type: ignore[arg-type]
    for was, now, words in (
        (inner, left, "was inner, is left"),
        (left, inner, "was left, is inner"),
        (left, full, "is full"),
    ):
        saved = {"format": FORMAT, "join": was.digest, "identity": was.parts}
        was.check(saved)
        with pytest.raises(wm.SnapshotError, match=f"how: .*{words}"):
            now.check(saved)
    of_format_3 = {"format": 3, "join": inner.earlier}
    inner.check(of_format_3)
    with pytest.raises(wm.SnapshotError, match="another join"):
        left.check(of_format_3)
