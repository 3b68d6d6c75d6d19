"""Visiting latency over cores, against the model of SplitJoin's section 6: logarithmic there, linear in a chain.

The model's parts: a message from thread to thread takes ``T_CL``; in a tree of distributors a row is
``ceil(log_b k)`` messages from its partners (equation 6), in a chain on average about half the ``k`` cores (equation
2); then it is compared with half the rows of a core, ``w / 2 * T_P``.

*Messages* are counted, and so do not depend on the machine: how many a block went through, one after the other, until
the core that found the pair took it. In handshake join they are the cores that the later row had come to.

*Milliseconds* are taken at a light load. They show the model's shape only where every thread has a core of its own: on
fewer, the threads' messages take turns on them, and the time grows with the number of messages of all threads, which is
linear for all.

Both forms, ``a + b log2 k`` and ``a + b k``, are fitted to each curve by least squares, from two cores on: one has
neither tree nor chain. The error of a fit is the root
of the mean square of what is left, as a part of the curve's mean.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.experiment import Context, Experiment
from benchmarks.experiments.engine.steady import Meetings, feed_steadily
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.rig import Rig
from watersmeet.engine import threads
from watersmeet.engine.threads import Inbox
from watersmeet.engine.topologies import TOPOLOGIES
from watersmeet.engine.topologies.contract import Layout, Topology
from watersmeet.spec.options import TopologyName

__all__ = ["EXPERIMENT"]

SEED: Final = 68
WINDOW: Final = 1 << 10
PUSH: Final = 16
PACE: Final = 0.03
VALUES: Final = 1000
FANOUT: Final = 2
CORES: Final = (1, 2, 4, 8, 16, 32)
NAMES: Final[tuple[TopologyName, ...]] = ("splitjoin", "low_latency_handshake", "handshake")
FORMS: Final[dict[str, Callable[[Any], Any]]] = {"logarithmic": np.log2, "linear": np.asarray}
PAPER: Final = "the paper: 8.1 ms against low-latency handshake join's 26.8 ms at 28 cores, 3.3x"


class Handling(threading.local):
    """What this thread handles now."""

    messages = 0
    """How many messages its present one comes from, with it; none in the caller's thread."""


HANDLING: Final = Handling()


class CountingInbox(Inbox[Any]):
    """An inbox whose messages know how many messages led to them."""

    def __init__(self, *given: Any, **more: Any) -> None:  # noqa: ANN401 -- passed on
        super().__init__(*given, **more)
        self._messages: list[deque[int]] = [deque() for _ in self._lanes]

    def _add(self, message: Any, lane: int) -> None:  # noqa: ANN401 -- passed on
        super()._add(message, lane)
        self._messages[lane].append(HANDLING.messages + 1)

    def _taken_from(self, waiting: deque[Any]) -> Any:  # noqa: ANN401 -- passed on
        counted = next(own for own, lane in zip(self._messages, self._lanes, strict=True) if lane is waiting)
        before = len(waiting)
        message = super()._taken_from(waiting)
        HANDLING.messages = max(counted.popleft() for _ in range(before - len(waiting)))
        return message


class Counted(Meetings):
    """Counts messages as well, where pairs are found."""

    def __init__(self, cores: int, *, rows_move: bool) -> None:
        super().__init__(PUSH)
        self._cores = cores
        self._rows_move = rows_move
        self.messages: list[tuple[float, int]] = []

    def observe(self, pairs: pa.Table) -> None:
        """Take note of pairs, and of the messages until now: each so many times."""
        super().observe(pairs)
        if not self._rows_move:
            self.messages.append((HANDLING.messages, pairs.num_rows))
        elif HANDLING.messages:  # not the caller, who finds what has not met at the end
            core = int(threading.current_thread().name.rsplit(maxsplit=1)[-1])
            of_left = np.asarray(pairs.column("id")) > np.asarray(pairs.column("number"))
            come_to = np.where(of_left, core + 1, self._cores - core)
            self.messages.append((float(come_to.mean()), len(come_to)))

    def mean_messages(self) -> float:
        """Return the mean over all pairs."""
        counts, pairs = np.array(self.messages).T
        return float(np.average(counts, weights=pairs))


