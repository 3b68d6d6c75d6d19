"""Rows of a snapshot were not validated: an offset that lies brought foreign memory into a column, or a crash.

The digest finds accidents only; whoever changes a snapshot can compute it again.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine import sections, snapshot
from watersmeet.engine.multiway import snapshot as multi

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])
ROWS = pa.table({"k": [1, 2], "text": ["one", "twotwo"]}, schema=SCHEMA)
OFFSETS = (0, 3, 9)


def with_offset(blob: bytes, magic: bytes, version: int) -> bytes:
    """Let the first text reach a kilobyte behind its column."""
    old, new = (b"".join(n.to_bytes(4, "little") for n in numbers) for numbers in (OFFSETS, (0, 1033, 9)))
    body = blob[sections.HEADER.size :]
    assert old in body
    body = body.replace(old, new)
    return sections.HEADER.pack(magic, version, sections._digest(body)) + body


def test_two_streams() -> None:
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("k"), window=wm.count_window(5))
    join.push(left=ROWS)
    blob = with_offset(join.snapshot(), snapshot.MAGIC, snapshot.VERSION)
    with pytest.raises(wm.SnapshotError, match="Offset invariant"):
        wm.StreamJoin.restore(blob).push(right=ROWS)


def test_many_streams() -> None:
    join = wm.MultiStreamJoin(streams={"a": SCHEMA, "b": SCHEMA}, on="a.k = b.k", window=wm.count_window(5))
    join.push(a=ROWS)
    blob = with_offset(join.snapshot(), multi.MAGIC, multi.VERSION)
    with pytest.raises(wm.SnapshotError, match="Offset invariant"):
        wm.MultiStreamJoin.restore(blob).push(b=ROWS)
