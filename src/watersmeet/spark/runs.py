"""Decoded runs, which can be probed: a worker remembers them, maps them from the node's cache, or reads the state.

A run is *decoded* once, when its rows arrive, and put into the cache with its sorted keys (see
:mod:`watersmeet.spark.run_cache`). So another worker copies keys but does not sort. Only a run that is neither
remembered nor in the cache is read from the state store and sorted again, and then put into the cache anew.

Remembered runs (see :mod:`watersmeet.spark.remembered`) and those in the cache are found by the run's key, which stands
for its rows; these never change. A column that was added to a stream after a run was stored is null in its rows. Where
a query was started again with another structure, its runs are sorted anew.

A run is forgotten when its core says that it is gone. Those of the worker's other cores stay, unless their core is with
another worker, or their file is gone while it is mapped, which takes room on the disk.

Trust. A checkpoint's state comes from outside, so a run that is read from it is validated in full. For 1 M rows that
takes no time for columns of fixed width, and 3 to 7 ms for a column of text; reading them from the state takes much
longer. The cache was written by this user's workers into their own folder, and has a checksum; whoever can change both
can also change the workers' memory. Validating text would make mapping a run take three times as long. So of mapped
runs only the layout is validated, and that row numbers are within bounds (0.4 ms), because kernels rely on that.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.balance.generation_sets import GenerationSets
from watersmeet.columns.hidden import (
    Values,
    add_hidden,
    hidden_names,
    is_hidden,
    labelled,
    split_hidden,
    unlabelled,
    with_hidden,
)
from watersmeet.engine.arrow_bytes import DAMAGE, check_rows
from watersmeet.spark.compact_integers import compact, restore
from watersmeet.spark.envelope import COUNT, to_blob
from watersmeet.spark.remembered import Owner, Remembered, Turns
from watersmeet.spark.run_cache import MappedRun, RunCache
from watersmeet.spark.state import Origin, Run, RunStore
from watersmeet.spec.errors import SnapshotError
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Structure
from watersmeet.subwindow.choose import Choice, IndexOrder
from watersmeet.subwindow.contract import Entries
from watersmeet.window.payload import Extent

__all__ = ["Content", "DecodedRuns", "Found", "Index"]

Decoded = TypeVar("Decoded")

CHOICES: Final = b"watersmeet choices"
KEY: Final = "key "
ROW: Final = "row "
GROUP: Final = "group "
"""Labels of the hidden columns of an index."""
HOMES: Final = "homes "
"""Label of the hidden columns that say under which generations rows have their home on their core."""


@dataclass(slots=True)
class Found:
    """The number of runs that were remembered, mapped and read in a micro-batch.

    A run that is found again while it is remembered is counted once; one that is mapped or read again, each time.
    """

    remembered: int = 0
    mapped: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a run's rows: the choice of its order, and the sorted keys."""

    choice: Choice
    entries: Entries


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a run: rows, in a count window arrival numbers by name, and in the cache indexes by name.

    ``homes`` are the generations under which rows of many streams have their home here; None: all.
    """

    rows: pa.RecordBatch
    numbers: Mapping[str, Int64s]
    indexes: Mapping[str, Index] = field(default_factory=dict)
    homes: GenerationSets | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    owner: Owner
    decoded: Any
    mapped: MappedRun | None
    """The file it lies in; None for one in this worker's own memory."""
    structure: Structure
    """What was asked for."""
    schema: pa.Schema
    """What its rows were read as: columns may be added when a query starts again."""

    def is_good_for(self, schema: pa.Schema, structure: Structure) -> bool:
        is_intact = self.mapped is None or self.mapped.is_intact
        return is_intact and self.structure == structure and self.schema.equals(schema)

    @property
    def holds_file(self) -> bool:
        """Whether its file takes room on the disk even when it is removed."""
        return self.mapped is not None and not self.mapped.is_copy


_remembered: Remembered[str, _Known] = Remembered()
"""Decoded runs by their keys, of any join. The worker's own: nothing outside refers to it."""
_turns: Final = Turns()


