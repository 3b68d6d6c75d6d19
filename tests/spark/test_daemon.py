"""Workers of ``wm.session`` are forked from a process that has imported what joins need."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.spark.session import workers_settings

DAEMON = "watersmeet.spark.daemon"
WITH_A_THREAD = f"""
import runpy, sys, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
runpy.run_module("{DAEMON}", run_name="__main__", alter_sys=True)
"""


def test_workers_have_imported_what_joins_need(spark: SparkSession) -> None:
    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        missing = {"pyspark.worker", "watersmeet.spark.processor", "watersmeet.spark.multiway.processor"} - {
            *sys.modules
        }
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        for _ in batches:
            yield pa.record_batch({"missing": [", ".join(missing)], "daemon": [" ".join(command[1:3])]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(look, "missing string, daemon string").collect()
    assert found == ("", f"-m {DAEMON}")


def test_one_daemon_forks_all_workers(spark: SparkSession) -> None:
    rows = spark.range(5)
    assert wm.join(rows, rows, wm.equal("id"), wm.count_window(9)).count() == 5
    below = {child.pid for child in psutil.Process().children(recursive=True)}
    started = [one for one in psutil.process_iter(["cmdline", "ppid"]) if one.pid in below]
    workers = [one for one in started if DAEMON in (one.info["cmdline"] or ())]
    daemons = {one.info["ppid"] for one in workers} & {one.pid for one in workers}
    assert len(workers) > len(daemons) == 1


def test_workers_draw_different_random_numbers(spark: SparkSession) -> None:
    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            time.sleep(0.3)  # the other task gets another worker
            yield pa.record_batch({"worker": [os.getpid()], "drawn": [np.random.random()]})  # noqa: NPY002 -- its seed

    one, other = spark.range(0, 2, 1, 2).mapInArrow(draw, "worker bigint, drawn double").collect()
    assert one.worker != other.worker
    assert one.drawn != other.drawn


def test_a_process_with_threads_is_not_forked_from() -> None:
    """Spark's own daemon takes its place, and says where it listens."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # as Spark gives it
    for program, daemon in ((["-c", WITH_A_THREAD], "pyspark.daemon"), (["-m", DAEMON], DAEMON)):
        command = [sys.executable, *program, "pyspark.worker"]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
            assert started.stdin is not None
            assert started.stdout is not None
            assert 0 < int.from_bytes(started.stdout.read(4), "big") < 1 << 16, "the port"
            assert daemon in Path(f"/proc/{started.pid}/cmdline").read_text().split("\0")
            started.stdin.close()  # so Spark ends it
            started.wait(30)


def test_only_where_workers_run_this_python(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Python may lack the package, and then nothing in Python would run."""
    assert spark.conf.get("spark.python.daemon.module") == DAEMON
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/another")
    assert not workers_settings()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert workers_settings()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not workers_settings()
