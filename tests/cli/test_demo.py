"""The demonstration, as a user starts it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from watersmeet.cli.demo import in_process
from watersmeet.cli.demo.market import generate
from watersmeet.cli.demo.screen import judge


def run_command(*arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the command line with the same search path as here, so that the package need not be installed."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; {before}; from watersmeet.cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_demo_joins_on_spark_shows_and_proves() -> None:
    finished = run_command("demo", "--rows", "300_000", "--seed", "3")
    assert finished.returncode == 0, finished.stderr
    for expected in (
        "Spark 4.",
        "60,000 trades and 240,000 quotes of 100 symbols (seed 3), in micro-batches of 10 s",
        "a trade meets the quotes of its symbol, at most a second apart, with a bid at most 0.0025 from its price",
        "on left.price >= (right.bid - 25)",
        "time window on left.ts and right.ts",
        "Spark's Python workers have started, in",
        "M pairs/s  window 300,000 rows  to 09:30:00.199",
        "the first 8 of",
        "joined 300,000 rows into",
        "the first of 2 micro-batches took",
        "proof: Spark SQL, one batch join over all rows, counts",
        "it had all rows before it began",
    ):
        assert expected in finished.stdout
    assert "to -" not in finished.stdout
    assert "\r" not in finished.stdout  # carriage returns are for terminals
    assert finished.stderr == ""  # Spark's own log is not shown


def test_demo_without_pyspark_names_the_installation_and_the_other_demo() -> None:
    finished = run_command("demo", before="sys.modules['pyspark'] = None")
    assert finished.returncode == 1
    assert "pip install 'watersmeet[spark,java]'" in finished.stderr
    assert "watersmeet demo --in-process" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_demo_in_process_joins_shows_explains_and_proves() -> None:
    finished = run_command("demo", "--in-process", "--rows", "60_000", "--seed", "3")
    assert finished.returncode == 0, finished.stderr
    for expected in (
        "12,000 trades and 48,000 quotes",
        "a trade meets the quotes of its symbol",
        "M rows/s",
        " rows  to 09:30:0",
        "the first 8 of",
        "joined 60,000 rows into",
        "newest subwindow: bi_sort; order (left.symbol = right.symbol",
        "proof: ",
    ):
        assert expected in finished.stdout
    assert "\r" not in finished.stdout
    assert finished.stderr == ""


def test_demo_ends_quietly_when_its_reader_has_enough() -> None:
    program = f"import sys; sys.path[:] = {sys.path!r}; from watersmeet.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "demo", "--in-process", "--rows", "60_000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 0


def test_demo_refuses_a_number_of_rows_that_is_none() -> None:
    finished = run_command("demo", "--rows", "none")
    assert finished.returncode == 2
    assert "'none' is not a whole number of at least 1" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_oracle_both_checks_of_the_demo_count_the_same() -> None:
    pytest.importorskip("duckdb")
    trades, quotes = generate(40_000, seed=7)
    assert in_process._count_with_duckdb(trades, quotes) == in_process._count_with_numpy(trades, quotes) > 1_000


def test_demo_says_when_the_counts_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge("another way", expected=2, pairs=1, seconds=0.1) == 1
    assert "THE COUNTS DIFFER: another way, counts 2 pairs, the join gave 1" in capsys.readouterr().err


def test_demo_proves_without_duckdb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "is_installed", lambda _: False)
    assert in_process.join_in_process(rows=20_000, seed=5) == 0
    assert "proof: NumPy" in capsys.readouterr().out


def test_demo_works_with_a_single_row() -> None:
    finished = run_command("demo", "--in-process", "--rows", "1")
    assert finished.returncode == 0, finished.stderr
