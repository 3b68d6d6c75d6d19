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
from watersmeet.balance.files import SEALS_KEPT, GenerationFiles
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
    assert files.live() == (SECOND, THIRD)


def test_joins_of_a_query_have_folders_of_their_own_and_an_earlier_query_goes_on_with_its_own(tmp_path: Path) -> None:
    GenerationFiles.of_join(tmp_path / "new", "one", CORES).write(SECOND)
    assert GenerationFiles.of_join(tmp_path / "new", "one", CORES).live() == (FIRST, SECOND)
    assert GenerationFiles.of_join(tmp_path / "new", "other", CORES).live() == (FIRST,)
    GenerationFiles(tmp_path / "earlier", CORES).write(SECOND)
    assert GenerationFiles.of_join(tmp_path / "earlier", "one", CORES).live() == (FIRST, SECOND)


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
    assert GenerationFiles(tmp_path, CORES).live() == (FIRST, SECOND)


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


def test_a_writer_whose_draft_is_taken_away_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As happens when a clock jumps, and the draft looks as if its writer had died long ago."""
    rename, taken = Path.rename, list[Path]()

    def take_away(draft: Path, target: Path) -> Path:
        if not taken:
            taken.append(draft)
            shutil.rmtree(draft)
        return rename(draft, target)

    monkeypatch.setattr(Path, "rename", take_away)
    files = GenerationFiles(tmp_path, CORES)
    files.write(SECOND)
    assert taken
    assert files.live() == (FIRST, SECOND)


def test_what_a_name_leads_to_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    rename, fsync = Path.rename, os.fsync
    monkeypatch.setattr(Path, "rename", lambda *names: steps.append("rename") or rename(*names))
    monkeypatch.setattr(os, "fsync", lambda file: steps.append("sync") or fsync(file))
    GenerationFiles(tmp_path, CORES).write(SECOND)
    assert steps == ["sync", "sync", "rename", "sync"], "content, the draft's folder; then the new name"


def test_generations_that_no_micro_batch_can_need_are_removed(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, CORES)
    for number in range(1, 9):
        files.write(replace(FIRST, number=number, first=40 * number, oldest=number - 1))
    for micro_batch in range(400):
        table = files.table(micro_batch)
        for earlier in (micro_batch, max(0, micro_batch - SEALS_KEPT + 1)):  # replayed
            assert GenerationFiles(tmp_path, CORES).table(earlier).newest.number == min(earlier // 40, 8)
    assert [generation.number for generation in table.generations] == [7, 8]
    kept = sorted(path.name for path in tmp_path.glob("generation-*"))
    assert kept == ["generation-6", "generation-7", "generation-8"]
    assert len(list(tmp_path.glob("micro-batch-*"))) == SEALS_KEPT
