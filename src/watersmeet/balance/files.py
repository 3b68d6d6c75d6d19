"""Generations as immutable files in one folder per query, and which of them a micro-batch uses.

Each is a file in a folder of its own, which is written under another name and then renamed. A folder is renamed at
once, and never onto one that is not empty: so a generation is there as a whole or not at all, and the first one that
was written stays. Nothing else is asked of the file system, neither hard links nor locks.

Which generation a micro-batch uses is decided once, by the first task that asks, and *sealed* in a file too: whoever
asks again, be it another task of the micro-batch, a task that is run again, or the micro-batch replayed after a
restart, gets the same answer, even when another generation has been written meanwhile. Without that, cores could do one
micro-batch by different tables, and each of them would find nothing wrong.

The folder must be one that all machines share, and outlive the query as its checkpoint does. A seal is of no use any
more once its micro-batch is committed; the last ``SEALS_KEPT`` stay.
"""

from __future__ import annotations

import errno
import shutil
import uuid
from functools import lru_cache
from pathlib import Path
from typing import Final

from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.spec.errors import SnapshotError, explain_refusal

__all__ = ["GenerationFiles"]

GENERATION: Final = "generation-"
SEAL: Final = "micro-batch-"
CONTENT: Final = "content"
TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY)
"""Why a folder cannot be renamed to one that is not empty, by the file system."""
SEALS_KEPT: Final = 100


class GenerationFiles:
    """The generations of one query on ``cores`` cores."""

    def __init__(self, folder: Path, cores: int) -> None:
        self._folder = folder
        self._cores = cores

    def generations(self) -> list[Generation]:
        """Return all generations there are, from number 0."""
        numbers = sorted(int(path.name.removeprefix(GENERATION)) for path in self._folder.glob(f"{GENERATION}*"))
        return [first_generation(self._cores), *map(self._generation, numbers)]

    def write(self, generation: Generation) -> None:
        """Add a generation; one that is there already stays as it is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write_once(f"{GENERATION}{generation.number}", generation.to_json())

    def reasons(self, number: int) -> tuple[str, ...]:
        """Return why a generation was made."""
        return self._generation(number).reasons

    def table(self, micro_batch: int) -> RoutingTable:
        """Return the routing table of a micro-batch: the same whenever and wherever it is asked for."""
        newest = self._generation(self._sealed(micro_batch))
        return RoutingTable(tuple(self._generation(number) for number in range(newest.oldest, newest.number + 1)))

    def _sealed(self, micro_batch: int) -> int:
        """Return the number of the generation that a micro-batch uses, and see to it that it stays so."""
        seal = self._folder / f"{SEAL}{micro_batch}"
        if not seal.exists():
            in_effect = [generation.number for generation in self.generations() if generation.first <= micro_batch]
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write_once(seal.name, str(max(in_effect)))
            shutil.rmtree(self._folder / f"{SEAL}{micro_batch - SEALS_KEPT}", ignore_errors=True)
        return int((seal / CONTENT).read_text(encoding="utf-8"))

    def _generation(self, number: int) -> Generation:
        return _read(self._folder / f"{GENERATION}{number}" / CONTENT) if number else first_generation(self._cores)

    def _write_once(self, name: str, content: str) -> None:
        draft = self._folder / f".{uuid.uuid4().hex}"
        draft.mkdir()
        (draft / CONTENT).write_text(content, encoding="utf-8")
        try:
            draft.rename(self._folder / name)
        except OSError as error:
            shutil.rmtree(draft)
            if error.errno not in TAKEN:
                raise
            # Another task was faster, and says the same or is right.


@lru_cache(maxsize=64)
def _read(path: Path) -> Generation:
    """Read a generation, which never changes."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SnapshotError(
            explain_refusal(
                f"{path} cannot be read ({error.strerror}), but rows are stored by it",
                "a folder of routing tables that all machines share and that is kept with the checkpoint",
                "restore the file, or begin with a new checkpoint location",
            )
        ) from error
    return Generation.from_json(text)
