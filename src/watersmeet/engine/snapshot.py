"""A join's state as bytes: versioned, checked, and made of JSON and Arrow IPC only. Nothing in it is ever executed.

Layout: ``MAGIC``, the format version (2 bytes), a BLAKE2b digest of the rest (16 bytes), then four sections, each
with its length before it (8 bytes): the specification and progress as JSON, then as Arrow IPC streams the left rows and
the right rows, with one record batch per subwindow, and the pairs that are still owed to the caller. The predicate is
saved as structure, by :mod:`watersmeet.spec.structure`. Indexes are not saved: they are rebuilt, by whatever structure
the join has, when the rows are loaded. Which topology saved them cannot be told from the rows.

Nothing is trusted but the size of the bytes. The digest finds accidents; anybody can compute it. So every number has to
be possible for a join that was saved, every row is validated in full (:mod:`watersmeet.engine.arrow_bytes`), and what
passes is a join that could have been saved, if another one. Whatever else happens while bytes are read is raised as
:class:`~watersmeet.spec.errors.SnapshotError`.

Version 2 kept the predicate as text, which left out the brackets around conditions that are compared, as in
``(left.f AND left.g) = right.h``. It is restored as long as the text can have one meaning only.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.hidden import add_hidden, ends_hidden, own_schema, split_hidden, with_hidden
from watersmeet.engine.arrow_bytes import DAMAGE, read_rows, write_rows
from watersmeet.engine.intake import Progress
from watersmeet.engine.result import result_schema
from watersmeet.engine.topologies.contract import SavedSegment
from watersmeet.spec.errors import SnapshotError, explain_refusal
from watersmeet.spec.expression import Compare, Expression, IsNull, Predicate, Side
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.structure import (
    Json,
    canonical,
    check_entries,
    predicate_from_json,
    predicate_to_json,
    read_json,
    whole_number,
    window_from_json,
    window_to_json,
)
from watersmeet.spec.typing import Schemas, type_of
from watersmeet.spec.window import CountWindow, TimeWindow
from watersmeet.window.admission import admit, keep_rows, times_of
from watersmeet.window.plan import OTHER_SIDE, JoinPlan, plan_join
from watersmeet.window.streams import Streams

__all__ = [
    "Saved",
    "admitted",
    "check_numbers_of_rows",
    "count_from_json",
    "flag_from_json",
    "options_from_json",
    "progress_from_json",
    "read_sections",
    "read_snapshot",
    "refuse_damaged",
    "refusing_damage",
    "restored_predicate",
    "schema_of_rows",
    "write_sections",
    "write_snapshot",
]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAGIC: Final = b"watersmeet-state"
VERSION: Final = 3
TEXT_VERSION: Final = 2
"""The last one that kept the predicate as text."""
DIGEST_SIZE: Final = 16
HEADER: Final = struct.Struct(f"<{len(MAGIC)}sH{DIGEST_SIZE}s")
LENGTH: Final = struct.Struct("<Q")
SEQUENCE: Final = "sequence"
"""Hidden column of a count window's row numbers."""
ENTRIES: Final = ("on", "window", "structure", "options", "progress", "pairs", "finished")
MOST_ROWS: Final = 1 << 62
"""Rows a stream can have had: arrival numbers of both streams together are still 64 bits wide."""
EARLIEST, LATEST = -(2**63), 2**63 - 1


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
        "on": predicate_to_json(plan.predicate),
        "window": window_to_json(plan.window),
        "structure": plan.structure,
        "options": saved.options,
        "progress": asdict(saved.progress),
        "pairs": saved.pairs,
        "finished": saved.finished,
    }
    sections = [canonical(description).encode()]
    sections += [
        _rows_to_ipc(plan.schemas[side], saved.segments[side], counted=plan.time is None) for side in OTHER_SIDE
    ]
    sections.append(write_rows(saved.owed.schema, saved.owed.to_batches()))
    return write_sections(MAGIC, VERSION, sections)


