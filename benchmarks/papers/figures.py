"""The figures and tables of the papers that show measurements, and which panels of our experiments show the same.

To add a figure, name the experiment, and in its result a panel of a figure, or columns of a table. What its paper says
of it is in ``facts.py``. One without panels cannot be repeated here; ``docs/papers.md`` says why, and where in the code
is what drawings and pseudo code show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks.report import Panel, Series

__all__ = ["FIGURES", "PAPERS", "Columns", "Ours", "Paper", "Shown", "figures_of"]


@dataclass(frozen=True)
class Paper:
    """One of the five: what its figures are called here, and what it measured on."""

    name: str
    machine: str


@dataclass(frozen=True)
class Ours:
    """A panel of one of our experiments."""

    experiment: str
    """As ``suite/name``."""
    figure: str
    panel: int = 0

    @property
    def called(self) -> str:
        """What it is, in words."""
        return f"panel {self.panel} of figure {self.figure}"

    def panel_of(self, content: dict[str, Any]) -> Panel:
        """Return the panel as a result's JSON has it; KeyError or IndexError where it has none."""
        panel = {figure["name"]: figure for figure in content["figures"]}[self.figure]["panels"][self.panel]
        return Panel(**{**panel, "series": [Series(**series) for series in panel["series"]]})


@dataclass(frozen=True)
class Columns:
    """Columns of a table of one of our experiments, as curves."""

    experiment: str
    table: int
    x: str
    y: tuple[str, ...]
    unit: str
    by: str = ""
    """A column of words: a curve for each."""
    where: tuple[str, str] = ("", "")
    """A column and its word in the rows that count; without, all do."""
    only: str = ""
    """Where the x column has words: a pattern of those that count, with the number in them."""
    x_label: str = ""
    """What the x axis is called, if not as the column."""

    @property
    def called(self) -> str:
        """What it is, in words."""
        return f"columns {', '.join((self.x, *self.y, self.by))} of table {self.table}"

    def panel_of(self, content: dict[str, Any]) -> Panel:
        """Return the columns as a panel; KeyError or IndexError where there are none."""
        table = content["tables"][self.table]
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        column, word = self.where
        rows = [row for row in rows if not column or row[column] == word]
        if self.only:
            found = [re.fullmatch(self.only, row[self.x]) for row in rows]
            rows = [row | {self.x: some[1].replace(",", "")} for row, some in zip(rows, found, strict=True) if some]
        series = []
        for curve in dict.fromkeys(row[self.by] for row in rows) if self.by else [""]:
            some = [row for row in rows if not self.by or row[self.by] == curve]
            for name in self.y:
                label = curve if self.by and len(self.y) == 1 else ", ".join(filter(None, (curve, name)))
                series.append(Series(label, [float(row[self.x]) for row in some], [float(row[name]) for row in some]))
        return Panel(table["title"], self.x_label or self.x, self.unit, series)


@dataclass(frozen=True)
class Shown:
    """A figure or table of a paper."""

    about: str
    ours: tuple[Ours | Columns, ...] = ()


def figures_of(only: Iterable[str]) -> dict[str, Shown]:
    """Return the figures named, by their papers or by themselves; of no names all."""
    names = set(only)
    return {
        name: shown for name, shown in FIGURES.items() if not names or name in names or name.partition("/")[0] in names
    }


def _of_structure(number: int, structure: str) -> dict[str, Shown]:
    """Return PanJoin's figures a to e of one structure."""
    return {
        f"panjoin/{number}{letter}": Shown(f"{what} {structure} {over}", (Ours(f"kernels/{name}", figure, panel),))
        for letter, what, over, name, panel in (
            ("a", "rows into", "by batch and partitions", "insertion", 0),
            ("b", "rows into", "by batch and subwindow", "insertion", 1),
            ("c", "equality probes of", "by size of a partition", "probing", 0),
            ("d", "equality probes of", "by matches a row", "probing", 1),
            ("e", "band probes of", "by matches a row", "probing", 2),
        )
        for figure in (f"{name}_{structure}",)
    }


def _fpga(what: str) -> Columns:
    """Return the model's curve, and beside it that of BI-Sort here."""
    return Columns("kernels/fpga", 0, "batch", (f"model: {what}", f"bi_sort here: {what}"), "rows/s")


