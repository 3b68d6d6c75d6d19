"""Figures as PNG files, drawn without a display."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis

from benchmarks.report import Figure, Panel, Series, short_number

__all__ = ["draw"]

# Okabe and Ito's colours, which stay apart for colour-blind readers; a structure has the same one in every figure.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "*", "X")
FIXED: Final = {"rap_table": 0, "wib_tree": 1, "bi_sort": 2, "bi_sort, pairs": 5, "hash": 3, "scan": 6}
PANEL_INCHES: Final = (4.6, 3.7)
WIDE_INCHES: Final = (6.4, 3.9)
DASHES: Final = ("--", ":", "-.")
POINTS: Final = ("*", "P", "X")
FLAT: Final = 2
LITTLE_SPAN: Final = 50
FOUR: Final = 4
PLAIN: Final = 1000
MANY_TICKS: Final = 8


def draw(figure: Figure, folder: Path) -> Path:
    """Write a figure and return its path."""
    mpl.use("Agg")
    columns = 2 if len(figure.panels) == FOUR else min(3, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    width, height = WIDE_INCHES if columns == 1 else PANEL_INCHES
    canvas, axes = plt.subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows + 0.4),
        squeeze=False,
        sharey=len({panel.y_label for panel in figure.panels}) == 1,
        layout="constrained",
    )
    canvas.suptitle(figure.title, fontsize=11)
    for at in range(rows * columns):
        axis = axes[at // columns][at % columns]
        if at >= len(figure.panels):
            axis.set_visible(False)
        elif figure.panels[at].bars:
            _draw_bars(axis, figure.panels[at])
        else:
            _draw_lines(axis, figure.panels[at], legend_columns=1 if columns > 1 else 2)
    path = folder / f"{figure.name}.png"
    canvas.savefig(path, dpi=110)
    plt.close(canvas)
    return path


def _draw_lines(axis: Axes, panel: Panel, legend_columns: int) -> None:
    ours = [series for series in panel.series if not series.theirs]
    for number, (series, style) in enumerate(zip(ours, _styles(ours), strict=True)):
        look: dict[str, Any] = {"color": COLOURS[style], "marker": MARKERS[style], "markersize": 5, "linewidth": 1.6}
        axis.plot(series.x, series.y, label=series.label, **look)
        if panel.marks:
            axis.axvline(panel.marks[number], color=COLOURS[style], linestyle="--", linewidth=1)
    for number, series in enumerate(series for series in panel.series if series.theirs):
        look = {"color": "black", "linestyle": DASHES[number % len(DASHES)], "linewidth": 1.2}
        if len(series.x) == 1:
            look = {"color": "black", "linestyle": "none", "marker": POINTS[number % len(POINTS)], "markersize": 10}
        axis.plot(series.x, series.y, label=series.label, **look)
    if panel.x_log:
        axis.set_xscale("log", base=2)
        ticks = sorted({x for series in panel.series if len(series.x) == 1 or not series.theirs for x in series.x})
        axis.set_xticks(ticks[:: -(-len(ticks) // MANY_TICKS)] if ticks else [])
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: short_number(x)))
        axis.xaxis.set_minor_locator(ticker.NullLocator())
    else:
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    if panel.y_log:
        heights = [y for series in panel.series for y in series.y]
        axis.set_yscale("log")
        if max(heights) < FLAT * min(heights):
            axis.set_ylim(min(heights) / FLAT, max(heights) * FLAT)  # what is flat looks flat
        _mark_decades(axis.yaxis, [*heights, *axis.get_ylim()])
    else:
        axis.set_ylim(0, 1.2 * max(y for series in panel.series for y in series.y))
    axis.set_title(panel.title, fontsize=9.5)
    axis.set_xlabel(panel.x_label, fontsize=9)
    axis.set_ylabel(panel.y_label, fontsize=9)
    axis.tick_params(labelsize=8, labelleft=True)
    axis.grid(visible=True, which="major", linewidth=0.4, alpha=0.6)
    if len(panel.series) > len(ours):
        axis.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=legend_columns, frameon=False)
    elif len(ours) > 1:
        axis.legend(fontsize=7.5, framealpha=0.85)


def _styles(lines: list[Series]) -> list[int]:
    """Return a number for each line: its own where it has one, else the next that none of these has."""
    taken = {FIXED[line.label] for line in lines if line.label in FIXED}
    others = cycle([number for number in range(len(COLOURS)) if number not in taken])
    return [FIXED[line.label] if line.label in FIXED else next(others) for line in lines]


def _draw_bars(axis: Axes, panel: Panel) -> None:
    lengths = [series.y[0] for series in panel.series]
    colours = [
        "black" if series.theirs else COLOURS[style]
        for series, style in zip(panel.series, _styles(panel.series), strict=True)
    ]
    bars = axis.barh([series.label for series in panel.series], lengths, color=colours, height=0.6)
    axis.bar_label(
        bars, [ticker.EngFormatter(places=1, sep=" ")(length) for length in lengths], padding=4, fontsize=8.5
    )
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlim(min(lengths) / 3, max(lengths) * 4)
    _mark_decades(axis.xaxis, lengths)
    axis.set_title(panel.title, fontsize=9.5)
    axis.set_xlabel(panel.y_label, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.grid(visible=True, axis="x", linewidth=0.4, alpha=0.6)
    axis.set_axisbelow(True)


def _mark_decades(axis: Axis, values: list[float]) -> None:
    """Write 10M instead of 10^7; where the values span little, mark 2 and 5 as well."""
    little = max(values) < LITTLE_SPAN * min(values)
    axis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5) if little else (1,)))
    plain = max(values) < PLAIN
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}") if plain else ticker.EngFormatter(sep=""))
    axis.set_minor_formatter(ticker.NullFormatter())
