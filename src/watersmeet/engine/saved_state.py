"""What a saved join has, of two streams or many: its specification and progress as JSON, and its rows as Arrow IPC.

Nothing is trusted. Every number has to be possible for a join that was saved, every row is validated in full
(:mod:`watersmeet.engine.arrow_bytes`), and what passes is a join that could have been saved, if another one. Nothing
in a snapshot is ever executed.

Rows are one Arrow IPC stream for each stream of the join, with one record batch for each piece in which they were held.
In a count window hidden columns carry arrival numbers. Rows that can match nothing would not have been saved, and are
left out. Indexes are not saved: they follow from the rows.

The predicate is saved as JSON (:mod:`watersmeet.spec.saved_form`). Older versions kept it as text, which left out
the brackets around conditions that are compared, as in ``(left.f AND left.g) = right.h``. Such text is read as long as
it can have one meaning only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int64s
from watersmeet.columns.hidden import Values, add_hidden, ends_hidden, own_schema, split_hidden, with_hidden
from watersmeet.engine.arrow_bytes import read_rows, write_rows
from watersmeet.engine.intake import Progress
from watersmeet.engine.sections import refuse_damaged
from watersmeet.spec.errors import SnapshotError
from watersmeet.spec.expression import Compare, Expression, IsNull, Predicate, StreamName
from watersmeet.spec.saved_form import predicate_from_json, predicate_to_json, window_to_json
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.strict_json import Json, canonical, check_entries, read_json, whole_number
from watersmeet.spec.typing import Schemas, type_of
from watersmeet.spec.window import Window, Windows
from watersmeet.window.admission import admit, keep_rows, times_of
from watersmeet.window.streams import Streams, watermark_of

__all__ = [
    "SavedRows",
    "State",
    "checked_rows",
    "read_description",
    "read_late",
    "read_streams",
    "restored_predicate",
    "state_from_json",
    "write_description",
    "write_late",
    "write_stream",
]

SavedRows = tuple[pa.RecordBatch, Mapping[str, Values]]
"""Some rows, and by name their hidden columns: in a count window, those of their arrival numbers."""
HiddenColumns = Sequence[str] | Mapping[str, pa.DataType]
"""The names of hidden columns, of whole numbers unless types are given."""

MOST_ROWS: Final = 1 << 62
"""The most rows that a stream can have had: arrival numbers of both streams together fit in 64 bits."""
EARLIEST, LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class State:
    """What any join saves beside its plan and its rows."""

    options: dict[str, Any]
    progress: Progress
    results: int
    """Pairs, or results, that were handed to the caller."""
    finished: bool


class Planned(Protocol):
    """What of a join's plan is saved."""

    @property
    def predicate(self) -> Predicate:
        """As it was given."""
        ...

    @property
    def window(self) -> Window | Windows:
        """Of two streams or many."""
        ...

    @property
    def structure(self) -> str:
        """How subwindows are indexed."""
        ...


# --- the join -------------------------------------------------------------------------------------------------------


def write_description(plan: Planned, state: State, results: str, **more: Json) -> bytes:
    """Return a join without its rows as JSON; ``results`` is what the number of its results is called."""
    description = {
        **more,
        "on": predicate_to_json(plan.predicate),
        "window": window_to_json(plan.window),
        "structure": plan.structure,
        "options": state.options,
        "progress": asdict(state.progress),
        results: state.results,
        "finished": state.finished,
    }
    return canonical(description).encode()


def read_description(section: bytes, results: str, *more: str) -> dict[str, Json]:
    """Return what :func:`write_description` was given, as JSON that has just these entries."""
    content: dict[str, Json] = read_json(section)
    check_entries(content, (*more, "on", "window", "structure", "options", "progress", results, "finished"))
    return content


