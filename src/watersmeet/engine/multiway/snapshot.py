"""The state of a join of many streams as bytes, as :mod:`watersmeet.engine.snapshot` has that of two.

The sections are the specification and progress as JSON, and then the rows of each stream's window, with one record
batch per chunk; in a count window hidden columns carry how many rows of each stream came before. Neither indexes nor
the stash are saved: both follow from the rows.

Version 1 kept the predicate as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from watersmeet.columns.hidden import labelled, unlabelled
from watersmeet.engine.multiway.plan import MultiPlan, plan_streams
from watersmeet.engine.saved_state import (
    State,
    checked_rows,
    read_description,
    read_late,
    read_streams,
    restored_predicate,
    state_from_json,
    write_description,
    write_late,
    write_stream,
)
from watersmeet.engine.sections import MAGICS, read_sections, refuse_damaged, refusing_damage, write_sections
from watersmeet.spec.expression import StreamName
from watersmeet.spec.saved_form import window_from_json
from watersmeet.spec.streams import check_names
from watersmeet.spec.window import CountWindows, TimeWindows, windows_of
from watersmeet.window.arrival import Counts

__all__ = ["Saved", "read_snapshot", "write_snapshot"]

MAGIC: Final = MAGICS["MultiStreamJoin"]
VERSION: Final = 2
TEXT_VERSION: Final = 1
"""The last one that kept the predicate as text."""
RESULTS: Final = "results"
BEFORE: Final = "before "
"""Label of the hidden columns that say how many rows of each stream came before a row."""
SavedChunk = tuple[pa.RecordBatch, Counts | None]


@dataclass(frozen=True)
class Saved:
    """The content of a snapshot."""

    plan: MultiPlan
    state: State
    rows: dict[StreamName, list[SavedChunk]]
    late: dict[StreamName, list[pa.RecordBatch]]
    """Late rows that it keeps."""


def write_snapshot(saved: Saved) -> bytes:
    """Return ``saved`` as bytes."""
    plan = saved.plan
    hidden = list(_counted(plan.streams)) if plan.lateness is None else []
    sections = [write_description(plan, saved.state, RESULTS, streams=plan.streams)]
    for stream, schema in plan.schemas.items():
        chunks = ((rows, labelled(BEFORE, _in_order(counts, plan.streams))) for rows, counts in saved.rows[stream])
        sections.append(write_stream(schema, hidden, chunks))
    return write_sections(MAGIC, VERSION, [*sections, *write_late(plan, saved.state, saved.late)])


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`~watersmeet.spec.errors.SnapshotError`."""
    version, sections = read_sections(MAGIC, (TEXT_VERSION, VERSION), blob)
    with refusing_damage():
        description, *tables = sections
        content = read_description(description, RESULTS, "streams")
        streams = check_names(content["streams"])
        window = window_from_json(content["window"])
        if not isinstance(window, TimeWindows | CountWindows):
            raise refuse_damaged("its window is one of two streams")
        counted = _counted(streams) if isinstance(window, CountWindows) else {}
        late = tables[len(streams) :]
        schemas, rows = read_streams(dict(zip(streams, tables[: len(streams)], strict=True)), list(counted))
        predicate = restored_predicate(content["on"], schemas, as_text=version == TEXT_VERSION)
        plan = plan_streams(schemas, predicate, windows_of(window, streams), content["structure"])
        state = state_from_json(content, plan, RESULTS)
        kept = checked_rows(plan, rows, counted, state.progress)
        chunks = {
            stream: [(own, unlabelled(BEFORE, numbers) or None) for own, numbers in some]
            for stream, some in kept.items()
        }
        return Saved(plan, state, chunks, read_late(plan, state, late))


def _counted(streams: tuple[StreamName, ...]) -> dict[str, StreamName | None]:
    """Return the names of the hidden columns, and the stream whose rows each counts."""
    return {BEFORE + stream: stream for stream in streams}


def _in_order(counts: Counts | None, streams: tuple[StreamName, ...]) -> Counts:
    return {} if counts is None else {stream: counts[stream] for stream in streams}
