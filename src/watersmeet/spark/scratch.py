"""Spark's scratch folder on an executor, and how many bytes may still be written there.

Spark itself writes there too, and a full disk fails its tasks. So files that only save time leave part of the disk
free.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

__all__ = ["room_on_disk", "scratch_folder"]

RESERVED_BYTES: Final = 1 << 30
"""Bytes of the disk that stay free; on small disks it is a tenth."""


def scratch_folder(name: str) -> Path | None:
    """Return a folder in Spark's first scratch folder, or None if there is none."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "")
    return Path(folders.split(",")[0]) / name if folders else None


def room_on_disk(folder: Path) -> int:
    """Return how many bytes may be written on the disk of a folder; negative if the disk is too full."""
    disk = shutil.disk_usage(folder)
    return disk.free - min(RESERVED_BYTES, disk.total // 10)
