"""A chain of two joins in one query: orders meet payments, and what was paid meets parcels by the payment's time.

The first join's results have event time, so the second one may go by it. Each join has its own metrics, under its name.

Run it: python examples/chain_of_two_joins.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm

STREAMS = {  # (minute, order), file by file: a file becomes a micro-batch
    "orders": [[(0, 1), (1, 2)], [(20, 3)], [(40, 4)]],
    "payments": [[(3, 1), (15, 2)], [(21, 3)], [(41, 4)]],  # that of order 2 comes too late for its window
    "parcels": [[(5, 1), (16, 2)], [(22, 3)], [(60, 4)]],  # that of order 4 leaves too late for its window
}


def main() -> None:
    """Join the three, and show who got a parcel and what each join gave."""
    spark = wm.session(cores=2, memory="1g")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        frames = {}
        for stream, files in STREAMS.items():
            (home / stream).mkdir()
            for number, rows in enumerate(files):
                times = pa.array([minute * 60_000_000 for minute, _ in rows], pa.timestamp("us", "UTC"))
                ids = pa.array([order for _, order in rows], pa.int64())
                file = home / stream / f"{number:03d}.parquet"
                pq.write_table(pa.table({"ts": times, "id": ids}), file)
                os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads files in the order of their time
            reader = spark.readStream.schema("ts timestamp, id bigint").option("maxFilesPerTrigger", 1)
            frames[stream] = reader.parquet(f"{home / stream}")

        window = wm.time_window("10 minutes", ts="ts")
        paid = wm.join(frames["orders"], frames["payments"], on=wm.equal("id"), window=window, name="paid")
        sent = wm.join(
            paid.select("right_ts", "left_id"),
            frames["parcels"],
            on=wm.equal("left_id", "id"),
            window=wm.time_window("10 minutes", left_ts="right_ts", right_ts="ts"),
            name="sent",
        )
        query = (
            sent.writeStream.format("parquet")
            .option("path", f"{home / 'sent'}")
            .option("checkpointLocation", f"{home / 'checkpoint'}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        for join in ("paid", "sent"):
            print(f"{join}: {sum(wm.metrics(progress)[join].pairs for progress in query.recentProgress)} pairs")
        found = spark.read.parquet(f"{home / 'sent'}").select("id").collect()
        print("orders sent in time:", sorted(row.id for row in found))
    spark.stop()


if __name__ == "__main__":
    main()
