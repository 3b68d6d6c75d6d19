"""What real queries showed, as ``record.py`` has kept it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "progress"


@pytest.fixture(scope="session")
def classic() -> list[dict[str, Any]]:
    """Return the progress of a balanced join on a classic session, whose right stream stalls at the end."""
    shown: list[dict[str, Any]] = json.loads((RECORDED / "classic.json").read_text(encoding="utf-8"))
    return shown


@pytest.fixture(scope="session")
def job() -> list[dict[str, Any]]:
    """Return the progress of a job that joins two topics of Kafka, and tells of its results."""
    shown: list[dict[str, Any]] = json.loads((RECORDED / "job.json").read_text(encoding="utf-8"))
    return shown


@pytest.fixture(scope="session")
def connect() -> list[dict[str, Any]]:
    """Return the progress of the same join, shorter and not balanced, on Spark Connect."""
    shown: list[dict[str, Any]] = json.loads((RECORDED / "connect.json").read_text(encoding="utf-8"))
    return shown