STAGES: Final = Columns(
    "engine/latency", 1, "cores", ("distribution", "execution", "gathering", "whole push"), "milliseconds, mean"
)
BY_COUNT: Final = Columns(
    "engine/load", 1, "window", ("by count, rows/s", "by time, rows/s"), "rows/s, windows that hold as many rows"
)
TREE: Final = tuple(
    Columns("kernels/btree", 0, "what", ("wib_tree", "B-tree"), f"rows/s, {what}", x_label=label, only=only)
    for what, label, only in (
        ("inserted", "batch (rows)", r"insertion, batches of ([\d,]+)"),
        ("probing by a band", "matches a row", r"probing, band, ([\d,]+) matches a row"),
    )
)
BUFFERS: Final = ("buffer 256", "buffer 1,024", "buffer 4,096", "buffer 16,384", "ours")
OVER_BATCH, OVER_MATCHES = (
    Columns("spark/workers", 0, "value", ("rows/s",), "rows/s", x_label=label, where=("over", word))
    for word, label in (("batch", "rows a side and micro-batch"), ("matches", "matches a row"))
)
SHIPPED: Final = replace(OVER_MATCHES, y=("send and receive, of all",), unit="of all time of tasks")
PAPERS: Final = {
    "handshake": Paper("Handshake join", "4 Xeon X7560, 32 cores; Virtex-6"),
    "circular": Paper("Circular-MJ", "a circuit at 100 MHz, simulated"),
    "splitjoin": Paper("SplitJoin", "4 Xeon E5-4650, 32 cores"),
    "panjoin": Paper("PanJoin", "2 Xeon Gold 6148, 40 cores a node; Arria 10"),
    "cluster": Paper("Shared-nothing cluster", "2 Pentium III, 930 MHz, a node"),
}
"""By the name that ``ONLY=`` takes."""
FIGURES: Final = {
    "handshake/8": Shown("throughput over cores, time windows", (Ours("engine/time_windows", "time_windows"),)),
    "handshake/9": Shown("throughput over cores, merge join", (Ours("engine/merge_join", "merge_join"),)),
    "handshake/10": Shown("clock of the FPGA, segments of 8 rows", (Ours("engine/lock_step", "lock_step", 1),)),
    "handshake/13": Shown("clock and throughput of the FPGA, one window", (Ours("engine/lock_step", "lock_step"),)),
    **{
        f"circular/7{letter}": Shown(
            f"input rate of 3 to 8 streams, match probability {probability}",
            (
                Ours("multiway/pipeline", "multiway_pipeline", panel),
                Ours("multiway/streams", "multiway_streams", panel),
            ),
        )
        for panel, (letter, probability) in enumerate((("a", "nearly 0"), ("b", "low"), ("c", "0.01 %")))
    },
    "splitjoin/12": Shown("throughput over cores, time windows", (Ours("engine/time_windows", "time_windows"),)),
    "splitjoin/13": Shown(
        "visiting latency over cores", (Ours("engine/visiting", "visiting"), Ours("engine/visiting", "visiting", 1))
    ),
    "splitjoin/15": Shown("latency of every stage over cores, time windows", (replace(STAGES, table=2),)),
    "splitjoin/16": Shown("throughput over cores, count windows", (Ours("engine/scaling", "scaling"), BY_COUNT)),
    "splitjoin/17": Shown("throughput by matches", (Ours("engine/selectivity", "selectivity"),)),
    "splitjoin/18": Shown("latency of every stage over cores, count windows", (STAGES,)),
    "splitjoin/19": Shown("throughput by the precision of order", (Ours("engine/ordering", "ordering"),)),
    **_of_structure(10, "rap_table"),
    "panjoin/10f": Shown(
        "error of the splitters by adjustments",
        tuple(Ours("kernels/splitters", "splitters", panel) for panel in range(3)),
    ),
    **_of_structure(11, "wib_tree"),
    "panjoin/11f": Shown("WiB+-Tree and a plain B-tree", TREE),
    **_of_structure(12, "bi_sort"),
    "panjoin/12f": Shown(
        "bi_sort by its insertion buffer", (Columns("kernels/ablations", 1, "batch", BUFFERS, "rows/s"),)
    ),
    "panjoin/13a": Shown("rows in, compared", (Ours("kernels/insertion", "insertion_compared"),)),
    "panjoin/13b": Shown("band probes, compared", (Ours("kernels/probing", "probing_compared"),)),
    "panjoin/14a": Shown("rows in, on an FPGA", (_fpga("insertion"),)),
    "panjoin/14b": Shown("probes, on an FPGA", (_fpga("probing"),)),
    "panjoin/table I": Shown("resources of the FPGA"),
    "panjoin/15a": Shown("throughput of a cluster by batch", (OVER_BATCH,)),
    "panjoin/15b": Shown("throughput of a cluster by matches", (OVER_MATCHES,)),
    "panjoin/15c": Shown("share of sending and receiving, by matches", (SHIPPED,)),
    "panjoin/15d": Shown("throughput of a cluster by workers"),
    "panjoin/15e": Shown("against nested loops, window of 8M rows", (Ours("engine/nested_loops", "nested_loops"),)),
    "panjoin/15f": Shown("the same, window of 128M rows", (Ours("engine/nested_loops", "nested_loops", 1),)),
    "panjoin/15g": Shown("throughput inside an engine", (Ours("spark/speed", "speed"),)),
    "panjoin/15h": Shown("throughput inside an engine, over an empty system's", (Ours("spark/speed", "speed"),)),
    "cluster/5": Shown("production delay over the rate, few slaves", (Ours("cluster/delay", "delay"),)),
    "cluster/6": Shown("production delay over the rate, more slaves", (Ours("cluster/delay", "delay"),)),
    "cluster/7": Shown("processor time, fine tuning or not", (Ours("cluster/delay", "processor_time"),)),
    "cluster/8": Shown("production delay, fine tuning or not", (Ours("cluster/delay", "delay", 1),)),
    "cluster/9": Shown("idle time and communication, no fine tuning", (Ours("cluster/delay", "idle_time"),)),
    "cluster/10": Shown(
        "idle time and communication, fine tuning",
        (Ours("cluster/delay", "idle_time", 1), Ours("cluster/delay", "delay", 1)),
    ),
    "cluster/11": Shown("communication over slaves", (Ours("cluster/communication", "communication"),)),
    "cluster/12": Shown("communication over the rate", (Ours("cluster/communication", "communication", 1),)),
    "cluster/13": Shown("production delay over the distribution epoch", (Ours("cluster/delay", "delay_epoch"),)),
    "cluster/14": Shown(
        "communication over the distribution epoch", (Ours("cluster/communication", "communication", 2),)
    ),
}
"""By ``paper/number``, in the order of the papers."""
