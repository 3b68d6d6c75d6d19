"""``watersmeet warm-up``: compiles all kernels into Numba's cache, which can be baked into an image.

A kernel is compiled for the types of its arguments when it is first called, and kept on disk. So small joins of every
sort are run: in this process with every structure, window, kind and topology, and on a local Spark, if that is
installed, where workers call kernels with arrays that may not be written to. Each runs in a process of its own, since
Numba asks where its cache is when it is loaded.

The cache counts for one processor: on a machine whose processor has other features everything is compiled again.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet import kernels
from watersmeet.cli.demo.screen import say, stage
from watersmeet.cli.extras import is_installed
from watersmeet.columns.keys import text_buffers
from watersmeet.kernels.json_text import find_objects
from watersmeet.spec.errors import WatersmeetError
from watersmeet.spec.kinds import How
from watersmeet.spec.options import StructureName, TopologyName
from watersmeet.spec.window import Window

__all__ = ["cached_kernels", "in_process", "on_spark", "warm_up"]

FEW_ROWS: Final = 500
ROWS: Final = 4_000
MANY_ROWS: Final = 20_000
"""More than the smallest segment has, so that subwindows are sealed and removed."""
FEW_KEYS: Final = 500
PUSHES: Final = 4
MANY_PUSHES: Final = 4
STRUCTURES: Final[tuple[StructureName, ...]] = ("scan", "hash", "rap_table", "wib_tree", "bi_sort")
TOPOLOGIES: Final[tuple[TopologyName, ...]] = ("kang", "handshake", "low_latency_handshake", "splitjoin", "panjoin")
KINDS: Final[tuple[How, ...]] = ("left", "right", "full", "semi", "anti")
BAND: Final = "left.x BETWEEN right.x - 3 AND right.x + 3"
PREDICATES: Final = (
    BAND,
    "left.k = right.k",
    f"left.k = right.k AND {BAND}",
    "left.x < right.x AND left.x > right.x - 5",
    "left.s = right.s",
    "left.s <= right.s AND left.x = right.x",
    "left.f BETWEEN right.f - 0.5 AND right.f + 0.5",
    "left.k = right.k AND left.s = right.s AND left.x <> right.x",
    f"left.k = right.k OR {BAND}",
    "left.d = right.d",
)
SHORT: Final[tuple[Window, ...]] = (wm.time_window("100 milliseconds", ts="ts"), wm.count_window(MANY_ROWS))
WINDOWS: Final[tuple[Window, ...]] = (wm.time_window("1 second", ts="ts", lateness="1 second"), wm.count_window(1_000))
CACHE: Final = "NUMBA_CACHE_DIR"


def warm_up(cache: Path | None) -> int:
    """Compile, and say where what is compiled lies; return the exit code."""
    environment = dict(os.environ)
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        environment[CACHE] = str(cache.resolve())
    parts = {"in_process": "joins in a process compile their kernels"}
    if is_installed("pyspark"):
        parts["on_spark"] = "joins on Spark compile theirs"
    for part, about in parts.items():
        with stage(about):
            _in_a_process(f"warm_up.{part}()", environment)
    cached, count, folder = _in_a_process("print(*warm_up.cached_kernels())", environment).split(maxsplit=2)
    say(f"{cached} of {count} kernels are kept in {folder.strip()}")
    if cache is not None:
        say(f"for all that runs joins, Spark's workers too:\n  export {CACHE}={cache.resolve()}")
        say(f'  [spark.settings] "spark.executorEnv.{CACHE}" = "{cache.resolve()}"')
    return 0 if cached == count else 1


def _in_a_process(statement: str, environment: dict[str, str]) -> str:
    """Run a statement about this module in a Python of its own, with the same search path; return what it prints."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from watersmeet.cli import warm_up; {statement}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        step = "watersmeet doctor says what is missing"
        raise WatersmeetError(
            f"a join that was to compile kernels failed: {said}", "a machine on which joins run", step
        )
    return done.stdout


def cached_kernels() -> tuple[int, int, str]:
    """Return how many kernels are in the cache, how many there are, and the folder of the first."""
    found = [_index_of(kernel) for kernel in _kernels()]
    folders = [index.parent for index in found if index is not None]
    return (
        sum(index is not None and index.exists() for index in found),
        len(found),
        str(folders[0] if folders else "no folder"),
    )


def _kernels() -> Iterator[Any]:
    """Yield all compiled functions of the package."""
    for module in pkgutil.iter_modules(kernels.__path__):
        name = f"{kernels.__name__}.{module.name}"
        for value in vars(import_module(name)).values():
            if hasattr(value, "py_func") and value.py_func.__module__ == name:
                yield value


def _index_of(kernel: Any) -> Path | None:  # noqa: ANN401 -- Numba's
    """Return the file that lists what a kernel has been compiled for; None if there is no folder for it."""
    file = getattr(kernel.stats, "cache_path", None)
    if file is None:
        return None
    function = kernel.py_func
    stem = Path(function.__code__.co_filename).stem
    found = list(Path(file).glob(f"{stem}.{function.__qualname__}-*.nbi"))
    return found[0] if found else Path(file) / f"{stem}.{function.__qualname__}.nbi"


