"""Experiments of a suite of benchmarks as parameters of a test: those that take long in any case make long tests."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.suite import SUITES

__all__ = ["experiments"]

LONG = {
    "cluster": {"reorganisation", "skew"},
    "kernels": {"choosing", "growth", "probing", "push"},
    "multiway": {"order", "stash", "streams"},
}


def experiments(suite: str) -> list[Any]:
    """Return the names of a suite's experiments."""
    names = SUITES[suite].experiments
    assert LONG[suite] <= set(names)
    return [pytest.param(name, marks=pytest.mark.long if name in LONG[suite] else ()) for name in names]
