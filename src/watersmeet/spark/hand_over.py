"""Pairs on their way from the join to the unpacker: in a file that the one writes and the other maps.

The unpacker is the next operator of the same task, but in another Python worker. As blobs the pairs would go to the JVM
and back to Python before they become columns: two more ways through a socket, and copies in the JVM. So the join
writes them into Spark's scratch folder and sends the name of the file; the unpacker maps it and removes it. Its pages
hardly ever reach the disk.

A file belongs to one attempt of one task; when that fails, or its reader has seen enough, the file stays behind. So
those that nobody can be waiting for any more are removed with every new one, and all of them together have a limit,
which the free disk may lower. Beyond it, or where nothing can be written, pairs travel as blobs. Spark removes the
folder with the executor.

A file's name says when it was made, by the clock that runs since the machine was started: whoever sets the other clock
makes no file look abandoned.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from watersmeet.spark.scratch import room_on_disk, scratch_folder

__all__ = ["leave_pairs", "take_pairs"]

FOLDER: Final = "watersmeet-pairs"
ABANDONED_SECONDS: Final = 3600.0
LIMIT_BYTES: Final = 4 << 30
BATCH_BYTES: Final = 1 << 20
"""Pairs reach the JVM in batches of this size, which stay in its processor's cache."""


def leave_pairs(pairs: pa.Table) -> str | None:
    """Write pairs to a file and return its name; None where there is no folder for it, or no room in it."""
    folder = scratch_folder(FOLDER)
    if folder is None:
        return None
    name = f"{int(time.monotonic())}-{uuid.uuid4().hex}"
    rows = max(1, pairs.num_rows * BATCH_BYTES // max(1, pairs.nbytes))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = _held_bytes(folder)
        if held + pairs.nbytes > min(LIMIT_BYTES, held + room_on_disk(folder)):
            return None
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, pairs.schema) as writer:
            writer.write_table(pairs, rows)
    except OSError:
        with suppress(OSError):
            (folder / name).unlink(missing_ok=True)
        return None
    return name


def take_pairs(name: str) -> pa.RecordBatchReader:
    """Return the pairs of a file, mapped, and remove it."""
    folder = scratch_folder(FOLDER)
    assert folder is not None, "the worker that left the pairs had one, and this one is its neighbour"
    with pa.memory_map(str(folder / name)) as file:
        content = file.read_buffer()
    (folder / name).unlink()
    return pa.ipc.open_stream(content)


def _held_bytes(folder: Path) -> int:
    """Return what the files take, without those that were abandoned, which are removed."""
    held, now = 0, time.monotonic()
    for path in folder.iterdir():
        with suppress(OSError):  # taken by its reader meanwhile
            made = path.name.partition("-")[0]
            if made.isdecimal() and not now - ABANDONED_SECONDS <= int(made) <= now:
                path.unlink()
            else:
                held += path.stat().st_size
    return held
