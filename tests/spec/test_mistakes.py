"""Easy mistakes: each is refused in one clear sentence, with what is allowed and the next step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from importlib.metadata import version
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import watersmeet as wm

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64()), ("text", pa.string())])
ROWS = pa.table({"ts": [0], "x": [1], "text": ["a"]}, schema=SCHEMA)
STRICT = pa.schema([field.with_nullable(False) for field in SCHEMA])
OTHER = pa.schema([("ts", pa.timestamp("us")), ("y", pa.int64())])
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
    "frame pushed": (lambda: join().push(left=pd.DataFrame({"x": [1]})), "from_pandas(frame, schema=schema)"),
    "frame pushed to many": (lambda: many().push(a=pd.DataFrame({"x": [1]})), "the one that the join has for a"),
    "rows pushed as a list": (lambda: join().push(left=[{"x": 1}]), "from_pylist"),  # type: ignore[arg-type]
    "columns pushed": (lambda: join().push(right={"x": [1]}), "pyarrow.table(columns"),  # type: ignore[arg-type]
    "a column is missing": (lambda: join().push(left=ROWS.select(["ts", "x"])), "column 3 is missing"),
    "a column too many": (lambda: join().push(left=ROWS.append_column("y", [[1]])), "column 4 is y: int64"),
    "another type": (lambda: join().push(left=ROWS.set_column(1, "x", [[1.5]])), "column 2 is x: double"),
    "a null where none may be": (
        lambda: join(left=STRICT).push(left=ROWS.set_column(2, "text", pa.array([None], pa.string()))),
        "column 'text' of the left table has 1 null(s)",
    ),
    "no parameter of that name": (wm.count_window, "count=None"),
    "seconds for short": (lambda: wm.time_window("10s", ts="ts"), 'write "10 seconds"'),
    "milliseconds for short": (lambda: wm.time_window("500ms", ts="ts"), 'write "500 milliseconds"'),
    "two units for short": (lambda: wm.time_window("1h 30 min", ts="ts"), 'write "1 hours 30 minutes"'),
    "a month": (lambda: wm.time_window("1 month", ts="ts"), 'for example "10 minutes"'),
    "negative length": (lambda: wm.time_window("-1 second", ts="ts"), "a time window of '-1 second'"),
    "negative length on one side": (
        lambda: wm.time_window(left="1 minute", right="-1 second", ts="ts"),
        "left='1 minute', right='-1 second'",
    ),
    "negative lateness": (lambda: wm.time_window("1 second", ts="ts", lateness="-2 days"), "lateness='-2 days'"),
    "negative length of one of many": (lambda: wm.time_window({"a": "-1 day", "b": "1 day"}, ts="ts"), "a='-1 day'"),
    "one of two timestamps": (lambda: wm.time_window("1 second", left_ts="ts"), "give right_ts too, or ts alone"),
    "one of two lengths": (lambda: wm.time_window(right="1 second", ts="ts"), "give left too, or length alone"),
    "one length too many": (lambda: wm.time_window("1 day", left="1 day", ts="ts"), "leave length out"),  # type: ignore[call-overload]
    "a stream without a length": (
        lambda: many(window=wm.time_window({"a": "1 minute"}, ts="ts")),
        "name b in every mapping",
    ),
    "a stream without a timestamp": (lambda: many(window=wm.time_window("1 day", ts={"b": "ts"})), "it has no a"),
    "a stream that is not there": (
        lambda: many(window=wm.count_window({"a": 1, "c": 2})),
        "name b and leave c out",
    ),
    "a sentence without end": (lambda: join(on="left.x = right.x AND"), "at 'AND' in line 1, column 20"),
    "a word alone": (lambda: join(on="and BETWEEN"), "write one condition"),
    "a bracket without end": (lambda: join(on="left.x = (right.x"), ") is missing"),
    "a quote without end": (lambda: join(on="left.text = 'a"), "quote"),
    "nothing at all": (lambda: join(on=" "), "is empty"),
    "two conditions": (lambda: join(on="left.x = right.x; left.x = 1"), "is 2 conditions"),
    "a whole query": (
        lambda: join(on="SELECT * FROM left JOIN right ON left.x = right.x"),
        "give the condition behind its ON alone",
    ),
    "a moment as text": (lambda: join(on="left.ts < '2020-01-01'"), "write TIMESTAMP '2020-01-01'"),
    "a number as text": (lambda: join(on="'-1.5' = right.x"), "write -1.5 without quotes"),
    "a text as a number": (lambda: join(on="left.x = 'a'"), "cast one of the two"),
    "columns that changed places": (lambda: join(right=OTHER, on=wm.band("y", "x", 1)), "the right stream has it"),
    "sides in columns' names": (lambda: join(on=wm.band("left.x", "right.x", 1)), 'write "x"'),
    "columns of another stream": (lambda: join(right=OTHER, on="left.y = right.y"), "write right.y"),
    "columns of another of many": (
        lambda: many(streams={"a": SCHEMA, "b": OTHER}, on="a.y = b.y"),
        "the b stream has it: write b.y",
    ),
    "columns of no stream": (lambda: many(on=wm.equal("x")), 'wm.equal("a.x", "b.x")'),
    "one stream": (lambda: many(streams={"a": SCHEMA}), "name at least 2"),
    "streams as a list": (lambda: many(streams=[SCHEMA, SCHEMA]), "streams=list"),
    "a snapshot of two restored as many": (
        lambda: wm.MultiStreamJoin.restore(join().snapshot()),
        "restore it with StreamJoin.restore",
    ),
    "a snapshot of many restored as two": (
        lambda: wm.StreamJoin.restore(many().snapshot()),
        "restore it with MultiStreamJoin.restore",
    ),
    "a join of no kind": (lambda: join(how="cross"), "leave how out, or give one of these"),
    "a kind by Spark's other name": (lambda: join(how="left_outer"), 'give how="left"'),
    "a kind by Spark's shortest name": (lambda: join(how="outer"), 'give how="full"'),
    "a kind in capitals": (lambda: join(how="ANTI"), 'give how="anti"'),
    "a count of an outer join": (lambda: join(how="left", result="count"), "leave result out"),
    "an order that is none": (lambda: join(order="sorted"), "wm.relaxed(rows=…)"),
    "cores as text": (lambda: join(cores="2"), "give cores=2 without quotes"),
    "no rows": (lambda: join(batch_rows=0), "give for example batch_rows=4"),
    "seconds as text": (lambda: join(batch_seconds="1 second"), "give for example batch_seconds=0.5"),
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


def test_what_an_error_advises_works() -> None:
    made = join(left=SCHEMA, right=STRICT)
    frame, rows, columns = ROWS.to_pandas(), ROWS.to_pylist(), ROWS.to_pydict()
    for table in (
        pa.Table.from_pandas(frame, schema=SCHEMA),
        pa.Table.from_pylist(rows, schema=SCHEMA),
        pa.table(columns, schema=SCHEMA),
    ):
        assert made.push(left=table).num_rows == 0
    assert made.push(right=ROWS).num_rows == 3
    join(on="left.ts < TIMESTAMP '2020-01-01' AND left.x = right.x")


def test_columns_may_differ_in_whether_they_are_null() -> None:
    made = join(left=STRICT, right=SCHEMA)
    assert made.push(left=ROWS, right=ROWS.cast(STRICT)).num_rows == 1
    assert made.push(left=ROWS.cast(STRICT)).schema == made.schema
    assert wm.StreamJoin.restore(made.snapshot()).push(right=ROWS).num_rows == 2


def test_a_join_tells_in_short_what_it_is() -> None:
    two, three = join(), many()
    assert repr(two) == "<StreamJoin on left.x = right.x, open>"
    assert repr(three) == "<MultiStreamJoin on a.x = b.x, open>"
    two.finish()
    assert repr(two) == "<StreamJoin on left.x = right.x, finished>"
    assert len(repr(join(on=" AND ".join(["left.x = right.x"] * 100)))) < 150


def test_the_version_is_that_of_the_installed_package() -> None:
    assert wm.__version__ == version("watersmeet")
