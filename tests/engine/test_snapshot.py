"""Snapshots: a restored join continues as if nothing had happened; anything else than a snapshot is refused."""

from __future__ import annotations

import ast
import inspect
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from strategies import STRUCTURES
from watersmeet.engine import saved_state, snapshot
from watersmeet.engine import sections as layout
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import Window

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("x", pa.decimal128(20, 3)), ("name", pa.string())])
WINDOWS = [
    wm.time_window(left="10 seconds", right=timedelta(microseconds=1), ts="ts", lateness="1 day"),
    wm.count_window(3),
    wm.count_window(left=3, right=5, order_by="ts"),
]


def table(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": ids,
            "ts": [i * 1_000_000 for i in ids],
            "x": [Decimal(i % 3) for i in ids],
            "name": [str(i) for i in ids],
        },
        schema=SCHEMA,
    )


def join_over(window: Window, **options: Any) -> wm.StreamJoin:
    on = wm.band("x", "x", Decimal("0.5")) & ~wm.equal("name")
    return wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=on, window=window, **options)


def pushed(window: Any = WINDOWS[0], **options: Any) -> wm.StreamJoin:
    join = join_over(window, **options)
    join.push(left=table(0, 4), right=table(2, 3))
    join.push(left=table(4, 2))
    return join


BLOB = pushed().snapshot()


@pytest.mark.parametrize("window", WINDOWS, ids=["time", "count", "ordered"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_round_trip_continues_where_it_was_saved(structure: str, window: Window) -> None:
    join = pushed(window, structure=structure)
    blob = join.snapshot()
    restored = wm.StreamJoin.restore(blob)
    same = [field for field in join.metrics.__slots__ if field != "window_bytes"]
    assert [getattr(restored.metrics, f) for f in same] == [getattr(join.metrics, f) for f in same]
    assert restored.snapshot() == blob
    assert restored.schema == join.schema
    for left, right in ((None, table(5, 3)), (table(6, 4), table(8, 2)), (table(10, 1), None)):
        expected, found = join.push(left=left, right=right), restored.push(left=left, right=right)
        order = [("left_id", "ascending"), ("right_id", "ascending")]
        assert found.sort_by(order).equals(expected.sort_by(order))
    assert join.metrics.pairs == restored.metrics.pairs > 3


def test_options_and_an_end_are_kept() -> None:
    join = pushed(late="error", structure="hash")
    join.finish()
    restored = wm.StreamJoin.restore(join.snapshot())
    with pytest.raises(wm.SpecificationError, match="finish"):
        restored.push(left=table(50, 1))
    assert "structure hash" in restored.explain()
    join = pushed(wm.time_window("1 second", ts="ts"), late="error")
    restored = wm.StreamJoin.restore(join.snapshot())
    with pytest.raises(wm.LateRowError):
        restored.push(left=table(0, 1))


def test_an_untouched_join_can_be_saved() -> None:
    restored = wm.StreamJoin.restore(join_over(WINDOWS[0]).snapshot())
    assert restored.push(left=table(0, 1), right=table(3, 1)).num_rows == 1


def test_saving_does_not_disturb_the_join() -> None:
    join, undisturbed = pushed(), pushed()
    join.snapshot()
    assert join.push(right=table(3, 3)).num_rows == undisturbed.push(right=table(3, 3)).num_rows > 0


def test_another_version_is_refused_by_its_number() -> None:
    at = len(snapshot.MAGIC)
    blob = BLOB[:at] + (snapshot.WAITING_VERSION + 1).to_bytes(2, "little") + BLOB[at + 2 :]
    with pytest.raises(wm.SnapshotError, match=f"format version {snapshot.WAITING_VERSION + 1}") as caught:
        wm.StreamJoin.restore(blob)
    assert "next step:" in str(caught.value)


@given(st.integers(0, len(BLOB) - 1), st.integers(1, 255))
def test_a_damaged_byte_anywhere_is_noticed(position: int, change: int) -> None:
    damaged = bytearray(BLOB)
    damaged[position] ^= change
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(bytes(damaged))


@given(st.integers(0, len(BLOB) - 1))
def test_a_truncated_snapshot_is_noticed(length: int) -> None:
    with pytest.raises(wm.SnapshotError) as caught:
        wm.StreamJoin.restore(BLOB[:length])
    assert "allowed:" in str(caught.value)
    assert "next step:" in str(caught.value)


@given(st.binary(max_size=200))
def test_other_bytes_are_no_snapshot(blob: bytes) -> None:
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(blob)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_a_sound_digest_over_nonsense_is_no_snapshot(sections: list[bytes]) -> None:
    body = b"".join(layout.LENGTH.pack(len(section)) + section for section in sections)
    blob = layout.HEADER.pack(snapshot.MAGIC, snapshot.VERSION, layout._digest(body)) + body
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(blob)


def test_trailing_bytes_are_noticed() -> None:
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(BLOB + b"\0")


def test_no_pickle_is_imported_or_written() -> None:
    names = {
        alias.name
        for module in (layout, saved_state, snapshot)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not names & {"pickle", "cloudpickle", "marshal", "shelve", "dill"}
    assert b"pickle" not in BLOB
    assert not any(BLOB.startswith(bytes([0x80, protocol])) for protocol in range(6))


FLAGS = pa.schema([("f", pa.bool_()), ("g", pa.bool_()), ("x", pa.int64())])


def saved_as_text(on: str) -> bytes:
    """Return a snapshot as version 2 wrote it, its predicate being text."""
    join = wm.StreamJoin(left=FLAGS, right=FLAGS, on=on, window=wm.count_window(3))
    _, sections = layout.read_sections(snapshot.MAGIC, (snapshot.VERSION,), join.snapshot())
    sections[0] = json.dumps(json.loads(sections[0]) | {"on": on}).encode()
    return layout.write_sections(snapshot.MAGIC, snapshot.TEXT_VERSION, sections)


@pytest.mark.parametrize(
    "on",
    [
        "left.f = right.g",
        "left.x >= (right.x - 1) AND left.x <= (right.x + 1) AND right.f",
        "NOT (left.x = right.x) AND (left.f OR left.x IS NULL)",
    ],
)
def test_predicate_that_was_saved_as_text_is_read(on: str) -> None:
    restored = wm.StreamJoin.restore(saved_as_text(on))
    assert restored._plan.predicate == parse_predicate(on)


@pytest.mark.parametrize(
    "on",
    [
        "left.f AND left.g = right.g",
        "left.f = right.f AND left.x = right.x",
        "left.x = right.x AND left.f IS NULL",
        "left.f OR NOT (left.g) = right.g",
    ],
)
def test_text_with_two_readings_is_refused_by_name(on: str) -> None:
    with pytest.raises(wm.SnapshotError, match="two predicates"):
        wm.StreamJoin.restore(saved_as_text(on))


def test_what_is_asked_for_is_not_blamed_on_the_snapshot() -> None:
    ordered = join_over(WINDOWS[0], order="outer").snapshot()
    for asked in ({"topology": "ring"}, {"cores": 0}, {"cores": 10**6}):
        with pytest.raises(wm.SpecificationError):
            wm.StreamJoin.restore(ordered, **asked)
    with pytest.raises(wm.SnapshotError, match="was given a str"):
        wm.StreamJoin.restore("snapshot")  # type: ignore[arg-type]
