"""What a program has started in the background ends with it, also where the program is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

__all__ = ["check_that_all_end_with_their_starter"]

PATIENCE_SECONDS = 10


def check_that_all_end_with_their_starter(program: str, folder: Path, *, says: str, marked: str) -> None:
    """Run a program on a folder until it says a line, kill it, and wait until all has ended that it has started.

    That is what names the folder, and ``marked``, in its command; keepers do too.
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", program, folder],
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == f"{says}\n"
        assert _running(folder, marked)
        starter.kill()
    end = time.monotonic() + PATIENCE_SECONDS
    while _running(folder, marked) and time.monotonic() < end:
        time.sleep(0.05)
    assert _running(folder, marked) == []


def _running(folder: Path, marked: str) -> list[str]:
    commands = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(folder) in command and marked in command]
