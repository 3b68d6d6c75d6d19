"""Generations in files: never half there, never changed, and one answer for every micro-batch."""

from __future__ import annotations

import errno
import os
import shutil
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


def test_no_hard_links_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)  # as some mounts do
    files = GenerationFiles(tmp_path, CORES)
    files.write(SECOND)
    assert files.table(6).newest == SECOND


def test_a_generation_says_why_it_was_made(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, CORES)
    files.write(replace(SECOND, reasons=("core 1 is busy", "group 7 is hot")))
    assert files.reasons(0) == ()
    assert GenerationFiles(tmp_path, CORES).reasons(1) == ("core 1 is busy", "group 7 is hot")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "query").write_text("a file where a folder belongs")
    with pytest.raises(OSError, match="query"):
        GenerationFiles(tmp_path / "query", CORES).write(SECOND)


def test_a_lost_file_is_refused(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, CORES)
    files.write(SECOND)
    files.write(THIRD)
    shutil.rmtree(tmp_path / "generation-1")
    with pytest.raises(wm.SnapshotError, match=r"(?s)generation-1/content cannot be read.*next step"):
        files.table(9)
