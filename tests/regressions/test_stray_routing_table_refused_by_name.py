"""A file among the routing tables that is none, or an empty one, ended a query with a ValueError that named no file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import watersmeet as wm
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import first_generation

FIRST = first_generation(2)
SECOND = replace(FIRST, number=1, first=3)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("generation-1.bak", "{}", "generation-1.bak is no file"),
        ("generation-01", "{}", "generation-01 is no file"),
        ("generation-", "{}", "generation- is no file"),
        ("generation-1", "", "generation-1/content is empty"),
        ("generation-1", "{}", "generation-1/content: a generation of the routing table cannot be read"),
        ("generation-1", replace(SECOND, number=2).to_json(), "generation-1/content has generation 2"),
        ("generation-1", replace(first_generation(90), number=1).to_json(), "generation-1/content has 5760 groups"),
        ("generation-1", None, "generation-1/content cannot be read"),
        ("micro-batch-4", "", "micro-batch-4/content is empty"),
        ("micro-batch-4", "one", "micro-batch-4/content has 'one'"),
        ("micro-batch-4", None, "micro-batch-4/content cannot be read"),
        ("micro-batch-4", "7", "generation-7/content cannot be read"),
    ],
)
def test_it_is_refused_by_its_name(tmp_path: Path, name: str, content: str | None, words: str) -> None:
    (tmp_path / name).mkdir()
    if content is not None:
        (tmp_path / name / "content").write_text(content)
    with pytest.raises(wm.SnapshotError, match=words) as refused:
        GenerationFiles(tmp_path, 2).table(4)
    assert "next step:" in str(refused.value)


def test_a_file_that_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "generation-1").mkdir()
    (tmp_path / "generation-1" / "content").write_bytes(b"\xff\xfe")
    with pytest.raises(wm.SnapshotError, match=r"generation-1/content cannot be read \(it is no text\)"):
        GenerationFiles(tmp_path, 2).table(4)
