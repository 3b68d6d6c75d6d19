"""Bytes of envelopes and runs that are not what was written: no kernel gets to see them. No session is needed."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.arrow_bytes import DAMAGE
from watersmeet.spark.envelope import open_blob, to_blob
from watersmeet.spark.runs import Content, Index, _from_cache, _from_state, _to_cache, _to_state
from watersmeet.spark.state import Run
from watersmeet.subwindow.choose import Choice, IndexOrder
from watersmeet.subwindow.contract import Entries

ROWS = 40
BATCH = pa.record_batch(
    {
        "x": pa.array(range(ROWS)),
        "text": pa.array(["text" * (n % 4) for n in range(ROWS)]),
        "word": pa.array(["abc"[n % 3] for n in range(ROWS)]).dictionary_encode(),
        "list": pa.array([[n] * (n % 3) for n in range(ROWS)]),
    }
)
SEEDS = range(300)


def content(rows: list[int]) -> Content:
    numbers = np.array(rows, np.int32)
    choice = Choice("bi_sort", IndexOrder((), 0), "for a test")
    index = Index(choice, Entries(np.arange(len(rows), dtype=np.int64), numbers, None))
    return Content(BATCH, {"sequence": np.arange(ROWS)}, {"": index})


def run_of(rows: int) -> Run:
    return Run("name", parts=1, rows=rows, nbytes=1, low=0, high=9, level=0, first=0, generation=0)


def mutated(blob: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    data = bytearray(blob)
    for _ in range(rng.choice((1, 2, 4))):
        place = rng.randrange(len(data))
        data[place] = rng.choice((0, 255, data[place] ^ 1 << rng.randrange(8)))
    return bytes(data[: rng.choice((len(data), len(data), len(data), rng.randrange(len(data))))])


def test_runs_of_the_state_are_validated() -> None:
    blob = bytes(_to_state(content([])))
    assert _from_state(run_of(ROWS), blob, BATCH.schema).rows.equals(BATCH)
    refused = 0
    for seed in SEEDS:
        try:
            found = _from_state(run_of(ROWS), mutated(blob, seed), BATCH.schema)
        except wm.SnapshotError as error:
            refused += "checkpoint's state is damaged" in str(error)
        else:
            found.rows.validate(full=True)
            assert found.rows.num_rows == ROWS
    assert refused > len(SEEDS) // 4


def test_run_with_other_rows_than_its_manifest_says_is_refused() -> None:
    with pytest.raises(wm.SnapshotError, match="should have 41"):
        _from_state(run_of(ROWS + 1), bytes(_to_state(content([]))), BATCH.schema)


def test_cached_run_whose_row_numbers_are_none_is_not_used() -> None:
    assert _from_cache(_to_cache(content(list(range(ROWS)))), BATCH.schema) is not None
    for wrong in (-1, ROWS, 2**31 - 1):
        assert _from_cache(_to_cache(content([*range(ROWS - 1), wrong])), BATCH.schema) is None


def test_cached_run_whose_layout_is_damaged_is_not_used() -> None:
    blob = bytes(_to_cache(content(list(range(ROWS)))))
    assert any(_from_cache(pa.py_buffer(mutated(blob, seed)), BATCH.schema) is None for seed in range(50))


def test_envelopes_are_validated() -> None:
    blob = bytes(to_blob(BATCH))
    assert open_blob(blob, BATCH.schema).rows.equals(BATCH)
    for seed in SEEDS:
        try:
            found = open_blob(mutated(blob, seed), BATCH.schema)
        except DAMAGE:
            continue
        found.rows.validate(full=True)
