"""``python -m benchmarks papers``: runs the experiments behind the papers' figures and draws ours beside theirs.

An experiment that has a finished result in the folder is not run again: remove its JSON file for that. A quick result
serves quick runs alone. Each table says when and on what machine a result was taken.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any, Final

from benchmarks.experiment import Experiment
from benchmarks.machine import machine_facts
from benchmarks.papers.facts import CLAIMS, Claim
from benchmarks.papers.figures import FIGURES, PAPERS, Columns, Ours, Shown, figures_of
from benchmarks.plots import draw
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table, say, show_table, write_json
from benchmarks.suite import SUITES, Options, run_experiment
from watersmeet.spec.errors import SpecificationError

__all__ = ["NAMES", "is_model", "run_papers"]

NAMES: Final = [*PAPERS, *FIGURES]
"""What ``--only`` takes: papers and figures."""
ABOUT: Final = Description(
    purpose="the figures of the five papers, ours beside theirs",
    seed=0,
    shape="the experiments say what they were fed",
    expected="the same shapes; rates of other machines are not judged",
)
HUNDRED: Final = 100
TITLE_LETTERS: Final = 55
"""In a line of a panel's title."""
COLUMNS: Final = ("figure", "what", "the paper", "ours", "ours over theirs", "the same", "drawn by")


@dataclass(frozen=True)
class _Taken:
    """A finished result."""

    experiment: str
    content: dict[str, Any]
    model: bool

    def panel(self, ours: Ours | Columns) -> Panel:
        """Return what draws a figure of a paper."""
        try:
            return ours.panel_of(self.content)
        except LookupError as error:
            raise SpecificationError(
                f"{self.experiment}.json has no {ours.called}",
                f"figures {', '.join(figure['name'] for figure in self.content['figures'])}, and its tables",
                "if the file is older than this tree, remove it and run again",
            ) from error

    @property
    def line(self) -> tuple[Cell, ...]:
        """When and where it was taken."""
        machine = self.content["machine"]
        load = "/".join(f"{load:g}" for load in self.content["load_average_before"])
        kind = ("model" if self.model else "run") + (", quick" if self.content["quick"] else "")
        return self.experiment, kind, self.content["started"], machine["cpu"], machine["cores"], load


def run_papers(options: Options, only: Sequence[str] | None = None) -> int:
    """Draw the figures named by ``only``, papers or single figures, or all, and return the exit code."""
    chosen = figures_of(only or ())
    taken = {name: _take(name, options) for name in _experiments_of(chosen.values())}
    folder = options.out / "papers"
    folder.mkdir(parents=True, exist_ok=True)
    result = Result()
    lines: list[tuple[Cell, ...]] = []
    not_drawn = []
    for name, shown in chosen.items():
        if shown.ours:
            drawn = _figure(name, shown, taken)
            draw(drawn, folder)
            result.figures.append(drawn)
            lines += _lines(name, shown, taken)
        else:
            not_drawn.append(name)
    if not_drawn:
        result.notes.append(f"docs/papers.md says why these are not drawn: {', '.join(not_drawn)}")
    columns = ("experiment", "kind", "taken", "processor", "cores", "load before")
    result.tables = [
        Table("ours beside theirs", COLUMNS, lines, "-: not judged, since it depends on machine or size"),
        Table("what was taken when, and where", columns, [some.line for some in taken.values()]),
    ]
    result.runs = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
    now: dict[str, object] = {"quick": options.quick, "started": datetime.now(UTC).isoformat(timespec="seconds")}
    write_json(folder / "papers.json", "papers", ABOUT, result, {**now, "machine": machine_facts()})
    for table in result.tables:
        show_table(table)
    for note in result.notes:
        say(f"  note: {note}")
    say(f"\npictures are in {folder}/")
    return 0


def is_model(experiment: Experiment) -> bool:
    """Return whether an experiment computes what a machine would do, instead of running anything."""
    module = vars(sys.modules[experiment.run.__module__])
    return any(str(getattr(thing, "__module__", "")).startswith("benchmarks.models.") for thing in module.values())


def _experiments_of(figures: Iterable[Shown]) -> list[str]:
    return list(dict.fromkeys(ours.experiment for shown in figures for ours in shown.ours))


