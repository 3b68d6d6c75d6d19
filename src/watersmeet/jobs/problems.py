"""What is wrong with a job file: each problem with its line, its key and the three parts of an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from watersmeet.jobs.toml_lines import Path, line_of
from watersmeet.spec.errors import WatersmeetError

__all__ = ["JobError", "Problem", "shown"]

CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal obeys and does not show; lines and tabs stay."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    path: Path
    """Which key it is about, from the top of the file; empty for the file as a whole."""
    given: str
    allowed: str
    next_step: str

    @classmethod
    def of(cls, path: Path, error: WatersmeetError) -> Problem:
        """Return the problem that an error of watersmeet tells of a key."""
        return cls(path, error.given, error.allowed, error.next_step)


class JobError(WatersmeetError, ValueError):
    """A job file is wrong, or cannot be read. Its parts are those of the first problem; its text has all."""

    def __init__(self, file: str, problems: Sequence[tuple[int | None, Problem]]) -> None:
        _, first = problems[0]
        super().__init__(first.given, first.allowed, first.next_step)
        self.file = file
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[JobError], tuple[object, ...]]:
        """Return what the error is pickled with."""
        return type(self), (self.file, self.problems)

    @classmethod
    def at(cls, file: str, lines: dict[Path, int], problems: Sequence[Problem]) -> JobError:
        """Return the error for problems of a file, in the order of its lines."""
        ordered = sorted(problems, key=lambda problem: line_of(lines, problem.path))
        return cls(file, [(line_of(lines, problem.path), problem) for problem in ordered])

    def __str__(self) -> str:
        """Return the problems one below the other, each with file, line and key before its three parts."""
        return "\n".join(self._told(line, problem) for line, problem in self.problems)

    def _told(self, line: int | None, problem: Problem) -> str:
        place = self.file if line is None else f"{self.file}, line {line}"
        key = f", {shown(problem.path)}" if problem.path else ""
        told = f"{place}{key}: {problem.given}\n  allowed: {problem.allowed}\n  next step: {problem.next_step}"
        return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), told)


def shown(path: Path) -> str:
    """Return a path as it is written in a file; elements of an array have a number, the first one being 1."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            name = part if part.replace("_", "").replace("-", "").isalnum() and part.isascii() else f'"{part}"'
            text += f".{name}" if text else name
    return text
