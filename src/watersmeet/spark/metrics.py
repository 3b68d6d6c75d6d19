"""The metrics of joins: their names in a query's progress, and typed values of what it shows there.

A query's progress has observations by name, one of each join and those of the user. A join's name is its observation's,
so it is unique in a query. Those of joins are told apart from others by their fields. Spark Connect gives a record as
two fields, its values and its schema; here both kinds of sessions give the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.spark.output import Report, Total, totals
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.options import check_name

__all__ = ["Balanced", "JoinProgress", "join_name", "metrics", "observations"]

FIRST: Final = "watersmeet"
LATER: Final = frozenset({"bad_messages"})
"""What the progress of an earlier version, which may be read from a file, does not have: it is 0 then."""
FIELDS: Final = frozenset({"cores", "balance", "waiting_for", "join", *totals(Total.DONE), *totals(Total.HELD)}) - LATER

_numbers = itertools.count(1)


class Balanced(NamedTuple):
    """The routing table of a micro-batch."""

    generation: int | None
    """A number that grows with every change of balance; None in a micro-batch without any rows."""
    decisions: tuple[str, ...]
    """The reasons for the last change."""


@dataclass(frozen=True, slots=True)
class JoinProgress:
    """What one join of a query did in one micro-batch, and what it holds after it."""

    rows_in: int
    """Rows that reached a core; a row counts once for each core that it reaches."""
    pairs: int
    """Pairs that were given, and with ``"semi"`` rows; without ``unmatched_rows``."""
    late_rows: int
    """Rows behind the watermark, which are not joined; ``late="keep"`` gives them."""
    null_rows: int
    """Rows that meet nobody because a null cannot match."""
    bad_messages: int
    """Messages that ``decode(…, bad="drop")`` left out."""
    unmatched_rows: int
    """With ``how``: rows that were given because they met nobody."""
    window_rows: int | None
    """Rows that the cores hold; a row counts on each core that stores it. None where no core heard of the batch."""
    state_bytes: int | None
    waiting_for: str | None
    """The stream that holds the watermark of a time window back; None where there is none."""
    balance: Balanced
    cores: tuple[Report, ...]
    """The same for each core that has rows or may get some."""
    join: str
    """A digest of what the join is to its checkpoint."""


def join_name(given: str | None) -> str:
    """Return a join's name: the one that is given, or one that no other join of this process has by default."""
    if given is not None:
        check_name(given)
        return given
    number = next(_numbers)
    return FIRST if number == 1 else f"{FIRST} {number}"


def metrics(query: StreamingQuery | StreamingQueryProgress) -> dict[str, JoinProgress]:
    """Return the metrics of a streaming query's joins by their names.

    Parameters
    ----------
    query
        A query, of which the last micro-batch's metrics are returned; none before the first micro-batch is done. Or the
        progress of one micro-batch: one of ``query.recentProgress``, or what a ``StreamingQueryListener`` gets.
    """
    progress = query if isinstance(query, dict) else getattr(query, "lastProgress", None)
    if progress is None and not hasattr(query, "lastProgress"):
        raise SpecificationError(
            f"metrics of a {type(query).__name__}",
            "a streaming query, or the progress of one of its micro-batches",
            "give what start() returned, or one of its recentProgress",
        )
    shown = {} if progress is None else observations(progress)
    return {name: _read(one) for name, one in shown.items() if isinstance(one, dict) and one.keys() >= FIELDS}


def observations(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return all observations of a micro-batch by their names, as plain values, whichever session it was."""
    return {name: _plain(record) for name, record in dict(progress["observedMetrics"] or {}).items()}


def _read(shown: Mapping[str, Any]) -> JoinProgress:
    balance = shown["balance"]
    numbers = {name: shown[name] for name in (*totals(Total.DONE), *totals(Total.HELD)) if name in shown}
    return JoinProgress(
        **(dict.fromkeys(LATER, 0) | numbers),
        waiting_for=shown["waiting_for"],
        balance=Balanced(balance["generation"], tuple(balance["decisions"])),
        cores=tuple(Report.read(core) for core in shown["cores"] if core is not None),
        join=shown["join"],
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 -- whatever Spark shows
    """Return a record as a dictionary, as deep as it goes."""
    if isinstance(value, Row):
        value = value.asDict()
    if isinstance(value, dict):
        if value.keys() == {"values", "schema"}:  # Spark Connect's form of a record
            value = dict(zip((field["name"] for field in value["schema"]["fields"]), value["values"], strict=True))
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
