"""The packages of Spark that a format needs, as settings of a job. This module alone knows them.

Spark's package for Kafka asks for a token provider of its own version. Not every release of that is to be had; another,
if named beside it, gives way to the one that is asked for. So Ivy leaves it out, and Spark loads one as a file.
"""

from __future__ import annotations

from typing import Final

from packaging.version import Version

__all__ = ["lines_for"]

NEWEST_CONNECTOR: Final = Version("4.2.0")
"""The newest that is to be had. PySpark 4.3 runs with it; an earlier one takes that of its version."""
PROVIDER_VERSION: Final = "4.0.0"
FETCH: Final = "mvn dependency:copy -DoutputDirectory=jars -Dartifact=org.apache.spark"
"""What puts a package of Spark into the folder ``jars``."""


def lines_for(format_: str, spark: str) -> tuple[str, ...]:
    """Return what the table ``[spark.settings]`` needs for a format, on a version of PySpark; nothing for most."""
    if format_ == "kafka":
        connector, provider = min(Version(spark), NEWEST_CONNECTOR), "spark-token-provider-kafka-0-10_2.13"
        return (
            f'"spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}"',
            f'"spark.jars.excludes" = "org.apache.spark:{provider}"',
            f'"spark.jars" = "jars/{provider}-{PROVIDER_VERSION}.jar"  # {FETCH}:{provider}:{PROVIDER_VERSION}',
        )
    if format_ == "delta":
        return (
            '"spark.jars.packages" = "io.delta:delta-spark_2.13:RELEASE"',
            '"spark.sql.extensions" = "io.delta.sql.DeltaSparkSessionExtension"',
            '"spark.sql.catalog.spark_catalog" = "org.apache.spark.sql.delta.catalog.DeltaCatalog"',
        )
    return ()
