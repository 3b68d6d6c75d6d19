"""Which experiments of a suite the fast tests run."""

from __future__ import annotations

from typing import Any

import pytest

from watersmeet.cli.bench.suite import Suite


def one_fast(suite: Suite, fast: str) -> list[Any]:
    """Return a suite's experiments as parameters: one for the fast tests, all others for the long ones."""
    assert fast in suite.experiments
    return [name if name == fast else pytest.param(name, marks=pytest.mark.long) for name in suite.experiments]
