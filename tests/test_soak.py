"""The soak's generated cases run: a few of each kind, the small ones too, whose limits it sets by name."""

from __future__ import annotations

import subprocess
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


def test_what_is_left_out_of_a_records_code_is_never_imported() -> None:
    from soak.record import LEFT_OUT

    program = (
        "import sys, soak.cases, soak.drawing; print(*(name for name in sys.modules if name.startswith('watersmeet.')))"
    )
    shown = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rooms = {name.split(".")[1] for name in shown.split()}
    assert "engine" in rooms
    assert not rooms & {name.removesuffix(".py") for name in LEFT_OUT["cases"]}
