"""What a core gives Spark: results for the unpacker, and one report of each micro-batch.

:class:`Report` alone says what is reported. The columns that the operator returns, what the query's progress shows and
adds up, and what the balancer reads all follow from its fields: a new number is a field here, and whoever counts it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum, auto
from typing import Any, Final, Self

import pandas as pd
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.spark.core_ids import KEEPER
from watersmeet.spark.envelope import to_blobs
from watersmeet.spark.result_files import write_results
from watersmeet.spark.schema import Columns
from watersmeet.spec.expression import StreamName

__all__ = ["OUTPUT", "REPORT", "Report", "Total", "ordered_rows", "report_rows", "result_rows", "totals"]


class Total(Enum):
    """How the query's progress adds a number up over all cores."""

    DONE = auto()
    """What a micro-batch did: 0 where no core heard of it."""
    HELD = auto()
    """What is held after it: null where no core heard of it."""


def _column(kind: str, total: Total | None = None) -> Any:  # noqa: ANN401 -- as ``field`` itself
    """Return a field that Spark gets as a column of type ``kind``."""
    return field(default=None if kind == "string" else 0, metadata={"kind": kind, "total": total})


@dataclass(frozen=True, slots=True)
class Report:
    """What one core did in one micro-batch, and what it holds after it."""

    core: int = field(default=KEEPER, metadata={"kind": "int"})
    """The keeper's report is not shown."""
    rows_in: int = _column("bigint", Total.DONE)
    pairs: int = _column("bigint", Total.DONE)
    late_rows: int = _column("bigint", Total.DONE)
    null_rows: int = _column("bigint", Total.DONE)
    unmatched_rows: int = _column("bigint", Total.DONE)
    """Rows of preserved sides that it gave because they met nobody."""
    window_rows: int = _column("bigint", Total.HELD)
    state_bytes: int = _column("bigint", Total.HELD)
    runs: int = _column("int")
    runs_remembered: int = _column("int")
    runs_mapped: int = _column("int")
    runs_read: int = _column("int")
    busy_seconds: float = _column("double")
    work_seconds: float = _column("double")
    """Of the busy time: probing and storing alone."""
    generation: int = _column("bigint")
    """The newest one of the routing table."""
    oldest: int = _column("bigint")
    """The oldest one that it has rows of."""
    newest_bytes: str | None = _column("string")
    """As JSON: how many bytes of each side were stored by the newest generation; of many streams the centre is left."""
    groups: str | None = _column("string")
    """What :class:`~watersmeet.balance.loads.GroupReport` reads."""
    given_elsewhere: int = _column("bigint")
    """Results that it found and another core gives, because owners of groups have changed."""
    bad_messages: int = _column("bigint", Total.DONE)
    """Messages of decoded sides that were left out; earlier versions have no such number."""

    @classmethod
    def read(cls, shown: Mapping[str, Any]) -> Self:
        """Return a report from what the query's progress shows of it."""
        return cls(**shown)

    @property
    def bytes_by_newest(self) -> dict[StreamName, int]:
        """How many bytes of each side were stored by the newest generation."""
        found: dict[StreamName, int] = json.loads(self.newest_bytes or "{}")
        return found


REPORT: Final[Columns] = {column.name: column.metadata["kind"] for column in fields(Report)}
OUTPUT: Final[Columns] = {
    "blob": "binary",
    "file": "string",
    "place": "bigint",
    "decisions": "string",
    "waiting_for": "string",
} | REPORT
"""Results in files or blobs, with a place in each where they are in order, and for each core and micro-batch a report.
The keeper's row has the reasons for the newest generation, and the stream that the watermark waits for."""


def totals(total: Total) -> list[str]:
    """Return the columns that are added up in one way."""
    return [column.name for column in fields(Report) if column.metadata.get("total") is total]


def result_rows(results: pa.Table) -> pd.DataFrame:
    """Return rows of ``OUTPUT`` with results for the unpacker."""
    file = write_results(results)
    return _rows(to_blobs(results) if file is None else pa.nulls(1, pa.binary()), file, Report())


def ordered_rows(blobs: pa.BinaryArray, places: Int64s) -> pd.DataFrame:
    """Return rows of ``OUTPUT`` with results in order: in blobs, since another machine may be the one to read them."""
    return _rows(blobs, None, Report(), place=places)


def report_rows(report: Report, decisions: str | None = None, waiting_for: StreamName | None = None) -> pd.DataFrame:
    """Return a row of ``OUTPUT``: a report, and of the keeper reasons and the stream that is waited for."""
    return _rows(pa.nulls(1, pa.binary()), None, report, decisions=decisions, waiting_for=waiting_for)


def _rows(
    blobs: pa.BinaryArray,
    file: str | None,
    report: Report,
    *,
    place: Int64s | None = None,
    decisions: str | None = None,
    waiting_for: StreamName | None = None,
) -> pd.DataFrame:
    blob = pd.array(blobs, pd.ArrowDtype(pa.binary()))
    more = {"blob": blob, "file": file, "place": place, "decisions": decisions, "waiting_for": waiting_for}
    return pd.DataFrame(more | asdict(report))