def state_from_json(content: Mapping[str, Json], streams: Streams, results: str) -> State:
    """Return the state in a description; raise where no join can have it."""
    options, finished = content["options"], content["finished"]
    if not isinstance(options, dict):  # what is in them is looked at when a join is made of them
        raise refuse_damaged("it has no options")
    if not isinstance(finished, bool):
        raise refuse_damaged(f"{finished!r} is neither true nor false")
    return State(options, _progress(content["progress"], streams), _count(content[results]), finished)


def restored_predicate(content: Json, schemas: Schemas, *, as_text: bool) -> Predicate:
    """Return a snapshot's predicate; raise if it is text that can be read in two ways."""
    streams = tuple(schemas)
    if not as_text:
        return predicate_from_json(content, streams)
    if not isinstance(content, str):
        raise refuse_damaged("its predicate is no text")
    predicate = parse_predicate(content, streams)
    is_alone = isinstance(predicate, Compare | IsNull) and not _has_conditions(predicate)
    if not is_alone and any(_compares_truth(part, schemas) for part in _parts(predicate)):
        raise SnapshotError(
            f"the snapshot has an older format, which kept its predicate as the text {content!r}; brackets around "
            "conditions that are compared were left out, so this text can stand for two predicates",
            "older snapshots whose comparisons are not of booleans, and newer ones",
            "restore it with the watersmeet that wrote it, or build the join anew",
        )
    return predicate


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in expression.children():
        yield from _parts(child)


def _has_conditions(comparison: Expression) -> bool:
    return any(isinstance(part, Predicate) for child in comparison.children() for part in _parts(child))


def _compares_truth(part: Expression, schemas: Schemas) -> bool:
    """Tell whether a comparison is of truth values: then an operand may have been a longer condition."""
    return isinstance(part, Compare | IsNull) and all(
        type_of(child, schemas).kind in ("boolean", "null") for child in part.children()
    )


def _progress(content: Json, streams: Streams) -> Progress:
    """Return how far the streams had come; raise if no join can have come so far."""
    check_entries(content, ("largest_time", "watermark", "rows", "late", "null"))
    for name in ("largest_time", "rows", "late", "null"):
        check_entries(content[name], streams.schemas)
    largest = {stream: _moment(content["largest_time"][stream], EARLIEST) for stream in streams.schemas}
    rows, late, null = (
        {stream: _count(content[name][stream]) for stream in streams.schemas} for name in ("rows", "late", "null")
    )
    watermark = _moment(content["watermark"], 2 * EARLIEST)  # behind the timestamps by the lateness
    if streams.lateness is None and (watermark is not None or any(time is not None for time in largest.values())):
        raise refuse_damaged("a count window has no timestamps")
    reached = None if streams.lateness is None else watermark_of(streams, largest)
    if reached is not None and (watermark is None or watermark < reached):
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


def _count(given: Json) -> int:
    """Return a number of rows or results."""
    if not 0 <= whole_number(given) <= MOST_ROWS:
        raise refuse_damaged(f"{given} is no number of rows")
    return whole_number(given)


# --- rows -----------------------------------------------------------------------------------------------------------


def write_stream(schema: pa.Schema, hidden: HiddenColumns, saved: Iterable[SavedRows]) -> bytes:
    """Return the rows of a stream with their ``hidden`` columns as bytes."""
    return write_rows(with_hidden(schema, hidden), (add_hidden(rows, numbers) for rows, numbers in saved))


def read_streams(
    sections: Mapping[StreamName, bytes], hidden: HiddenColumns
) -> tuple[dict[StreamName, pa.Schema], dict[StreamName, list[SavedRows]]]:
    """Return the schemas of streams, and their rows; raise unless they have just these ``hidden`` columns."""
    found = {stream: read_rows(section) for stream, section in sections.items()}
    schemas = {}
    for stream, (schema, _) in found.items():
        if not ends_hidden(schema, hidden):
            raise refuse_damaged("its rows do not have the hidden columns of its format")
        schemas[stream] = own_schema(schema, len(hidden))
    rows: dict[StreamName, list[SavedRows]] = {
        stream: [split_hidden(batch, schemas[stream]) for batch in batches] for stream, (_, batches) in found.items()
    }
    return schemas, rows


