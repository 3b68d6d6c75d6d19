"""A core's rows in Spark's state store: a small manifest and immutable runs.

Each micro-batch adds one run per stream. Runs of similar size are merged, ``FAN_IN`` at a time, unless one of them
would stay longer for it by more than half the time for which rows are kept. So a row is rewritten ``log(kept / batch) /
log(FAN_IN)`` times, and the number of runs is logarithmic. A run whose rows have all expired is removed as a whole. A
run is an Arrow IPC stream, stored in parts of at most ``BLOB_BYTES``.

*What is written follows from what was read*, so two attempts of one micro-batch write the same. Spark keeps the last
attempt's state, and an executor may continue with its own, so the state may come from both. A run's name therefore
depends on its position in the state alone: its stream, its level and its first row's number, which no two runs share.
If the attempts had their rows in different orders, both runs have the same rows.

Names are used again, after a run was removed and in other states. So copies of a run outside the state are found by its
*digest*: that of its content, its join, its core and its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from watersmeet.spark.envelope import BLOB_BYTES
from watersmeet.spark.identity import FORMAT, Identity
from watersmeet.spark.marks import Marks
from watersmeet.spec.errors import SnapshotError
from watersmeet.spec.expression import StreamName
from watersmeet.window.payload import Extent

__all__ = ["Manifest", "Origin", "Run", "RunStore", "mergeable"]

FAN_IN: Final = 8
DIGEST_BYTES: Final = 16
LARGEST_RUN: Final = 1 << 30
"""Most bytes of runs that are merged: an Arrow array has at most 2 GiB of text."""


class Origin(NamedTuple):
    """The stream of a run, how often it was merged, its first row's number, and the generation that routed its rows."""

    stream: StreamName
    level: int
    first: int
    generation: int


@dataclass(slots=True)
class Run:
    """Rows of one stream, and their places in the window."""

    name: str
    parts: int
    rows: int
    nbytes: int
    low: int
    high: int
    level: int
    first: int
    """The number of its first row. A stream's rows are numbered when they are stored, from 0 again if none is left."""
    generation: int
    """The generation of the routing table by which its rows came here."""
    digest: str = ""
    """Empty in a run of an earlier format, whose name is unique."""

    @property
    def key(self) -> str:
        """The key by which copies of the run outside the state are found."""
        return self.digest or self.name

    @property
    def end(self) -> int:
        """The number after the last row's."""
        return self.first + self.rows


@dataclass(slots=True)
class Manifest:
    """The list of a core's runs."""

    identity: Identity
    """The identity of the join that the checkpoint belongs to."""
    runs: dict[StreamName, list[Run]]
    judged: dict[StreamName, int] = field(default_factory=dict)
    """Of each preserved side the place before which it is known of all rows whether they met one, if there is one."""
    clock: dict[str, Any] | None = None
    """In a time window: what :class:`~watersmeet.spark.clock.Clock` keeps. Earlier versions had none, and ignore it."""

    @property
    def join(self) -> str:
        """The digest of the join's identity."""
        return self.identity.digest

    def next(self, stream: StreamName, generation: int) -> Origin:
        """Return where new rows of a stream come from that a generation of the routing table has sent here."""
        runs = self.runs[stream]
        return Origin(stream, 0, runs[-1].end if runs else 0, generation)


class RunStore:
    """Reads and writes one core's state; runs have ``marks`` beside them if the join keeps some (``marked``)."""

    def __init__(self, handle: StatefulProcessorHandle, *, marked: bool = False) -> None:
        self.marks = Marks(handle) if marked else None
        self._manifest = handle.getValueState("manifest", "content string")
        self._parts = handle.getMapState("runs", "name string, part int", "content binary")

    def load(self, identity: Identity, streams: Iterable[StreamName]) -> Manifest:
        """Return the manifest, which is new if the core has no state; raise if it is another join's."""
        if self.marks is not None:
            self.marks.begin()
        saved = self._manifest.get()
        if saved is None:
            return Manifest(identity, {stream: [] for stream in streams})
        content: dict[str, Any] = json.loads(saved[0])
        identity.check(content)
        runs = {stream: [Run(**run) for run in some] for stream, some in content["runs"].items()}
        return Manifest(identity, runs, content.get("judged", {}), content.get("clock"))

    def save(self, manifest: Manifest) -> None:
        """Write the manifest, and the marks that have changed."""
        runs = {stream: [asdict(run) for run in some] for stream, some in manifest.runs.items()}
        identity = manifest.identity
        content = {"format": FORMAT, "join": identity.digest, "identity": identity.parts, "runs": runs}
        if self.marks is not None:
            content["judged"] = manifest.judged
            self.marks.save()
        if manifest.clock is not None:
            content["clock"] = manifest.clock
        self._manifest.update((json.dumps(content),))

    def write(self, content: pa.Buffer, rows: int, place: Extent, *, origin: Origin, owner: str) -> Run:
        """Store content as a run; ``owner`` names its join and core."""
        stream, level, first, generation = origin
        name = f"{stream} {level} {first}"
        digest = hashlib.blake2b(f"{owner} {name}\0".encode(), digest_size=DIGEST_BYTES)
        digest.update(content)
        parts = range(0, content.size, BLOB_BYTES)
        for number, begin in enumerate(parts):
            part = content.slice(begin, min(BLOB_BYTES, content.size - begin))
            self._parts.updateValue((name, number), (part.to_pybytes(),))
        return Run(
            name, len(parts), rows, content.size, place.low, place.high, level, first, generation, digest.hexdigest()
        )

    def read(self, run: Run) -> bytes:
        """Return the content of a run."""
        parts = [self._parts.getValue((run.name, number)) for number in range(run.parts)]
        if any(part is None for part in parts):
            raise SnapshotError(
                f"the state store lacks a part of run {run.name}",
                "a complete checkpoint",
                "restart from an intact checkpoint",
            )
        return b"".join(bytes(part[0]) for part in parts if part is not None)

    def remove(self, run: Run) -> None:
        """Remove a run and its marks."""
        for number in range(run.parts):
            self._parts.removeKey((run.name, number))
        if self.marks is not None:
            self.marks.remove(run.name, run.rows)


def mergeable(runs: list[Run], longest: int) -> list[Run]:
    """Return the last runs if they can be merged: enough of one level, none of which would stay ``longest`` longer.

    A run stays until its last row has expired, and in a disordered stream its first rows may be much older. Runs of
    different generations are never merged, because rows probe generations separately.
    """
    last = runs[-FAN_IN:]
    if len(last) < FAN_IN or len({(run.level, run.generation) for run in last}) > 1:
        return []
    if sum(run.nbytes for run in last) > LARGEST_RUN:
        return []
    ends = [run.high for run in last]
    return last if max(ends) - min(ends) <= longest else []
