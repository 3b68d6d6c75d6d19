"""Facts about the machine and the software of a run, written beside its figures."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

__all__ = ["load_average", "machine_facts", "resident_bytes"]

PACKAGES: Final = ("watersmeet", "numpy", "numba", "pyarrow", "duckdb", "polars", "matplotlib", "pyspark", "pandas")
CPU_INFO: Final = Path("/proc/cpuinfo")


def machine_facts() -> dict[str, object]:
    """Return what a reader needs to judge the figures of this run."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    """Return the load of the last 1, 5 and 15 minutes."""
    return [round(load, 2) for load in psutil.getloadavg()]


def resident_bytes() -> int:
    """Return the memory this process occupies."""
    return int(psutil.Process().memory_info().rss)


def _cpu_model() -> str:
    """Return the processor's name, which Linux alone tells without being asked by a program of its own."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
