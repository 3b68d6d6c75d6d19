from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.columns.gather import gather_columns

ROWS = 50


def _batch(seed: int, *, nulls: bool) -> pa.RecordBatch:
    """One column of each width that is copied in its own way, and of kinds that Arrow gathers."""
    dice = np.random.default_rng(seed)
    hidden = dice.random(ROWS) < 0.3 if nulls else None
    numbers = dice.integers(-100, 100, ROWS)
    texts = [f"row {number}" for number in numbers]
    return pa.record_batch(
        {
            "byte": pa.array(numbers, pa.int8(), mask=hidden),
            "short": pa.array(numbers, pa.int16(), mask=hidden),
            "float": pa.array(dice.random(ROWS).astype(np.float32), mask=hidden),
            "moment": pa.array(numbers, pa.timestamp("us"), mask=hidden),
            "price": pa.array([decimal.Decimal(int(number)) / 4 for number in numbers], pa.decimal128(12, 2)),
            "code": pa.array([f"{number:020d}".encode() for number in numbers], pa.binary(20)),
            "text": pa.array(texts),
            "flag": pa.array(numbers > 0, mask=hidden),
            "word": pa.array(texts).dictionary_encode(),
        }
    )


def test_a_row_beyond_the_batch_reads_nothing_beyond_it() -> None:
    """Row numbers may come from a file that was damaged while it was read."""
    batch = _batch(1, nulls=False).select(["byte", "short", "float", "moment", "price", "code"])
    gathered = pa.table(gather_columns([batch], [np.array([-7, 2**31 - 1], np.int32)]), schema=batch.schema)
    assert gathered.to_pylist() == batch.take(pa.array([0, ROWS - 1])).to_pylist()


@pytest.mark.parametrize("nulls", [(), (1,), (1, 2, 3)], ids=["no nulls", "nulls in one", "nulls in all"])
@pytest.mark.parametrize("batches", [1, 3])
def test_gathers_what_arrow_takes(batches: int, nulls: tuple[int, ...]) -> None:
    dice = np.random.default_rng(7)
    # Slices: values do not begin where their buffers do.
    stored = [_batch(seed, nulls=seed in nulls).slice(seed, ROWS - 5) for seed in range(1, batches + 1)]
    rows = [dice.integers(0, ROWS - 5, count).astype(np.int32) for count in (30, 0, 7)[:batches]]
    gathered = pa.table(gather_columns(stored, rows), schema=stored[0].schema)
    expected = [batch.take(pa.array(some)) for batch, some in zip(stored, rows, strict=True)]
    gathered.validate(full=True)
    assert gathered.to_pylist() == pa.Table.from_batches(expected).to_pylist()
