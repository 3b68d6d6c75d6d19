"""Reads job files: TOML into the model, and everything that is wrong into problems with lines.

A text may have ``${NAME}`` in it, which stands for a variable of the environment, so that no password has to be in a
file. Relative folders are those beside the file.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from watersmeet.jobs.checks import problems_of
from watersmeet.jobs.folders import address, mixed_folders
from watersmeet.jobs.model import ONE_LINE, Job, Part, part_at
from watersmeet.jobs.problems import JobError, Problem, shown
from watersmeet.jobs.toml_lines import DEEPEST, LONGEST_WORD, Path, lines_of, too_much
from watersmeet.spec.errors import WatersmeetError
from watersmeet.spec.options import check_options

__all__ = ["JobFile", "job_of", "read_job"]

LARGEST: Final = 1 << 18
"""Characters of a job file."""
VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
PLACE: Final = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
TYPES: Final = {
    "string_type": "text in quotation marks",
    "int_type": "a whole number, without quotation marks",
    "int_from_float": "a whole number",
    "bool_type": "true or false, without quotation marks",
    "list_type": 'an array, such as ["ts", "symbol"]',
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
"""What has to be there, by Pydantic's name of the error."""


@dataclass(frozen=True)
class JobFile:
    """A job, and where it was read."""

    job: Job
    file: File
    lines: dict[Path, int]

    def error(self, path: Path, given: str, allowed: str, next_step: str) -> JobError:
        """Return an error about one of the file's keys."""
        return JobError.at(self.file.name, self.lines, [Problem(path, given, allowed, next_step)])

    def refused(self, path: Path, error: WatersmeetError) -> JobError:
        """Return the error for a key of which watersmeet has refused something."""
        return JobError.at(self.file.name, self.lines, [Problem.of(path, error)])

    def folder(self, path: str) -> str:
        """Return an address as Spark is to use it: a relative folder is one beside the file."""
        return address(path, self.file.parent.resolve())


def read_job(file: File) -> JobFile:
    """Return the job that a file describes; raise :class:`JobError` if there is none, or it is wrong."""
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        problem = Problem(
            (), f"cannot be read: {reason}", "a TOML file", f"`watersmeet init {file.name}` writes one to start with"
        )
        raise JobError(str(file), [(None, problem)]) from error
    return job_of(text, file)


def job_of(text: str, file: File) -> JobFile:
    """Return the job that a text describes, which was read from ``file``."""
    if len(text) > LARGEST:
        allowed = f"at most {LARGEST:,} characters"
        raise JobError(file.name, [(None, Problem((), "the file is too large for a job", allowed, "name a job file"))])
    too_big = too_much(text)
    if too_big is not None:
        line, what = too_big
        allowed = f"at most {DEEPEST} parts of a key or brackets in each other, words of {LONGEST_WORD} characters"
        raise JobError(file.name, [(line, Problem((), what, allowed, f"look at line {line}"))])
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(file, text, str(error)) from error
    lines = lines_of(text)
    unset: list[Problem] = []
    filled = _filled(given, (), unset)
    if unset:
        raise JobError.at(file.name, lines, unset)
    try:
        job = Job.of(filled)
    except ValidationError as error:
        found = [_problem(told, filled) for told in error.errors()]
        problems = {(problem.path, problem.given): problem for problem in found}
        raise JobError.at(file.name, lines, list(problems.values())) from None
    problems_found = [*problems_of(job), *mixed_folders(job, file.parent.resolve())]
    if problems_found:
        raise JobError.at(file.name, lines, problems_found)
    return JobFile(job, file, lines)


def _no_toml(file: File, text: str, reason: str) -> JobError:
    """Return the error for a text that is not TOML."""
    found = PLACE.search(reason)
    line = int(found[1]) if found and found[1] else max(1, len(text.splitlines()))
    what = reason[: found.start()] if found else reason
    problem = Problem(
        (),
        f"this is not TOML: {what[:1].lower()}{what[1:]}",
        'lines such as key = "text", key = 5, key = true and [table]',
        f"look at line {line}" + (f", from column {found[2]} on" if found and found[2] else ""),
    )
    return JobError(file.name, [(line, problem)])


