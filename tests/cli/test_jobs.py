"""The commands about job files, as a user starts them: what they print, and with which codes they end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from watersmeet.cli.extras import MissingExtraError
from watersmeet.cli.main import _jobs, main
from watersmeet.jobs.model import Job
from watersmeet.jobs.reading import read_job


def command(*arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the command line with the same search path as here, so that the package need not be installed."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; {before}; from watersmeet.cli.main import main; sys.exit(main())"
    )
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_init_writes_a_job_that_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.toml"
    assert main(["init", str(file)]) == 0
    assert f"watersmeet run {file}" in capsys.readouterr().out
    assert main(["explain", str(file)]) == 0
    told = capsys.readouterr().out
    for expected in (
        "trades near quotes (job.toml)",
        "trades: 20 generated rows a second",
        "pairs: trades (left) with quotes (right)",
        "gives pairs of rows that meet",
        "a left row stays 10 seconds",
        "kept: left rows for 12 seconds of event time",
        "it is counted and left out",
        "the terminal, at most 5 of a micro-batch",
        "a micro-batch every 2 seconds, until SIGTERM or Ctrl-C",
        "without a checkpoint: each start begins anew",
        "`idle` bounds that",
    ):
        assert expected in told


def test_init_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.toml"
    file.write_text("mine", encoding="utf-8")
    assert main(["init", str(file)]) == 1
    assert "a file that is not there yet" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "mine"


@pytest.mark.long
def test_the_job_of_init_runs(tmp_path: Path) -> None:
    """It never ends by itself; so it is asked to as soon as it has shown results, and its live page has too."""
    file = tmp_path / "job.toml"
    assert main(["init", str(file)]) == 0
    program = f"import sys; sys.path[:] = {sys.path!r}; from watersmeet.cli.main import main; sys.exit(main())"
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-c", program, "run", str(file), "--ui", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        page = next(line for line in lines if line.startswith("live page: ")).split()[-1]
        said = [next(line for line in lines if "results" in line and "micro-batch" in line)]
        with urlopen(page, timeout=30) as answer:  # noqa: S310 -- on this machine
            assert b"<html" in answer.read()
        with urlopen(f"{page}metrics", timeout=30) as answer:  # noqa: S310
            assert b"watersmeet_" in answer.read()
        process.terminate()
        said += list(lines)
    assert process.returncode == 0, (tmp_path / "log").read_text(errors="replace")
    shown = "".join(said)
    assert "left_symbol" in shown
    assert "latency from event time p50" in shown
    assert "\r" not in shown


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ui", "99999"], "'--ui': Input should be less than or equal to 65535"),
        (["--ui-host", "0.0.0.0"], "without --ui PORT"),  # noqa: S104 -- refused
        (["--ui", "0", "--ui-host", "0.0.0.0"], "or give --ui-token"),  # noqa: S104
        (["--ui", "0", "--ui-token", "short"], "export WATERSMEET_UI_TOKEN="),
    ],
)
def test_a_page_that_cannot_be_shown_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    file = tmp_path / "job.toml"
    assert main(["init", str(file)]) == 0
    code: object
    try:
        code = main(["run", str(file), *options])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert told in capsys.readouterr().err


def test_schema_prints_the_schema_of_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) == set(Job.model_fields)
    assert schema["additionalProperties"] is False


def test_a_missing_pyspark_names_the_extra(tmp_path: Path) -> None:
    finished = command("run", str(tmp_path / "job.toml"), before="sys.modules['pyspark'] = None")
    assert finished.returncode == 1
    assert "`watersmeet run` needs the package pyspark" in finished.stderr
    assert "pip install 'watersmeet[spark,java]'" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_missing_pydantic_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Typer of today loads Pydantic itself; the extra brings it whatever Typer does."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'watersmeet\[spark,java\]'"):
        _jobs("run")


EXPLAINED = """
checkpoint = "checkpoint"
[streams.orders]
format = "kafka"
servers = "localhost:9092"
topic = "orders"
schema = "at TIMESTAMP, id INT"
[streams.parcels]
format = "json"
path = "parcels"
schema = "at TIMESTAMP, id INT"
files_per_trigger = 3
[streams.returns]
format = "delta"
path = "s3a://bucket/returns"
[tables.customers]
format = "parquet"
path = "customers"
[joins.sent]
left = "orders"
right = "parcels"
on = "left.id = right.id"
window = { time = "1 day", ts = "at" }
how = "left"
late = "keep"
order = "outer"
[joins.all]
streams = { s = "sent", r = "returns" }
on = "s.left_id = r.id"
window = { count = 1000 }
[joins.named]
left = "all"
right = "customers"
on = "left.r_id = right.id"
[sink]
format = "kafka"
servers = "localhost:9092"
topic = "sent"
key = "r_id"
"""


def test_explain_says_what_is_kept_guaranteed_and_may_go_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(EXPLAINED, encoding="utf-8")
    assert main(["explain", str(file)]) == 0
    told = capsys.readouterr().out
    for expected in (
        "orders: topic orders of Kafka at localhost:9092",
        f"json files put in {tmp_path / 'parcels'}, with at TIMESTAMP, id INT, at most 3 files a micro-batch",
        "rows added to the Delta table in s3a://bucket/returns",
        "customers: a table to look up",
        "gives pairs, and each left row that meets nobody, once",
        'it comes out with its stream\'s name in a last column "late"',
        "as soon as both streams are 1 day further in event time",
        "sent as s, returns as r",
        "kept: the last 1,000 rows of s, the last 1,000 rows of r",
        "no row is late",
        "each row looks in the table when it comes",
        "with r_id as key",
        "each at least once",
        f"keeps a checkpoint in {tmp_path / 'checkpoint'}: a restart goes on there",
        "kafka and delta need packages of Spark",
        "`watersmeet doctor job.toml` says which",
        "a value of Kafka that is not JSON",
        "sent: without lateness",
        "all: a count window goes by the order of arrival",
    ):
        assert expected in told, expected
    assert read_job(file).job.sink.format == "kafka"


@pytest.mark.long
def test_doctor_looks_at_all_that_joins_need() -> None:
    finished = command("doctor")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for expected in (
        "ok  Python 3.",
        "ok  pyspark ",
        "ok  Java: ",
        " GB of memory",
        " GB free in ",
        "kernels are compiled",
    ):
        assert expected in finished.stdout
    assert "the workers have all that joins need" in finished.stdout
    assert "shuffle partitions for" in finished.stdout
    assert "joins run here" in finished.stdout
    assert "WARN" not in finished.stderr


def test_doctor_says_what_is_missing() -> None:
    finished = command("doctor", before="sys.modules['pandas'] = None")
    assert finished.returncode == 1
    assert "no  not installed: pandas" in finished.stdout
    assert "next step: pip install 'watersmeet[spark]'" in finished.stdout
    assert "Spark is not started before this is changed" in finished.stdout
    assert "Traceback" not in finished.stderr


@pytest.mark.long
def test_warm_up_compiles_every_kernel(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    finished = command("warm-up", "--cache", str(cache))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"export NUMBA_CACHE_DIR={cache}" in finished.stdout
