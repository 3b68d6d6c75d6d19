"""Work in a process of its own: what it is told and what it answers travel as JSON, one value a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

__all__ = ["Worker"]

HERE: Final = Path(__file__).parents[1]
SEARCH_PATH: Final = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)


class Worker:
    """A module that runs in a fresh process; it imports what this one would, but the package from ``tree`` if given.

    ``python -m MODULE NAME TASK`` prints its answers; it ends when there is nothing more to read. ``python`` is that of
    another environment: it runs the module's file and finds nothing of this one's.
    """

    def __init__(
        self,
        module: str,
        name: str,
        task: Mapping[str, object],
        environment: Mapping[str, str],
        tree: Path | None = None,
        *,
        python: Path | None = None,
    ) -> None:
        self._name = name
        self._package = tree and (tree / "watersmeet").resolve()
        path = SEARCH_PATH if tree is None else os.pathsep.join((str(tree.resolve()), SEARCH_PATH))
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- closed with the worker
        file = Path(*module.split(".")).with_suffix(".py")
        start = [sys.executable, "-m", module] if python is None else [str(python), "-I", str(HERE / file)]
        self._process = subprocess.Popen(  # noqa: S603 -- our own module
            [*start, name, json.dumps(task)],
            env={**os.environ, **environment, "PYTHONPATH": path if python is None else ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None, "opened as a pipe"
        assert self._process.stdout is not None, "opened as a pipe"
        if error is not None:
            self.kill()
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def kill(self) -> None:
        """Kill the process with all that it has started, a JVM for one."""
        with suppress(psutil.NoSuchProcess):  # ended by itself
            process = psutil.Process(self._process.pid)
            for one in (*process.children(recursive=True), process):
                one.kill()

    def wait_until_ready(self) -> None:
        """Wait for the first line of a worker that says by it which package it has imported."""
        package = self.answer()
        assert self._package in (None, Path(str(package))), f"{package} was imported instead of {self._package}"

    def ask(self) -> None:
        """Let the worker take a turn; :meth:`answer` waits for it."""
        assert self._process.stdin is not None, "opened as a pipe"
        print(flush=True, file=self._process.stdin)

    def answer(self) -> object:
        """Wait for the next line."""
        assert self._process.stdout is not None, "opened as a pipe"
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"the task {self._name} failed:\n{self._errors.read()}")
        return json.loads(line)
