"""A join's state as bytes: versioned, checked, and made of JSON and Arrow IPC only.

The sections (:mod:`watersmeet.engine.sections`) are the specification and progress as JSON, the left rows and the right
rows, with a record batch or more per segment, and the pairs that the caller has not got yet; with ``late="keep"`` also
the late rows of each side. The rows do not show which
topology saved them. Indexes are rebuilt with the join's structure when the rows are loaded.
:mod:`watersmeet.engine.saved_state` writes and checks the parts.

Version 2 kept the predicate as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.engine.arrow_bytes import read_rows, write_rows
from watersmeet.engine.forms import COUNT
from watersmeet.engine.result import result_schema
from watersmeet.engine.saved_state import (
    SavedRows,
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
from watersmeet.spec.strict_json import Json
from watersmeet.spec.window import CountWindow, TimeWindow
from watersmeet.window.plan import JoinPlan, plan_join
from watersmeet.window.segment import SavedSegment

__all__ = ["Saved", "read_snapshot", "write_snapshot"]

MAGIC: Final = MAGICS["StreamJoin"]
VERSION: Final = 3
TEXT_VERSION: Final = 2
"""The last one that kept the predicate as text."""
RESULTS: Final = "pairs"
SEQUENCE: Final = "sequence"
"""Hidden column of a count window's row numbers."""


@dataclass(frozen=True)
class Saved:
    """The content of a snapshot."""

    plan: JoinPlan
    state: State
    segments: dict[StreamName, list[SavedSegment]]
    owed: pa.Table
    """Pairs that were found but not returned before the join was saved."""
    late: dict[StreamName, list[pa.RecordBatch]]
    """Late rows that it keeps."""


def write_snapshot(saved: Saved) -> bytes:
    """Return ``saved`` as bytes."""
    plan = saved.plan
    hidden = [SEQUENCE] if plan.time is None else []
    sections = [write_description(plan, saved.state, RESULTS)]
    for side, schema in plan.schemas.items():
        sections.append(write_stream(schema, hidden, map(_with_numbers, saved.segments[side])))
    sections.append(write_rows(saved.owed.schema, saved.owed.to_batches()))
    return write_sections(MAGIC, VERSION, [*sections, *write_late(plan, saved.state, saved.late)])


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`~watersmeet.spec.errors.SnapshotError`."""
    version, sections = read_sections(MAGIC, (TEXT_VERSION, VERSION), blob)
    with refusing_damage():
        description, left, right, owed, *late = sections
        content = read_description(description, RESULTS)
        window = window_from_json(content["window"])
        if not isinstance(window, TimeWindow | CountWindow):
            raise refuse_damaged("its window is one of many streams")
        hidden = [SEQUENCE] if isinstance(window, CountWindow) else []
        schemas, rows = read_streams({"left": left, "right": right}, hidden)
        predicate = restored_predicate(content["on"], schemas, as_text=version == TEXT_VERSION)
        plan = plan_join(schemas["left"], schemas["right"], predicate, window, content["structure"])
        state = state_from_json(content, plan, RESULTS)
        kept = checked_rows(plan, rows, dict.fromkeys(hidden), state.progress)
        segments = {side: [(own, numbers.get(SEQUENCE)) for own, numbers in some] for side, some in kept.items()}
        return Saved(
            plan, state, segments, _owed(owed, plan, state.options.get("result")), read_late(plan, state, late)
        )


def _with_numbers(segment: SavedSegment) -> SavedRows:
    rows, sequence = segment
    return rows, {} if sequence is None else {SEQUENCE: sequence}


def _owed(section: bytes, plan: JoinPlan, result: Json) -> pa.Table:
    """Return the results that were not returned: pairs, also where they leave as ranges, or their number."""
    schema, batches = read_rows(section)
    expected = COUNT if result == "count" else result_schema(plan.schemas["left"], plan.schemas["right"])
    if not schema.equals(expected):
        raise refuse_damaged("the results it owes have other columns than the join's")
    owed = pa.Table.from_batches(batches, expected)
    if result == "count" and (pc.min(owed["pairs"]).as_py() or 0) < 0:
        raise refuse_damaged("it owes fewer pairs than none")
    return owed
