"""The state of a join of many streams as bytes, in the layout of :mod:`watersmeet.engine.snapshot` under another name.

The sections are the specification and progress as JSON, and then, as one Arrow IPC stream for each stream, the rows of
its window, with one record batch per chunk; in a count window hidden columns carry how many rows of each stream came
before. Neither indexes nor the stash are saved: both follow from the rows. Bytes are distrusted as they are there.

Version 1 kept the predicate as text.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from watersmeet.engine.arrow_bytes import read_rows, write_rows
from watersmeet.engine.intake import Progress
from watersmeet.engine.multiway.plan import MultiPlan, plan_streams
from watersmeet.engine.snapshot import (
    admitted,
    check_numbers_of_rows,
    count_from_json,
    flag_from_json,
    options_from_json,
    progress_from_json,
    read_sections,
    refuse_damaged,
    refusing_damage,
    restored_predicate,
    write_sections,
)
from watersmeet.spec.expression import Side
from watersmeet.spec.saved_form import predicate_to_json, window_from_json, window_to_json
from watersmeet.spec.streams import check_names
from watersmeet.spec.strict_json import canonical, check_entries, read_json
from watersmeet.spec.window import CountWindows, TimeWindows, windows_of
from watersmeet.window.admission import keep_rows
from watersmeet.window.arrival import Counts

__all__ = ["Saved", "read_snapshot", "write_snapshot"]

MAGIC: Final = b"watersmeet-multi"
VERSION: Final = 2
TEXT_VERSION: Final = 1
"""The last one that kept the predicate as text."""
BEFORE: Final = "\0before "
"""Columns of this name and a stream's carry how many of its rows came before."""
ENTRIES: Final = ("streams", "on", "window", "structure", "options", "progress", "results", "finished")
SavedChunk = tuple[pa.RecordBatch, Counts | None]


@dataclass(frozen=True)
class Saved:
    """Everything that is saved."""

    plan: MultiPlan
    options: dict[str, Any]
    progress: Progress
    results: int
    finished: bool
    rows: dict[Side, list[SavedChunk]]


def write_snapshot(saved: Saved) -> bytes:
    """Return ``saved`` as bytes."""
    plan = saved.plan
    description = {
        "streams": plan.streams,
        "on": predicate_to_json(plan.predicate),
        "window": window_to_json(plan.window),
        "structure": plan.structure,
        "options": saved.options,
        "progress": asdict(saved.progress),
        "results": saved.results,
        "finished": saved.finished,
    }
    sections = [canonical(description).encode()]
    for stream, schema in plan.schemas.items():
        wide = pa.schema([*schema, *_hidden(plan.streams, counted=plan.lateness is None)])
        batches = []
        for rows, counts in saved.rows[stream]:
            numbers = [] if counts is None else [pa.array(counts[other]) for other in plan.streams]
            batches.append(pa.RecordBatch.from_arrays([*rows.columns, *numbers], schema=wide))
        sections.append(write_rows(wide, batches))
    return write_sections(MAGIC, VERSION, sections)


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`~watersmeet.spec.errors.SnapshotError`."""
    version, sections = read_sections(MAGIC, (TEXT_VERSION, VERSION), blob)
    with refusing_damage():
        description, *tables = sections
        content = read_json(description)
        check_entries(content, ENTRIES)
        streams = check_names(content["streams"])
        window = window_from_json(content["window"])
        if not isinstance(window, TimeWindows | CountWindows):
            raise refuse_damaged("its window is one of two streams")
        found = {stream: read_rows(table) for stream, table in zip(streams, tables, strict=True)}
        hidden = _hidden(streams, counted=isinstance(window, CountWindows))
        schemas = {stream: _own_schema(schema, hidden) for stream, (schema, _) in found.items()}
        predicate = restored_predicate(content["on"], schemas, as_text=version == TEXT_VERSION)
        plan = plan_streams(schemas, predicate, windows_of(window, streams), content["structure"])
        progress = progress_from_json(content["progress"], plan)
        chunks = {
            stream: [_chunk(batch, schemas[stream], streams) for batch in batches]
            for stream, (_, batches) in found.items()
        }
        return Saved(
            plan,
            options_from_json(content["options"]),
            progress,
            count_from_json(content["results"]),
            flag_from_json(content["finished"]),
            {stream: _checked(plan, stream, own, progress) for stream, own in chunks.items()},
        )


def _hidden(streams: tuple[Side, ...], *, counted: bool) -> list[pa.Field]:
    return [pa.field(BEFORE + stream, pa.int64()) for stream in streams] if counted else []


def _own_schema(schema: pa.Schema, hidden: list[pa.Field]) -> pa.Schema:
    """Return a stream's schema without the hidden columns, which have to be there."""
    own = len(schema) - len(hidden)
    if own < 0 or [(field.name, field.type) for field in list(schema)[own:]] != [(f.name, f.type) for f in hidden]:
        raise refuse_damaged("its rows have no arrival numbers")
    return pa.schema(list(schema)[:own], schema.metadata)


def _chunk(batch: pa.RecordBatch, schema: pa.Schema, streams: tuple[Side, ...]) -> SavedChunk:
    own, hidden = batch.columns[: len(schema)], batch.columns[len(schema) :]
    if any(column.null_count for column in hidden):
        raise refuse_damaged("a row has no arrival number")
    counts = {stream: np.asarray(column) for stream, column in zip(streams, hidden, strict=False)}
    return pa.RecordBatch.from_arrays(own, schema=schema), counts or None


def _checked(plan: MultiPlan, stream: Side, chunks: list[SavedChunk], progress: Progress) -> list[SavedChunk]:
    """Return the rows of one stream that can match; raise where they cannot have been saved."""
    if sum(rows.num_rows for rows, _ in chunks) > progress.rows[stream]:
        raise refuse_damaged(f"it has more rows of {stream} than have come")
    check_numbers_of_rows((counts[stream] for _, counts in chunks if counts is not None), stream, progress)
    kept = []
    for rows, counts in chunks:
        for other, before in (counts or {}).items():
            if len(before) and not 0 <= before.min() <= before.max() <= progress.rows[other]:
                raise refuse_damaged(f"a row of {stream} came after more rows of {other} than there were")
        keep = admitted(plan, stream, rows, progress)
        if keep.any():
            some = None if counts is None else {other: before[keep] for other, before in counts.items()}
            kept.append((keep_rows(rows, keep), some))
    return kept
