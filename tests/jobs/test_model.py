"""What a job file may say: all that the joins take, and the published schema is that of the model."""

from __future__ import annotations

import inspect
from pathlib import Path

import watersmeet as wm
from watersmeet.jobs.checks import in_order, window_of
from watersmeet.jobs.example import EXAMPLE
from watersmeet.jobs.model import ManyJoin, PairJoin, schema_text
from watersmeet.jobs.reading import job_of

ROOT = Path(__file__).resolve().parents[2]


def test_every_argument_of_the_joins_is_a_key() -> None:
    """The name of a join is that of its table in the file."""
    for function, part in ((wm.join, PairJoin), (wm.multijoin, ManyJoin)):
        assert set(inspect.signature(function).parameters) - {"name"} == set(part.model_fields) - {"select"}


def test_the_published_schema_is_current() -> None:
    assert (ROOT / "docs" / "job.schema.json").read_text(encoding="utf-8") == schema_text()


def test_the_example_is_a_good_job() -> None:
    file = job_of(EXAMPLE, Path("job.toml"))
    assert file.job.spark.settings == {"spark.sql.shuffle.partitions": 2}


def test_windows_are_those_of_the_library() -> None:
    text = EXAMPLE.replace(
        "[sink]",
        '[joins.three]\nstreams = { p = "pairs", t = "trades", q = "quotes" }\n'
        'on = "p.left_ts = t.ts AND t.symbol = q.symbol"\n'
        'window.time = { p = "1 minute", t = "1 second", q = "1 second" }\n'
        'window.ts = { p = "left_ts", t = "ts", q = "ts" }\n'
        "[sink]",
    )
    job = job_of(text, Path("job.toml")).job
    assert in_order(job) == ["pairs", "three"]
    assert window_of(job.joins["pairs"]) == wm.time_window("10 seconds", ts="ts", lateness="2 seconds")
    assert window_of(job.joins["three"]) == wm.time_window(
        {"p": "1 minute", "t": "1 second", "q": "1 second"}, ts={"p": "left_ts", "t": "ts", "q": "ts"}
    )


def test_sides_may_have_windows_of_their_own() -> None:
    text = EXAMPLE.replace(
        '{ time = "10 seconds", ts = "ts", lateness = "2 seconds" }',
        '{ time = { left = "1 second", right = "2 seconds" }, ts = { left = "ts", right = "ts" }, idle = "1 minute" }',
    )
    window = window_of(job_of(text, Path("job.toml")).job.joins["pairs"])
    assert window == wm.time_window(left="1 second", right="2 seconds", left_ts="ts", right_ts="ts", idle="1 minute")
    counted = EXAMPLE.replace(
        '{ time = "10 seconds", ts = "ts", lateness = "2 seconds" }', "{ count = { left = 5, right = 6 } }"
    )
    assert window_of(job_of(counted, Path("job.toml")).job.joins["pairs"]) == wm.count_window(left=5, right=6)
