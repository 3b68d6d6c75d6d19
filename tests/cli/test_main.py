"""The command ``watersmeet`` itself: its options."""

from __future__ import annotations

import pytest

from watersmeet.cli.main import main


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as stopped:
            main([option])
        assert stopped.value.code == 0
        assert "watersmeet" in capsys.readouterr().out
