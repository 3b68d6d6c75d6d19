"""A side of a join whose rows lie in messages: what plan and pipeline have to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.spark.decoding.decoder import Decoder

__all__ = ["Decoded", "Side"]


@dataclass(frozen=True, eq=False)
class Decoded:
    """A side of a join, as :func:`watersmeet.decode` returns it: messages, and what they are to be decoded as.

    It has what a join asks of a DataFrame before it takes rows.
    """

    frame: DataFrame
    """The messages, and the columns that are kept beside them, under plain names."""
    schema: StructType
    """The columns of the side."""
    decoder: Decoder

    @property
    def isStreaming(self) -> bool:  # noqa: N802 -- Spark's name
        """Whether the messages come from a stream."""
        return self.frame.isStreaming

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802 -- Spark's name
        """The session of the messages."""
        return self.frame.sparkSession


Side = DataFrame | Decoded
"""What a join takes as one of its streams."""
