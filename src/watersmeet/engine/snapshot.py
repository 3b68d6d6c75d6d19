"""A join's state as bytes: versioned, checked, and made of JSON and Arrow IPC only. Nothing in it is ever executed.

Layout: ``MAGIC``, the format version (2 bytes), a BLAKE2b digest of the rest (16 bytes), then four sections, each
with its length before it (8 bytes): the specification and progress as JSON, then as Arrow IPC streams the left rows and
the right rows, with one record batch per subwindow, and the pairs that are still owed to the caller. The predicate is
saved as SQL text and read like any other. Indexes are not saved: they are rebuilt, by whatever structure the join has,
when the rows are loaded. Which topology saved them cannot be told from the rows.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from watersmeet.engine.intake import Progress
from watersmeet.engine.topology import SavedSegment
from watersmeet.spec.errors import SnapshotError, WatersmeetError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import CountWindow, TimeWindow, Window
from watersmeet.window.plan import OTHER_SIDE, JoinPlan, plan_join

__all__ = ["Saved", "read_sections", "read_snapshot", "refuse_damaged", "write_sections", "write_snapshot"]

MAGIC: Final = b"watersmeet-state"
VERSION: Final = 2
DIGEST_SIZE: Final = 16
HEADER: Final = struct.Struct(f"<{len(MAGIC)}sH{DIGEST_SIZE}s")
LENGTH: Final = struct.Struct("<Q")
SEQUENCE: Final = "\0sequence"
"""Column that carries a count window's row numbers; no user column can have this name after Spark or Arrow SQL."""
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Saved:
    """Everything that is saved."""

    plan: JoinPlan
    options: dict[str, Any]
    progress: Progress
    pairs: int
    finished: bool
    segments: dict[Side, list[SavedSegment]]
    owed: pa.Table
    """Pairs of the rows above that were not returned before the join was saved."""


def write_snapshot(saved: Saved) -> bytes:
    """Return ``saved`` as bytes."""
    plan = saved.plan
    description = {
        "on": str(plan.predicate),
        "window": _window_to_json(plan.window),
        "structure": plan.structure,
        "options": saved.options,
        "progress": asdict(saved.progress),
        "pairs": saved.pairs,
        "finished": saved.finished,
    }
    sections = [json.dumps(description).encode()]
    sections += [
        _rows_to_ipc(plan.schemas[side], saved.segments[side], counted=plan.time is None) for side in OTHER_SIDE
    ]
    sections.append(_table_to_ipc(saved.owed))
    return write_sections(MAGIC, VERSION, sections)


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`SnapshotError`."""
    sections = read_sections(MAGIC, VERSION, blob)
    try:
        description, left, right, owed = sections
        content = json.loads(description)
        rows = {"left": pa.ipc.open_stream(left), "right": pa.ipc.open_stream(right)}
        window = _window_from_json(content["window"])
        counted = isinstance(window, CountWindow)
        schemas = {side: _without_sequence(reader.schema, counted=counted) for side, reader in rows.items()}
        plan = plan_join(
            schemas["left"], schemas["right"], parse_predicate(content["on"]), window, content["structure"]
        )
        return Saved(
            plan,
            content["options"],
            Progress(**content["progress"]),
            content["pairs"],
            content["finished"],
            {side: [_segment(batch, counted=counted) for batch in reader] for side, reader in rows.items()},
            pa.ipc.open_stream(owed).read_all(),
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException, WatersmeetError) as error:
        raise refuse_damaged(f"its content cannot be read ({type(error).__name__}: {error})") from error


def write_sections(magic: bytes, version: int, sections: list[bytes]) -> bytes:
    """Return sections as the bytes of a snapshot."""
    body = b"".join(LENGTH.pack(len(section)) + section for section in sections)
    return HEADER.pack(magic, version, _digest(body)) + body


def read_sections(magic: bytes, version: int, blob: bytes) -> list[bytes]:
    """Check version and digest, and return the sections that :func:`write_sections` was given."""
    if len(blob) < HEADER.size:
        raise refuse_damaged(f"it has {len(blob)} bytes, fewer than its header")
    its_magic, its_version, digest = HEADER.unpack_from(blob)
    if its_magic != magic:
        raise refuse_damaged("it does not begin as one")
    if its_version != version:
        raise SnapshotError(
            explain_refusal(
                f"the snapshot has format version {its_version}",
                f"version {version}",
                "restore it with the watersmeet that wrote it; CHANGELOG.md says which releases changed the format",
            )
        )
    body = blob[HEADER.size :]
    if _digest(body) != digest:
        raise refuse_damaged("its digest does not fit its content")
    sections, position = [], 0
    while position < len(body):
        if len(body) < position + LENGTH.size:
            raise refuse_damaged("its last section is cut off")
        (length,) = LENGTH.unpack_from(body, position)
        position += LENGTH.size
        sections.append(body[position : position + length])
        position += length
    return sections


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_SIZE).digest()


def refuse_damaged(why: str) -> SnapshotError:
    """Return the error for bytes that are no snapshot of this join."""
    return SnapshotError(
        explain_refusal(
            f"this is no watersmeet snapshot, or it is damaged: {why}",
            "the bytes that snapshot() of a join of this kind returned, unchanged",
            "restore an earlier snapshot",
        )
    )


def _rows_to_ipc(schema: pa.Schema, segments: list[SavedSegment], *, counted: bool) -> bytes:
    if counted:
        schema = schema.append(pa.field(SEQUENCE, pa.int64()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for rows, sequence in segments:
            columns = [*rows.columns, pa.array(sequence)] if counted else rows.columns
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return bytes(sink.getvalue())


def _table_to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _without_sequence(schema: pa.Schema, *, counted: bool) -> pa.Schema:
    return schema.remove(len(schema) - 1) if counted else schema


def _segment(batch: pa.RecordBatch, *, counted: bool) -> SavedSegment:
    if not counted:
        return batch, None
    sequence = np.asarray(batch.column(batch.num_columns - 1)).astype(np.int64)
    return batch.select(list(range(batch.num_columns - 1))), sequence


def _window_to_json(window: Window) -> dict[str, Any]:
    if isinstance(window, CountWindow):
        return {"kind": "count", **asdict(window)}
    return {
        "kind": "time",
        "left_ts": window.left_ts,
        "right_ts": window.right_ts,
        **{name: getattr(window, name) // MICROSECOND for name in ("left", "right", "lateness")},
    }


def _window_from_json(content: dict[str, Any]) -> Window:
    if content["kind"] == "count":
        return CountWindow(content["left"], content["right"], content["order_by"])
    durations = {name: content[name] * MICROSECOND for name in ("left", "right", "lateness")}
    return TimeWindow(left_ts=content["left_ts"], right_ts=content["right_ts"], **durations)
