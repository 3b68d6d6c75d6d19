"""The model of the FPGA worker: cycles that can be counted by hand, and the answers of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.models.fpga_worker import FpgaWorker


def test_mergers_share_the_output_and_the_memory() -> None:
    """Sixteen tuples: two mergers write eight each, a tuple a cycle, and the indexer samples four."""
    wide = FpgaWorker(4, mergers=2, bytes_per_cycle=32)
    wide.insert(np.arange(16))
    assert wide.insertion_cycles == 8 + 4
    narrow = FpgaWorker(4, mergers=2, bytes_per_cycle=16)  # two mergers want 32 bytes a cycle
    narrow.insert(np.arange(16))
    assert narrow.insertion_cycles == 16 + 4


def test_a_prober_reads_a_tuple_or_a_bound_a_cycle() -> None:
    """Partitions [0 1 2 3] and [4 5 6 7]: each prober takes one, and the slower of the two counts.

    Lower bounds 1 and 6: one reads 0, 1 and its bound, the other 4, 5, 6 and its bound. Upper bounds: one more each.
    """
    worker = FpgaWorker(2, probers=2, bytes_per_cycle=1000, main=np.arange(8))
    start, end = worker.probe(np.array([1, 6]), np.array([1, 6]))
    assert start.tolist() == [1, 6]
    assert end.tolist() == [2, 7]
    assert worker.probing_cycles == (3 + 1) + (4 + 1)


@pytest.mark.parametrize("batch", [1, 100, 1000])
def test_oracle_merged_arrays_and_ranges(batch: int) -> None:
    random = np.random.default_rng(5)
    worker, keys = FpgaWorker(16), np.empty(0, np.int64)
    for _ in range(3):
        new = np.sort(random.integers(0, 500, batch))
        worker.insert(new)
        keys = np.concatenate((keys, new))
    assert worker.main.tolist() == sorted(keys.tolist())
    low = np.sort(random.integers(0, 500, batch))
    start, end = worker.probe(low, low + 3)
    expected = ((keys >= low[:, None]) & (keys <= low[:, None] + 3)).sum(axis=1)
    assert (end - start).tolist() == expected.tolist()
    assert worker.probing_cycles >= 2 * batch / worker.probers
