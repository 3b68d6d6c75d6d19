"""Pathway's process: its interval join with an equality, in an environment of its own.

``python -I pathway_worker.py pathway TASK`` prints JSON, one object a line. A band is an equality on buckets of values,
right rows copied into each bucket that their band touches, and a filter. Rows behind the window are forgotten, as the
documentation recommends (``common_behavior(cutoff=…)``).

The folder of each side has files of ``batch`` rows from the start, read as fast as they can be joined. A line says how
many rows have been taken and how many pairs were found, whenever Pathway ends one of its own small batches. Then come
small files, each when all pairs of the one before are out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

BUCKET_BANDS: Final = 4
COMMIT_MS: Final = 20
SIDES: Final = ("left", "right")
ROWS: Final = 1_000_003


class _Feeder:
    """Hears what has been taken, and gives the small files."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._state = {"left": 0, "right": 0, "pairs": 0, "checksum": 0}
        self._until = task["rows"]
        self._given = 0
        self._begin = 0.0

    def on_change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ANN401, ARG002, FBT001 -- Pathway's
        if is_addition:
            self._state[row["what"]] = row["n"]
            if row["what"] == "pairs":
                self._state["checksum"] = row["checksum"]

    def on_time_end(self, moment: int) -> None:  # noqa: ARG002 -- Pathway's
        now = time.perf_counter()
        print(json.dumps({**self._state, "at": now}), flush=True)
        if self._state["left"] == self._state["right"] == self._until:
            if self._given:
                print(json.dumps({"seconds": now - self._begin}), flush=True)
            self._give_next()

    def _give_next(self) -> None:
        small = self._task["small"]
        if self._given == len(small["left"]):
            print(json.dumps(None), flush=True)
            os._exit(0)  # a query over a folder that is watched has no end
        self._begin = time.perf_counter()
        for side in SIDES:
            file = Path(small[side][self._given])
            os.link(file, Path(self._task["folders"][side]) / file.name)
        self._given += 1
        self._until += self._task["small_rows"]


def main(task: dict[str, Any]) -> None:
    """Build the query, then run it."""
    os.environ["PATHWAY_THREADS"] = str(task["cores"])
    import pathway as pw  # noqa: PLC0415 -- in the peer's environment, after its threads were set

    row = pw.schema_from_types(k=int, n=int, payload=int)
    window, half = task["window"], task["band"]
    wide = BUCKET_BANDS * half
    left, right = (
        pw.io.csv.read(
            task["folders"][side],
            schema=row,
            mode="streaming",
            autocommit_duration_ms=COMMIT_MS,
            max_backlog_size=2 * task["batch"],
        )
        for side in SIDES
    )
    pw.io.register_input_synchronization_group(left.n, right.n, max_difference=task["batch"])
    near = pw.temporal.interval(-window, window)
    forget = pw.temporal.common_behavior(cutoff=window + 4 * task["batch"])
    pair = {"lk": pw.left.k, "ln": pw.left.n, "lp": pw.left.payload}
    pair |= {"rk": pw.right.k, "rn": pw.right.n, "rp": pw.right.payload}
    if task["condition"] == "equality":
        pairs = left.interval_join(right, left.n, right.n, near, left.k == right.k, behavior=forget).select(**pair)
    else:

        def touched(k: int) -> tuple[int, ...]:
            return tuple(range((k - half) // wide, (k + half) // wide + 1))

        low = left.with_columns(bucket=pw.this.k // wide)
        copies = right.with_columns(bucket=pw.apply_with_type(touched, tuple[int, ...], pw.this.k))
        copies = copies.flatten(pw.this.bucket)
        joined = low.interval_join(copies, low.n, copies.n, near, low.bucket == copies.bucket, behavior=forget)
        pairs = joined.select(**pair).filter((pw.this.lk - pw.this.rk <= half) & (pw.this.rk - pw.this.lk <= half))
    count, total = pw.reducers.count(), pw.reducers.sum
    found = pairs.reduce(n=count, checksum=total((pw.this.lp * 7 + pw.this.rp) % ROWS)).select(
        what="pairs", n=pw.this.n, checksum=pw.this.checksum
    )
    taken = [
        side.reduce(n=count).select(what=name, n=pw.this.n, checksum=0)
        for name, side in zip(SIDES, (left, right), strict=True)
    ]
    feeder = _Feeder(task)
    pw.io.subscribe(found.concat_reindex(*taken), feeder.on_change, on_time_end=feeder.on_time_end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main(json.loads(sys.argv[2]))
