"""Decoded runs in memory-mapped files that every Python worker of a node can map.

A Python worker is not bound to a core of the join, so what it remembers of one micro-batch may be of no use to it in
the next. The state store has every run, but reading one there costs about a second per 50 MB, and its rows must be
sorted again. So a worker that makes a run leaves it here too, sorted; the others map it.

Truth never depends on a file here. Runs are immutable and their names unique, so a file cannot be stale; it is
written under another name first, so it is never half there; its checksum is compared when it is opened, and it is
opened again when it has changed since. A file that is missing, damaged or cannot be written costs time only.

The folder lies in Spark's own scratch folder, which goes with the executor. Its size is bounded: the files that have
not been opened for longest make room for new ones.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["MappedRun", "RunCache"]

MAGIC: Final = b"wm run 1"
PREFIX: Final = struct.Struct("<8sQQQ")
"""Magic, bytes of content, and two checksums of it; 32 bytes, so that the content begins aligned."""
WORD: Final = 8
SUFFIX: Final = ".run"


class _Identity(NamedTuple):
    """What changes when a file is changed."""

    inode: int
    size: int
    modified: int


class _OpenFile:
    """A file to be read, closed when nothing refers to it any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # it could be opened
            os.close(self._descriptor)

    def identity(self) -> _Identity:
        stat = os.fstat(self._descriptor)
        return _Identity(stat.st_ino, stat.st_size, stat.st_mtime_ns)

    def mapped(self) -> pa.Buffer:
        try:
            return pa.py_buffer(mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ))
        except ValueError:  # an empty file cannot be mapped
            return pa.py_buffer(b"")


@dataclass(frozen=True, slots=True)
class MappedRun:
    """A run's content, mapped, and what identifies the file as it was when it was checked."""

    content: pa.Buffer
    file: _OpenFile
    """Kept open: a file that was damaged and then removed, by a worker that noticed, still shows that it changed."""
    identity: _Identity

    @property
    def is_intact(self) -> bool:
        """Whether the file is still as it was when it was checked, removed or not."""
        return self.file.identity() == self.identity


class RunCache:
    """A folder of decoded runs, at most ``limit`` bytes of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    @classmethod
    def of_executor(cls, limit: int) -> Self | None:
        """Return the cache in the scratch folder that Spark gives its workers; None where there is none."""
        folders = os.environ.get("SPARK_LOCAL_DIRS", "")
        return cls(Path(folders.split(",")[0]) / "watersmeet", limit) if folders else None

    def put(self, name: str, content: bytes | pa.Buffer) -> None:
        """Leave a run for other workers, if there is room."""
        if not self._make_room(len(content)):
            return
        draft = self._folder / f"{name}.{os.getpid()}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(PREFIX.pack(MAGIC, len(content), *_checksums(content)))
                file.write(memoryview(content))
            draft.replace(self._path(name))
        except OSError:  # no space, no permission, folder gone: the state store has the run
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def get(self, name: str) -> MappedRun | None:
        """Return a run if a whole, undamaged file of it is here."""
        path = self._path(name)
        try:
            file = _OpenFile(path)
            identity, whole = file.identity(), file.mapped()
            os.utime(path, ns=(time.time_ns(), identity.modified))  # just opened: among the last to make room
        except OSError:
            return None
        if whole.size < PREFIX.size:
            self.drop(name)
            return None
        magic, size, *checksums = PREFIX.unpack(whole.slice(0, PREFIX.size))
        content = whole.slice(PREFIX.size)
        if magic != MAGIC or size != content.size or tuple(checksums) != _checksums(content):
            self.drop(name)
            return None
        return MappedRun(content, file, identity)

    def has(self, name: str) -> bool:
        """Tell whether there is a file of a run, damaged or not."""
        return self._path(name).exists()

    def drop(self, name: str) -> None:
        """Remove a run; workers that have mapped it keep it."""
        with suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def _make_room(self, wanted: int) -> bool:
        """Remove files not opened for long until ``wanted`` bytes fit; tell whether they do."""
        if wanted > self._limit:
            return False
        try:
            files = [(path.stat(), path) for path in self._folder.iterdir()]
        except OSError:  # there is no folder yet, or a file has just gone
            return True
        held = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda item: item[0].st_atime_ns):
            if held + wanted <= self._limit:
                break
            with suppress(OSError):
                path.unlink()
            held -= stat.st_size
        return True


def _checksums(content: bytes | pa.Buffer) -> tuple[int, int]:
    """Return the sum and the exclusive or of the content's words: no single damaged word leaves both as they are."""
    whole = len(content) - len(content) % WORD
    words: npt.NDArray[np.uint64] = np.frombuffer(content, np.uint64, whole // WORD)
    rest = int.from_bytes(bytes(memoryview(content)[whole:]), "little")
    return (int(words.sum()) + rest) % 2**64, int(np.bitwise_xor.reduce(words)) ^ rest