def _filled(given: Any, path: Path, unset: list[Problem]) -> Any:  # noqa: ANN401 -- whatever TOML has
    """Return values with the environment's in place of ``${NAME}``; add those that are not set to ``unset``."""
    if isinstance(given, Mapping):
        return {key: _filled(value, (*path, key), unset) for key, value in given.items()}
    if isinstance(given, list):
        return [_filled(value, (*path, number), unset) for number, value in enumerate(given)]
    if not isinstance(given, str):
        return given
    unset += [
        Problem(
            path,
            f"${{{name}}} is no variable of the environment",
            "variables that are set when the job starts",
            f"export {name or 'NAME'}=…, or write the value itself",
        )
        for name in VARIABLE.findall(given)
        if name not in os.environ
    ]
    return VARIABLE.sub(lambda found: os.environ.get(found[1], ""), given)


# --- what Pydantic says, in our words -------------------------------------------------------------------------------


def _problem(error: ErrorDetails, given: Mapping[str, Any]) -> Problem:
    """Return what one of Pydantic's errors tells of the file."""
    told = error.get("ctx", {})
    if error["type"] in ("missing", "extra_forbidden"):
        path, table = _path_in(error["loc"][:-1], given)
        part = part_at(path, table)
        assert part is not None, "no model, no keys of one"
        explain_key = _unknown_key if error["type"] == "extra_forbidden" else _missing_key
        return explain_key(path, str(error["loc"][-1]), part)
    path, _ = _path_in(error["loc"], given)
    explain = EXPLAINED.get(error["type"])
    if explain is not None:
        return explain(path, error["input"], told)
    value = _written(error["input"])
    if error["type"] in TYPES:
        allowed = TYPES[error["type"]]
        if str(error["loc"][-1]).startswith(("str", "dict", "constrained-str", "function")) or _may_differ(path):
            allowed = f"{'a whole number' if path[-1] == 'count' else 'text'}, or a table of such by stream"
        return Problem(path, f"{value} is no value for it", allowed, f"write for example {_example(path)}")
    message = error["msg"][:1].lower() + error["msg"][1:]
    return Problem(path, f"{value} is no value for it", message, f"change {shown(path)}")


def _may_differ(path: Path) -> bool:
    """Tell whether a key takes one value for all streams, or a table of them."""
    return "window" in path and path[-1] in ("time", "ts", "count", "order_by")


def _path_in(location: tuple[int | str, ...], given: Any) -> tuple[Path, Any]:  # noqa: ANN401 -- whatever TOML has
    """Return a location without what Pydantic adds for the members of a union, and what the file has there."""
    path: Path = ()
    for part in location:
        is_key = isinstance(given, Mapping) and part in given
        if is_key or (isinstance(given, list) and isinstance(part, int) and part < len(given)):
            given, path = given[part], (*path, part)
    return path, given


def _unknown_key(path: Path, key: str, part: type[Part]) -> Problem:
    keys = [field.alias or name for name, field in part.model_fields.items()]
    near = get_close_matches(key, keys, 1)
    step = f"write {near[0]}" if near else f"take {key} out"
    return Problem((*path, key), f"{_place(path)} has no key {key}", ", ".join(keys), step)


def _missing_key(path: Path, key: str, part: type[Part]) -> Problem:
    field = next(field for name, field in part.model_fields.items() if key == (field.alias or name))
    about = (field.description or key).rstrip(".")
    example = field.examples[0] if field.examples else key
    if key in ("streams", "joins"):
        step = f"add a table [{key}.{next(iter(example))}]; `watersmeet init` shows a whole job"
    else:
        step = f"add {key} = {_written(example)}"
    return Problem(path, f"{_place(path)} has no {key}", f"{key} is needed: {about[:1].lower()}{about[1:]}", step)


def _no_format(path: Path, given: object, told: Mapping[str, Any]) -> Problem:
    known = str(told.get("expected_tags", "")).replace("'", '"')
    if not isinstance(given, Mapping) or "format" not in given:
        formats = '"kafka", "parquet", "delta", "console"' if path[:1] == ("sink",) else FORMATS
        return Problem(path, f"{_place(path)} has no format", formats, 'add for example format = "parquet"')
    return _one_of((*path, "format"), given["format"], {"expected": known})


