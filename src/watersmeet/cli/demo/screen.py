"""What the demonstration shows: what is under way, a live line, the first pairs, and whether the proof agrees.

On a terminal a line lives while something is under way; elsewhere, in a file or a pipe, there are plain lines only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["SHOWN", "LiveLine", "judge", "say", "show_pairs", "stage", "status"]

SHOWN: Final = 8
PLAIN_LINES: Final = 6


class _Screen(Console):
    """A console whose reader may leave: the command decides what that means, as for all that is printed."""

    def on_broken_pipe(self) -> None:
        """Pass the error on; Rich would end the process as failed."""
        raise  # noqa: PLE0704 -- called while it is handled


SCREEN: Final = _Screen(highlight=False, soft_wrap=True)
ERRORS: Final = _Screen(highlight=False, soft_wrap=True, stderr=True)


def say(text: str = "") -> None:
    """Print a line as it is."""
    SCREEN.print(text, markup=False)


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Show that something is under way, and in the end how long it took."""
    begin = time.perf_counter()
    if not SCREEN.is_terminal:
        say(f"{what} ...")
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=SCREEN, transient=True, disable=not SCREEN.is_terminal) as progress:
        progress.add_task(what, total=None)
        yield
    seconds = f"{time.perf_counter() - begin:.1f} s"
    say(f"{what}: {seconds}" if SCREEN.is_terminal else f"  took {seconds}")


class LiveLine:
    """One line that is overwritten on a terminal; elsewhere a few plain lines, spread over all batches."""

    def __init__(self, batches: int, waiting: str) -> None:
        self._batches = batches
        columns = (SpinnerColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=SCREEN, disable=not SCREEN.is_terminal)
        self._task = self._progress.add_task(waiting, total=batches)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, number: int, text: str) -> None:
        """Show ``text`` after batch ``number``, which begins at 1."""
        self._progress.update(self._task, completed=number, description=text)
        is_due = number == 1 or number * PLAIN_LINES // self._batches != (number - 1) * PLAIN_LINES // self._batches
        if is_due and not SCREEN.is_terminal:
            say(text)


def status(rows: float, pairs: float, window_rows: int, watermark: datetime | None) -> str:
    """Return the live line; ``rows`` and ``pairs`` are per second."""
    return (
        f"{rows / 1e6:5.2f} M rows/s {pairs / 1e6:5.2f} M pairs/s  window {window_rows:>7,} rows"
        f"{'' if watermark is None else f'  to {watermark:%H:%M:%S.%f}'[:-3]}"
    )


def show_pairs(first: pa.Table, pairs: int) -> None:
    """Print the first pairs as a table."""
    title = f"the first {first.num_rows} of {pairs:,} pairs"
    table = Table("symbol", "trade at", title=title, title_justify="left")
    table.add_column("price", justify="right")
    table.add_column("quote at")
    table.add_column("bid", justify="right")
    for pair in first.to_pylist():
        table.add_row(
            pair["left_symbol"],
            f"{pair['left_ts']:%H:%M:%S.%f}",
            f"{pair['price'] / 10_000:.4f}",
            f"{pair['right_ts']:%H:%M:%S.%f}",
            f"{pair['bid'] / 10_000:.4f}",
        )
    say()
    SCREEN.print(table)


def judge(how: str, expected: int, pairs: int, seconds: float) -> int:
    """Say whether another way to count found as many pairs; return the exit code."""
    if expected == pairs:
        SCREEN.print(f"proof: {how}, counts {expected:,} pairs too ({seconds:.1f} s)", markup=False, style="green")
        return 0
    text = f"THE COUNTS DIFFER: {how}, counts {expected:,} pairs, the join gave {pairs:,}"
    ERRORS.print(text, markup=False, style="red")
    return 1