def _take(name: str, options: Options) -> _Taken:
    """Return an experiment's finished result, or run it."""
    suite, _, experiment = name.partition("/")
    path = options.out / suite / f"{experiment}.json"
    about = SUITES[suite].experiments[experiment]
    content = _finished(path, options)
    if content is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        run_experiment(about, replace(options, out=path.parent))
        content = json.loads(path.read_text(encoding="utf-8"))
    else:
        say(f"{name}: taken from {path}, of {content['started']}")
    return _Taken(name, content, is_model(about))


def _finished(path: Path, options: Options) -> dict[str, Any] | None:
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    serves = "figures" in content and not content["cut_off"] and (options.quick or not content["quick"])
    return content if serves else None


def _figure(name: str, shown: Shown, taken: dict[str, _Taken]) -> Figure:
    paper, _, number = name.partition("/")
    panels = []
    for at, ours in enumerate(shown.ours):
        some = taken[ours.experiment]
        panel = some.panel(ours)
        theirs = [line for claim in _claims(name, at) for line in _theirs(claim, panel)]
        kind = "a model" if some.model else f"{some.content['machine']['cores']} cores"
        title = fill(f"{ours.experiment} ({kind}): {panel.title}", TITLE_LETTERS)
        panels.append(replace(panel, title=title, series=[*panel.series, *theirs]))
    says = "the paper, in black" if any(line.theirs for panel in panels for line in panel.series) else "the paper"
    title = f"{PAPERS[paper].name}, {_called(number)}: {shown.about}\n{says}: {PAPERS[paper].machine}"
    return Figure(name.replace("/", "_").replace(" ", "_"), title, panels)


def _claims(name: str, panel: int) -> list[Claim]:
    return [claim for claim in CLAIMS if (claim.figure, claim.panel) == (name, panel)]


def _called(number: str) -> str:
    return number if number.startswith("table") else f"figure {number}"


def _theirs(claim: Claim, panel: Panel) -> list[Series]:
    """Return what the paper's number looks like: from its least to its most, where it gives both."""
    if claim.theirs is None:
        return []
    values = claim.theirs if isinstance(claim.theirs, tuple) else (claim.theirs,)
    lines = [line for value in values if (line := claim.rule.theirs(panel.series, value)) is not None]
    label = f"paper: {claim.what}: {_number(claim.theirs)}"
    if len(lines) > 1 and all(len(line.x) == 1 for line in lines):
        return [Series(label, [line.x[0] for line in lines], [line.y[0] for line in lines], theirs=True)]
    return [replace(line, label=label if line is lines[0] else "_", theirs=True) for line in lines]


def _lines(name: str, shown: Shown, taken: dict[str, _Taken]) -> list[tuple[Cell, ...]]:
    """Return a line per claim."""
    lines: list[tuple[Cell, ...]] = []
    for at, ours in enumerate(shown.ours):
        some = taken[ours.experiment]
        for claim in _claims(name, at):
            measured = claim.rule.measured(some.panel(ours).series)
            verdict = "quick" if some.content["quick"] and claim.within is not None else _verdict(claim, measured)
            told = "never" if math.isinf(measured) else measured
            ratio = _ratio(measured, claim.theirs)
            lines.append((name, claim.what, _paper(claim), told, ratio, verdict, ours.experiment))
    return lines


def _ratio(measured: float, theirs: float | tuple[float, float] | None) -> float | None:
    return measured / theirs if isinstance(theirs, float | int) and theirs and math.isfinite(measured) else None


def _verdict(claim: Claim, measured: float) -> str:
    if claim.within is None:
        return "-"
    low, high = claim.within
    return "yes" if low <= measured <= high else "NO"


def _paper(claim: Claim) -> str:
    if claim.theirs is not None:
        return _number(claim.theirs)
    assert claim.within is not None, "a claim without a number says where ours has to lie"
    low, high = claim.within
    return f"over {low:g}" if math.isinf(high) else f"under {high:g}" if low == 0 else f"{low:g} to {high:g}"


def _number(value: float | tuple[float, float]) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:g} to {value[1]:g}"
    return f"{value:,.0f}" if value >= HUNDRED else f"{value:.3g}"
