"""Makes a local Spark session for joins, and checks the session of a user."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

import pandas as pd
import pyspark
from packaging.specifiers import SpecifierSet
from pyspark.sql import SparkSession

from watersmeet.spark.java import find_java
from watersmeet.spark.workers import check_workers
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import Predicate
from watersmeet.spec.options import check_threads
from watersmeet.spec.typing import Schemas
from watersmeet.spec.zones import comparison_by_zone

__all__ = [
    "RECOMMENDED",
    "bytes_setting",
    "check_session",
    "check_time_zone",
    "flag_setting",
    "is_case_sensitive",
    "session",
    "workers_settings",
]

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
POLICY: Final = "spark.sql.streaming.multipleWatermarkPolicy"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which may bring packages to this process and to workers that a daemon would not find."""
UTC_NAMES: Final = frozenset(
    {"UTC", "ETC/UTC", "UCT", "ETC/UCT", "GMT", "ETC/GMT", "ZULU", "Z", "+00:00", "GMT+0", "UTC+0"}
)
RECOMMENDED: Final = {
    PROVIDER: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Where a query uses a join's results twice, the second use of a shuffle would not hear of the watermark.
    "spark.sql.exchange.reuse": "false",
}


def session(
    cores: int | None = None, *, name: str = "watersmeet", memory: str = "4g", more: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a local Spark session with the settings that joins need.

    Parameters
    ----------
    cores
        Threads that Spark uses, and shuffle partitions; all cores of the machine when not given.
    name
        The application's name.
    memory
        Memory of the JVM.
    more
        Further settings of Spark.
    """
    if cores is not None:
        check_threads(cores)
    if not (isinstance(memory, str) and re.fullmatch(r"[1-9]\d*[kmgt]b?", memory, re.IGNORECASE)):
        raise SpecificationError(
            f"memory={memory!r}", "a number and its unit, k, m, g or t", 'give for example memory="4g"'
        )
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run in this environment, not in the machine's
    threads = cores or os.cpu_count() or 1
    builder = (
        SparkSession.builder.appName(name)
        .master(f"local[{threads}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(threads))
        .config("spark.sql.session.timeZone", "UTC")
    )
    for key, value in {**RECOMMENDED, **workers_settings(), **(more or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def workers_settings() -> dict[str, str]:
    """Return what makes workers start faster: a daemon of ours for all of them, where they are sure to find it."""
    found = os.environ["PYSPARK_PYTHON"] == sys.executable and SUBMITTED not in os.environ
    if not found or sys.platform != "linux":
        return {}
    return {
        "spark.python.daemon.module": "watersmeet.spark.daemon",
        # Stateful tasks do not know the setting. If it is on, others get workers, and a daemon, of their own.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    }


def check_session(spark: SparkSession) -> None:
    """Set the settings that joins need on a session; raise if a join would fail later."""
    _check_version("PySpark", pyspark.__version__, ">=4.1", why="earlier ones corrupt large state values")
    _check_version("pandas", pd.__version__, "<3", why="PySpark hands state over in frames of pandas 2")
    given = spark.conf.get(PROVIDER, "")
    if given != ROCKSDB:
        spark.conf.set(PROVIDER, ROCKSDB)  # read when a query starts, so it may be set now
    if spark.conf.get(PROVIDER, "") != ROCKSDB:
        raise SpecificationError(
            f"the session's state store provider is {given or 'the default one'}",
            "RocksDB: transformWithState needs it",
            f'add .config("{PROVIDER}", "{ROCKSDB}") to the session\'s builder',
        )
    policy = spark.conf.get(POLICY, "min")
    if policy != "min":
        raise SpecificationError(
            f"the session's {POLICY} is {policy!r}",
            '"min", Spark\'s default: with any other policy rows of the slower stream are late that should be joined',
            f"spark.conf.unset({POLICY!r}), and give the window idle=… for streams that pause",
        )
    check_workers(spark)


def check_time_zone(spark: SparkSession, predicate: Predicate, schemas: Schemas) -> None:
    """Raise if the session's time zone would give the predicate another meaning than UTC, in which joins compute."""
    # Spark Connect checks a default like a value, and no zone is called "": this one always has a value of its own.
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    comparison = None if zone.upper() in UTC_NAMES else comparison_by_zone(predicate, schemas)
    if comparison is not None:
        raise SpecificationError(
            f"{comparison} depends on the session's time zone, which is {zone}",
            "in zones other than UTC timestamps compared with timestamps alone, at most hours and minutes apart",
            'compute what is compared before the join, or set spark.sql.session.timeZone to "UTC"',
        )


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether the session distinguishes names that differ only in case; by default it does not."""
    return (spark.conf.get("spark.sql.caseSensitive", "false") or "").lower() == "true"


def flag_setting(spark: SparkSession, name: str) -> bool:
    """Return a setting that is ``true`` or ``false``; ``true`` when not given."""
    given = str(spark.conf.get(name, None) or "true").lower()
    if given not in ("true", "false"):
        raise SpecificationError(
            f"{name} is {given!r}", "true or false", f'spark.conf.set("{name}", "false"), or leave it unset'
        )
    return given == "true"


def bytes_setting(spark: SparkSession, name: str, *, example: int) -> int | None:
    """Return a setting that is a number of bytes, or None if it is not set."""
    given = spark.conf.get(name, None)
    if not given:
        return None
    if not given.isdecimal():
        raise SpecificationError(f"{name} is {given!r}", "a number of bytes", f'write "{example}"')
    return int(given)


def _check_version(package: str, given: str, allowed: str, *, why: str) -> None:
    """Raise unless ``given`` is a version that joins work with."""
    if given not in SpecifierSet(allowed, prereleases=True):
        raise SpecificationError(
            f"{package} {given} is installed", f"{allowed}: {why}", f"pip install '{package.lower()}{allowed}'"
        )