class DecodedRuns(ABC, Generic[Decoded]):
    """The decoded runs of one core."""

    def __init__(self, store: RunStore, cache: RunCache | None, structure: Structure) -> None:
        self._store = store
        self._cache = cache
        self._structure = structure
        self._used: list[MappedRun] = []
        self._known: set[str] = set()
        """The keys of runs that were found in this micro-batch, or are new."""
        self.found = Found()
        self._owner = Owner("", 0)

    @abstractmethod
    def schema(self, stream: StreamName) -> pa.Schema:
        """Return the schema of a stream's rows."""

    @abstractmethod
    def decode(self, stream: StreamName, run: Run, content: Content) -> Decoded:
        """Decode a run whose content has its indexes."""

    @abstractmethod
    def index(self, stream: StreamName, run: Run, content: Content) -> tuple[Decoded, dict[str, Index]]:
        """Decode a run whose content has no indexes, or others: its rows are sorted. Return the indexes too."""

    @abstractmethod
    def nbytes(self, decoded: Decoded, *, is_mapped: bool) -> int:
        """Return the bytes of memory that a decoded run takes; mapped rows take none."""

    def begin(self, owner: Owner, runs: Mapping[StreamName, Iterable[Run]]) -> None:
        """Begin a micro-batch of ``owner``, which has these ``runs``; those that are gone are forgotten."""
        self._owner = owner
        self._used = []
        self._known = set()
        self.found = Found()
        _turns.begin(owner)
        live = {run.key for some in runs.values() for run in some}

        def is_gone(key: str, known: _Known) -> bool:
            if key in live or (self._cache is not None and self._cache.has(key)):
                return False
            return known.owner == owner or known.holds_file or not _turns.serves(known.owner)

        _remembered.forget(is_gone)

    def find(self, stream: StreamName, run: Run) -> Decoded:
        """Return a decoded run: remembered, mapped, or read from the state."""
        schema = self.schema(stream)
        known = _remembered.get(run.key)
        if known is not None and known.is_good_for(schema, self._structure):
            self.found.remembered += run.key not in self._known
            self._known.add(run.key)
            if known.mapped is not None:
                self._used.append(known.mapped)
            decoded: Decoded = known.decoded
            return decoded
        mapped = None if self._cache is None else self._cache.get(run.key)
        content = None if mapped is None else _from_cache(mapped.content, schema)
        if mapped is not None and content is not None:
            self.found.mapped += 1
            self._used.append(mapped)
        else:
            if self._cache is not None and mapped is not None:
                self._cache.drop(run.key)
            mapped = None
            self.found.read += 1
            content = _from_state(run, self._store.read(run), schema)
        if content.indexes and all(own.choice.wanted == self._structure for own in content.indexes.values()):
            decoded = self.decode(stream, run, content)
        else:
            decoded, indexes = self.index(stream, run, content)
            self._put(run.key, replace(content, indexes=indexes))
        self._remember(run.key, decoded, mapped, schema)
        return decoded

    def keep(self, content: Content, decoded: Decoded, place: Extent, origin: Origin) -> Run:
        """Write content as a run; remember the decoded run, and put it into the cache for other workers."""
        run = self._store.write(_to_state(content), content.rows.num_rows, place, origin=origin, owner=str(self._owner))
        self._remember(run.key, decoded, None, content.rows.schema)
        self._put(run.key, content)
        return run

    def merged(self, stream: StreamName, runs: list[Run], add: Callable[[list[Decoded], Origin], Run]) -> Run:
        """Merge runs into one of the next level, in their order; ``add`` stores it, given the decoded runs."""
        decoded = [self.find(stream, run) for run in runs]
        run = add(decoded, Origin(stream, runs[-1].level + 1, runs[0].first, runs[-1].generation))
        for old in runs:
            self.remove(old)
        return run

    def remove(self, run: Run) -> None:
        """Forget a run everywhere."""
        self._store.remove(run)
        _remembered.pop(run.key)
        if self._cache is not None:
            self._cache.drop(run.key)

    def check(self) -> None:
        """Raise if a file that was used in this micro-batch has changed since: pairs may be wrong then."""
        if not all(mapped.is_intact for mapped in self._used):
            raise SnapshotError(
                "a file of the cache of runs was changed while it was read",
                "files that only the join itself writes and removes",
                "restart the query: it goes on from its checkpoint, without the damaged file",
            )

    def _put(self, key: str, content: Content) -> None:
        if self._cache is not None:
            self._cache.put(key, _to_cache(content))

    def _remember(self, key: str, decoded: Decoded, mapped: MappedRun | None, schema: pa.Schema) -> None:
        self._known.add(key)
        known = _Known(self._owner, decoded, mapped, self._structure, schema)
        _remembered.put(key, known, self.nbytes(decoded, is_mapped=known.holds_file))


