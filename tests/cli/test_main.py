"""The command ``watersmeet`` itself: its options, and what it says of a package that is missing."""

from __future__ import annotations

import pytest

from watersmeet.cli.extras import MissingExtraError, load
from watersmeet.cli.main import main


def test_missing_package_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'watersmeet\[spark\]'"):
        load("no_such_package", needed_for="this test", extra="spark")


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as stopped:
            main([option])
        assert stopped.value.code == 0
        assert "watersmeet" in capsys.readouterr().out
