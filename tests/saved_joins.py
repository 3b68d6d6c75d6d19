"""Joins that earlier versions have saved: which they were, the rows they had and were to get, and how they were saved.

``python tests/saved_joins.py FOLDER`` saves them all with the installed version, into a folder named after the formats
that this version writes: snapshots of ``StreamJoin`` and ``MultiStreamJoin``, and checkpoints of Spark queries, each
with the results that came before. What is in ``tests/fixtures`` was written so, by the version that its folder names,
and never changes. ``test_saved_joins.py`` and ``spark/test_saved_checkpoints.py`` go on from there: every later version
starts from them, or refuses them by name.

Rows follow from their numbers. Those of Spark come from its rate source, so a checkpoint needs no files beside it.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import watersmeet as wm

FIXTURES: Final = Path(__file__).parent / "fixtures"
BEFORE: Final = "results_before.json"
HOME: Final = b"/the/checkpoint"
BEGIN: Final = 1_700_000_000_000
"""Milliseconds of the epoch."""

Window = Any


# --- in one process -------------------------------------------------------------------------------------------------

LEFT: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us")),
        ("price", pa.decimal128(12, 2)),
        ("k", pa.string()),
        ("seen", pa.bool_()),
        ("tags", pa.list_(pa.int16())),
    ]
)
RIGHT: Final = pa.schema(
    [
        ("bid", pa.decimal128(14, 3)),
        ("at", pa.timestamp("ms")),
        ("id", pa.int64()),
        ("k", pa.dictionary(pa.int32(), pa.string())),
        ("day", pa.date32()),
        ("note", pa.struct([("x", pa.float64()), ("raw", pa.binary())])),
    ]
)
PUSHES: Final = 4
SAVED_AFTER: Final = 2
ROWS: Final = 12


def left_rows(push: int) -> pa.Table:
    """Return the rows of one push; every seventh has a null for its key."""
    numbers = range(push * ROWS, (push + 1) * ROWS)
    return pa.table(
        {
            "id": numbers,
            "ts": [n * 1_000_000 + n * 7919 % 500_000 for n in numbers],
            "price": [Decimal(n * 37 % 50) / 4 for n in numbers],
            "k": [None if n % 7 == 6 else "abcd"[n % 4] * (n % 3 + 1) for n in numbers],
            "seen": [n % 5 > 1 for n in numbers],
            "tags": [list(range(n % 4)) or None for n in numbers],
        },
        schema=LEFT,
    )


def right_rows(push: int) -> pa.Table:
    numbers = range(push * ROWS, (push + 1) * ROWS)
    return pa.table(
        {
            "bid": [Decimal(n * 53 % 50) / 4 for n in numbers],
            "at": [n * 1_000 + n * 331 % 700 for n in numbers],
            "id": numbers,
            "k": ["abcd"[n * 3 % 4] * (n % 3 + 1) for n in numbers],
            "day": [n % 30 for n in numbers],
            "note": [None if n % 6 == 5 else {"x": n / 3, "raw": bytes([n])} for n in numbers],
        },
        schema=RIGHT,
    )


def abc_rows(stream: str, push: int) -> pa.Table:
    """Return the rows of one of many streams."""
    numbers = range(push * ROWS, (push + 1) * ROWS)
    seed = {"a": 3, "b": 5, "c": 7}[stream]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": pa.array([n * 1_000_000 + n * 7919 * seed % 900_000 for n in numbers], pa.timestamp("us")),
            "k": pa.array([n * seed % 4 for n in numbers], pa.int32()),
            "x": pa.array([float(n * seed % 11) for n in numbers]),
            "word": pa.array([f"{stream}{n}" for n in numbers]),
        }
    )


@dataclass(frozen=True)
class Pair:
    """A join of two streams that a snapshot was made of."""

    on: str
    window: Window
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Many:
    """A join of many streams that a snapshot was made of."""

    on: str
    window: Window
    options: dict[str, Any] = field(default_factory=dict)


BAND: Final = "left.price BETWEEN right.bid - 1.5 AND right.bid + 2"
SNAPSHOTS: Final[dict[str, Pair | Many]] = {
    "time": Pair(
        f"{BAND} AND left.k = right.k",
        wm.time_window(
            left="9 seconds", right=timedelta(seconds=15), left_ts="ts", right_ts="at", lateness="2 seconds"
        ),
    ),
    "time_residual": Pair(
        "(left.price < right.bid OR left.seen) AND left.k != right.k",
        wm.time_window("4 seconds", left_ts="ts", right_ts="at"),
        {"structure": "wib_tree", "late": "error"},
    ),
    "count": Pair(BAND, wm.count_window(left=9, right=16), {"structure": "rap_table"}),
    "count_ordered": Pair("left.k = right.k", wm.count_window(10, order_by="id"), {"cores": 2, "order": "outer"}),
    "handshake": Pair(
        BAND,
        wm.time_window("20 seconds", left_ts="ts", right_ts="at", lateness="5 seconds"),
        {"topology": "handshake", "cores": 3, "block_rows": 4},
    ),
    "handshake_count": Pair(BAND, wm.count_window(20), {"topology": "handshake", "cores": 2, "block_rows": 3}),
    "splitjoin": Pair("left.k = right.k", wm.count_window(30), {"topology": "splitjoin", "cores": 2}),
    "left": Pair(
        f"{BAND} AND left.k = right.k AND left.seen",
        wm.time_window("9 seconds", left_ts="ts", right_ts="at", lateness="2 seconds"),
        {"how": "left", "cores": 2},
    ),
    "full_handshake": Pair(
        BAND, wm.count_window(20), {"how": "full", "topology": "handshake", "cores": 2, "block_rows": 3}
    ),
    "semi": Pair(BAND, wm.count_window(left=9, right=16), {"how": "semi", "order": "outer"}),
    "anti": Pair("left.k = right.k", wm.time_window("4 seconds", left_ts="ts", right_ts="at"), {"how": "anti"}),
    "many_time": Many(
        "a.k = b.k AND b.x BETWEEN c.x - 2 AND c.x + 2",
        wm.time_window({"a": "6 seconds", "b": "9 seconds", "c": "5 seconds"}, ts="ts", lateness="1 second"),
    ),
    "many_count": Many("a.k = b.k AND b.k = c.k", wm.count_window({"a": 9, "b": 7, "c": 12}), {"strategy": "circular"}),
}


def joins(case: Pair | Many) -> tuple[Any, Any]:
    """Return a new join of a case, and its class."""
    if isinstance(case, Pair):
        return wm.StreamJoin(left=LEFT, right=RIGHT, on=case.on, window=case.window, **case.options), wm.StreamJoin
    streams = {stream: abc_rows(stream, 0).schema for stream in "abc"}
    join = wm.MultiStreamJoin(streams=streams, on=case.on, window=case.window, **case.options)
    return join, wm.MultiStreamJoin


def pushes(case: Pair | Many) -> list[dict[str, pa.Table]]:
    """Return all that is pushed, before and after the join is saved."""
    if isinstance(case, Pair):
        return [{"left": left_rows(push), "right": right_rows(push)} for push in range(PUSHES)]
    return [{stream: abc_rows(stream, push) for stream in "abc"} for push in range(PUSHES)]


def result_ids(case: Pair | Many, results: pa.Table) -> list[tuple[int | None, ...]]:
    if "id" in results.column_names:  # left rows alone
        return [(number, None) for number in results["id"].to_pylist()]
    streams = ("left", "right") if isinstance(case, Pair) else tuple("abc")
    return list(zip(*(results[f"{stream}_id"].to_pylist() for stream in streams), strict=True))


def save_snapshots(folder: Path) -> None:
    before = {}
    for name, case in SNAPSHOTS.items():
        join, _ = joins(case)
        found = [join.push(**push) for push in pushes(case)[:SAVED_AFTER]]
        before[name] = [ids for results in found for ids in result_ids(case, results)]
        (folder / f"{name}.snapshot").write_bytes(join.snapshot())
        join.close()
    (folder / BEFORE).write_text(json.dumps(before), encoding="utf-8")


# --- on Spark -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """A join of streams that a checkpoint was made of."""

    on: str
    window: Window
    options: dict[str, Any] = field(default_factory=dict)
    batches: int = 2
    """Micro-batches before the checkpoint was kept."""
    rows: int = 40
    """Rows of a stream in each."""
    names: tuple[str, ...] = ("left", "right")


def _columns(seed: int, value: str) -> list[str]:
    moment = f"timestamp_micros(unix_micros(timestamp) + value * {7919 * seed} % 1000000)"
    return [
        f"{moment} AS ts",
        "value AS id",
        f"value * {seed} % 61 AS {value}",
        f"CAST(value * {seed + 4} % 5 AS INT) AS k",
        f"CAST(value * {seed} % 7 AS DECIMAL(9,2)) AS size",
        "named_struct('tag', concat('s', value), 'tags', array(value, value + 1)) AS more",
        f"CASE WHEN value % 6 != {seed % 6} THEN concat('row ', value) END AS note",
    ]


COLUMNS: Final = {
    "left": _columns(3, "price"),
    "right": _columns(5, "bid"),
    "a": _columns(3, "x"),
    "b": _columns(5, "x"),
    "c": _columns(7, "x"),
}
SECONDS: Final = wm.time_window(left="1500 milliseconds", right="2 seconds", left_ts="ts", right_ts="ts")
ABC: Final = {"names": ("a", "b", "c"), "rows": 20}
QUERIES: Final[dict[str, Query]] = {
    "hash": Query("left.k = right.k AND left.price BETWEEN right.bid - 20 AND right.bid + 20", SECONDS, batches=9),
    "bucket": Query(
        "left.price BETWEEN right.bid - 4 AND right.bid + 3", wm.time_window("1 second", ts="ts", lateness="3 seconds")
    ),
    "broadcast": Query("left.price < right.bid - 40", SECONDS, {"structure": "bi_sort"}),
    "count_hash": Query("left.k = right.k", wm.count_window(left=30, right=50, order_by="ts"), {"cores": 3}),
    "count_bucket": Query("left.price BETWEEN right.bid - 4 AND right.bid + 3", wm.count_window(45)),
    "many_hash": Query(
        "a.k = b.k AND b.k = c.k AND a.x < c.x",
        wm.time_window({"a": "1 second", "b": "2 seconds", "c": "1 second"}, ts="ts"),
        **ABC,  # type: ignore[arg-type]
    ),
    "many_replicate": Query(
        "a.k = b.k AND b.x BETWEEN c.x - 3 AND c.x + 3",
        wm.time_window("1 second", ts="ts", lateness="1 second"),
        {"largest": "b"},
        **ABC,  # type: ignore[arg-type]
    ),
    "many_count": Query(
        "a.x BETWEEN b.x - 4 AND b.x + 4 AND b.x BETWEEN c.x - 4 AND c.x + 4",
        wm.count_window({"a": 25, "b": 30, "c": 20}, order_by="ts"),
        **ABC,  # type: ignore[arg-type]
    ),
}


def query_frames(spark: Any, case: Query) -> dict[str, Any]:
    """Return the streams of a case; each start of a query with ``availableNow`` reads one micro-batch of them."""
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", case.rows)
        .option("numPartitions", 1)
        .option("startTimestamp", BEGIN)
        .option("advanceMillisPerBatch", 1000)
    )
    return {name: source.load().selectExpr(*COLUMNS[name]) for name in case.names}


def query_rows(spark: Any, case: Query, batches: int) -> list[dict[str, pa.Table]]:
    """Return the rows of the first micro-batches."""
    per_batch = []
    for batch in range(batches):
        whole = spark.range(batch * case.rows, (batch + 1) * case.rows, numPartitions=1)
        rows = whole.selectExpr(f"timestamp_millis({BEGIN + batch * 1000}) AS timestamp", "id AS value")
        per_batch.append({name: rows.selectExpr(*COLUMNS[name]).toArrow() for name in case.names})
    return per_batch


def joined(frames: dict[str, Any], case: Query, **options: Any) -> Any:
    """Return the results of a case, with other options than its own where they are given."""
    given = {"on": case.on, "window": case.window, **case.options, **options}
    if case.names == ("left", "right"):
        return wm.join(frames["left"], frames["right"], **{"balance": "off", **given})
    return wm.multijoin(frames, **given)


def run_once(results: Any, checkpoint: Path, found: Path) -> None:
    """Run one micro-batch into files; they need no log of the micro-batches before, as Spark's own file sink does."""
    writer = results.writeStream.foreachBatch(lambda some, _: some.write.mode("append").parquet(str(found)))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def found_ids(spark: Any, case: Query, found: Path) -> list[tuple[int, ...]]:
    """Return the results that a query has written."""
    return [
        tuple(row) for row in spark.read.parquet(str(found)).select(*(f"{name}_id" for name in case.names)).collect()
    ]


