"""Random queries on Spark with random kills: each ends with the pairs of Spark SQL's batch join, none lost, none twice.

A query has a drawn schema, predicate, window, routing and structure; its rows come in many small micro-batches. After
some of these, and a little later, something is lost: the driver with its JVM, an executor's JVM, all Python workers,
the daemons that fork them, or the cache of decoded runs, which is deleted or damaged; or workers cannot write to the
disk for a while. Some queries run on a cluster of two workers that seem to be two machines, with speculation: Spark
runs a slow task a second time elsewhere, and a Python worker is stopped for a moment so that its task is slow. A query
that Spark gives up is started again from its checkpoint. All follows from the seed, but for the clock.

Micro-batches take a file of each stream. A driver that is killed between a source's log and its own may have Spark put
two files into one micro-batch, or those of one stream a micro-batch later. In a count window that is another order of
arrival, so there the truth follows from the micro-batches that the checkpoint says were run.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import oracle
import watersmeet as wm
from benchmarks.standalone_cluster import StandaloneCluster
from drivers import Driver, Drivers, kill_workers
from query_program import Job
from soak.drawing import SECOND, Dice, Stream, draw_predicate, draw_streams, table_of
from soak.record import Record
from strategies import STRUCTURES
from streams import write_files

__all__ = ["soak_queries"]

QUERIES: Final = 2
"""Keeps the seeds of queries apart from those of cases."""
SIDES: Final = ("left", "right")
BATCHES: Final = 13
ROWS: Final = 24
SPAN: Final = 2 * SECOND
FEWEST_PAIRS, MOST_PAIRS = 50, 20_000
EVENTS: Final = 9
PATIENCE: Final = 240.0
"""Seconds after which a query hangs, counted from what was last done to it."""
MOST_RESTARTS: Final = 30
LOCAL: Final = "local[2,4]"
CLUSTER: Final = "cluster"
PLACES: Final = [LOCAL] * 9 + [CLUSTER] * 3
"""In turn, so that a driver serves several queries."""
EVENTS_OF: Final = {
    LOCAL: ["workers"] * 10 + ["daemons"] * 2 + ["driver"] * 2 + ["cache deleted", "cache damaged", "disk full"],
    CLUSTER: ["workers"] * 3 + ["executor"] * 4 + ["driver"] + ["stopped"] * 2 + ["cache deleted", "cache damaged"],
}
KILLS: Final = frozenset({"workers", "daemons", "driver", "executor"})
HOSTS: Final = ["127.0.0.2", "127.0.0.3"]
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.minTaskRuntime": "100ms",
}
SETTINGS: Final = {
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.locality.wait": "100ms",
    # JVMs that live for a minute are better off without the optimising compiler.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@dataclass(frozen=True)
class Event:
    """Something that happens ``delay`` seconds after so many micro-batches have been committed."""

    batches: int
    delay: float
    kind: str


def draw_job(dice: Dice, home: Path) -> Job:
    """Draw a query that gives some pairs, and write its input; ``home`` gets it all."""
    while True:
        job, tables = _draw_job(dice, home)
        window = wm.time_window(**job.window) if "left_ts" in job.window else wm.count_window(**job.window)  # type: ignore[arg-type]
        join = wm.StreamJoin(left=tables["left"][0].schema, right=tables["right"][0].schema, on=job.on, window=window)
        pairs = sum(join.push(left=a, right=b).num_rows for a, b in zip(*tables.values(), strict=True))
        if FEWEST_PAIRS <= pairs <= MOST_PAIRS:
            break
    for name, some in tables.items():
        (home / name).mkdir(parents=True)
        write_files(home / name, some)
    write_truth(home, job, [(n, n) for n in range(BATCHES)])
    return job


def _draw_job(dice: Dice, home: Path) -> tuple[Job, dict[str, list[pa.Table]]]:
    streams, keys = draw_streams(dice, ["left", "right"], on_spark=True)
    tables = {
        stream.name: [
            table_of(dice, stream, range(n * ROWS, (n + 1) * ROWS), (n + 1) * SPAN, SPAN) for n in range(BATCHES)
        ]
        for stream in streams
    }
    on = draw_predicate(dice, ["left", "right"], keys, on_spark=True)
    window: dict[str, str | int]
    if dice.chance(0.7):
        left, right = (dice.pick([1, 3, 7]), dice.pick([0, 3, 9]))
        window = {"left": f"{left} seconds", "right": f"{right} seconds", "lateness": "5 seconds"}
        window |= {"left_ts": streams[0].ts, "right_ts": streams[1].ts}
        truth = _inside(streams, left, right)
    else:
        order_by = "o" if all("o" in stream.schema.names for stream in streams) and dice.chance(0.4) else None
        left, right = dice.number(5, 90), dice.number(5, 90)
        window = {"left": left, "right": right} | ({} if order_by is None else {"order_by": order_by})
        truth = f"IF(left.`#left` < right.`#left`, right.`#left` - left.`#left` <= {left}, "
        truth += f"left.`#right` - right.`#right` <= {right})"
    job = Job(
        left=str(home / "left"),
        right=str(home / "right"),
        home=str(home),
        on=on,
        window=window,
        structure=dice.pick(STRUCTURES),
        cores=dice.pick([2, 2, 3]),
        truth=f"({on}) AND {truth}",
    )
    return job, tables


def _inside(streams: list[Stream], left: int, right: int) -> str:
    a, b = (f"{stream.name}.`{stream.ts}`" for stream in streams)
    return (
        f"(({a} >= {b} AND {a} <= {b} + INTERVAL {right} SECONDS)"
        f" OR ({a} < {b} AND {b} <= {a} + INTERVAL {left} SECONDS))"
    )


def write_truth(home: Path, job: Job, batches: list[tuple[int, int]]) -> None:
    """Write each side's rows once more, with how many rows of either stream came before each.

    ``batches`` has for every micro-batch the last file of either stream that it has taken. Of several files Spark reads
    the largest first.
    """
    files = {name: sorted((home / name).glob("*.parquet")) for name in SIDES}
    tables = {name: [pq.read_table(file) for file in own] for name, own in files.items()}

    def taken(name: str, begin: int, end: int) -> pa.Table:
        numbers = sorted(range(begin + 1, end + 1), key=lambda n: -files[name][n].stat().st_size)
        return pa.concat_tables([tables[name][0].slice(0, 0), *(tables[name][n] for n in numbers)])

    history = [
        tuple(oracle.rows_of(name, taken(name, *span)) for name, *span in zip(SIDES, *spans, strict=True))
        for spans in pairwise([(-1, -1), *batches])
    ]
    arrived = oracle.in_order(dict.fromkeys(SIDES, job.window.get("order_by")), history)  # type: ignore[arg-type]
    for name, rows in zip(SIDES, arrived, strict=True):
        numbers = {row[name, "id"]: row[name, "#"] for row in rows}
        whole = pa.concat_tables(tables[name])
        ids = _plain_ids(whole)
        for at, side in enumerate(tables):
            whole = whole.append_column(f"#{side}", pa.array([numbers[key][at] for key in ids], pa.int64()))
        pq.write_table(whole, home / f"{name}.parquet")


def batches_run(home: Path) -> list[tuple[int, int]]:
    """Return for every micro-batch that was run the last file of either stream that it has taken."""
    offsets = home / "checkpoint" / "offsets"
    files = sorted((file for file in offsets.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name))
    lines = (file.read_text(encoding="utf-8").splitlines()[-len(SIDES) :] for file in files)
    return [tuple(json.loads(line)["logOffset"] for line in some) for some in lines]  # type: ignore[misc]


def _plain_ids(table: pa.Table) -> list[Any]:
    return oracle.column_values(table["id"])


def draw_events(dice: Dice, place: str) -> list[Event]:
    """Draw what happens to a query, and when."""
    moments = sorted(dice.random.choice(np.arange(1, BATCHES - 1), EVENTS, replace=False).tolist())
    return [Event(at, float(dice.random.uniform(0, 0.7)), dice.pick(EVENTS_OF[place])) for at in moments]


class _Places:
    """Where queries run: a local Spark, and a cluster that is started when first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._drivers: dict[str, Drivers] = {LOCAL: Drivers(_made(folder / "drivers"), SETTINGS)}
        self._cluster: StandaloneCluster | None = None

    def _started(self) -> StandaloneCluster:
        """Return the cluster, with as many workers as it needs."""
        if self._cluster is None:
            self._cluster = StandaloneCluster(self.folder / "cluster")
            for host in HOSTS:
                self._cluster.add_worker(host=host)
            self._cluster.await_workers()
            settings = self._cluster.settings("512m") | SETTINGS | SPECULATION
            self._drivers[CLUSTER] = Drivers(_made(self.folder / "cluster-drivers"), settings)
        return self._cluster

    def driver(self, place: str) -> Driver:
        master = LOCAL if place == LOCAL else self._started().master
        return self._drivers[place].on(master)

    def kill_driver(self, place: str) -> None:
        self._drivers[place].kill(LOCAL if place == LOCAL else self._started().master)

    def kill_executor(self, dice: Dice) -> bool:
        return any(worker.kill_executors() for worker in dice.shuffled(self._started().workers))

    def python_workers(self, place: str) -> list[int]:
        if place == LOCAL:
            return self.driver(place).python_workers()
        return [pid for worker in self._started().workers for pid in worker.started("pyspark.worker")]

    def leave(self, place: str) -> None:
        """Stop the driver of one place, so that the machine need not carry two."""
        if place in self._drivers:
            self._drivers[place].stop()

    def end(self) -> None:
        for place in (LOCAL, CLUSTER):
            self.leave(place)
        if self._cluster is not None:
            self._cluster.__exit__(None, None, None)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


