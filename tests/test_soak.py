"""The soak's generated cases run: a few of each kind, the small ones too, whose limits it sets by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SEEDS = range(40)


def test_generated_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from soak.cases import check, draw_case

    assert {draw_case(seed).small for seed in SEEDS} == {True, False}
    done = [check(seed) for seed in SEEDS]
    assert sum("refused" not in about for about in done) > len(SEEDS) // 2
    assert "soak" in sys.modules