# --- what is run ----------------------------------------------------------------------------------------------------


def in_process() -> None:
    """Join in this process, in all ways."""
    schema = _tables(0)[0].schema
    jobs: list[dict[str, Any]] = [
        {"on": on, "window": window, "structure": structure}
        for on, window, structure in product(PREDICATES, WINDOWS, ("auto", *STRUCTURES))
    ]
    jobs += [{"on": BAND, "window": window, "how": how} for window, how in product(WINDOWS, KINDS)]
    jobs += [{"on": BAND, "window": WINDOWS[0], "topology": name, "cores": 2} for name in TOPOLOGIES]
    jobs += [{"on": BAND, "window": WINDOWS[0], "order": order} for order in ("outer", "inner")]
    jobs += [
        {"on": on, "window": window, "result": result}
        for on, window, result in product(PREDICATES[:4], WINDOWS, ("ranges", "count"))
    ]
    for options in jobs:
        _push(options, PUSHES, ROWS, FEW_KEYS)
    for on, window, structure in product((*PREDICATES[:3], PREDICATES[5]), SHORT, STRUCTURES[1:]):  # scans seal nothing
        options = {"on": on, "window": window, "structure": structure}
        _push(options, MANY_PUSHES, MANY_ROWS, MANY_ROWS)
    for on, window in product(PREDICATES[:3], SHORT):  # rows that have plain columns alone, and threads for kernels
        options = {"on": on, "window": window, "structure": "bi_sort", "cores": 2}
        _push(options, MANY_PUSHES, MANY_ROWS, MANY_ROWS, without=["s"])
    streams = dict.fromkeys("abc", schema)
    on = "a.k = b.k AND b.x BETWEEN c.x - 1 AND c.x + 1"
    many = wm.MultiStreamJoin(streams=streams, on=on, window=WINDOWS[0])
    for number in range(PUSHES):
        many.push(
            a=_tables(number)[0].slice(0, 400), b=_tables(number)[1].slice(0, 400), c=_tables(number)[0].slice(0, 400)
        )
    many.finish()
    find_objects(*text_buffers(pa.array([b"{}"])))  # what the packers of decoded sides need


def _push(options: dict[str, Any], pushes: int, rows: int, keys: int, without: Sequence[str] = ()) -> None:
    """Join some pushes of so many rows; a structure that cannot answer the predicate is left out."""
    schema = _tables(0)[0].drop_columns(list(without)).schema
    try:
        join = wm.StreamJoin(left=schema, right=schema, **options)
    except WatersmeetError:
        return
    for number in range(pushes):
        left, right = (table.drop_columns(list(without)) for table in _tables(number, rows, keys))
        result = join.push(left=left, right=right)
        if options.get("result") == "ranges":
            join.pairs_of(result)
    join.finish()


def on_spark() -> None:
    """Join streams on a local Spark, by every routing, for some micro-batches, so that runs are read again."""
    spark = wm.session(1, name="watersmeet warm-up", memory="1g")
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", FEW_ROWS).load()
    stream = ticks.selectExpr("timestamp AS ts", f"value % {FEW_ROWS // 2} AS k", "CAST(value AS INT) AS x")
    joins = [(on, WINDOWS[0], how) for on, how in product(PREDICATES[:3], ("inner", "full"))]
    for on, window, how in [
        *joins,
        (PREDICATES[2], WINDOWS[1], "inner"),
        (f"left.x < right.x - {FEW_ROWS - 10}", WINDOWS[0], "inner"),
    ]:
        joined = wm.join(stream, stream, on=on, window=window, how="full" if how == "full" else "inner")
        running = joined.writeStream.format("noop").start()
        while len(running.recentProgress) < PUSHES:
            running.awaitTermination(1)
        running.stop()
    spark.stop()


def _tables(number: int, rows: int = ROWS, keys: int = FEW_KEYS) -> tuple[pa.Table, pa.Table]:
    """Return rows for both sides, of every kind of column."""
    draw = np.random.default_rng(number)
    return _table(draw, number, rows, keys), _table(draw, number, rows, keys)


def _table(draw: np.random.Generator, number: int, rows: int, most: int) -> pa.Table:
    keys = draw.integers(0, most, rows)
    moments = np.sort(draw.integers(0, 500_000, rows)) + 500_000 * number
    return pa.table(
        {
            "ts": pa.array(moments).cast(pa.timestamp("us", "UTC")),
            "k": pa.array(keys),
            "x": pa.array(draw.integers(0, 200 * most, rows).astype(np.int32), mask=keys == 0),
            "f": pa.array(draw.random(rows) * most),
            "s": pa.array([f"name {key}" for key in keys.tolist()]),
            "d": pa.array(keys.astype(np.int32)).cast(pa.date32()),
        }
    )
