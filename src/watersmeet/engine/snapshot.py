"""A join's state as bytes: versioned, checked, and made of JSON and Arrow IPC only.

The sections (:mod:`watersmeet.engine.sections`) are the specification and progress as JSON, the left rows and the right
rows, with a record batch or more per segment, and the pairs that the caller has not got yet; with ``late="keep"`` also
the late rows of each side. The rows do not show which
topology saved them. Indexes are rebuilt with the join's structure when the rows are loaded.
:mod:`watersmeet.engine.saved_state` writes and checks the parts.

Version 2 kept the predicate as text. A join that is not inner has version 4: another hidden column says of every row
whether it waits, that is, has met nobody and may still do so. Of rows that do not, a left join never says anything
again. Inner joins are saved in version 3, as ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Final, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.arrays import Bools
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
from watersmeet.spec.kinds import How
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
WAITING_VERSION: Final = 4
"""That of joins which are not inner."""
RESULTS: Final = "pairs"
SEQUENCE: Final = "sequence"
"""Hidden column of a count window's row numbers."""
WAITS: Final = "waits"
"""Hidden column of a join that is not inner: which rows wait."""


@dataclass(frozen=True)
class Saved:
    """The content of a snapshot."""

    plan: JoinPlan
    state: State
    segments: dict[StreamName, list[SavedSegment]]
    owed: pa.Table
    """Results that were found but not returned before the join was saved."""
    waiting: dict[StreamName, list[Bools]]
    """Which rows of each segment wait; empty for inner joins."""
    late: dict[StreamName, list[pa.RecordBatch]]
    """Late rows that it keeps."""


def write_snapshot(saved: Saved) -> bytes:
    """Return ``saved`` as bytes."""
    plan = saved.plan
    is_inner = _how(saved.state) == "inner"
    hidden = _hidden(counts=plan.time is None, waits=not is_inner)
    sections = [write_description(plan, saved.state, RESULTS)]
    for side, schema in plan.schemas.items():
        waiting = repeat(None) if is_inner else saved.waiting[side]
        sections.append(write_stream(schema, hidden, map(_with_hidden, saved.segments[side], waiting)))
    sections.append(write_rows(saved.owed.schema, saved.owed.to_batches()))
    sections += write_late(plan, saved.state, saved.late)
    return write_sections(MAGIC, VERSION if is_inner else WAITING_VERSION, sections)


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`~watersmeet.spec.errors.SnapshotError`."""
    version, sections = read_sections(MAGIC, (TEXT_VERSION, VERSION, WAITING_VERSION), blob)
    with refusing_damage():
        description, left, right, owed, *late = sections
        content = read_description(description, RESULTS)
        window = window_from_json(content["window"])
        if not isinstance(window, TimeWindow | CountWindow):
            raise refuse_damaged("its window is one of many streams")
        waits = version == WAITING_VERSION
        hidden = _hidden(counts=isinstance(window, CountWindow), waits=waits)
        schemas, rows = read_streams({"left": left, "right": right}, hidden)
        predicate = restored_predicate(content["on"], schemas, as_text=version == TEXT_VERSION)
        plan = plan_join(schemas["left"], schemas["right"], predicate, window, content["structure"])
        state = state_from_json(content, plan, RESULTS)
        how = _how(state)
        if (how != "inner") != waits:
            raise refuse_damaged(f"its format is not that of a join with how={how!r}")
        counted = {SEQUENCE: None} if isinstance(window, CountWindow) else {}
        kept = checked_rows(plan, rows, counted, state.progress)
        segments = {side: [(own, numbers.get(SEQUENCE)) for own, numbers in some] for side, some in kept.items()}
        waiting = {side: [numbers[WAITS] for _, numbers in some if waits] for side, some in kept.items()}
        expected = result_schema(schemas["left"], schemas["right"], how=how)
        owing = _owed(owed, expected, state.options.get("result"))
        return Saved(plan, state, segments, owing, waiting, read_late(plan, state, late))


def _how(state: State) -> How:
    """Return the kind of a join."""
    how = state.options.get("how", "inner")
    if how not in get_args(How):
        raise refuse_damaged(f"how={how!r} names no kind of join")
    return cast("How", how)


def _hidden(*, counts: bool, waits: bool) -> dict[str, pa.DataType]:
    """Return the hidden columns of saved rows, and their types."""
    return {
        name: kind for name, kind, is_there in ((SEQUENCE, pa.int64(), counts), (WAITS, pa.bool_(), waits)) if is_there
    }


def _with_hidden(segment: SavedSegment, waits: Bools | None) -> SavedRows:
    rows, sequence = segment
    hidden = {SEQUENCE: sequence, WAITS: waits}
    return rows, {name: values for name, values in hidden.items() if values is not None}


def _owed(section: bytes, pairs: pa.Schema, result: Json) -> pa.Table:
    """Return the results that were not returned: pairs, also where they leave as ranges, or their number."""
    schema, batches = read_rows(section)
    expected = COUNT if result == "count" else pairs
    if not schema.equals(expected):
        raise refuse_damaged("the results it owes have other columns than the join's")
    owed = pa.Table.from_batches(batches, expected)
    if result == "count" and (pc.min(owed["pairs"]).as_py() or 0) < 0:
        raise refuse_damaged("it owes fewer pairs than none")
    return owed