def read_snapshot(blob: bytes) -> Saved:
    """Return what :func:`write_snapshot` wrote, or raise :class:`SnapshotError`."""
    version, sections = read_sections(MAGIC, (TEXT_VERSION, VERSION), blob)
    with refusing_damage():
        description, left, right, owed = sections
        content = read_json(description)
        check_entries(content, ENTRIES)
        window = window_from_json(content["window"])
        if not isinstance(window, TimeWindow | CountWindow):
            raise refuse_damaged("its window is one of many streams")
        counted = isinstance(window, CountWindow)
        rows = {"left": read_rows(left), "right": read_rows(right)}
        hidden = [SEQUENCE] if counted else []
        schemas = {side: schema_of_rows(schema, hidden) for side, (schema, _) in rows.items()}
        predicate = restored_predicate(content["on"], schemas, as_text=version == TEXT_VERSION)
        plan = plan_join(schemas["left"], schemas["right"], predicate, window, content["structure"])
        progress = progress_from_json(content["progress"], plan)
        segments = {side: [_segment(batch, schemas[side]) for batch in batches] for side, (_, batches) in rows.items()}
        return Saved(
            plan,
            options_from_json(content["options"]),
            progress,
            count_from_json(content["pairs"]),
            flag_from_json(content["finished"]),
            {side: _checked(plan, side, own, progress) for side, own in segments.items()},
            _owed(owed, plan),
        )


def write_sections(magic: bytes, version: int, sections: list[bytes]) -> bytes:
    """Return sections as the bytes of a snapshot."""
    body = b"".join(LENGTH.pack(len(section)) + section for section in sections)
    return HEADER.pack(magic, version, _digest(body)) + body


def read_sections(magic: bytes, versions: tuple[int, ...], blob: bytes) -> tuple[int, list[bytes]]:
    """Check version and digest; return the version, and the sections that :func:`write_sections` was given."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise SnapshotError(
            explain_refusal(
                f"restore() was given a {type(blob).__name__}",
                "the bytes that snapshot() returned",
                "read a file that holds them with pathlib.Path(…).read_bytes()",
            )
        )
    blob = bytes(blob)
    if len(blob) < HEADER.size:
        raise refuse_damaged(f"it has {len(blob)} bytes, fewer than its header")
    its_magic, its_version, digest = HEADER.unpack_from(blob)
    if its_magic != magic:
        raise refuse_damaged("it does not begin as one")
    if its_version not in versions:
        raise SnapshotError(
            explain_refusal(
                f"the snapshot has format version {its_version}",
                f"versions {', '.join(map(str, versions))}",
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
        if length > len(body) - position:
            raise refuse_damaged("its last section is cut off")
        sections.append(body[position : position + length])
        position += length
    return its_version, sections


@contextmanager
def refusing_damage() -> Iterator[None]:
    """Raise what goes wrong while a snapshot is read or loaded as :class:`SnapshotError`."""
    try:
        yield
    except SnapshotError:
        raise
    except DAMAGE as error:
        raise refuse_damaged(f"its content cannot be read ({type(error).__name__}: {error})") from error


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


# --- the join -------------------------------------------------------------------------------------------------------


def restored_predicate(content: Json, schemas: Schemas, *, as_text: bool) -> Predicate:
    """Return a snapshot's predicate; raise where it is text that can be read in two ways."""
    streams = tuple(schemas)
    if not as_text:
        return predicate_from_json(content, streams)
    if not isinstance(content, str):
        raise refuse_damaged("its predicate is no text")
    predicate = parse_predicate(content, streams)
    is_alone = isinstance(predicate, Compare | IsNull) and not _has_conditions(predicate)
    if not is_alone and any(_compares_truth(part, schemas) for part in _parts(predicate)):
        raise SnapshotError(
            explain_refusal(
                f"the snapshot has an older format, which kept its predicate as the text {content!r}; brackets around "
                "conditions that are compared were left out, so this text can stand for two predicates",
                "older snapshots whose comparisons are not of booleans, and newer ones",
                "restore it with the watersmeet that wrote it, or build the join anew",
            )
        )
    return predicate


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children():
        yield from _parts(child)


def _has_conditions(comparison: Expression) -> bool:
    return any(isinstance(part, Predicate) for child in comparison.children() for part in _parts(child))


def _compares_truth(part: Expression, schemas: Schemas) -> bool:
    """Tell whether a comparison is of truth values: then a longer condition may have stood in an operand's place."""
    return isinstance(part, Compare | IsNull) and all(
        type_of(child, schemas).kind in ("boolean", "null") for child in part.children()
    )


