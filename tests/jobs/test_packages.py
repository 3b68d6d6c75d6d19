"""Packages of Spark: which settings are advised, that all say the same, and what is told if Spark does not start."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkRuntimeError

from documents import DOCS
from watersmeet.jobs.example import EXAMPLE
from watersmeet.jobs.packages import lines_for
from watersmeet.jobs.runner import _not_started

IVY = Path(__file__).parents[1] / "kafka" / "ivy.xml"
EXITED = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
UNRESOLVED = "unresolved dependency: org.apache#spark-sql-kafka;9: not found"
KAFKA = f'Exception in thread "main" java.lang.RuntimeException: [{UNRESOLVED}]'
TOO_SMALL = "Error occurred during initialization of VM\nToo small maximum heap\n"


def test_the_advice_for_kafka_is_what_the_tests_run_with() -> None:
    advised = "\n".join(lines_for("kafka", "4.3.0"))
    for name in ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"):
        (version,) = re.findall(rf'name="{name}" rev="([^"]+)"', IVY.read_text(encoding="utf-8"))
        assert f"{name}:{version}" in advised or f"{name}-{version}.jar" in advised
    assert set(tomllib.loads(advised)) == {"spark.jars", "spark.jars.excludes", "spark.jars.packages"}


def test_an_earlier_pyspark_takes_the_connector_of_its_own_version() -> None:
    assert lines_for("kafka", "4.1.1")[0].endswith('0-10_2.13:4.1.1"')


def test_documents_give_the_same_advice() -> None:
    for page in ("jobs.md", "kafka.md"):
        assert "\n".join(lines_for("kafka", "4.3.0")) in (DOCS / page).read_text(encoding="utf-8"), page


def test_the_job_of_init_has_the_advice_as_comments() -> None:
    head, _, _ = EXAMPLE.partition('# "spark.jars.packages"')
    advised = re.sub(r"(?m)^# ", "", EXAMPLE.removeprefix(head))
    settings = tomllib.loads(head + advised)["spark"]["settings"]
    assert settings.keys() > tomllib.loads("\n".join(lines_for("kafka", pyspark.__version__))).keys()


@pytest.mark.parametrize(
    ("log", "given", "step"),
    [
        (KAFKA, UNRESOLVED, '"spark.jars.excludes" = '),
        (TOO_SMALL, "Too small maximum heap", "correct [spark]"),
        ("Error: Unable to access jarfile\n", "Unable to access jarfile", "correct [spark]"),
        ("nothing of use", "Java gateway process exited", "correct [spark]"),
    ],
)
def test_the_reason_is_taken_from_sparks_log(tmp_path: Path, log: str, given: str, step: str) -> None:
    file = tmp_path / "spark.log"
    file.write_text(f"WARNING: incubator modules\n{log}\n\tat org.apache.spark.Some\n", encoding="utf-8")
    error = _not_started(EXITED, file)
    assert error.given.startswith(f"Spark did not start: {given}")
    assert step in error.next_step


@pytest.mark.long
def test_a_jvm_that_gives_up_is_told_in_three_parts(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(f'{EXAMPLE}\n"spark.jars.packages" = "no coordinates"\n', encoding="utf-8")
    program = f"import sys; sys.path[:] = {sys.path!r}; from watersmeet.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "run", str(job)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert "watersmeet: Spark did not start" in finished.stderr
    assert "next step: correct [spark] in the job file" in finished.stderr
    assert "Traceback" not in finished.stderr