def save_checkpoints(folder: Path) -> None:
    before = {}
    with tempfile.TemporaryDirectory() as scratch:
        spark = wm.session(2, memory="1g", more={"spark.local.dir": f"{scratch}/spark"})
        for name, case in QUERIES.items():
            checkpoint, found = Path(scratch, name), Path(scratch, f"{name} found")
            for _ in range(case.batches):
                run_once(joined(query_frames(spark, case), case), checkpoint, found)
            before[name] = found_ids(spark, case, found)
            pack_checkpoint(checkpoint, folder / f"{name}.tar.xz")
        spark.stop()
    (folder / BEFORE).write_text(json.dumps(before), encoding="utf-8")


def pack_checkpoint(checkpoint: Path, archive: Path) -> None:
    """Pack a checkpoint without Spark's checksums of its files, as ``HOME``: Spark writes down where it lies."""
    with tarfile.open(archive, "w:xz") as packed:
        for path in sorted(checkpoint.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                content = path.read_bytes().replace(bytes(checkpoint), HOME)
                info = tarfile.TarInfo(str(path.relative_to(checkpoint)))
                info.size = len(content)
                packed.addfile(info, io.BytesIO(content))


def open_checkpoint(archive: Path, folder: Path) -> None:
    """Unpack a checkpoint into a folder, which is then its place."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    for path in folder.rglob("_metadata/*/*"):
        path.write_bytes(path.read_bytes().replace(HOME, bytes(folder)))


# --------------------------------------------------------------------------------------------------------------------


def main(folder: Path) -> None:
    """Save all joins."""
    from watersmeet.engine import snapshot
    from watersmeet.engine.multiway import snapshot as many
    from watersmeet.spark import state

    for kind, number, save in (
        ("snapshots", f"{snapshot.VERSION}, {snapshot.WAITING_VERSION} and {many.VERSION}", save_snapshots),
        ("checkpoints", state.FORMAT, save_checkpoints),
    ):
        into = folder / kind / f"format {number}"
        into.mkdir(parents=True)
        save(into)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
