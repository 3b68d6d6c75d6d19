"""Which comparisons the session's time zone decides; ``tests/spark/test_spark_refusals.py`` asks Spark the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.zones import comparison_by_zone

SCHEMA = pa.schema(
    [
        ("instant", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("span", pa.duration("us")),
        ("text", pa.string()),
        ("x", pa.int64()),
    ]
)


@pytest.mark.parametrize(
    ("on", "decided"),
    [
        ("left.instant = right.instant", None),
        ("left.instant <=> right.instant", None),
        ("left.local = right.local AND left.day < right.day", None),
        ("left.x = right.x OR left.text = right.text", None),
        ("left.instant = right.instant - INTERVAL 23 HOURS", None),
        ("left.instant = right.instant - INTERVAL 1 DAY", "INTERVAL"),
        ("left.instant < right.local", "local"),
        ("left.instant <=> right.local", "local"),
        ("left.x = right.x AND NOT (left.day >= right.instant)", "day"),
        ("left.instant + right.span = left.instant", "span"),
        ("left.instant = TIMESTAMP '2024-03-09 22:00:00' AND left.x = right.x", "TIMESTAMP"),
        ("CAST(left.instant AS DATE) = right.day", "day"),
        ("CAST(left.local AS TIMESTAMP) = right.local", "local"),
    ],
)
def test_an_instant_beside_what_needs_a_zone(on: str, decided: str | None) -> None:
    found = comparison_by_zone(parse_predicate(on), {"left": SCHEMA, "right": SCHEMA})
    assert (found is None) == (decided is None)
    assert decided is None or decided in str(found)
