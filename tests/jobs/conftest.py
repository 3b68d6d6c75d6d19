"""One Spark session for the jobs that run in this process, made as the runner makes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from streams import PATIENT
from watersmeet.jobs.model import SparkPart
from watersmeet.jobs.runner import job_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    settings = PATIENT | {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    part = SparkPart.model_validate({"master": "local[2]", "memory": "1g", "settings": settings})
    spark = job_session(part, "watersmeet tests of jobs")
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()
