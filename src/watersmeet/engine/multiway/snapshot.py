"""The state of a join of many streams as bytes, in the layout of :mod:`watersmeet.engine.snapshot` under another name.

The sections are the specification and progress as JSON, and then, as one Arrow IPC stream for each stream, the rows of
its window, with one record batch per chunk; in a count window hidden columns carry how many rows of each stream came
before. Neither indexes nor the stash are saved: both follow from the rows.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from watersmeet.engine.intake import Progress
from watersmeet.engine.multiway.plan import MultiPlan, plan_streams
from watersmeet.engine.snapshot import read_sections, refuse_damaged, write_sections
from watersmeet.spec.errors import WatersmeetError
from watersmeet.spec.expression import Side
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import CountWindows, TimeWindows, Windows
from watersmeet.window.arrival import Counts

__all__ = ["Saved", "read_snapshot", "write_snapshot"]

MAGIC: Final = b"watersmeet-multi"
VERSION: Final = 1
BEFORE: Final = "\0before "
"""Columns of this name and a stream's carry how many of its rows came before."""
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Saved:
    """Everything that is saved."""

    plan: MultiPlan
    options: dict[str, Any]
    progress: Progress
    results: int
    finished: bool
    rows: dict[Side, list[tuple[pa.RecordBatch, Counts | None]]]


def write_snapshot(saved: Saved) -> bytes:
    """Return ``saved`` as bytes."""
    plan = saved.plan
    description = {
        "streams": plan.streams,
        "on": str(plan.predicate),
        "window": _window_to_json(plan.window),
        "structure": plan.structure,
        "options": saved.options,
        "progress": asdict(saved.progress),
        "results": saved.results,
        "finished": saved.finished,
    }
    hidden = [pa.field(BEFORE + stream, pa.int64()) for stream in plan.streams] if plan.lateness is None else []
    sections = [json.dumps(description).encode()]
    for stream, schema in plan.schemas.items():
        sink, wide = pa.BufferOutputStream(), pa.schema([*schema, *hidden])
        with pa.ipc.new_stream(sink, wide) as writer:
            for rows, counts in saved.rows[stream]:
                numbers = [] if counts is None else [pa.array(counts[other]) for other in plan.streams]
                writer.write_batch(pa.RecordBatch.from_arrays([*rows.columns, *numbers], schema=wide))
        sections.append(bytes(sink.getvalue()))
    return write_sections(MAGIC, VERSION, sections)


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`~watersmeet.spec.errors.SnapshotError`."""
    description, *sections = read_sections(MAGIC, VERSION, blob)
    try:
        content = json.loads(description)
        streams = tuple(content["streams"])
        window = _window_from_json(content["window"])
        readers = {stream: pa.ipc.open_stream(section) for stream, section in zip(streams, sections, strict=True)}
        schemas = {
            stream: pa.schema([column for column in reader.schema if not column.name.startswith(BEFORE)])
            for stream, reader in readers.items()
        }
        plan = plan_streams(schemas, read_predicate(content["on"], streams), window, content["structure"])
        rows = {stream: [_loaded(batch, schemas[stream]) for batch in reader] for stream, reader in readers.items()}
        progress = Progress(**content["progress"])
        return Saved(plan, content["options"], progress, content["results"], content["finished"], rows)
    except (KeyError, TypeError, ValueError, pa.ArrowException, WatersmeetError) as error:
        raise refuse_damaged(f"its content cannot be read ({type(error).__name__}: {error})") from error


def _loaded(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[pa.RecordBatch, Counts | None]:
    counts = {
        name.removeprefix(BEFORE): np.asarray(batch.column(name)).astype(np.int64)
        for name in batch.schema.names[len(schema) :]
    }
    return pa.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema), counts or None


def _window_to_json(window: Windows) -> dict[str, Any]:
    if isinstance(window, CountWindows):
        return {"kind": "count", **asdict(window)}
    lengths = {stream: length // MICROSECOND for stream, length in window.lengths.items()}
    return {"kind": "time", "lengths": lengths, "ts": window.ts, "lateness": window.lateness // MICROSECOND}


def _window_from_json(content: dict[str, Any]) -> Windows:
    if content["kind"] == "count":
        return CountWindows(content["counts"], content["order_by"])
    lengths = {stream: length * MICROSECOND for stream, length in content["lengths"].items()}
    return TimeWindows(lengths, content["ts"], content["lateness"] * MICROSECOND)
