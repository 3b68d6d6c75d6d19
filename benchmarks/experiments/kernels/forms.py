"""Results as a count and as ranges: what a push costs when a row meets one row, or sixteen thousand.

The whole of ``StreamJoin.push``, end to end: check, sort, probe, verify at the window's edge, insert, expire, and the
table that is returned. Joins of one form and different bands are fed the same rows, turn by turn, for as long as a
window takes to get one new subwindow and to lose one; so the oldest subwindow crosses the window's edge in all stages.
Both forms must find equally many pairs.

Judged by processor time: it is that of one thread, and other programs of the machine disturb it least.
"""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.feed import Feed
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table, short_number
from watersmeet.spec.options import ResultForm

__all__ = ["EXPERIMENT"]

SEED: Final = 61
WINDOW: Final = 8 << 20
BATCH: Final = 1 << 15
FORMS: Final[tuple[ResultForm, ...]] = ("count", "ranges")
MATCHES: Final = (1, 64, 1 << 14)
GOAL: Final = 1.3


def run(context: Context) -> Result:
    """Measure the forms one after the other, the bands of each in turns."""
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 8)
    result = Result()
    series: list[Series] = []
    lines: list[tuple[Cell, ...]] = []
    counted: dict[int, int] = {}
    for form in FORMS:
        feeds = {m: Feed(window, batch, SEED, result=form, matches=m) for m in MATCHES}
        for m, feed in feeds.items():
            context.progress.step(f"{form}, {short_number(m)} matches a row")
            feed.prefill(context.progress.step)
        wall: dict[int, list[float]] = {m: [] for m in MATCHES}
        cpu: dict[int, list[float]] = {m: [] for m in MATCHES}
        found = dict.fromkeys(MATCHES, 0)
        turns = feeds[1].rotation
        for turn in range(turns):
            context.progress.step(f"{form}, push {turn + 1} of {turns}")
            for m, feed in feeds.items():
                pushed = feed.push()
                wall[m].append(1000 * pushed.seconds)
                cpu[m].append(1000 * pushed.cpu_seconds)
                found[m] += pc.sum(pushed.pairs["pairs"]).as_py() or 0
        counted = counted or found
        if counted != found:
            raise DisagreementError(f"{form} stands for {found} pairs by matches a row, {FORMS[0]} for {counted}")
        each = {m: sum(times) / turns for m, times in cpu.items()}
        for m in MATCHES:
            per_row = found[m] / (2 * batch * turns)
            lines.append((form, m, per_row, each[m], median(cpu[m]), median(wall[m]), each[m] / each[1]))
            result.runs.append({"form": form, "matches": m, "pushes": turns, "cpu": cpu[m], "wall": wall[m]})
        series.append(Series(form, [float(m) for m in MATCHES], list(each.values())))
        most = max(each.values()) / each[1]
        result.goals.append(Goal(f"{form}: slowest against one match a row", most, GOAL, at_least=False))
    result.tables.append(
        Table(
            f"a push of {batch:,} rows a side into windows of {window:,}",
            ("result", "matches a row", "counted", "processor ms", "its median", "wall ms", "ratio to 1 match"),
            lines,
            "processor time as the mean of all pushes, so what is done once in a while counts; wall time as median",
        )
    )
    panel = Panel(
        f"window {short_number(window)} rows", "matches per row", "processor ms per push", series, y_log=False
    )
    result.figures.append(Figure("forms", f"Pushes of {short_number(batch)} rows a side", [panel]))
    return result


EXPERIMENT: Final = Experiment(
    "forms",
    Description(
        purpose='what a push costs with result="count" and result="ranges", as the number of matches grows',
        seed=SEED,
        shape="one uniform int64 key, a row a microsecond; windows of 8M rows a side, batches of 32K; kang, bi_sort",
        expected="1 to 16K matches a row; at most 1.3 times the time of one match a row",
    ),
    run,
)
