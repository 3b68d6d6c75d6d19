"""Every micro-batch of a balanced query left a file for ever, while no new generation came."""

from __future__ import annotations

from pathlib import Path

from watersmeet.balance.files import SEALS_KEPT, GenerationFiles


def test_only_the_last_seals_stay(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, 2)
    for micro_batch in range(SEALS_KEPT + 50):
        files.table(micro_batch)
    assert len(list(tmp_path.iterdir())) == SEALS_KEPT
