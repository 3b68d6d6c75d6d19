"""What tests of your own joins need: streams fed by hand, two runners, and a comparison.

Event time is data, so a test needs no clock: :class:`Feed` makes rows at moments, and says which of them come together.
The runners push the same rows through ``StreamJoin`` and through a streaming query of ``wm.join``: a push is a
micro-batch. So both see the same watermark before every push, and the results are equal, late rows and rows that meet
nobody included. Neither ends its streams: what still waits when the last push is done does not come out.

``import watersmeet`` does not load this module, and PySpark is needed for :func:`join_on_spark` alone. Cost: a push
takes one file of each stream, and on Spark about a second.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from watersmeet.spec.errors import SchemaError
from watersmeet.spec.kinds import How
from watersmeet.spec.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Feed", "assert_same_pairs", "join_in_process", "join_on_spark", "moment"]

START: Final = datetime(2026, 1, 5, tzinfo=UTC)
FIRST_WRITTEN: Final = 1_700_000_000
"""The time of the first file; Spark reads files in the order of their times."""
MOST_SHOWN: Final = 20


def moment(seconds: float) -> datetime:
    """Return the moment so many seconds after midnight of 5 January 2026 (UTC), where all feeds begin.

    Examples
    --------
    >>> moment(1.5).isoformat()
    '2026-01-05T00:00:01.500000+00:00'
    """
    return START + timedelta(seconds=seconds)


class Feed:
    """A stream that a test feeds by hand.

    Parameters
    ----------
    schema
        The stream's columns. On Spark its timestamps need a time zone: ``pyarrow.timestamp("us", "UTC")``.
    ts
        The column of the rows' moments.

    Examples
    --------
    >>> import pyarrow as pa
    >>> trades = Feed(pa.schema([("ts", pa.timestamp("us", "UTC")), ("price", pa.int64())]))
    >>> trades = trades.add(0, price=100).add(0.5, price=101).then().add(2, price=99)
    >>> [push["price"].to_pylist() for push in trades.pushes]
    [[100, 101], [99]]
    """

    def __init__(self, schema: pa.Schema, *, ts: str = "ts") -> None:
        if ts not in schema.names:
            raise SchemaError(f"ts={ts!r}", f"one of the columns: {', '.join(schema.names)}", "check the spelling")
        self.schema = schema
        self._ts = ts
        self._pushes: list[list[dict[str, Any]]] = [[]]

    def add(self, at: float, /, **values: object) -> Self:
        """Add a row at a moment, in seconds as for :func:`moment`; columns that are not given are null."""
        unknown = sorted(values.keys() - set(self.schema.names) | values.keys() & {self._ts})
        if unknown:
            raise SchemaError(
                f"a row with values for {', '.join(unknown)}",
                f"columns of the schema but {self._ts}: {', '.join(self.schema.names)}",
                f"check the spelling; the moment goes first and becomes {self._ts}",
            )
        self._pushes[-1].append({self._ts: moment(at), **values})
        return self

    def then(self) -> Self:
        """End the push: rows to come are in the next one, and on Spark in the next micro-batch."""
        self._pushes.append([])
        return self

    @property
    def pushes(self) -> list[pa.Table]:
        """The rows so far, push by push."""
        return [pa.Table.from_pylist(rows, self.schema) for rows in self._pushes]


def join_in_process(left: Feed, right: Feed, *, on: wm.Predicate | str, window: Window, how: How = "inner") -> pa.Table:
    """Return what a ``StreamJoin`` gives for all pushes of two feeds; ``on``, ``window`` and ``how`` are its own."""
    with wm.StreamJoin(left=left.schema, right=right.schema, on=on, window=window, how=how) as join:
        return pa.concat_tables([join.push(left=rows, right=others) for rows, others in _together(left, right)])


def join_on_spark(
    spark: SparkSession, left: Feed, right: Feed, *, on: wm.Predicate | str, window: Window, how: How = "inner"
) -> pa.Table:
    """Return what a streaming query of ``wm.join`` gives for all pushes of two feeds, each one micro-batch.

    The session has to be a local one: the rows go through files in a temporary folder of this machine.
    """
    with tempfile.TemporaryDirectory(prefix="watersmeet-testing-") as name:
        home = Path(name)
        for number, tables in enumerate(_together(left, right)):
            for side, table in zip(("left", "right"), tables, strict=True):
                _write(home / side, number, table)
        results = wm.join(_stream(spark, home / "left"), _stream(spark, home / "right"), on, window, how=how)
        query = (
            results.writeStream.format("parquet")
            .option("path", str(home / "results"))
            .option("checkpointLocation", str(home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return spark.read.schema(results.schema).parquet(str(home / "results")).toArrow()


def assert_same_pairs(found: pa.Table, expected: pa.Table | Iterable[Mapping[str, object]]) -> None:
    """Raise ``AssertionError`` unless results have the same rows, each as often, in any order.

    Parameters
    ----------
    found
        Results of a join.
    expected
        Other results, which have the same columns; or rows as dictionaries, whose columns alone are compared.

    Examples
    --------
    >>> import pyarrow as pa
    >>> assert_same_pairs(pa.table({"a": [1, 2], "b": [3, 4]}), [{"a": 2}, {"a": 1}])
    """
    if isinstance(expected, pa.Table):
        rows, names = expected.to_pylist(), expected.column_names
        agree = set(names) == set(found.column_names)
    else:
        rows = [dict(row) for row in expected]
        names = list(rows[0]) if rows else found.column_names
        agree = set(names) <= set(found.column_names)
    if not agree:
        raise AssertionError(f"columns are {found.column_names}, expected {names}")
    if any(row.keys() != set(names) for row in rows):
        raise AssertionError(f"expected rows have unlike columns; all need {names}")
    have, want = (_counted(some, names) for some in (found.select(names).to_pylist(), rows))
    wrong = [f"  missing: {row}" for row in (want - have).elements()]
    wrong += [f"  not expected: {row}" for row in (have - want).elements()]
    if wrong:
        more = [f"  and {len(wrong) - MOST_SHOWN} more"] if len(wrong) > MOST_SHOWN else []
        raise AssertionError("\n".join([f"{found.num_rows} rows, expected {len(rows)}:", *wrong[:MOST_SHOWN], *more]))


def _together(left: Feed, right: Feed) -> list[tuple[pa.Table, pa.Table]]:
    """Return the pushes of both feeds; where one has no more, its are empty."""
    both = zip_longest(left.pushes, right.pushes)
    return [(a or left.schema.empty_table(), b or right.schema.empty_table()) for a, b in both]


def _write(folder: Path, number: int, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / f"{number:05d}.parquet"
    pq.write_table(table, file)
    os.utime(file, (FIRST_WRITTEN + number, FIRST_WRITTEN + number))


def _stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a folder's files as a stream, one a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _counted(rows: Iterable[Mapping[str, object]], names: list[str]) -> Counter[str]:
    """Count rows by what they look like: a value of any type has a text, and NaN is the same as NaN there."""
    return Counter(repr({name: _plain(row[name]) for name in sorted(names)}) for row in rows)


def _plain(value: object) -> object:
    """Return a value with all moments in one time zone object: there are several for UTC alone."""
    match value:
        case datetime(tzinfo=zone) if zone is not None:
            return value.astimezone(UTC)
        case dict():
            return {key: _plain(own) for key, own in value.items()}
        case list() | tuple():
            return [_plain(own) for own in value]
    return value
