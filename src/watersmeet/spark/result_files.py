"""Files that bring results from the join to the unpacker: the join writes a file, the unpacker maps it.

The unpacker is the next operator of the same task, but runs in another Python worker. As blobs the results would go to
the JVM and back to Python before they become columns: twice more through a socket, and copied in the JVM. So the join
writes them into Spark's scratch folder and sends the file's name. The unpacker maps the file and removes it. Its pages
are hardly ever written to the disk. Results are not validated, because no kernel reads them.

A file belongs to one attempt of one task. If that fails, or its reader stops early, the file stays behind. So files
that are too old to be awaited are removed with every new one. Together files have a limit, which a full disk lowers.
Beyond it, or if nothing can be written, results are sent as blobs. Spark removes the folder with the executor.

A file's name has the time at which it was written, by the clock that runs since the machine was started. So setting the
other clock makes no file look old.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.scratch import room_on_disk, scratch_folder

__all__ = ["read_results", "unpacker", "write_results"]

FOLDER: Final = "watersmeet-pairs"
ABANDONED_SECONDS: Final = 3600.0
LIMIT_BYTES: Final = 4 << 30
BATCH_BYTES: Final = 1 << 20
"""Results reach the JVM in batches of this size, which stay in the processor's cache."""


def write_results(pairs: pa.Table) -> str | None:
    """Write results to a file and return its name, or None if there is no folder or no room."""
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


def read_results(name: str) -> pa.RecordBatchReader:
    """Map the results in a file, and remove the file."""
    folder = scratch_folder(FOLDER)
    assert folder is not None, "the worker that wrote the file has one, and this one is on the same node"
    with pa.memory_map(str(folder / name)) as file:
        content = file.read_buffer()
    (folder / name).unlink()
    return pa.ipc.open_stream(content)


def _held_bytes(folder: Path) -> int:
    """Return the bytes of all files, and remove those that were abandoned."""
    held, now = 0, time.monotonic()
    for path in folder.iterdir():
        with suppress(OSError):  # its reader has just removed it
            written = path.name.partition("-")[0]
            if written.isdecimal() and not now - ABANDONED_SECONDS <= int(written) <= now:
                path.unlink()
            else:
                held += path.stat().st_size
    return held


def unpacker() -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that turns results, which come as blobs and files, into columns: those a core gave."""

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob, file in zip(batch.column("blob"), batch.column("file"), strict=True):
                if blob.is_valid:
                    yield from pa.ipc.open_stream(blob.as_buffer())
                if file.is_valid:
                    yield from read_results(file.as_py())
        freeze_once("unpack")

    return unpack