def run(context: Context) -> Result:
    """Count and time all topologies over cores, and fit both forms."""
    counts = CORES[:4] if context.quick else CORES
    messages: dict[str, list[float]] = {name: [] for name in NAMES}
    milliseconds: dict[str, list[float]] = {name: [] for name in NAMES}
    for name in NAMES:
        for cores in counts:
            context.progress.step(f"{name}, {cores} cores")
            meetings = Counted(cores, rows_move=TOPOLOGIES[name].meets_later)
            with patch.object(threads, "Inbox", CountingInbox):
                rig = Rig(
                    name,
                    context.size(WINDOW, 1 << 8),
                    cores,
                    PUSH,
                    SEED,
                    values=VALUES,
                    observe=meetings.observe,
                    build=_builder(name),
                )
            feed_steadily(rig, PUSH, 2 * context.size(WINDOW, 1 << 8) // PUSH, PACE, meetings)
            messages[name].append(meetings.mean_messages())
            milliseconds[name].append(float(meetings.visiting().mean()))
    what = {"messages, counted": messages, "milliseconds": milliseconds}
    fits = [(name, unit, *_fit_cells(counts, curves[name])) for unit, curves in what.items() for name in NAMES]
    return Result(
        tables=[
            Table(
                f"visiting latency, means: windows of {context.size(WINDOW, 1 << 8):,} rows, fanout {FANOUT}",
                ("topology", "cores", "messages", "milliseconds"),
                [
                    (name, cores, messages[name][at], milliseconds[name][at])
                    for name in NAMES
                    for at, cores in enumerate(counts)
                ],
            ),
            Table(
                "fits over cores k",
                ("topology", "unit", "a + b log2 k", "its error", "a + b k", "its error", "fits better"),
                fits,
                "error: root mean square of what is left, against the mean",
            ),
        ],
        figures=[
            Figure(
                "visiting",
                "Visiting latency over cores (SplitJoin, section 6 and figure 13)",
                [
                    Panel(unit, "cores", unit, [Series(name, [*map(float, counts)], curves[name]) for name in NAMES])
                    for unit, curves in what.items()
                ],
            )
        ],
        goals=_goals(counts, messages),
        notes=[
            PAPER,
            f"here, {counts[-1]} threads: {_chain_against_tree(messages):.2g}x as many messages",
            f"here, {counts[-1]} threads: {_chain_against_tree(milliseconds):.2g}x as many milliseconds",
            "messages do not depend on the machine; milliseconds are bound by its cores, which the threads share",
        ],
        runs=[
            {"what": name, "cores": counts, "messages": messages[name], "milliseconds": milliseconds[name]}
            for name in NAMES
        ],
    )


def _chain_against_tree(curves: dict[str, list[float]]) -> float:
    """Return how many times larger low-latency handshake join's figure is than SplitJoin's, on the most cores."""
    return curves["low_latency_handshake"][-1] / curves["splitjoin"][-1]


def _builder(name: TopologyName) -> Callable[[Layout], Topology]:
    def build(layout: Layout) -> Topology:
        return TOPOLOGIES[name](replace(layout, fanout=FANOUT))

    return build


def _fit(form: str, counts: Sequence[int], figures: Sequence[float]) -> tuple[float, float, float]:
    """Return ``a``, ``b`` and the error of a fit, from two cores on."""
    cores, curve = np.array(counts[1:], float), np.array(figures[1:])
    slope, start = np.polyfit(FORMS[form](cores), curve, 1)
    left = curve - start - slope * FORMS[form](cores)
    return float(start), float(slope), float(np.sqrt(np.mean(left**2)) / np.mean(curve))


def _fit_cells(counts: Sequence[int], curve: Sequence[float]) -> tuple[Cell, ...]:
    fits = {form: _fit(form, counts, curve) for form in FORMS}
    shown = [cell for a, b, error in fits.values() for cell in (f"{a:.3g} + {b:.3g} x", f"{error:.1%}")]
    return (*shown, min(fits, key=lambda form: fits[form][2]))


def _goals(counts: Sequence[int], messages: dict[str, list[float]]) -> list[Goal]:
    goals = []
    for name, right, wrong in (
        ("splitjoin", "logarithmic", "linear"),
        ("low_latency_handshake", "linear", "logarithmic"),
        ("handshake", "linear", "logarithmic"),
    ):
        error = {form: _fit(form, counts, messages[name])[2] for form in FORMS}
        what = f"{name}: error of the {right} fit of messages against the {wrong} one's"
        goals.append(Goal(what, error[right] / error[wrong], 1.0, at_least=False))
    return goals


EXPERIMENT: Final = Experiment(
    "visiting",
    Description(
        purpose="whether visiting latency is logarithmic in cores for SplitJoin and linear for the handshake joins",
        seed=SEED,
        shape="the papers' 2-D band, values to 1,000; two lengths of windows of 1K rows, a block of 16 rows a side"
        " every 30 ms; trees of two",
        expected="messages: log2 k in splitjoin, a part of k in the chains; milliseconds only as far as cores reach",
    ),
    run,
)
