"""Predicates that an index has to be thought up for, against DuckDB: a push of few rows meets a window of many.

Each case compares columns whose keys are not at hand (texts that begin alike, unsigned and wide numbers, nulls that
match, dictionaries), or its conditions are alternatives. Without a fitting index each takes every stored row for a
candidate. DuckDB joins the same rows, on one thread, from tables of its own; both must find as many pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.report import Cell, Description, Result, Table
from watersmeet import StreamJoin, count_window

__all__ = ["EXPERIMENT"]

SEED: Final = 81
STORED: Final = 20_000
PUSHED: Final = 1_024
WORDS: Final = 100_000
NULLS: Final = 0.001
REPETITIONS: Final = 5
WITHIN: Final = 3
"""Times as much CPU as DuckDB takes that is called a cliff."""


@dataclass(frozen=True)
class _Case:
    """A predicate in Spark's SQL; ``batch`` rows are stored at a time."""

    name: str
    on: str
    batch: int = STORED

    @property
    def in_duckdb(self) -> str:
        """The same in DuckDB's SQL."""
        return self.on.replace("left.", "l.").replace("right.", "r.").replace("<=>", "IS NOT DISTINCT FROM")


CASES: Final = (
    _Case("integer equality", "left.k = right.k"),
    _Case("text band, nothing in common", "left.p BETWEEN right.p_low AND right.p_high"),
    _Case("text band, 9 bytes in common", "left.s BETWEEN right.s_low AND right.s_high"),
    _Case("text comparison and equality", "left.s < right.s AND left.k = right.k"),
    _Case("uint64 above 2^63", "left.u = right.u"),
    _Case("uint64 band above 2^63", "left.u BETWEEN right.u - 1 AND right.u + 1"),
    _Case("decimal(38, 2)", "left.w = right.w"),
    _Case("null-safe equality", "left.n <=> right.n"),
    _Case("equal or both null", "left.n = right.n OR (left.n IS NULL AND right.n IS NULL)"),
    _Case("equality or equality", "left.k = right.k OR left.j = right.j"),
    _Case("equality or band", "left.k = right.k OR left.x BETWEEN right.x - 10000 AND right.x + 10000"),
    _Case("dictionary, many pushes", "left.d = right.d", PUSHED),
    _Case("the same as plain text, many pushes", "left.t = right.t", PUSHED),
)


def run(context: Context) -> Result:
    """Measure each case, ours and DuckDB's turn by turn."""
    stored, pushed = _rows(1, context.size(STORED)), _rows(2, context.size(PUSHED))
    result = Result()
    lines: list[tuple[Cell, ...]] = []
    for case in CASES:
        context.progress.step(case.name)
        theirs = _duckdb(case, stored, pushed)
        times: dict[str, list[float]] = {"ours": [], "DuckDB": []}
        pairs: dict[str, int] = {}
        for _ in range(REPETITIONS + 1):
            join = _filled(case, stored)
            for name, work in (("ours", _pushing(join, pushed)), ("DuckDB", theirs)):
                begin = time.process_time()
                pairs[name] = work()
                times[name].append(1000 * (time.process_time() - begin))
            explained = join.explain()
            join.close()
        if len(set(pairs.values())) > 1:
            raise DisagreementError(f"{case.name}: pairs {pairs}", "equal numbers", "report this, with the predicate")
        ours, other = (median(each[1:]) for each in times.values())  # the first turn compiles
        lines.append((case.name, pairs["ours"], ours, other, ours / other))
        result.runs.append(
            {"case": case.name, "pairs": pairs["ours"], "ms": times["ours"], "duckdb_ms": times["DuckDB"]}
        )
        if ours > WITHIN * other:
            order = next(line.strip() for line in reversed(explained.splitlines()) if "newest subwindow" in line)
            result.notes.append(f"{case.name}: {ours / other:.1f} times DuckDB's; {order}")
    result.tables.append(
        Table(
            f"CPU of a push of {pushed.num_rows:,} rows against {stored.num_rows:,} stored",
            ("join", "pairs", "ms", "DuckDB, ms", "ratio"),
            lines,
        )
    )
    return result


def _filled(case: _Case, stored: pa.Table) -> StreamJoin:
    join = StreamJoin(
        left=stored.schema, right=stored.schema, on=case.on, window=count_window(2 * STORED), topology="kang"
    )
    for begin in range(0, stored.num_rows, case.batch):
        join.push(right=stored.slice(begin, case.batch))
    return join


def _pushing(join: StreamJoin, pushed: pa.Table) -> Callable[[], int]:
    return lambda: int(join.push(left=pushed).num_rows)


def _duckdb(case: _Case, stored: pa.Table, pushed: pa.Table) -> Callable[[], int]:
    connection = duckdb.connect(config={"threads": 1})
    for name, rows in (("r", stored), ("l", pushed)):
        connection.register("given", rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")  # noqa: S608 -- the names above
        connection.unregister("given")
    query = f"SELECT * FROM l JOIN r ON {case.in_duckdb}"  # noqa: S608 -- the cases above
    return lambda: int(connection.sql(query).to_arrow_table().num_rows)


def _rows(number: int, count: int) -> pa.Table:
    """Return rows whose columns each meet about one row of twenty thousand."""
    rng = np.random.default_rng((SEED, number))
    keys, others, large = (rng.integers(0, STORED, count) for _ in range(3))
    width = rng.integers(100, 1000, count)
    words = rng.integers(0, 10**7, count)
    return pa.table(
        {
            "k": keys,
            "j": others,
            "x": rng.integers(0, 1 << 30, count),
            "u": large.astype(np.uint64) + np.uint64(2**63),
            "w": pa.array(large).cast(pa.decimal128(38, 2)),
            "n": pa.array(keys, mask=rng.random(count) < NULLS),
            **{f"p{end}": _texts("", words + shift) for end, shift in (("", 0), ("_low", -width), ("_high", width))},
            **{
                f"s{end}": _texts("customer-", words + shift)
                for end, shift in (("", 0), ("_low", -width), ("_high", width))
            },
            "d": pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, WORDS, count), pa.int32()), _texts("word ", np.arange(WORDS))
            ),
            "t": _texts("word ", rng.integers(0, WORDS, count)),
        }
    )


def _texts(begin: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(np.char.add(begin, np.char.zfill(np.maximum(numbers, 0).astype(str), 8)))


EXPERIMENT: Final = Experiment(
    "predicates",
    Description(
        purpose="predicates that turn into scans unless an index is thought up for them, against DuckDB",
        seed=SEED,
        shape=f"{PUSHED:,} rows pushed against {STORED:,} stored, about one match a row, one thread",
        expected=f"at most {WITHIN} times the CPU that DuckDB's batch join takes; the notes say where it is more",
    ),
    run,
)
