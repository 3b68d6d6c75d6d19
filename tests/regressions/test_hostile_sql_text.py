"""Text made to do harm took minutes and gigabytes, or raised what Python raises, instead of being refused at once."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import watersmeet as wm

SCHEMA = pa.schema([("x", pa.int64()), ("t", pa.timestamp("us")), ("f", pa.bool_())])
HOSTILE = {
    "digits": "left.x = " + "9" * 5_000,
    "digits of a decimal": "left.x = " + "9" * 76 + ".5",
    "digits of a double": "left.x = " + "9" * 5_000 + "D",
    "digits of an interval": "left.t = INTERVAL '" + "9" * 50_000 + "' DAY",
    "scale": "CAST(left.x AS DECIMAL(1,100000000)) = right.x",
    "scale of a constant": "CAST('1' AS DECIMAL(1,100000000)) = right.x",
    "no digits": "CAST(left.x AS DECIMAL(0,0)) = right.x",
    "digits in letters": "CAST(left.x AS DECIMAL(a)) = right.x",
    "exponent": "CAST('9e999999999' AS DECIMAL(10,2)) = right.x",
    "small exponent": "CAST('9e-999999999' AS DECIMAL(10,2)) = right.x",
    "brackets": "(" * 5_000 + "left.x = right.x" + ")" * 5_000,
    "brackets left open": "(" * 20_000,
    "not": "NOT " * 5_000 + "left.x = right.x",
    "signs": "left.x = " + "- " * 5_000 + "right.x",
    "functions": "ABS(" * 3_000 + "left.x" + ")" * 3_000 + " = right.x",
    "cases": "CASE WHEN " * 3_000,
    "types": "CAST(left.x AS " + "ARRAY<" * 1_000 + "INT" + ">" * 1_000 + ") = right.x",
    "sum": "left.x = " + " + ".join(["right.x"] * 300),
    "names": "left" + ".x" * 2_000 + " = right.x",
    "sum of intervals": "left.t = right.t + (INTERVAL 999999999 DAYS + INTERVAL 999999999 DAYS)",
    "negative interval": "left.t = right.t - (- INTERVAL '999999999 days 86399 seconds 999999 microseconds')",
    "half a character": "left.x = right.x AND left.x = '\ud800'",
    "length": "left.x = right.x AND right.f" + " " * 2_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_at_once(name: str) -> None:
    begin = time.process_time()
    with pytest.raises(wm.WatersmeetError) as caught:
        wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=HOSTILE[name], window=wm.count_window(3))
    assert time.process_time() - begin < 5
    assert "next step:" in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_long_chains_are_fine() -> None:
    """Only nesting is bounded: every AND and OR used to be one more level."""
    chain = " AND ".join(["left.x = right.x"] * 1_200) + " AND right.x IN (" + ", ".join(map(str, range(1_200))) + ")"
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=chain, window=wm.count_window(3))
    rows = pa.table({"x": [5, 5000], "t": [None, None], "f": [None, None]}, schema=SCHEMA)
    assert wm.StreamJoin.restore(join.snapshot()).push(left=rows, right=rows).num_rows == 1


def test_deep_predicate_of_functions_is_refused() -> None:
    predicate = wm.equal("x")
    for _ in range(2_000):
        predicate = ~predicate
    with pytest.raises(wm.SpecificationError, match="levels"):
        wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=predicate, window=wm.count_window(3))