def progress_from_json(content: Json, streams: Streams) -> Progress:
    """Return how far the streams had come; raise where no join can have come so far."""
    check_entries(content, ("largest_time", "watermark", "rows", "late", "null"))
    for name in ("largest_time", "rows", "late", "null"):
        check_entries(content[name], streams.schemas)
    largest = {stream: _moment(content["largest_time"][stream], EARLIEST) for stream in streams.schemas}
    rows, late, null = (
        {stream: count_from_json(content[name][stream]) for stream in streams.schemas}
        for name in ("rows", "late", "null")
    )
    watermark = _moment(content["watermark"], 2 * EARLIEST)  # behind the timestamps by the lateness
    if streams.lateness is None and (watermark is not None or any(time is not None for time in largest.values())):
        raise refuse_damaged("a count window has no timestamps")
    reached = [time for time in largest.values() if time is not None]
    all_began = streams.lateness is not None and len(reached) == len(largest)
    if all_began and (watermark is None or watermark < min(reached) - (streams.lateness or 0)):
        raise refuse_damaged("its watermark lies behind the timestamps by more than the lateness")
    if any(late[stream] + null[stream] > rows[stream] for stream in rows):
        raise refuse_damaged("more rows were left out than have come")
    return Progress(largest, watermark, rows, late, null)


def _moment(given: Json, earliest: int) -> int | None:
    if given is None:
        return None
    if not earliest <= whole_number(given) <= LATEST:
        raise refuse_damaged(f"{given} is no timestamp")
    return whole_number(given)


def count_from_json(given: Json) -> int:
    """Return a number of rows or results."""
    if not 0 <= whole_number(given) <= MOST_ROWS:
        raise refuse_damaged(f"{given} is no number of rows")
    return whole_number(given)


def options_from_json(given: Json) -> dict[str, Any]:
    """Return a join's options, which are looked at when it is made of them."""
    if not isinstance(given, dict):
        raise refuse_damaged("it has no options")
    return given


def flag_from_json(given: Json) -> bool:
    """Return true or false."""
    if not isinstance(given, bool):
        raise refuse_damaged(f"{given!r} is neither true nor false")
    return given


# --- rows -----------------------------------------------------------------------------------------------------------


def admitted(streams: Streams, stream: Side, rows: pa.RecordBatch, progress: Progress) -> Bools:
    """Return which rows can match: the others would not have been saved, and are left out."""
    times = None if streams.lateness is None else times_of(streams, stream, rows)
    if times is not None:
        known = times[0] if times[1] is None else times[0][times[1]]
        largest = progress.largest_time[stream]
        if len(known) and (largest is None or int(known.max()) > largest):
            raise refuse_damaged(f"it has a row of {stream} that is later than the latest one")
    return admit(streams, stream, rows, times).keep


def check_numbers_of_rows(numbers: Iterable[Int64s], stream: Side, progress: Progress) -> None:
    """Raise unless a stream's rows have arrival numbers that it has given out, each once."""
    given = np.concatenate([np.empty(0, np.int64), *numbers])
    if len(given) and (given.min() < 0 or given.max() >= progress.rows[stream]):
        raise refuse_damaged(f"a row of {stream} has a number that no row can have")
    if len(np.unique(given)) < len(given):
        raise refuse_damaged(f"two rows of {stream} have one number")


def _checked(plan: JoinPlan, side: Side, segments: list[SavedSegment], progress: Progress) -> list[SavedSegment]:
    """Return the rows of one side that can match; raise where they cannot have been saved."""
    if sum(rows.num_rows for rows, _ in segments) > progress.rows[side]:
        raise refuse_damaged(f"it has more {side} rows than have come")
    check_numbers_of_rows((sequence for _, sequence in segments if sequence is not None), side, progress)
    kept = []
    for rows, sequence in segments:
        keep = admitted(plan, side, rows, progress)
        if keep.any():
            kept.append((keep_rows(rows, keep), None if sequence is None else sequence[keep]))
    return kept


def _rows_to_ipc(schema: pa.Schema, segments: list[SavedSegment], *, counted: bool) -> bytes:
    wide = with_hidden(schema, [SEQUENCE] if counted else [])
    return write_rows(
        wide, (add_hidden(rows, {} if sequence is None else {SEQUENCE: sequence}) for rows, sequence in segments)
    )


def schema_of_rows(saved: pa.Schema, hidden: Sequence[str]) -> pa.Schema:
    """Return a stream's schema without the hidden columns of arrival numbers, which have to be there."""
    if not ends_hidden(saved, hidden):
        raise refuse_damaged("its rows have no arrival numbers")
    return own_schema(saved, len(hidden))


def _segment(batch: pa.RecordBatch, schema: pa.Schema) -> SavedSegment:
    rows, hidden = split_hidden(batch, schema)
    return rows, hidden.get(SEQUENCE)


def _owed(section: bytes, plan: JoinPlan) -> pa.Table:
    schema, batches = read_rows(section)
    expected = result_schema(plan.schemas["left"], plan.schemas["right"])
    if not schema.equals(expected):
        raise refuse_damaged("the pairs it owes have other columns than the join")
    return pa.Table.from_batches(batches, expected)
