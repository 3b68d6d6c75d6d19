"""The manager and the workers across machines: figures 15 a to h of PanJoin, on a small cluster of Spark's own.

What PanJoin's manager does, partitioning rows and sending them with commands, the packers do here; its workers are the
cores. The paper shows the rate over window, batch and selectivity, and how much of the time goes into sending and
receiving. Here both come from one run: the rate from the query's progress, the parts from the metrics that Spark keeps
of every task, in its event log. They are seconds of all tasks together:

- *partition*: tasks that read, route and pack, without what they write for the shuffle;
- *send*: what they write for the shuffle;
- *receive*: the wait for what others have written;
- *join*: probing and storing, as the cores report it;
- *rest*: all other time of the tasks that join: envelopes, state, results.

Two workers of one core on one machine share a loopback, so sending is cheaper than between machines.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.contestant import Arena, MicroBatch, median_rate
from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.standalone_cluster import StandaloneCluster

__all__ = ["EXPERIMENT", "parts_of"]

SEED: Final = 88
WORKERS: Final = 2
BLOCK: Final = 5_000
WINDOW: Final = 160_000
BATCH: Final = 40_000
WINDOWS: Final = (40_000, WINDOW, 320_000)
BATCHES: Final = (10_000, BATCH, 80_000)
MATCHES: Final = (1, 16, 128)
TAKEN: Final = 4
QUICK_PART: Final = 8
PARTS: Final = ("partition", "send", "receive", "join", "rest")
SHIPPED: Final = 0.25
NANOSECONDS: Final = 1e9
SETTLE_SECONDS: Final = 1.0
"""Until Spark has written down the last tasks."""


@dataclass(frozen=True)
class _Setting:
    """Rows a side of the window and of a micro-batch, and how many rows of a window a row meets."""

    window: int = WINDOW
    batch: int = BATCH
    matches: int = 1


SWEEPS: Final = {
    "batch": [_Setting(batch=batch) for batch in BATCHES],
    "window": [_Setting(window=window) for window in WINDOWS],
    "matches": [_Setting(matches=matches) for matches in MATCHES],
}


@dataclass(frozen=True)
class _Measured:
    batches: list[MicroBatch]
    parts: dict[str, float]
    """Seconds per million rows."""


def run(context: Context) -> Result:
    """Measure every setting once, each on a cluster of its own."""
    measured: dict[_Setting, _Measured] = {}
    sweeps = {name: [_Setting()] for name in SWEEPS} if context.quick else SWEEPS
    for setting in dict.fromkeys(setting for settings in sweeps.values() for setting in settings):
        context.progress.step(f"window {setting.window:,}, micro-batch {setting.batch:,}, {setting.matches} matches")
        measured[setting] = _measure(context, setting)
    return _report(measured, sweeps)


def _measure(context: Context, setting: _Setting) -> _Measured:
    window, batch = (context.size(n, n // QUICK_PART) for n in (setting.window, setting.batch))
    with Arena.open(context, seed=SEED, block=context.size(BLOCK, BLOCK // QUICK_PART)) as arena:
        cluster = arena.processes.enter_context(StandaloneCluster(arena.folder / "cluster", memory="2g"))
        for processor in range(WORKERS):
            cluster.add_worker(processor=processor)
        cluster.await_workers()
        log = arena.folder / "events"
        log.mkdir()
        settings = cluster.settings("1g", executors=WORKERS) | {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(log),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        query = arena.enter("ours", window, matches=setting.matches, memory="2g", settings=settings)
        query.fill(window, batch)
        begin = len(_tasks(log))
        taken = query.turn(TAKEN if not context.quick else 1, batch)
        tasks = _tasks(log)[begin:]
    return _Measured(taken, parts_of(tasks, taken))


def parts_of(tasks: list[dict[str, Any]], taken: list[MicroBatch]) -> dict[str, float]:
    """Return what took how many seconds of all tasks, per million rows of the micro-batches."""
    packing = [task for task in tasks if task["Shuffle Write Metrics"]["Shuffle Bytes Written"]]
    joining = [task for task in tasks if not task["Shuffle Write Metrics"]["Shuffle Bytes Written"]]
    send = sum(task["Shuffle Write Metrics"]["Shuffle Write Time"] for task in packing) / NANOSECONDS
    receive = sum(task["Shuffle Read Metrics"]["Fetch Wait Time"] for task in joining) / 1000
    join = sum(core["work_seconds"] for one in taken for core in one["cores"] if core)
    packed, joined = (sum(task["Executor Run Time"] for task in some) / 1000 for some in (packing, joining))
    seconds = (packed - send, send, receive, join, max(0.0, joined - receive - join))
    rows = sum(one["rows"] for one in taken)
    return {part: value * 1e6 / rows for part, value in zip(PARTS, seconds, strict=True)}


def _tasks(log: Path) -> list[dict[str, Any]]:
    """Return the metrics of all tasks that Spark has noted by now, in its order."""
    time.sleep(SETTLE_SECONDS)
    lines = [line for file in log.iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    events = [json.loads(line) for line in lines if '"SparkListenerTaskEnd"' in line]
    return [event["Task Metrics"] for event in events if "Task Metrics" in event]


def _report(measured: dict[_Setting, _Measured], sweeps: dict[str, list[_Setting]]) -> Result:
    rows: list[tuple[Cell, ...]] = [
        (sweep, _value(sweep, setting), median_rate(one.batches), *(one.parts[part] for part in PARTS), _shipped(one))
        for sweep, settings in sweeps.items()
        for setting in settings
        for one in [measured[setting]]
    ]
    panels = [
        Panel(
            sweep,
            {"batch": "rows a side and micro-batch", "window": "rows a side", "matches": "matches of a row"}[sweep],
            "seconds of tasks per million rows",
            [
                Series(
                    part,
                    [float(_value(sweep, setting)) for setting in settings],
                    [max(1e-4, measured[setting].parts[part]) for setting in settings],
                )
                for part in PARTS
            ],
        )
        for sweep, settings in sweeps.items()
    ]
    return Result(
        tables=[
            Table(
                f"{WORKERS} workers of one core; window {WINDOW:,}, micro-batch {BATCH:,} rows a side, 1 match",
                ("over", "value", "rows/s", *(f"{part} (s)" for part in PARTS), "send and receive, of all"),
                rows,
                "rows/s: median of all micro-batches; parts: seconds of all tasks per million rows",
            )
        ],
        figures=[Figure("workers", "Where the time of manager and workers goes (PanJoin's figure 15)", panels)],
        goals=[
            Goal("sending and receiving, of all time of tasks", _shipped(measured[_Setting()]), SHIPPED, at_least=False)
        ],
        runs=[
            {"setting": repr(setting), "parts": one.parts, "batches": one.batches} for setting, one in measured.items()
        ],
    )


def _value(sweep: str, setting: _Setting) -> int:
    return int(getattr(setting, sweep))


def _shipped(one: _Measured) -> float:
    return (one.parts["send"] + one.parts["receive"]) / sum(one.parts.values())


EXPERIMENT: Final = Experiment(
    "workers",
    Description(
        purpose="rate and parts of the time over micro-batch, window and matches, on a standalone cluster",
        seed=SEED,
        shape="2 workers of one core; band; windows of 40,000 to 320,000 rows a side; noop sink",
        expected="sending and receiving a small part; larger micro-batches cost less a row, wider windows hardly more",
    ),
    run,
)
