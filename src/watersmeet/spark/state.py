"""A core's rows in Spark's state store: a small manifest and immutable runs.

Each micro-batch adds one run per stream; runs of similar size are merged, ``FAN_IN`` at a time, as long as none of them
then stays longer by more than half of what is kept. So a row is rewritten ``log(kept / batch) / log(FAN_IN)`` times
and the number of runs stays logarithmic; a run whose rows have all expired is removed as a whole. A run is an Arrow IPC
stream, cut into parts of at most ``PIECE_BYTES``.

*What is written follows from what was read*, so two attempts of one micro-batch write the same. Spark lets the last one
win, and the executor goes on with its own: the state is then put together from what both have written. So a run's name
says its place in the state alone: its stream, its level and its first row's number, which no two runs share. Should the
attempts have had their rows in different orders, either run has the same rows.

Names come again, when a run has gone and in other states. What is kept of a run elsewhere is found by its *digest*, of
its content and of the join, core and place it belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from watersmeet.spark.envelope import PIECE_BYTES
from watersmeet.spark.identity import FORMAT, Identity
from watersmeet.spec.errors import SnapshotError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.window.payload import Extent

__all__ = ["Manifest", "Origin", "Run", "RunStore", "mergeable"]

FAN_IN: Final = 8
DIGEST_BYTES: Final = 16
LARGEST_RUN: Final = 1 << 30
"""Bytes of runs that are still merged: Arrow keeps at most 2 GiB of text in one piece."""


class Origin(NamedTuple):
    """Where a run comes from: how often it was merged, its first row's number, and its routing table's generation."""

    stream: Side
    level: int
    first: int
    generation: int


@dataclass(slots=True)
class Run:
    """Some rows of one stream, and where they lie in the window."""

    name: str
    parts: int
    rows: int
    nbytes: int
    low: int
    high: int
    level: int
    first: int
    """Number of its first row: a stream's rows are numbered as they are stored, and from 0 again when none is left."""
    generation: int
    """The routing table's generation that sent its rows here."""
    digest: str = ""
    """None in a run whose name is unique for ever, as all were once."""

    @property
    def key(self) -> str:
        """What is kept of the run outside the state is found by this."""
        return self.digest or self.name

    @property
    def end(self) -> int:
        """The number after the last row's."""
        return self.first + self.rows


@dataclass(slots=True)
class Manifest:
    """What a core's state consists of."""

    identity: Identity
    """A checkpoint belongs to one join."""
    runs: dict[Side, list[Run]]

    @property
    def join(self) -> str:
        """What tells this join from others."""
        return self.identity.digest

    def next(self, stream: Side, generation: int) -> Origin:
        """Return where new rows of a stream come from that a generation of the routing table has sent here."""
        runs = self.runs[stream]
        return Origin(stream, 0, runs[-1].end if runs else 0, generation)


class RunStore:
    """Reads and writes one core's state."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._manifest = handle.getValueState("manifest", "content string")
        self._parts = handle.getMapState("runs", "name string, part int", "content binary")

    def load(self, identity: Identity, streams: Iterable[Side]) -> Manifest:
        """Return the manifest, a new one when the core has no state yet; raise if it is that of another join."""
        saved = self._manifest.get()
        if saved is None:
            return Manifest(identity, {stream: [] for stream in streams})
        content: dict[str, Any] = json.loads(saved[0])
        identity.check(content)
        return Manifest(identity, {stream: [Run(**run) for run in runs] for stream, runs in content["runs"].items()})

    def save(self, manifest: Manifest) -> None:
        """Write the manifest."""
        runs = {stream: [asdict(run) for run in some] for stream, some in manifest.runs.items()}
        identity = manifest.identity
        content = {"format": FORMAT, "join": identity.digest, "identity": identity.parts, "runs": runs}
        self._manifest.update((json.dumps(content),))

    def write(self, content: pa.Buffer, rows: int, place: Extent, *, made: Origin, owner: str) -> Run:
        """Store rows as a run; ``owner`` names its join and core."""
        stream, level, first, generation = made
        name = f"{stream} {level} {first}"
        digest = hashlib.blake2b(f"{owner} {name}\0".encode(), digest_size=DIGEST_BYTES)
        digest.update(content)
        parts = range(0, content.size, PIECE_BYTES)
        for number, begin in enumerate(parts):
            part = content.slice(begin, min(PIECE_BYTES, content.size - begin))
            self._parts.updateValue((name, number), (part.to_pybytes(),))
        return Run(
            name, len(parts), rows, content.size, place.low, place.high, level, first, generation, digest.hexdigest()
        )

    def read(self, run: Run) -> bytes:
        """Return the content of a run."""
        parts = [self._parts.getValue((run.name, number)) for number in range(run.parts)]
        if any(part is None for part in parts):
            raise SnapshotError(
                explain_refusal(
                    f"the state store lacks a part of run {run.name}",
                    "a complete checkpoint",
                    "restart from an intact checkpoint",
                )
            )
        return b"".join(bytes(part[0]) for part in parts if part is not None)

    def remove(self, run: Run) -> None:
        """Remove a run."""
        for number in range(run.parts):
            self._parts.removeKey((run.name, number))


def mergeable(runs: list[Run], longest: int) -> list[Run]:
    """Return the last runs if they are enough of one level to be merged, and none would stay ``longest`` longer for it.

    A run stays until its last row has expired, however far back its first rows lie in a disordered stream. Runs of
    different generations are never merged, as rows look for generations apart.
    """
    last = runs[-FAN_IN:]
    if len(last) < FAN_IN or len({(run.level, run.generation) for run in last}) > 1:
        return []
    if sum(run.nbytes for run in last) > LARGEST_RUN:
        return []
    ends = [run.high for run in last]
    return last if max(ends) - min(ends) <= longest else []
