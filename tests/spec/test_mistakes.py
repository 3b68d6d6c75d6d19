"""Easy mistakes: each is refused in one clear sentence, with what is allowed and the next step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import watersmeet as wm

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64()), ("text", pa.string())])
ROWS = pa.table({"ts": [0], "x": [1], "text": ["a"]}, schema=SCHEMA)
COUNT = wm.count_window(3)


def join(**changed: Any) -> wm.StreamJoin:
    return wm.StreamJoin(**{"left": SCHEMA, "right": SCHEMA, "on": wm.equal("x"), "window": COUNT} | changed)


def many(**changed: Any) -> wm.MultiStreamJoin:
    return wm.MultiStreamJoin(**{"streams": {"a": SCHEMA, "b": SCHEMA}, "on": "a.x = b.x", "window": COUNT} | changed)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "negative width": (lambda: wm.band("x", "y", -5), "nothing lies between"),
    "negative decimal": (lambda: wm.band("x", "y", Decimal("-0.5")), "nothing lies between"),
    "negative duration": (lambda: wm.band("x", "y", "-5 seconds"), "nothing lies between"),
    "ends that changed places": (lambda: wm.band("x", "y", below=5, above=-6), "nothing lies between"),
    "width of 77 digits": (lambda: wm.band("x", "y", 10**76), "at most 76 digits"),
    "decimal of 77 digits": (lambda: wm.band("x", "y", Decimal("1e-77")), "at most 76 digits"),
    "width is no number": (lambda: wm.band("x", "y", [5]), "a band of width"),  # type: ignore[arg-type]
    "width as text": (lambda: wm.band("x", "y", "5"), "a band of width '5'"),
    "names as a list": (lambda: join(on=["x", "y"]), 'wm.equal("x") & wm.equal("y")'),
    "a name alone": (lambda: join(on="x"), "left.x = right.x"),
    "a file's name restored": (lambda: wm.StreamJoin.restore("join.bin"), "read_bytes()"),  # type: ignore[arg-type]
    "number for a name": (lambda: wm.equal("x", 5), "5 where the name"),  # type: ignore[arg-type]
    "number for a band's name": (lambda: wm.band(5, "x", 1), "5 where the name"),  # type: ignore[arg-type]
    "no name": (lambda: wm.less(""), "'' where the name"),
    "number for ts": (lambda: wm.time_window("1 minute", ts=5), "the name of a column"),  # type: ignore[call-overload]
    "text ts": (lambda: join(window=wm.time_window("1 minute", ts="text")), "has type string"),
    "integer ts": (lambda: join(window=wm.time_window("1 minute", ts="x")), "has type int64"),
    "text ts of many": (lambda: many(window=wm.time_window("1 minute", ts="text")), "has type string"),
    "order by text": (lambda: join(window=wm.count_window(3, order_by="text")), "order_by='text'"),
    "seconds without end": (lambda: join(batch_seconds=float("inf")), "batch_seconds=inf"),
    "seconds that are none": (lambda: join(batch_seconds=float("nan")), "batch_seconds=nan"),
    "a day Spark cannot read": (lambda: join(on="left.ts > DATE '20240102' AND left.x = right.x"), "20240102"),
    "a week of a year": (lambda: join(on="left.ts > DATE '2024-W01-2' AND left.x = right.x"), "2024-W01-2"),
    "a moment Spark cannot read": (
        lambda: join(on="left.ts > TIMESTAMP '20240101T120000' AND left.x = right.x"),
        "20240101T120000",
    ),
    "the least of one": (lambda: join(on="LEAST(left.x) = right.x"), "has one argument"),
    "frame as a schema": (lambda: join(left=pd.DataFrame({"x": [1]})), "left=DataFrame"),
    "table as a schema": (lambda: join(right=ROWS), "right=Table"),
    "frame as schema of many": (lambda: many(streams={"a": pd.DataFrame({"x": [1]}), "b": SCHEMA}), "pyarrow.Schema"),
    "frame pushed": (lambda: join().push(left=pd.DataFrame({"x": [1]})), "from_pandas"),
    "frame pushed to many": (lambda: many().push(a=pd.DataFrame({"x": [1]})), "from_pandas"),
    "rows pushed as a list": (lambda: join().push(left=[{"x": 1}]), "left=list was pushed"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    make, sentence = MISTAKES[name]
    with pytest.raises(wm.WatersmeetError) as caught:
        make()
    given, allowed, next_step = str(caught.value).split("\n")
    assert sentence in str(caught.value)
    assert len(given) < 200
    assert allowed.startswith("  allowed: ")
    assert next_step.startswith("  next step: ")


def test_bands_that_do_not_lie_around_the_other_value_are_fine() -> None:
    assert str(wm.band("x", "y", below=-1, above=5)) == "left.x >= (right.y - -1) AND left.x <= (right.y + 5)"
    wm.band("x", "y", below=timedelta(seconds=-1), above="1 second")
    wm.band("x", "y", 0)


def test_timestamps_without_a_zone_are_time() -> None:
    window = wm.time_window("1 minute", ts="ts")
    zoned = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.int64()), ("text", pa.string())])
    assert join(right=zoned, window=window).push(left=ROWS, right=ROWS.cast(zoned)).num_rows == 1
