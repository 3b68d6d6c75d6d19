"""A program that serves a real query's page, reads it as a browser does, and prints what it was told as JSON.

A process of its own, because classic sessions and those of Connect do not go together in one.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from pathlib import Path
from urllib.request import urlopen

import record

import watersmeet as wm
from watersmeet.live import serve


def main(kind: str) -> None:
    """Join three micro-batches on one kind of session."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        spark = record.session(kind, Path(home))
        query = record.begin(spark, Path(home), (3, 3))
        server = serve(query, 0)
        with urlopen(f"{server.url}events") as events:  # noqa: S310 -- our own page
            told = [json.loads(line.removeprefix(b"data: ")) for line in events if line.startswith(b"data: ")]
        has_ended = server.wait(30)
        answer = {
            "session": type(spark).__module__,
            "numbers": [point["number"] for message in told for point in message["points"]],
            "true numbers": [progress.batchId for progress in query.recentProgress],
            "ended": [message["ended"] for message in told],
            "pairs": told[-1]["joins"]["near"]["sums"]["pairs"],
            "true pairs": sum(wm.metrics(progress)["near"].pairs for progress in query.recentProgress),
            "server has ended": has_ended,
            "threads": [thread.name for thread in threading.enumerate() if thread.name.startswith("watersmeet live")],
        }
        spark.stop()
    print(json.dumps(answer))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