def _one_of(path: Path, given: object, told: Mapping[str, Any]) -> Problem:
    known = re.findall(r"['\"]([^'\"]*)['\"]", str(told["expected"]))
    key = next(part for part in reversed(path) if isinstance(part, str))  # above the number of an array's element
    allowed = ", ".join(f'"{name}"' for name in known)
    near = get_close_matches(str(given), known, 1)
    one = f'"{near[0] if near else known[0]}"'
    step = f"write {key} = {one if key == path[-1] else f'[{one}]'}"
    if key != "how":
        return Problem(path, f"{_written(given)} is no {key}", allowed, step)
    try:
        check_options(how=given)
    except WatersmeetError as error:  # which knows Spark's names of kinds
        step = error.next_step if not near else step
    return Problem(path, f"{_written(given)} is no kind of join", allowed, step)


def _too_small(path: Path, given: object, told: Mapping[str, Any]) -> Problem:
    least = told["ge"]
    return Problem(
        path, f"{given} is too small", f"whole numbers from {least} on", f"write {path[-1]} = {least} or more"
    )


def _empty(path: Path, given: object, _told: Mapping[str, Any]) -> Problem:
    return Problem(
        path, f"{_written(given)} is empty", "text with at least one letter", f"write for example {_example(path)}"
    )


def _no_name(path: Path, given: object, told: Mapping[str, Any]) -> Problem:
    if told["pattern"] == ONE_LINE:
        step = f"take them out, or write for example {_example(path)}"
        return Problem(path, f"{_written(given)} has control characters", "text without control characters", step)
    return Problem(
        path,
        f"{_written(given)} is no name",
        "letters, digits and underscores, not a digit first",
        f'write for example "{re.sub(r"[^A-Za-z0-9_]+", "_", str(given)).lstrip("0123456789") or "trades"}"',
    )


def _setting(path: Path, _given: object, told: Mapping[str, Any]) -> Problem:
    name = str(told["name"])
    if "given" in told and not isinstance(told["given"], str | int | float):
        given = f"{name} is {_written(told['given'])}"
        return Problem((*path, *told["path"]), given, "text, numbers, true and false", "write its value as text")
    allowed = 'names that begin with "spark."; master and memory stand directly below [spark]'
    return Problem(
        (*path, *told["path"]), f"{name} is no setting of Spark", allowed, f'write "spark.{name}" if that is meant'
    )


FORMATS: Final = '"kafka", "parquet", "json", "csv", "delta", "rate"'
EXPLAINED: Final[Mapping[str, Callable[[Path, Any, Mapping[str, Any]], Problem]]] = {
    "union_tag_invalid": _no_format,
    "union_tag_not_found": _no_format,
    "literal_error": _one_of,
    "greater_than_equal": _too_small,
    "string_too_short": _empty,
    "string_pattern_mismatch": _no_name,
    "setting_value": _setting,
    "setting_name": _setting,
}

EXAMPLES: Final = {
    "count": "count = 1_000_000",
    "cores": "cores = 4",
    "files_per_trigger": "files_per_trigger = 1",
    "rows_per_second": "rows_per_second = 100",
    "rows": "rows = 8",
    "stash_rows": "stash_rows = 1_000_000",
    "available_now": "available_now = true",
    "time": 'time = "10 minutes"',
    "ts": 'ts = "ts"',
    "select": 'select = ["ts", "symbol", "price * 100 AS cents"]',
    "partition_by": 'partition_by = ["day"]',
    "keep": 'keep = ["partition", "offset"]',
    "lateness": 'lateness = "5 seconds"',
    "idle": 'idle = "1 minute"',
    "every": 'every = "5 seconds"',
    "streams": '[streams.trades] with format = "parquet" and the rest below it',
    "joins": '[joins.pairs] with left = "trades" and the rest below it',
    "window": 'window = { time = "1 second", ts = "ts" }',
    "sink": 'sink = { format = "console" }',
    "trigger": 'trigger = { every = "5 seconds" }',
}


def _example(path: Path) -> str:
    """Return how the value of a key may look."""
    names = [part for part in path if isinstance(part, str)]
    if len(names) == 2 and names[0] in ("streams", "tables", "joins"):  # noqa: PLR2004 -- a table by its name
        return f"[{shown(path)}] with its keys below it"
    key = names[-1] if names else "name"
    return EXAMPLES.get(key, f'{key} = "…"')


def _place(path: Path) -> str:
    return f"[{shown(path)}]" if path else "the file"


def _written(value: object) -> str:
    """Return a value about as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_written(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(_written(one) for one in value)}]"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
