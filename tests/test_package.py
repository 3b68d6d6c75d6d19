"""What `make dist` builds: always the same bytes; in the source archive what git keeps, in the wheel the package."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from watersmeet import __version__

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[1]
TARGETS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
WHEEL = f"watersmeet-{__version__}-py3-none-any.whl"
ARCHIVE = f"watersmeet-{__version__}.tar.gz"
LOCAL = (
    "notes.txt",
    ".idea/workspace.xml",
    ".venv/pyvenv.cfg",
    "build/x",
    "src/watersmeet/__pycache__/x.cpython-311.pyc",
)
"""Files of one machine, which no package may have."""


@dataclass(frozen=True)
class Built:
    """What lies in ``dist/`` after a build."""

    dist: Path

    def digests(self) -> dict[str, str]:
        """Return what was built, by name."""
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in self.dist.iterdir()}

    def in_archive(self) -> set[str]:
        """Return the files in the source archive."""
        with tarfile.open(self.dist / ARCHIVE) as archive:
            assert all(member.isfile() and not member.uname for member in archive)
            return {member.name.partition("/")[2] for member in archive}

    def in_wheel(self) -> set[str]:
        """Return the files in the wheel."""
        with zipfile.ZipFile(self.dist / WHEEL) as wheel:
            return set(wheel.namelist())


def copy(folder: Path, permissions: int) -> Path:
    """Copy this tree into ``folder``, with no more permissions than these."""
    for entry in TARGETS["sdist"]["only-include"]:
        if (ROOT / entry).is_dir():
            shutil.copytree(ROOT / entry, folder / entry, copy_function=shutil.copy)
        else:
            shutil.copy(ROOT / entry, folder / entry)
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode & permissions)
    return folder


def build(folder: Path, zone: str) -> Built:
    """Build as `make dist` does."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--quiet"]
    subprocess.run(command, cwd=folder, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "TZ": zone}, check=True)
    return Built(folder / "dist")


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, Built]:
    """Build twice: in the second folder local files lie about, and nobody else may read what is there."""
    littered = copy(tmp_path_factory.mktemp("another folder"), 0o700)
    for name in LOCAL:
        (littered / name).parent.mkdir(parents=True, exist_ok=True)
        (littered / name).touch()
    return build(copy(tmp_path_factory.mktemp("a"), 0o755), "UTC"), build(littered, "Asia/Kolkata")


def test_two_builds_are_equal_byte_by_byte(builds: tuple[Built, Built]) -> None:
    first, second = (built.digests() for built in builds)
    assert set(first) == {WHEEL, ARCHIVE}
    assert first == second


def test_source_archive_has_what_git_keeps_and_nothing_local(builds: tuple[Built, Built]) -> None:
    names = builds[1].in_archive() - {"PKG-INFO"}
    assert not names & set(LOCAL)
    if (ROOT / ".git").exists():  # an unpacked source archive has none
        git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        assert names == {name for name in listed if name and (ROOT / name).exists()}


def test_wheel_has_the_package_alone(builds: tuple[Built, Built]) -> None:
    names = builds[0].in_wheel()
    assert {name.partition("/")[0] for name in names} == {"watersmeet", f"watersmeet-{__version__}.dist-info"}
    ours = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src" / "watersmeet").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in names if name.startswith("watersmeet/")} == ours
    assert "watersmeet/py.typed" in names
    assert {Path(name).suffix for name in names if "/live/page/" in name} == {".html", ".css", ".js"}
