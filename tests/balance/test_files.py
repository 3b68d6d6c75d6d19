"""Generations in files: never half there, never changed, and one answer for every micro-batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import watersmeet as wm
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import first_generation

CORES = 3
FIRST = first_generation(CORES)
SECOND = replace(FIRST, number=1, first=5)
THIRD = replace(FIRST, number=2, first=8, oldest=1)


def test_a_generation_takes_effect_at_its_micro_batch(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path / "query", CORES)
    assert files.table(0).generations == (FIRST,)
    files.write(SECOND)
    files.write(THIRD)
    assert files.table(4).generations == (FIRST,)
    assert files.table(5).generations == (FIRST, SECOND)
    assert files.table(8).generations == (SECOND, THIRD)
    assert files.generations() == [FIRST, SECOND, THIRD]


def test_a_micro_batch_keeps_its_table_when_a_generation_comes_late(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, CORES)
    assert files.table(6).newest == FIRST
    files.write(SECOND)
    assert files.table(6).newest == FIRST
    assert GenerationFiles(tmp_path, CORES).table(6).newest == FIRST
    assert files.table(7).newest == SECOND


def test_a_generation_is_never_overwritten(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, CORES)
    files.write(SECOND)
    files.write(replace(SECOND, first=100))
    assert GenerationFiles(tmp_path, CORES).generations()[1] == SECOND


def test_tasks_that_ask_at_once_get_one_answer(tmp_path: Path) -> None:
    def ask(number: int) -> int:
        files = GenerationFiles(tmp_path, CORES)
        if number % 3 == 0:
            files.write(SECOND)
        return files.table(6).newest.number

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(64)))) == 1
    assert not list(tmp_path.glob(".*"))


def test_a_lost_file_is_refused(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, CORES)
    files.write(SECOND)
    files.write(THIRD)
    (tmp_path / "generation-1").unlink()
    with pytest.raises(wm.SnapshotError, match=r"(?s)generation-1 cannot be read.*next step"):
        files.table(9)
