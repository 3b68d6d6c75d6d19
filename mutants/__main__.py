"""``python -m mutants``: applies every change of ``mutants.toml`` in turn and tells which ones the tests have noticed.

Nothing is changed in the work tree: each worker has a copy of it in a scratch folder, changes one place there, runs the
tests named for it and puts the place back. Before that the same tests have to pass unchanged. Mutants of kernels run
uncompiled, since Numba's cache does not see a change in a kernel that another one calls. Only compiled kernels have
threads, so those that divide work among threads run compiled; all are compiled anew where others call them.

A mutant that is known to change nothing that matters says why; it is expected to survive. Exit status 1 means that
another one survived, that tests failed without any change, or that a place is no longer there (*stale*).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

from rich.console import Console

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = Path(__file__).with_name("mutants.toml")
COPIED: Final = ["src", "tests", "soak", "pyproject.toml", "README.md"]
PACKAGE: Final = "src/watersmeet/"
COMPILED: Final = ("kernels/sorting.py", "kernels/team.py", "kernels/together.py")
"""Kernels that run compiled."""
CALLED: Final = "kernels/team.py"
"""The one of them whose functions are compiled into kernels of other files."""
PATIENCE: Final = 600
"""Seconds after which tests that hang have noticed."""

Outcome = Literal["killed", "survived", "harmless", "stale", "untested"]
STYLES: Final[dict[Outcome, str]] = {"killed": "green", "survived": "red", "stale": "red", "untested": "red"}


@dataclass(frozen=True)
class Mutant:
    """One place, and what stands there instead."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    harmless: str = ""
    """Why nobody can notice it, where that is known."""

    @property
    def is_uncompiled(self) -> bool:
        """Whether its tests run with Numba's compiler off."""
        return self.file.startswith("kernels/") and self.file not in COMPILED

    @property
    def needs_spark(self) -> bool:
        """Whether its tests need PySpark."""
        return any("/spark/" in test or "/cluster/" in test for test in self.tests)

    def __str__(self) -> str:
        lines = [" ".join(text.split()) for text in (self.old, self.new)]
        return f"{self.file}: {lines[0]}  →  {lines[1] or '(nothing)'}"


def read_mutants(text: str) -> list[Mutant]:
    """Return the mutants of a list; a mutant without tests has those of the first folder or file that it lies in."""
    content = tomllib.loads(text)
    usual: dict[str, list[str]] = content["tests"]

    def tests_of(file: str) -> list[str]:
        return next(tests for place, tests in usual.items() if file.startswith(place))

    return [
        Mutant(**{**given, "tests": tuple(given.get("tests") or tests_of(given["file"]))})
        for given in content["mutant"]
    ]


class Copy:
    """A copy of the work tree in which one place at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._compiled = folder / "compiled"
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def try_mutant(self, mutant: Mutant) -> Outcome:
        """Apply a change, run its tests, and put the place back."""
        file = self._folder / PACKAGE / mutant.file
        whole = file.read_text(encoding="utf-8")

        def write(text: str) -> None:
            file.write_text(text, encoding="utf-8")
            if mutant.file == CALLED:
                shutil.rmtree(self._compiled, ignore_errors=True)

        write(whole.replace(mutant.old, mutant.new))
        try:
            noticed = not self.tests_pass(mutant)
        finally:
            write(whole)
        return "killed" if noticed else "harmless" if mutant.harmless else "survived"

    def tests_pass(self, mutant: Mutant) -> bool:
        """Run a mutant's tests as the tree stands."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self._folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_DISABLE_JIT": str(int(mutant.is_uncompiled)),
            "NUMBA_CACHE_DIR": str(self._compiled),
        }
        arguments = [part for test in mutant.tests for part in test.split(" ", 2)]
        try:
            ended = subprocess.run(  # noqa: S603 -- our own tests
                [*command, f"--timeout={PATIENCE}", *arguments],
                cwd=self._folder,
                env=environment,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return ended.returncode == 0


def is_stale(mutant: Mutant) -> bool:
    """Tell whether the place is no longer there, or there more than once."""
    return (ROOT / PACKAGE / mutant.file).read_text(encoding="utf-8").count(mutant.old) != 1


def try_all(mutants: list[Mutant], folder: Path, workers: int) -> Iterator[tuple[Mutant, Outcome, float]]:
    """Yield every mutant and what became of it, in the order of the list."""
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(workers):
        copies.put(Copy(folder / str(number)))

    def passing(mutant: Mutant) -> bool:
        copy = copies.get()
        try:
            return copy.tests_pass(mutant)
        finally:
            copies.put(copy)

    def tried(mutant: Mutant) -> tuple[Outcome, float]:
        copy = copies.get()
        begin = time.monotonic()
        try:
            return copy.try_mutant(mutant), time.monotonic() - begin
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(workers) as pool:
        # The same tests for many mutants are run once without any of them.
        selections = {(mutant.tests, mutant.is_uncompiled): mutant for mutant in mutants if not is_stale(mutant)}
        sound = dict(zip(selections, pool.map(passing, selections.values()), strict=True))
        waiting = []
        for mutant in mutants:
            if is_stale(mutant):
                waiting.append((mutant, None, "stale"))
            elif not sound[mutant.tests, mutant.is_uncompiled]:
                waiting.append((mutant, None, "untested"))
            else:
                waiting.append((mutant, pool.submit(tried, mutant), ""))
        for mutant, future, known in waiting:
            yield (mutant, *future.result()) if future is not None else (mutant, known, 0.0)  # type: ignore[misc]


def main() -> int:
    """Parse the arguments, try the mutants and report."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="copies of the tree in which mutants are tried")
    parser.add_argument("--only", default="", help="mutants of files whose name contains this")
    parser.add_argument("--without-spark", action="store_true", help="leave those out whose tests need PySpark")
    parser.add_argument("--check", action="store_true", help="say which places are no longer there; try nothing")
    parser.add_argument("--result", type=Path, default=Path("mutants-results.json"), help="where the result goes")
    given = parser.parse_args()
    mutants = [mutant for mutant in read_mutants(LIST.read_text(encoding="utf-8")) if given.only in mutant.file]
    if given.without_spark:
        mutants = [mutant for mutant in mutants if not mutant.needs_spark]
    if given.check:
        stale = [mutant for mutant in mutants if is_stale(mutant)]
        print("\n".join([f"stale  {mutant}" for mutant in stale] + [f"{len(mutants)} mutants, {len(stale)} stale"]))
        return bool(stale)
    outcomes = []
    screen = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for mutant, outcome, seconds in try_all(mutants, Path(folder), given.workers):
            outcomes.append((mutant, outcome, seconds))
            screen.print(f"{outcome:9}{seconds:6.0f} s  {mutant}", style=STYLES.get(outcome), markup=False)
    counts = Counter(outcome for _, outcome, _ in outcomes)
    content = [
        {**asdict(mutant), "outcome": outcome, "seconds": round(seconds, 1)} for mutant, outcome, seconds in outcomes
    ]
    given.result.write_text(json.dumps({"counts": counts, "mutants": content}, indent=2) + "\n", encoding="utf-8")
    print(f"{len(outcomes)} mutants: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    for mutant, outcome, _ in outcomes:
        if outcome == "harmless":
            print(f"harmless  {mutant}: {mutant.harmless}")
    return bool(set(counts) - {"killed", "harmless"})


if __name__ == "__main__":
    sys.exit(main())
