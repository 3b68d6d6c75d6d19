"""The cache of decoded runs: files that every Python worker of a node can map.

A Python worker is not bound to a core of the join, so what it remembers of one micro-batch may not help in the next.
The state store has every run, but reading a run from it costs about a second per 50 MB, and its rows must be sorted
again. So a worker that writes a run, or had to read one, also puts it here, sorted, and other workers map it.

The result never depends on a file of the cache. A file's name is a digest of its content, so it cannot be outdated. It
is written under another name first, so it is always complete. Its checksum is compared when it is opened, and it is
opened again if it has changed since. A file that is missing, damaged or cannot be written costs time only.

A file stays open while a worker refers to its mapped content. A process can open a limited number of files, so beyond
``MOST_OPEN`` of them a worker copies their content instead.

The folder is in Spark's scratch folder, which is removed with the executor. Its size is bounded, by a limit and by the
free disk: files that have not been opened for the longest time are removed first. The time of the last use is taken
from the clock that runs since the machine was started, which nobody sets, and is stored as the file's access time.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from watersmeet.kernels.checksum import checksum
from watersmeet.spark.scratch import room_on_disk, scratch_folder

__all__ = ["MOST_OPEN", "MappedRun", "RunCache"]

MAGIC: Final = b"wm run 2"
PREFIX: Final = struct.Struct("<8sQQ8x")
"""Magic, bytes of content, and its checksum; 32 bytes, so that the content begins aligned."""
WORD: Final = 8
SUFFIX: Final = ".run"
FOLDER: Final = "watersmeet"
MOST_OPEN: Final = 128
"""Files that a worker has open at a time; some systems allow only 256 per process."""


class _Identity(NamedTuple):
    """Attributes of a file that change when the file is changed."""

    inode: int
    size: int
    modified: int


class _OpenFile:
    """A file that is open for reading until nothing refers to it any more."""

    count: ClassVar = 0
    """The number of files that are open in this process."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        _OpenFile.count += 1

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # opening it has succeeded
            os.close(self._descriptor)
            _OpenFile.count -= 1

    def identity(self) -> _Identity:
        return _identity(os.fstat(self._descriptor))


@dataclass(frozen=True, slots=True)
class MappedRun:
    """A run's content, and the attributes that its file had when it was checked."""

    content: pa.Buffer
    identity: _Identity
    file: _OpenFile | None
    """The file, kept open: if it is damaged, and then removed by a worker that notices, it still shows the change. None
    if the content is a copy."""

    @property
    def is_copy(self) -> bool:
        """Whether the content lies in this worker's own memory."""
        return self.file is None

    @property
    def is_intact(self) -> bool:
        """Whether the file has not changed since it was checked; it may have been removed."""
        return self.file is None or self.file.identity() == self.identity


class RunCache:
    """A folder of decoded runs, at most ``limit`` bytes of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    @classmethod
    def of_executor(cls, limit: int) -> Self | None:
        """Return the cache in Spark's scratch folder, or None if there is no such folder."""
        folder = scratch_folder(FOLDER)
        return None if folder is None else cls(folder, limit)

    def put(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a run for other workers, if there is room."""
        draft = self._folder / f"{name}.{os.getpid()}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._make_room(len(content) + PREFIX.size):
                return
            with draft.open("wb") as file:
                file.write(PREFIX.pack(MAGIC, len(content), _checksum(content)))
                file.write(memoryview(content))
            _note_use(draft, draft.stat().st_mtime_ns)
            draft.replace(self._path(name))
        except OSError:  # no space, no permission, no folder: the state store has the run
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def get(self, name: str) -> MappedRun | None:
        """Return a run if there is a complete and undamaged file of it."""
        path = self._path(name)
        try:
            file: _OpenFile | None = None
            if _OpenFile.count < MOST_OPEN:
                file = _OpenFile(path)
                identity = file.identity()
                whole = _mapped(path, identity.size)
            else:
                identity = _identity(path.stat())
                whole = pa.py_buffer(path.read_bytes())
            if _identity(path.stat()) != identity:  # another file has replaced it
                return None
            _note_use(path, identity.modified)
        except OSError:
            return None
        if not _is_sound(whole):
            self.drop(name)
            return None
        return MappedRun(whole.slice(PREFIX.size), identity, file)

    def has(self, name: str) -> bool:
        """Tell whether there is a file of a run, damaged or not."""
        return self._path(name).exists()

    def drop(self, name: str) -> None:
        """Remove a run; workers that have mapped it can still read it."""
        with suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def _make_room(self, wanted: int) -> bool:
        """Remove the least recently used files until ``wanted`` bytes fit; tell whether they do."""
        files = []
        for path in self._folder.iterdir():
            with suppress(OSError):  # it has just been removed
                files.append((path.stat(), path))
        held = sum(stat.st_size for stat, _ in files)
        most = min(self._limit, held + room_on_disk(self._folder))
        if wanted > most:
            return False
        for stat, path in sorted(files, key=lambda item: item[0].st_atime_ns):
            if held + wanted <= most:
                break
            with suppress(OSError):
                path.unlink()
            held -= stat.st_size
        return True


def _identity(stat: os.stat_result) -> _Identity:
    return _Identity(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _note_use(path: Path, modified: int) -> None:
    """Mark a file as the most recently used."""
    os.utime(path, ns=(time.monotonic_ns(), modified))


def _mapped(path: Path, size: int) -> pa.Buffer:
    """Map a file's content; the mapping does not need the file to be open."""
    if not size:  # nothing can be mapped
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def _is_sound(whole: pa.Buffer) -> bool:
    """Tell whether a file's content is complete and undamaged."""
    if whole.size < PREFIX.size:
        return False
    magic, size, expected = PREFIX.unpack(whole.slice(0, PREFIX.size))
    content = whole.slice(PREFIX.size)
    return bool(magic == MAGIC and size == content.size and expected == _checksum(content))


def _checksum(content: bytes | pa.Buffer) -> int:
    whole = len(content) - len(content) % WORD
    words = np.frombuffer(content, np.uint64, whole // WORD)
    words.flags.writeable = False  # a kernel is compiled for arrays of one kind
    rest = int.from_bytes(bytes(memoryview(content)[whole:]), "little")
    return int(checksum(words, np.uint64(rest)))