class _Query:
    """A query under way, and what is done to it."""

    def __init__(self, places: _Places, place: str, job: Job, dice: Dice) -> None:
        self._places, self._place, self._job, self._dice = places, place, job, dice
        self.kills, self.disturbances, self.restarts = Counter[str](), Counter[str](), 0
        self._since = time.monotonic()
        self._limited_until = 0.0
        self._driver.begin(job)

    @property
    def _driver(self) -> Driver:
        return self._places.driver(self._place)

    def run(self, events: list[Event]) -> None:
        """Do to the query what is drawn, and wait for its end."""
        commits = Path(self._job.home, "checkpoint", "commits")
        for event in events:
            while not (commits / str(event.batches - 1)).exists():
                if self._is_done():
                    return
                time.sleep(0.02)
            time.sleep(event.delay)
            self._disturb(event.kind)
        while not self._is_done():
            time.sleep(0.02)

    def judge_again(self) -> None:
        """Run the query once more: nothing is left to do but to compare its pairs with the truth."""
        self._begin()
        self.run([])

    def _is_done(self) -> bool:
        """Tell whether the query has ended well; start it again where it has not."""
        if self._limited_until and time.monotonic() > self._limited_until:
            self._limit_files(resource.RLIM_INFINITY)
            self._limited_until = 0.0
        if not self._driver.has_answered:
            assert time.monotonic() - self._since < PATIENCE, "the query hangs"
            return False
        answer = self._driver.answer()
        if answer == "done":
            return True
        self.restarts += 1
        assert self.restarts <= MOST_RESTARTS, f"it does not go on: {answer}"
        self._begin()
        return False

    def _begin(self) -> None:
        self._since = time.monotonic()
        self._driver.begin(replace(self._job, structure=self._dice.pick(STRUCTURES)))

    def _disturb(self, kind: str) -> None:
        done = True
        match kind:
            case "driver":
                self._places.kill_driver(self._place)
                self.restarts += 1
                self._begin()
            case "executor":
                done = self._places.kill_executor(self._dice)
            case "workers":
                done = kill_workers(self._places.python_workers(self._place)) > 0
            case "daemons":
                done = kill_workers(self._places.python_workers(self._place), daemons=True) > 0
            case "cache deleted" | "cache damaged":
                done = self._spoil_cache(delete=kind == "cache deleted")
            case "disk full":
                done = self._limit_files(1024)
                self._limited_until = time.monotonic() + 1.5
            case "stopped":
                done = self._stop_one()
        if done:
            (self.kills if kind in KILLS else self.disturbances).update([kind])
        self._since = time.monotonic()

    def _spoil_cache(self, *, delete: bool) -> bool:
        files = [file for folder in self._places.folder.glob("*/**/watersmeet") for file in folder.glob("*.run")]
        for file in files:
            try:
                if delete:
                    file.unlink()
                else:
                    with file.open("r+b") as opened:
                        opened.seek(self._dice.number(0, max(0, file.stat().st_size - 8)))
                        opened.write(self._dice.random.bytes(8))
            except OSError:  # a worker has just removed it
                continue
        return bool(files)

    def _limit_files(self, size: int) -> bool:
        """Let no Python worker write more to a file than so many bytes."""
        workers = self._places.python_workers(self._place)
        for worker in workers:
            try:
                resource.prlimit(worker, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            except (ProcessLookupError, PermissionError):  # it has just ended
                continue
        return bool(workers)

    def _stop_one(self) -> bool:
        """Stop a Python worker for a moment, so that its task is slow and Spark begins another attempt."""
        workers = self._places.python_workers(self._place)
        if not workers:
            return False
        worker = self._dice.pick(workers)
        try:
            os.kill(worker, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(worker, signal.SIGCONT)
        except ProcessLookupError:  # it has just ended
            return False
        return True


def soak_queries(record: Record, kills: int, until: float, seeds: list[int] | None = None) -> None:
    """Run queries until so many kills, those recorded included, or until a moment; or the queries of some seeds."""
    folder = (record.folder / "spark").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    places = _Places(folder)
    done = record.seeds()
    try:
        for seed in seeds if seeds is not None else (seed for seed in count() if seed not in done):
            killed = sum(sum(line["kills"].values()) for line in record.lines)
            if seeds is None and (killed >= kills or time.monotonic() > until):
                break
            _soak_query(record, seed, places)
            line = record.lines[-1]
            print(f"query {seed}: {line['kills']} {line['disturbances']}, {line['pairs']} pairs", flush=True)
    finally:
        places.end()


def _soak_query(record: Record, seed: int, places: _Places) -> None:
    dice = Dice(QUERIES, seed)
    place = PLACES[seed % len(PLACES)]
    places.leave(CLUSTER if place == LOCAL else LOCAL)
    home = (record.folder / f"query-{seed}").resolve()
    shutil.rmtree(home, ignore_errors=True)
    job = draw_job(dice, home)
    events = draw_events(dice, place)
    begin = time.monotonic()
    query = _Query(places, place, job, dice)
    verdict = {"found": 0, "lost": 0, "wrong": 0}
    failures = []
    try:
        query.run(events)
        if "left_ts" not in job.window and batches_run(home) != [(n, n) for n in range(BATCHES)]:
            write_truth(home, job, batches_run(home))
            query.judge_again()
        verdict = json.loads((home / "verdict").read_text(encoding="utf-8"))
        assert not verdict["lost"], f"{verdict['lost']} pairs lost"
        assert not verdict["wrong"], f"{verdict['wrong']} pairs wrong or twice"
    except (AssertionError, OSError) as error:
        failures.append({"query": seed, "why": f"{type(error).__name__}: {error}", "on": job.on, "kept in": home.name})
        places.kill_driver(place)
    else:
        shutil.rmtree(home)
    record.add(
        piece=seed,
        place=place,
        kills=dict(query.kills),
        disturbances=dict(query.disturbances),
        restarts=query.restarts,
        pairs=verdict["found"],
        seconds=round(time.monotonic() - begin, 1),
        failures=failures,
    )
