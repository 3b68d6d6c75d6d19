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


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert "join generated trades and quotes" in shown.out
    assert shown.err == ""


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["joni"])
    assert stopped.value.code == 2
    assert "demo" in capsys.readouterr().err
