"""Streams that pause and are out of order, and when the oracle says that a join of any kind gives each result.

A push is a second of event time. Rows are some seconds older than their push, a stream may bring none for a while, and
the last push of both lies far ahead, so that what met nobody before it is decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from topologies import PREDICATES, SCHEMA, Push
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import TimeWindow

SIDES = ("left", "right")
TS = dict.fromkeys(SIDES, "ts")
LONG, SHORT = "4 seconds", "1500 milliseconds"
WINDOWS = {
    "idle": wm.time_window("3 seconds", ts="ts", idle="2 seconds"),
    "idle, lateness": wm.time_window(left=SHORT, right=LONG, ts="ts", lateness="2 seconds", idle="1 second"),
    "never behind": wm.time_window(left=LONG, right=SHORT, ts="ts", idle="0 seconds"),
    "idle, longer than any pause": wm.time_window("2 seconds", ts="ts", idle="1 minute"),
    "lateness": wm.time_window(left=SHORT, right=LONG, ts="ts", lateness="1 second"),
}
ON = {name: on for name, on in PREDICATES.items() if name != "residual"}
"""Predicates by which a row without ``x`` can meet nobody, and any other one can."""


@st.composite
def pausing_streams(draw: st.DrawFn) -> list[Push]:
    """Draw pushes of both streams; either pauses for a stretch of them, which may be none or all but the last."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    count, most_rows = draw(st.integers(5, 11)), draw(st.sampled_from([3, 8]))
    disorder, values = draw(st.sampled_from([0, 1500, 5000])), draw(st.sampled_from([4, 12, 40]))
    pauses = {side: range(*sorted(draw(st.tuples(*[st.integers(0, count)] * 2)))) for side in SIDES}
    start = draw(st.sampled_from([0, 1_700_000_000]))
    pushes = []
    for number in range(count + 1):
        is_last, tables = number == count, []
        for side in SIDES:
            rows = 1 if is_last else 0 if number in pauses[side] else int(random.integers(0, most_rows + 1))
            moments = 1000 * (start + (1000 if is_last else 10 + number)) + random.integers(-disorder, 1000, rows)
            missing = random.random((2, rows)) < (0 if is_last else 0.06)
            columns = {
                "id": 100 * number + np.arange(rows),
                "ts": pa.array(1000 * moments, SCHEMA.field("ts").type, mask=missing[0]),
                "x": pa.array(random.integers(0, values, rows), mask=missing[1]),
                "k": random.integers(0, 2, rows),
            }
            tables.append(pa.table(columns, SCHEMA))
        pushes.append((tables[0], tables[1]))
    return pushes


def watermarks(window: TimeWindow, pushes: Sequence[Push]) -> list[Fraction | None]:
    """Return the watermark after each push."""
    return oracle.watermarks(TS, window, _history(pushes))


def late_rows(window: TimeWindow, pushes: Sequence[Push]) -> Counter[tuple[str, int]]:
    """Return the side and the id of every late row."""
    kept, _ = oracle.on_time(TS, window, _history(pushes))
    late: Counter[tuple[str, int]] = Counter()
    for at, side in enumerate(SIDES):
        timed = [row for push in _history(pushes) for row in push[at] if row[side, "ts"] is not None]
        late.update((side, row[side, "id"]) for row in timed)
        late.subtract((side, row[side, "id"]) for row in kept[at])
    return +late


def timetable(
    how: str, on: str, window: TimeWindow, pushes: list[Push], in_effect: Sequence[Fraction | None]
) -> dict[tuple[Any, Any], int]:
    """Return every result and the number of the push that has to give it; there is one ``in_effect`` for each push.

    By that watermark it is decided who can meet nobody; of whom it is not, is due one later.
    """
    schemas = dict.fromkeys(SIDES, SCHEMA)
    pairs = oracle.pairs(parse_predicate(on), window, schemas, pushes)
    came = [
        {row[side, "id"]: number for number, push in enumerate(_history(pushes)) for row in push[at]}
        for at, side in enumerate(SIDES)
    ]
    rows = [{row[side, "id"]: row for push in _history(pushes) for row in push[at]} for at, side in enumerate(SIDES)]
    due: dict[tuple[Any, Any], int] = {}
    for left, right in pairs:
        result = (left, None) if how == "semi" else (left, right)
        number = max(came[0][left], came[1][right])
        due[result] = min(number, due.get(result, number))
    for left, right in oracle.of_kind(how, pairs, window, pushes):
        if how != "semi" and None in (left, right):
            at, row_id = (0, left) if right is None else (1, right)
            due[left, right] = _decided(window, at, rows[at][row_id], came[at][row_id], in_effect)
    return {result: due[result] for result in oracle.of_kind(how, pairs, window, pushes)}


def _decided(window: TimeWindow, at: int, row: dict[Any, Any], came: int, in_effect: Sequence[Fraction | None]) -> int:
    """Return the number of the push from which on no row to come can meet a row, or how many there are."""
    side = SIDES[at]
    if row[side, "x"] is None or row[side, "ts"] is None:
        return came
    end = row[side, "ts"] + oracle.constant((window.left, window.right)[at])
    passed = (number for number in range(came, len(in_effect)) if _is_past(in_effect[number], end))
    return next(passed, len(in_effect))


def _is_past(watermark: Fraction | None, end: Fraction) -> bool:
    return watermark is not None and watermark > end


def _history(pushes: Sequence[Push]) -> list[tuple[list[Any], list[Any]]]:
    return [(oracle.rows_of("left", left), oracle.rows_of("right", right)) for left, right in pushes]
