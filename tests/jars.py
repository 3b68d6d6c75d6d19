"""The jars of a Kafka broker and of Spark's connector, which no Python package has.

``kafka/ivy.xml`` names them. Ivy, which comes with PySpark, fetches them once, with what they need, into the user's
cache folder. Each has to be the one that ``kafka/jars.sha256`` says: a jar that is missing, or another one, is fetched
anew, and refused if it is not what it should be.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Literal

import pyspark

from watersmeet.spark.java import find_java

HERE: Final = Path(__file__).parent / "kafka"
SUMS: Final = HERE / "jars.sha256"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet" / "kafka"
PATIENCE_SECONDS: Final = 600


def jars(part: Literal["broker", "connector"]) -> list[Path]:
    """Return one part's jars; fetch them if they are not there yet."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests may run side by side
        expected = SUMS.read_text(encoding="ascii")
        if _sums(CACHE / "jars") != expected:
            _fetch(CACHE / "jars")
            assert _sums(CACHE / "jars") == expected, f"other jars than {SUMS} says"
    return sorted((CACHE / "jars" / part).iterdir())


def java() -> str:
    """Return the Java that Spark uses."""
    find_java()
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _fetch(folder: Path) -> None:
    """Fill a folder with all jars, each part in a folder of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pattern = f"{scratch}/jars/[conf]/[artifact]-[revision].[ext]"
        command = [java(), f"-Divy.default.ivy.user.dir={scratch}", "-jar", ivy, "-ivy", HERE / "ivy.xml"]
        command += ["-retrieve", pattern, "-types", "jar", "bundle"]  # some libraries call their jar a bundle
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        Path(scratch, "jars").rename(folder)


def _sums(folder: Path) -> str:
    """Return the jars' sums, as ``sha256sum`` writes them."""
    return "".join(
        f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.relative_to(folder)}\n"
        for jar in sorted(folder.glob("*/*.jar"))
    )


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    _fetch(CACHE / "jars")
    SUMS.write_text(_sums(CACHE / "jars"), encoding="ascii")
