"""Where the folders of a job are, and that what is written does not lie in what is read.

Spark keeps a list of its files in the folder of a sink, and who reads that folder reads the files of the list alone; a
checkpoint would be read as rows. So the folders of sources, sink and checkpoint do not lie in each other. Folders of
this machine are compared as they are, behind links; those of other file systems by their text.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path as File
from typing import Final

from watersmeet.jobs.model import Job
from watersmeet.jobs.problems import Problem, shown
from watersmeet.jobs.toml_lines import Path

__all__ = ["address", "mixed_folders"]

ADDRESS: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?://([^/]*))?(/.*)", re.DOTALL)
OPTIONS: Final = re.compile(r"\{([^{}]*)\}")


def address(path: str, home: File) -> str:
    """Return an address as Spark is to use it: a relative folder is one beside the file."""
    return path if ADDRESS.fullmatch(path) else str(home / path)


def mixed_folders(job: Job, home: File) -> Iterator[Problem]:
    """Yield a problem if the sink or the checkpoint lies in a folder that is read, or in each other."""
    inputs: dict[Path, object] = {("streams", name, "path"): source for name, source in job.streams.items()}
    inputs |= {("tables", name, "path"): table for name, table in job.tables.items()}
    read = {path: folder for path, part in inputs.items() if (folder := getattr(part, "path", None)) is not None}
    outputs = {("sink", "path"): getattr(job.sink, "path", None), ("checkpoint",): job.checkpoint}
    taken = {path: _parts(address(folder, home)) for path, folder in read.items()}
    for path, folder in outputs.items():
        if folder is None:
            continue
        parts = _parts(address(folder, home))
        for other, others in taken.items():
            if _in_each_other(others, parts, is_pattern=other in read):
                yield Problem(
                    path,
                    f'"{folder}" and the folder of {shown(other)} lie in each other',
                    "folders of sources, sink and checkpoint that do not lie in each other",
                    f"give {shown(path)} a folder of its own",
                )
                break
        taken[path] = parts


def _parts(folder: str) -> tuple[str, ...]:
    """Return where a folder is: its file system, and the names on the way to it."""
    found = ADDRESS.fullmatch(folder)
    if found is None or found[1].lower() == "file":
        return ("file", *os.path.realpath(found[3] if found else folder).split("/")[1:])
    system = f"{found[1].lower()}://{found[2] or ''}"
    return (system, *posixpath.normpath(found[3]).lstrip("/").split("/"))


def _in_each_other(read: tuple[str, ...], written: tuple[str, ...], *, is_pattern: bool) -> bool:
    """Tell whether two folders are one, or one of them lies in the other; what is read may have stars."""
    return all(
        one == other or not one or not other or (is_pattern and _stands_for(one, other))
        for one, other in zip(read, written, strict=False)
    )


def _stands_for(pattern: str, name: str) -> bool:
    """Tell whether a part of a path stands for a name; of several lists of options only the first is looked at."""
    first, *_ = [*OPTIONS.finditer(pattern), None]
    if first is None:
        return fnmatchcase(name, pattern.replace("[^", "[!"))
    rest = OPTIONS.sub("*", pattern[first.end() :])
    return any(_stands_for(pattern[: first.start()] + option + rest, name) for option in first[1].split(","))
