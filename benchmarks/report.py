"""What an experiment gives back, and how it is shown: tables as text, everything as JSON.

Figures are kept as numbers until they are printed, so the JSON file has all digits and the table only the useful ones.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

__all__ = [
    "Cell",
    "Description",
    "Figure",
    "Goal",
    "Panel",
    "Progress",
    "Result",
    "Series",
    "Table",
    "format_goal",
    "say",
    "short_number",
    "show_table",
    "write_json",
]

Cell = str | int | float | None
MILLION, THOUSAND, TEN_THOUSAND, HUNDRED = 1e6, 1e3, 1e4, 100
KI = 1024
QUIET_SECONDS = 5.0
SCREEN: Final = Console(highlight=False, soft_wrap=True)
if not SCREEN.is_terminal:
    SCREEN.width = 1000  # a table in a file is not cut off
ERRORS: Final = Console(highlight=False, soft_wrap=True, stderr=True)


@dataclass(frozen=True)
class Description:
    """What a reader must know before the figures."""

    purpose: str
    seed: int
    shape: str
    expected: str


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words under a title."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    label: str
    x: list[float]
    y: list[float]
    theirs: bool = False
    """What a paper says, beside ours: black, and without a place among the colours."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    x_log: bool = True
    y_log: bool = True
    bars: bool = False
    """One horizontal bar per series, as long as its only y; ``y_label`` then names the horizontal axis."""
    marks: list[float] = field(default_factory=list)
    """For each series, in its colour, a vertical line."""


@dataclass(frozen=True)
class Figure:
    """One picture file."""

    name: str
    title: str
    panels: list[Panel]


@dataclass(frozen=True)
class Goal:
    """A ratio that is wanted; ``at_least`` says in which direction."""

    what: str
    measured: float
    limit: float
    at_least: bool

    @property
    def reached(self) -> bool:
        """Whether the measured ratio is on the right side of the limit."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


@dataclass
class Result:
    """All that an experiment found. ``runs`` holds the figures of every single run."""

    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runs: list[dict[str, object]] = field(default_factory=list)


class Progress:
    """Says on stderr what is being measured: on one line of a terminal, else a line every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._status = ERRORS.status(name) if ERRORS.is_terminal else None
        self._last = time.monotonic()

    def step(self, text: str) -> None:
        """Say what comes next."""
        if self._status is not None:
            self._status.update(escape(f"{self._name}: {text}"))
            self._status.start()
        elif time.monotonic() - self._last >= QUIET_SECONDS:
            self._last = time.monotonic()
            ERRORS.print(f"  ... {self._name}: {text}", markup=False)

    def done(self) -> None:
        """Clear the line."""
        if self._status is not None:
            self._status.stop()


def say(text: str) -> None:
    """Print a line as it is."""
    SCREEN.print(text, markup=False)


def short_number(number: float) -> str:
    """Return a power of two as 64K or 8M, anything else as it is.

    Examples
    --------
    >>> [short_number(n) for n in (512, 65536, 8 << 20, 1000)]
    ['512', '64K', '8M', '1000']
    """
    if number >= KI * KI and number % (KI * KI) == 0:
        return f"{number / KI / KI:.0f}M"
    if number >= KI and number % KI == 0:
        return f"{number / KI:.0f}K"
    return f"{number:.0f}" if float(number).is_integer() else f"{number:.3g}"


def show_table(table: Table) -> None:
    """Print a table; columns of numbers to the right."""
    shown = RichTable(title=table.title, title_justify="left", caption=table.note or None, caption_justify="left")
    for at, column in enumerate(table.columns):
        is_numeric = any(isinstance(row[at], int | float) for row in table.rows)
        shown.add_column(Text(column), justify="right" if is_numeric else "left", no_wrap=not SCREEN.is_terminal)
    for row in table.rows:
        shown.add_row(*(Text(_cell(cell)) for cell in row))
    SCREEN.print()
    SCREEN.print(shown)


def format_goal(goal: Goal) -> str:
    """Return a goal and whether it was reached, as a line."""
    wanted = f"{'at least' if goal.at_least else 'at most'} {goal.limit:,g}x"
    verdict = "reached" if goal.reached else "NOT reached"
    measured = _cell(goal.measured)
    if measured == _cell(goal.limit) and not goal.reached:
        measured = f"{goal.measured:,.6g}"  # rounded it would look reached
    return f"goal: {goal.what}: {measured}x, wanted {wanted}: {verdict}"


def write_json(path: Path, name: str, description: Description, result: Result, facts: dict[str, object]) -> None:
    """Write everything an experiment found, with the facts of its run."""
    content = {
        "experiment": name,
        **asdict(description),
        **facts,
        "tables": [asdict(table) for table in result.tables],
        "goals": [{**asdict(goal), "reached": goal.reached} for goal in result.goals],
        "notes": result.notes,
        "runs": result.runs,
        "plots": [f"{figure.name}.png" for figure in result.figures],
        "figures": [asdict(figure) for figure in result.figures],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _cell(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    size = abs(cell)
    if size >= MILLION:
        return f"{cell / MILLION:,.2f} M"
    if size >= TEN_THOUSAND:
        return f"{cell / THOUSAND:,.1f} k"
    if size >= HUNDRED:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"
