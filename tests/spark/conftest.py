"""One Spark session for all tests: started on first use, small, on loopback, with a scratch folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streams import PATIENT, write_files
from watersmeet.spark.session import session

Streams = Callable[[str, list[pa.Table]], Path]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    spark = session(
        2,
        name="watersmeet tests",
        memory="2g",
        more=PATIENT | {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")},
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture
def folder_of(tmp_path: Path) -> Streams:
    """Write tables as the files of a stream, one a micro-batch; more may be added later."""

    def write(name: str, tables: list[pa.Table]) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return write_files(folder, tables)

    return write
