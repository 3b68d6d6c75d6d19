"""Results with more than 2 GiB of text in a column failed the join, and tables of bounded size went by average widths.

The limits are patched, so that a few rows with texts of some kilobytes do what gigabytes did.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.columns import gather
from watersmeet.engine import result

WITH_TEXT = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.timestamp("us")), ("s", pa.string())])
WITHOUT = WITH_TEXT.remove(3)
WINDOW = wm.time_window("1 hour", ts="t", lateness="1 hour")
TABLE = 1 << 16
WIDTH = 2_000


def rows(count: int, *texts: str) -> pa.Table:
    columns = [range(count), [0] * count, pa.array(range(count), pa.timestamp("us"))]
    return pa.table([*columns, list(texts)] if texts else columns, schema=WITH_TEXT if texts else WITHOUT)


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "BYTES_AT_ONCE", TABLE)


def own_bytes(table: pa.Table) -> int:
    return sum(len(text or "") for name in table.column_names if name.endswith("s") for text in table[name].to_pylist())


@pytest.mark.parametrize("strategy", ["circular", "stashed"])
@pytest.mark.parametrize("cores", [1, 2])
def test_many_streams(strategy: Any, cores: int) -> None:
    streams = {"a": WITH_TEXT, "b": WITHOUT, "c": WITHOUT}
    on = "a.k = b.k AND b.k = c.k AND a.id = c.id"
    join = wm.MultiStreamJoin(streams=streams, on=on, window=WINDOW, strategy=strategy, cores=cores)
    tables = list(join.pushes(a=rows(10, *["x" * WIDTH] * 10), b=rows(50), c=rows(10)))
    assert sum(table.num_rows for table in tables) == 500
    assert max(map(own_bytes, tables)) <= TABLE
    together = join.push(b=rows(50))
    assert together.num_rows == 500
    assert together["a_s"].num_chunks > 5


@pytest.mark.parametrize("order", [None, "outer", "inner"])
@pytest.mark.parametrize("topology", ["kang", "panjoin"])
def test_a_row_with_a_long_text_among_short_ones(topology: Any, order: Any) -> None:
    texts = ["y" * 10_000, *["short"] * 99]
    for options in ({"left": WITHOUT, "right": WITH_TEXT}, {"left": WITH_TEXT, "right": WITHOUT}):
        join = wm.StreamJoin(**options, on="left.k = right.k", window=WINDOW, topology=topology, order=order)
        sides = {side: rows(100, *texts) if schema is WITH_TEXT else rows(100) for side, schema in options.items()}
        tables = list(join.pushes(**sides))
        pairs = pa.concat_tables(tables)
        found = list(zip(pairs["right_id"].to_pylist(), pairs["left_id"].to_pylist(), strict=True))
        assert len(found) == len(set(found)) == 10_000
        assert max(map(own_bytes, tables)) <= TABLE
        if order is not None:
            assert all(one <= other for one, other in pairwise(pairs["right_id"].to_pylist()))
        if order == "inner":
            assert found == sorted(found)


@pytest.mark.parametrize("order", [None, "inner"])
@pytest.mark.parametrize("topology", ["kang", "panjoin", "splitjoin", "handshake", "low_latency_handshake"])
def test_a_push_gives_a_table_of_several_chunks(topology: Any, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MOST_BYTES", TABLE, raising=False)
    texts = [f"{number:03}" + "x" * WIDTH for number in range(40)]
    join = wm.StreamJoin(
        left=WITHOUT, right=WITH_TEXT, on="left.k = right.k", window=WINDOW, topology=topology, order=order
    )
    pairs = pa.concat_tables([join.push(left=rows(40), right=rows(40, *texts)), join.finish()])
    assert pairs.num_rows == 1_600
    assert max(own_bytes(pa.table({"s": chunk})) for chunk in pairs["s"].chunks) <= TABLE
    found = zip(pairs["right_id"].to_pylist(), pairs["s"].to_pylist(), strict=True)
    assert all(text.startswith(f"{number:03}x") for number, text in found)
