"""An outer join whose late rows have a way out: one query gives pairs, rows that met nobody, and late rows.

Orders wait up to ten minutes for their payment. What has none then comes out with nulls. A payment that is so late that
it lies behind the watermark is not joined, and comes out by itself, with the name of its stream.

Run it: python examples/outer_join_with_late_rows.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm

MICRO_BATCHES = [  # (minute, order) and (minute, order that is paid)
    ([(0, 1), (1, 2)], [(2, 1)]),
    ([(30, 3)], [(31, 3)]),
    ([(60, 4)], [(5, 2), (61, 4)]),  # the payment of order 2 comes when minute 5 has long passed
    ([(90, 5)], [(91, 5)]),
]


def write(folder: Path, number: int, rows: list[tuple[int, int]]) -> None:
    """Write one file, which becomes one micro-batch."""
    times = pa.array([minute * 60_000_000 for minute, _ in rows], pa.timestamp("us", "UTC"))
    folder.mkdir(exist_ok=True)
    file = folder / f"{number:03d}.parquet"
    pq.write_table(pa.table({"ts": times, "id": pa.array([order for _, order in rows], pa.int64())}), file)
    os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads files in the order of their time


def main() -> None:
    """Join, and show the three kinds of rows apart."""
    spark = wm.session(cores=2, memory="1g")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        streams = {}
        for side, stream in enumerate(("orders", "payments")):
            for number, both in enumerate(MICRO_BATCHES):
                write(home / stream, number, both[side])
            reader = spark.readStream.schema("ts timestamp, id bigint").option("maxFilesPerTrigger", 1)
            streams[stream] = reader.parquet(f"{home / stream}")
        results = wm.join(
            streams["orders"],
            streams["payments"],
            on=wm.equal("id"),
            window=wm.time_window("10 minutes", ts="ts"),
            how="left",
            late="keep",
        )
        query = (
            results.writeStream.format("parquet")
            .option("path", f"{home / 'results'}")
            .option("checkpointLocation", f"{home / 'checkpoint'}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = spark.read.parquet(f"{home / 'results'}")
        for title, which, column in (
            ("paid", "late IS NULL AND right_id IS NOT NULL", "left_id"),
            ("never paid in time", "late IS NULL AND right_id IS NULL", "left_id"),
            ("late payments", "late = 'right'", "right_id"),
        ):
            print(f"{title}:", sorted(row[0] for row in found.where(which).select(column).collect()))
    spark.stop()


if __name__ == "__main__":
    main()
