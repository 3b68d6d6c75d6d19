"""The state of a join of many streams as bytes, in the layout of :mod:`watersmeet.engine.snapshot` under another name.

The sections are the specification and progress as JSON, and then, as one Arrow IPC stream for each stream, the rows of
its window, with one record batch per chunk; in a count window hidden columns carry how many rows of each stream came
before. Neither indexes nor the stash are saved: both follow from the rows. Bytes are distrusted as they are there.

Version 1 kept the predicate as text.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from watersmeet.columns.hidden import Values, add_hidden, labelled, split_hidden, unlabelled, with_hidden
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
    schema_of_rows,
    write_sections,
)
from watersmeet.spec.expression import Side
from watersmeet.spec.streams import check_names
from watersmeet.spec.structure import (
    canonical,
    check_entries,
    predicate_to_json,
    read_json,
    window_from_json,
    window_to_json,
)
from watersmeet.spec.window import CountWindows, TimeWindows, windows_of
from watersmeet.window.admission import keep_rows
from watersmeet.window.arrival import Counts

__all__ = ["Saved", "read_snapshot", "write_snapshot"]

MAGIC: Final = b"watersmeet-multi"
VERSION: Final = 2
TEXT_VERSION: Final = 1
"""The last one that kept the predicate as text."""
BEFORE: Final = "before "
"""Label of the hidden columns that say how many rows of each stream came before a row."""
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
        wide = with_hidden(schema, _hidden(plan.streams, counted=plan.lateness is None))
        batches = (add_hidden(rows, _before(counts, plan.streams)) for rows, counts in saved.rows[stream])
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
        schemas = {stream: schema_of_rows(schema, hidden) for stream, (schema, _) in found.items()}
        predicate = restored_predicate(content["on"], schemas, as_text=version == TEXT_VERSION)
        plan = plan_streams(schemas, predicate, windows_of(window, streams), content["structure"])
        progress = progress_from_json(content["progress"], plan)
        chunks = {
            stream: [_chunk(batch, schemas[stream]) for batch in batches] for stream, (_, batches) in found.items()
        }
        return Saved(
            plan,
            options_from_json(content["options"]),
            progress,
            count_from_json(content["results"]),
            flag_from_json(content["finished"]),
            {stream: _checked(plan, stream, own, progress) for stream, own in chunks.items()},
        )


def _hidden(streams: tuple[Side, ...], *, counted: bool) -> list[str]:
    return [BEFORE + stream for stream in streams] if counted else []


def _before(counts: Counts | None, streams: tuple[Side, ...]) -> dict[str, Values]:
    return {} if counts is None else labelled(BEFORE, {other: counts[other] for other in streams})


def _chunk(batch: pa.RecordBatch, schema: pa.Schema) -> SavedChunk:
    rows, hidden = split_hidden(batch, schema)
    return rows, unlabelled(BEFORE, hidden) or None


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
