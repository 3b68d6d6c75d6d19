"""A task that died while it wrote a routing table left its draft in the folder for ever, as did seals passed over."""

from __future__ import annotations

import os
from pathlib import Path

from watersmeet.balance.files import SEALS_KEPT, GenerationFiles


def test_what_nobody_needs_any_more_goes(tmp_path: Path) -> None:
    files = GenerationFiles(tmp_path, 2)
    for micro_batch in (0, 3, 5):
        files.table(micro_batch)
    (tmp_path / ".draft-1").mkdir()
    (tmp_path / ".draft-1" / "content").write_text("half a gener")
    os.utime(tmp_path / ".draft-1", (1000, 1000))
    (tmp_path / ".draft-2").mkdir()  # somebody is writing it
    files.table(SEALS_KEPT + 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".draft-2",
        f"micro-batch-{SEALS_KEPT + 4}",
        "micro-batch-5",
    ]
