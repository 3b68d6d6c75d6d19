"""Spark's scratch folder on an executor: where it is, and how much may still be written there.

Others write there too, Spark itself first of all, and a full disk ends their tasks. So what is kept here for speed
alone leaves part of the disk free.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

__all__ = ["room_on_disk", "scratch_folder"]

RESERVED_BYTES: Final = 1 << 30
"""Left free for others; on small disks a tenth."""


def scratch_folder(name: str) -> Path | None:
    """Return a folder in the first scratch folder that Spark gives its workers; None where there is none."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "")
    return Path(folders.split(",")[0]) / name if folders else None


def room_on_disk(folder: Path) -> int:
    """Return how many bytes may be written on the disk of an existing folder, less than none if it is too full."""
    disk = shutil.disk_usage(folder)
    return disk.free - min(RESERVED_BYTES, disk.total // 10)
