"""Facts about the machine and the software of a run, written beside its figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["load_average", "machine_facts", "resident_bytes"]

PACKAGES = ("watersmeet", "numpy", "numba", "pyarrow", "duckdb", "polars", "matplotlib", "pyspark", "pandas")


def machine_facts() -> dict[str, object]:
    """Return what a reader needs to judge the figures of this run."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "load_average": load_average(),
    }


def load_average() -> list[float] | None:
    """Return the load of the last 1, 5 and 15 minutes, where the system knows it."""
    return [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None


def resident_bytes() -> int | None:
    """Return the memory this process occupies, where the system tells."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return None


def _cpu_model() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
