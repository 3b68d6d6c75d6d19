"""A core's rows in Spark's state store: a small manifest and immutable runs.

Each micro-batch adds one run per side; runs of similar size are merged, ``FAN_IN`` at a time, so a row is rewritten
about ``log(window / batch) / log(FAN_IN)`` times and the number of runs stays logarithmic; a run whose rows have all
expired is removed as a whole. A run is an Arrow IPC stream, cut into parts of at most ``PART_BYTES``.

The manifest names the runs and carries a token that is new in every micro-batch: rows that a Python worker remembers
are valid only under the token they were committed with.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from watersmeet.spark.envelope import to_blob
from watersmeet.spec.errors import SnapshotError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.window.payload import Extent
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["FORMAT", "Manifest", "Run", "RunStore"]

FORMAT: Final = 1
FAN_IN: Final = 8
PART_BYTES: Final = 1 << 24


@dataclass(slots=True)
class Run:
    """Some rows of one side, and where they lie in the window."""

    number: int
    parts: int
    rows: int
    nbytes: int
    low: int
    high: int
    level: int = 0


@dataclass(slots=True)
class Manifest:
    """What a core's state consists of."""

    join: str
    """Fingerprint of the join: a checkpoint belongs to one predicate, window and number of cores."""
    token: str = ""
    next_number: int = 0
    runs: dict[Side, list[Run]] = field(default_factory=lambda: {side: [] for side in OTHER_SIDE})


class RunStore:
    """Reads and writes one core's state."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._manifest = handle.getValueState("manifest", "content string")
        self._parts = handle.getMapState("runs", "number bigint, part int", "content binary")

    def load(self, join: str) -> Manifest:
        """Return the manifest; a new one when the core has no state yet."""
        saved = self._manifest.get()
        if saved is None:
            return Manifest(join)
        content: dict[str, Any] = json.loads(saved[0])
        if content.pop("format") != FORMAT or content["join"] != join:
            raise SnapshotError(
                explain_refusal(
                    "the checkpoint holds the state of another join",
                    "the predicate, window, columns, routing and number of cores the checkpoint was begun with",
                    "restart with these, or give the query a new checkpoint location",
                )
            )
        content["runs"] = {side: [Run(**run) for run in runs] for side, runs in content["runs"].items()}
        return Manifest(**content)

    def save(self, manifest: Manifest) -> None:
        """Write the manifest under a new token."""
        manifest.token = uuid.uuid4().hex
        self._manifest.update((json.dumps({"format": FORMAT, **asdict(manifest)}),))

    def add(self, manifest: Manifest, side: Side, content: bytes, rows: int, place: Extent) -> None:
        """Store rows as a run; merge runs that have become many."""
        runs = manifest.runs[side]
        runs.append(self._write(manifest, content, rows, place, 0))
        while len(runs) >= FAN_IN and runs[-FAN_IN].level == runs[-1].level:
            self._merge(manifest, side)

    def expire(self, manifest: Manifest, side: Side, before: int) -> None:
        """Remove the runs that lie before ``before`` as a whole."""
        for run in [run for run in manifest.runs[side] if run.high < before]:
            self._remove(run)
            manifest.runs[side].remove(run)

    def read(self, manifest: Manifest, side: Side) -> Iterator[bytes]:
        """Yield the content of one side's runs, oldest first."""
        for run in manifest.runs[side]:
            yield self._read(run)

    def _merge(self, manifest: Manifest, side: Side) -> None:
        """Put the last runs of one level together, in their order."""
        runs = manifest.runs[side]
        last = runs[-FAN_IN:]
        tables = [pa.ipc.open_stream(pa.py_buffer(self._read(run))).read_all() for run in last]
        place = Extent(min(run.low for run in last), max(run.high for run in last))
        for run in last:
            self._remove(run)
        content = to_blob(pa.concat_tables(tables).unify_dictionaries().combine_chunks())
        rows = sum(run.rows for run in last)
        runs[-FAN_IN:] = [self._write(manifest, content, rows, place, last[-1].level + 1)]

    def _write(self, manifest: Manifest, content: bytes, rows: int, place: Extent, level: int) -> Run:
        number = manifest.next_number
        manifest.next_number += 1
        parts = [content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES)]
        for part, piece in enumerate(parts):
            self._parts.updateValue((number, part), (piece,))
        return Run(number, len(parts), rows, len(content), place.low, place.high, level)

    def _read(self, run: Run) -> bytes:
        pieces = [self._parts.getValue((run.number, part)) for part in range(run.parts)]
        if any(piece is None for piece in pieces):
            raise SnapshotError(
                explain_refusal(
                    f"the state store lacks a part of run {run.number}",
                    "a complete checkpoint",
                    "restart from an intact checkpoint",
                )
            )
        return b"".join(bytes(piece[0]) for piece in pieces if piece is not None)

    def _remove(self, run: Run) -> None:
        for part in range(run.parts):
            self._parts.removeKey((run.number, part))
