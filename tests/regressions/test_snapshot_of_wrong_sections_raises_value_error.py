"""Bytes with a sound digest but without the three sections raised ``ValueError`` or ``struct.error``."""

from __future__ import annotations

import pytest

import watersmeet as wm
from watersmeet.engine import sections, snapshot


@pytest.mark.parametrize("body", [b"", b"\1", sections.LENGTH.pack(2) + b"{}", 4 * sections.LENGTH.pack(0)])
def test_wrong_sections(body: bytes) -> None:
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(sections.HEADER.pack(snapshot.MAGIC, snapshot.VERSION, sections._digest(body)) + body)