def _to_state(content: Content) -> pa.Buffer:
    """Return content for the state store: an Arrow IPC stream, with arrival numbers in hidden last columns."""
    return to_blob(compact(_with_numbers(content)))


def _from_state(run: Run, blob: bytes, schema: pa.Schema) -> Content:
    """Return the content that :func:`_to_state` was given; raise if the bytes are damaged."""
    try:
        rows = pa.ipc.open_stream(pa.py_buffer(blob)).read_next_batch()
        check_rows(rows)
        if rows.num_rows != run.rows:
            raise _damaged(run, f"it has {rows.num_rows} rows and should have {run.rows}")
        rows = _fitted(rows, schema)
        whole = with_hidden(schema, hidden_names(rows.schema, len(schema)))
        return _content(restore(rows, whole), schema)
    except SnapshotError:
        raise
    except DAMAGE as error:
        raise _damaged(run, f"{type(error).__name__}: {error}") from error


def _damaged(run: Run, why: str) -> SnapshotError:
    return SnapshotError(
        f"run {run.name} of the checkpoint's state is damaged ({why})",
        "runs as the join has written them",
        "start the query from a copy of its checkpoint, or with a new one",
    )


def _to_cache(content: Content) -> pa.Buffer:
    """Return content for the cache: numbers are not compact, sorted keys are hidden columns, choices are metadata."""
    choices = {name: asdict(index.choice) for name, index in content.indexes.items()}
    hidden: dict[str, Values] = {}
    for name, index in content.indexes.items():
        entries = index.entries
        hidden |= {KEY + name: entries.key, ROW + name: entries.row}
        hidden |= {} if entries.equality is None else {GROUP + name: entries.equality}
    return to_blob(add_hidden(_with_numbers(content), hidden).replace_schema_metadata({CHOICES: json.dumps(choices)}))


def _from_cache(blob: pa.Buffer, schema: pa.Schema) -> Content | None:
    """Return the content that :func:`_to_cache` was given, without a copy, or None if the bytes are damaged."""
    try:
        rows = pa.ipc.open_stream(blob).read_next_batch()
        rows.validate()
        rows = _fitted(rows, schema)
        content = _content(rows, schema, json.loads(rows.schema.metadata[CHOICES]))
    except DAMAGE:
        return None
    orders = [index.entries.row for index in content.indexes.values()]
    return content if all(_are_rows(row, rows.num_rows) for row in orders) else None


def _are_rows(numbers: Int32s, count: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < count)


def _fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of ``schema``, then the hidden ones; columns that were added since are null.

    A checkpoint's identity makes sure that no column was removed or has another type.
    """
    names = rows.schema.names
    if names[: len(schema)] == schema.names:
        return rows
    places = {name: place for place, name in enumerate(names)}
    hidden = list(filter(is_hidden, rows.schema))
    fields = [rows.schema.field(places[field.name]) if field.name in places else field for field in schema]
    columns = [
        rows.column(places[field.name]) if field.name in places else pa.nulls(rows.num_rows, field.type)
        for field in (*fields, *hidden)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*fields, *hidden], rows.schema.metadata))


def _with_numbers(content: Content) -> pa.RecordBatch:
    homes = {} if content.homes is None else labelled(HOMES, content.homes.columns())
    return add_hidden(content.rows, labelled(COUNT, content.numbers) | homes)


def _content(rows: pa.RecordBatch, schema: pa.Schema, choices: Mapping[str, Any] | None = None) -> Content:
    """Return the content of a batch that has hidden columns behind those of ``schema``."""
    own, hidden = split_hidden(rows, schema)
    indexes = {
        name: Index(_choice(saved), Entries(hidden[KEY + name], hidden[ROW + name], hidden.get(GROUP + name)))
        for name, saved in (choices or {}).items()
    }
    return Content(own, unlabelled(COUNT, hidden), indexes, GenerationSets.from_columns(unlabelled(HOMES, hidden)))


def _choice(saved: Mapping[str, Any]) -> Choice:
    order = saved["order"]
    own = IndexOrder(tuple(order["equalities"]), order["key"], tuple(order["borders"]))
    return Choice(**{**saved, "order": own})
