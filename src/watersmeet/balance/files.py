"""Generations as immutable files in one folder per query and join, and the one that a micro-batch uses.

Each generation is a file in a folder of its own, which is written under another name and then renamed. Renaming a
folder is atomic, and never replaces one that is not empty. So a generation is there as a whole or not at all, and the
first one that was written stays. The file is on the disk before it is renamed, and the new name is on the disk before
anybody relies on it, so neither is lost in a power failure. Neither hard links nor locks are used.

The first task of a micro-batch that asks for a generation decides which one the micro-batch uses. The decision is
*sealed* in a file. Every later caller gets the same answer, although another generation may have been written since:
other tasks of the micro-batch, a task that is run again, the micro-batch that is replayed after a restart. Without
seals, cores could do one micro-batch by different tables without noticing it.

All machines must share the folder, and it must live as long as the query's checkpoint. A seal is not needed any more
once its micro-batch is committed. The last ``SEALS_KEPT`` seals stay, with the generations that they need; older ones
are removed. Drafts of writers that died are removed as well. If the clock jumps and a draft is removed too early, its
writer begins again. Any other file with the name of a generation or a seal is refused: rows may be stored by the file
that it replaced.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.spec.errors import SnapshotError

__all__ = ["GenerationFiles"]

GENERATION: Final = "generation-"
SEAL: Final = "micro-batch-"
CONTENT: Final = "content"
TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY)
"""Errors with which file systems refuse to replace a folder that is not empty."""
ALLOWED: Final = "a folder of routing tables that all machines share and that is kept with the checkpoint"
SEALS_KEPT: Final = 100
"""The number of micro-batches that Spark's checkpoint can go back by default."""
DRAFT: Final = ".draft-"
ABANDONED_SECONDS: Final = 3600.0
MOST_DRAFTS: Final = 5
KEPT: Final = 512
"""Generations that a process keeps in memory, so that each is read once: more than are live at a time."""


class GenerationFiles:
    """The generations of one join in one query, on ``cores`` cores."""

    def __init__(self, folder: Path, cores: int) -> None:
        self._folder = folder
        self._cores = cores

    @classmethod
    def of_join(cls, query: Path, join: str, cores: int) -> Self:
        """Return the files of a join in the folder of its query.

        A query that was balanced while it could have one join only has that one's files in its own folder.
        """
        is_earlier = any(next(query.glob(f"{prefix}*"), None) for prefix in (GENERATION, SEAL))
        return cls(query if is_earlier else query / join, cores)

    @property
    def exist(self) -> bool:
        """Whether the join was ever balanced."""
        return self._folder.is_dir()

    def live(self) -> tuple[Generation, ...]:
        """Return the newest generation, in effect or not, and before it those whose rows it still looks for."""
        return self._from_oldest(max(self._numbers(GENERATION), default=0))

    def write(self, generation: Generation) -> None:
        """Add a generation; if there is one with its number, that stays."""
        self._write_once(f"{GENERATION}{generation.number}", generation.to_json())

    def reasons(self, number: int) -> tuple[str, ...]:
        """Return why a generation was made."""
        return self._generation(number).reasons

    def table(self, micro_batch: int) -> RoutingTable:
        """Return the routing table of a micro-batch: every caller gets the same one, at any time."""
        return RoutingTable(self._from_oldest(self._sealed(micro_batch)))

    def _sealed(self, micro_batch: int) -> int:
        """Return the number of the generation that a micro-batch uses, and seal it."""
        seal = self._folder / f"{SEAL}{micro_batch}"
        if not seal.exists():
            newest_first = reversed(self._numbers(GENERATION))
            in_effect = (number for number in newest_first if self._generation(number).first <= micro_batch)
            self._write_once(seal.name, str(next(in_effect, 0)))
            self._tidy(micro_batch - SEALS_KEPT + 1)
        content = _read_text(seal / CONTENT)
        if not content.isdecimal():
            raise _refuse(f"{seal / CONTENT} has {content[:80]!r}", "the number of a generation")
        return int(content)

    def _from_oldest(self, newest: int) -> tuple[Generation, ...]:
        return tuple(map(self._generation, range(self._generation(newest).oldest, newest + 1)))

    def _generation(self, number: int) -> Generation:
        first = first_generation(self._cores)
        if not number:
            return first
        path = self._folder / f"{GENERATION}{number}" / CONTENT
        generation = _read(path)
        if generation.number != number:
            raise _refuse(f"{path} has generation {generation.number}", f"generation {number} in a file of this name")
        if generation.groups != first.groups or not set(generation.active) <= set(first.active):
            raise _refuse(
                f"{path} has {generation.groups} groups, on cores {', '.join(map(str, generation.active))}",
                f"{first.groups} groups on {self._cores} cores, numbered from 0",
            )
        return generation

    def _numbers(self, prefix: str) -> list[int]:
        """Return the numbers of the names in the folder that have a prefix."""
        names = [path.name for path in self._folder.glob(f"{prefix}*")]
        numbers = [name.removeprefix(prefix) for name in names]
        for name, number in zip(names, numbers, strict=True):
            if not (number.isdecimal() and number == str(int(number))):
                raise _refuse(f"{self._folder / name} is no file of the join's", f"{prefix}1, {prefix}2, …")
        return sorted(map(int, numbers))

    def _tidy(self, kept_from: int) -> None:
        """Remove what no micro-batch from ``kept_from`` on needs, and drafts of writers that died."""
        for draft in self._folder.glob(f"{DRAFT}*"):
            with suppress(OSError):
                if draft.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    shutil.rmtree(draft, ignore_errors=True)
        seals = self._numbers(SEAL)
        oldest = self._generation(self._sealed(min(seal for seal in seals if seal >= kept_from))).oldest
        outdated = [f"{SEAL}{seal}" for seal in seals if seal < kept_from]
        if outdated:
            outdated += [f"{GENERATION}{number}" for number in self._numbers(GENERATION) if number < oldest]
        for name in outdated:
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _write_once(self, name: str, content: str) -> None:
        """Write a file, unless it exists: another task was faster then, and its content holds."""
        for attempt in range(MOST_DRAFTS):
            draft = self._folder / f"{DRAFT}{uuid.uuid4().hex}"
            draft.mkdir(parents=True)
            try:
                with (draft / CONTENT).open("w", encoding="utf-8") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                _sync(draft)
                draft.rename(self._folder / name)
                _sync(self._folder)
            except OSError as error:
                shutil.rmtree(draft, ignore_errors=True)
                if error.errno in TAKEN:
                    return
                if not isinstance(error, FileNotFoundError) or attempt == MOST_DRAFTS - 1:
                    raise
            else:
                return


def _sync(folder: Path) -> None:
    """Write the names in a folder to the disk, if the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@lru_cache(maxsize=KEPT)
def _read(path: Path) -> Generation:
    """Read a generation, which never changes."""
    try:
        return Generation.from_json(_read_text(path))
    except SnapshotError as error:
        raise _refuse(f"{path}: {error.given}", "a generation as the join wrote it") from error


def _read_text(path: Path) -> str:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise _refuse(f"{path} cannot be read ({reason}), but rows are stored by it", ALLOWED) from error
    if not content:
        raise _refuse(f"{path} is empty, but rows are stored by it", ALLOWED)
    return content


def _refuse(given: str, allowed: str) -> SnapshotError:
    step = "restore the file, or remove it if it is not the join's; else begin with a new checkpoint location"
    return SnapshotError(given, allowed, step)
