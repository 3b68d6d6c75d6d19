"""What a core gives Spark: its columns are public, in the query's progress. Without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.spark.output import OUTPUT, REPORT, Report, Total, report_rows, result_rows, totals
from watersmeet.spark.result_files import read_results
from watersmeet.spark.schema import ddl

REPORTED = (
    "core int, rows_in bigint, pairs bigint, late_rows bigint, null_rows bigint, unmatched_rows bigint, "
    "window_rows bigint, state_bytes bigint, runs int, runs_remembered int, runs_mapped int, runs_read int, "
    "busy_seconds double, work_seconds double, generation bigint, oldest bigint, newest_bytes string, groups string, "
    "given_elsewhere bigint, bad_messages bigint"
)


def test_what_a_core_reports_is_what_it_always_has() -> None:
    assert ddl(REPORT) == REPORTED
    columns = "blob binary, file string, place bigint, decisions string, waiting_for string"
    assert ddl(OUTPUT) == f"{columns}, {REPORTED}"


def test_what_progress_adds_up() -> None:
    assert totals(Total.DONE) == ["rows_in", "pairs", "late_rows", "null_rows", "unmatched_rows", "bad_messages"]
    assert totals(Total.HELD) == ["window_rows", "state_bytes"]


def test_a_report_is_read_as_it_was_written() -> None:
    report = Report(4, rows_in=7, busy_seconds=0.5, newest_bytes='{"left": 3, "right": 0}', groups="[]")
    (row,) = report_rows(report, "a reason").to_dict("records")
    assert list(row) == list(OUTPUT)
    assert row["decisions"] == "a reason"
    assert Report.read({name: row[name] for name in REPORT}) == report
    assert report.bytes_by_newest == {"left": 3, "right": 0}
    assert Report().bytes_by_newest == {}


def test_results_leave_in_a_file_or_as_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = pa.table({"x": [1, 2, 3]})
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    (row,) = result_rows(results).to_dict("records")
    assert read_results(row["file"]).read_all().equals(results)
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    (row,) = result_rows(results).to_dict("records")
    assert row["file"] is None
    assert pa.ipc.open_stream(row["blob"]).read_all().equals(results)
    assert row["core"] < 0, "no report is shown beside results"