def write_late(streams: Streams, state: State, late: Mapping[StreamName, list[pa.RecordBatch]]) -> list[bytes]:
    """Return the late rows that a join keeps as a section for each stream; no section if it keeps none."""
    if state.options["late"] != "keep":
        return []
    return [write_rows(schema, late[stream]) for stream, schema in streams.schemas.items()]


def read_late(streams: Streams, state: State, sections: Sequence[bytes]) -> dict[StreamName, list[pa.RecordBatch]]:
    """Return what :func:`write_late` wrote; raise where it cannot have been saved."""
    kept: dict[StreamName, list[pa.RecordBatch]] = {stream: [] for stream in streams.schemas}
    if len(sections) != (len(kept) if state.options.get("late") == "keep" else 0):
        raise refuse_damaged("it has late rows of a join that keeps none, or lacks some")
    for stream, section in zip(kept, sections, strict=False):
        schema, kept[stream] = read_rows(section)
        if not schema.equals(streams.schemas[stream]):
            raise refuse_damaged(f"late rows of {stream} have other columns than it")
        if sum(rows.num_rows for rows in kept[stream]) > state.progress.late[stream]:
            raise refuse_damaged(f"it keeps more late rows of {stream} than were late")
    return kept


def checked_rows(
    streams: Streams,
    rows: Mapping[StreamName, list[SavedRows]],
    counted: Mapping[str, StreamName | None],
    progress: Progress,
) -> dict[StreamName, list[SavedRows]]:
    """Return the rows that can match; raise where they cannot have been saved.

    ``counted`` says of each hidden column whose rows it counts; None: those of the stream itself.
    """
    return {stream: _checked(streams, stream, own, counted, progress) for stream, own in rows.items()}


def _checked(
    streams: Streams,
    stream: StreamName,
    saved: list[SavedRows],
    counted: Mapping[str, StreamName | None],
    progress: Progress,
) -> list[SavedRows]:
    if sum(rows.num_rows for rows, _ in saved) > progress.rows[stream]:
        raise refuse_damaged(f"it has more rows of {stream} than have come")
    for name, whose in counted.items():
        other = stream if whose is None else whose
        numbers = np.concatenate([np.empty(0, np.int64), *(own[name] for _, own in saved)])
        if other == stream:
            _check_numbers(numbers, stream, progress.rows[stream])
        elif len(numbers) and not 0 <= numbers.min() <= numbers.max() <= progress.rows[other]:
            raise refuse_damaged(f"a row of {stream} came after more rows of {other} than there were")
    kept: list[SavedRows] = []
    for rows, numbers_of_rows in saved:
        keep = _admitted(streams, stream, rows, progress)
        if keep.any():
            kept.append((keep_rows(rows, keep), {name: own[keep] for name, own in numbers_of_rows.items()}))
    return kept


def _check_numbers(numbers: Int64s, stream: StreamName, came: int) -> None:
    """Raise unless a stream's rows have arrival numbers that exist, each once."""
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= came):
        raise refuse_damaged(f"a row of {stream} has a number that no row can have")
    if len(np.unique(numbers)) < len(numbers):
        raise refuse_damaged(f"two rows of {stream} have one number")


def _admitted(streams: Streams, stream: StreamName, rows: pa.RecordBatch, progress: Progress) -> Bools:
    """Return which rows can match; no join saves others, so they are left out."""
    times = None if streams.lateness is None else times_of(streams, stream, rows)
    if times is not None:
        known = times[0] if times[1] is None else times[0][times[1]]
        largest = progress.largest_time[stream]
        if len(known) and (largest is None or int(known.max()) > largest):
            raise refuse_damaged(f"it has a row of {stream} that is later than the latest one")
    return admit(streams, stream, rows, times).keep
