"""Late rows on Spark, with ``late="keep"``: a row of the results, marked in a last column.

A streaming query has one sink, so a second DataFrame of late rows would be a second query, which reads and joins
everything once more. A result whose column ``late`` names a stream is no pair: it is a row of that stream, as it came,
with nulls for all others. In results of the join ``late`` is null. Spark's checkpoint makes both exactly once alike.

A row may come to several cores. The packer marks the *first* of a row's copies; the core that gets this one gives the
row when it is late. All cores judge by one watermark, so a row is late on all of them or on none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from watersmeet.spec.errors import SchemaError
from watersmeet.spec.expression import StreamName

__all__ = ["LATE", "LateRows"]

LATE: Final = "late"
"""The last column of results."""


@dataclass(frozen=True)
class LateRows:
    """How late rows leave with the results."""

    schemas: Mapping[StreamName, pa.Schema]
    result: pa.Schema
    """Of the join's results: all columns of all streams, without hidden ones."""

    def __post_init__(self) -> None:
        """Raise where results have such a column already."""
        taken = [name for name in self.result.names if name.lower() == LATE]
        if taken:
            raise SchemaError(
                f'late="keep" with a result column {taken[0]!r}',
                f"results without a column {LATE!r}, which is what names the stream of a late row",
                f"rename it before the join, for example with withColumnRenamed({LATE!r}, …)",
            )

    @property
    def schema(self) -> pa.Schema:
        """What leaves a core."""
        return self.result.append(pa.field(LATE, pa.string()))

    def of_results(self, results: pa.Table) -> pa.Table:
        """Return results of the join as they leave."""
        late = pa.nulls(results.num_rows, pa.string())
        return results.add_column(len(self.result), self.schema.field(LATE), late)  # before hidden ones

    def of_rows(self, late: Mapping[StreamName, pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield late rows as they leave."""
        for stream, rows in late.items():
            columns = [
                column if name == stream else pa.nulls(rows.num_rows, field.type)
                for name, schema in self.schemas.items()
                for field, column in zip(schema, rows.columns if name == stream else schema, strict=True)
            ]
            names = pa.array([stream]).take(pa.array([0] * rows.num_rows, pa.int64()))
            yield pa.Table.from_arrays([*columns, names], schema=self.schema)
