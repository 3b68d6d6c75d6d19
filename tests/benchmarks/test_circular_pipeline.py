"""The model of Circular-MJ's circuit: it finds what the oracle finds, and its cycles are those that can be reckoned."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from benchmarks.models.circular_pipeline import CircularPipeline
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

Arrivals = list[tuple[int, int]]


def arrivals_of(seed: int, streams: int, rows: int, keys: int) -> Arrivals:
    random = np.random.default_rng(seed)
    return list(zip(random.integers(0, streams, rows).tolist(), random.integers(0, keys, rows).tolist(), strict=True))


def expected(windows: list[int], arrivals: Arrivals) -> Counter[tuple[int, ...]]:
    names = tuple("abcdefgh"[: len(windows)])
    schemas = {name: pa.schema([("id", pa.int64()), ("x", pa.int64()), ("t", pa.int64())]) for name in names}
    tables: dict[str, pa.Table | None] = {}
    for number, name in enumerate(names):
        own = [(key, at) for at, (stream, key) in enumerate(arrivals) if stream == number]
        columns = [range(len(own)), [key for key, _ in own], [at for _, at in own]]
        tables[name] = pa.table([pa.array(column, pa.int64()) for column in columns], schema=schemas[name])
    on = read_predicate(" AND ".join(f"a.x = {name}.x" for name in names[1:]), names)
    window = windows_of(wm.count_window(dict(zip(names, windows, strict=True)), order_by="t"), names)
    return oracle.results(on, window, schemas, [tables])


def found_by(pipeline: CircularPipeline) -> Counter[tuple[int, ...]]:
    streams = len(pipeline.stages)
    return Counter(
        tuple(numbers[(stream - first) % streams] for stream in range(streams)) for first, numbers in pipeline.results
    )


@pytest.mark.parametrize("windows", [[5, 5, 5], [9, 2, 4], [3, 6, 1, 4], [3, 2, 4, 3, 2]], ids=str)
@pytest.mark.parametrize("widths", [[], [1, 3, 2, 1, 4]], ids=["even", "uneven"])
@pytest.mark.parametrize("seed", range(3))
def test_oracle_circuit(windows: list[int], widths: list[int], seed: int) -> None:
    arrivals = arrivals_of(seed, len(windows), rows=36, keys=3)
    pipeline = CircularPipeline(windows, widths=widths[: len(windows)])
    pipeline.run(arrivals)
    assert pipeline.dropped == 0
    assert pipeline.refined > 0
    assert found_by(pipeline) == expected(windows, arrivals)


def test_without_refine_the_circuit_would_find_more(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = arrivals_of(1, 3, rows=36, keys=3)
    monkeypatch.setattr("benchmarks.models.circular_pipeline.bisect_left", lambda known, number: len(known) * number)
    pipeline = CircularPipeline([90, 90, 90])  # all that is stored is met: from the first row to far beyond the last
    pipeline.run(arrivals)
    assert found_by(pipeline) != expected([90, 90, 90], arrivals)


def test_a_buffer_that_is_too_small_drops_partial_results() -> None:
    arrivals = arrivals_of(2, 4, rows=400, keys=10)
    whole, small = CircularPipeline([60] * 4), CircularPipeline([60] * 4, buffer=4)
    for pipeline in (whole, small):
        pipeline.run(arrivals)
    assert whole.fullest > 4
    assert small.fullest == 4
    assert small.dropped > 0
    assert len(small.results) < len(whole.results)


@pytest.mark.parametrize("streams", [3, 5, 8])
def test_a_full_circuit_without_matches_takes_a_window_a_row_and_stage(streams: int) -> None:
    """What expires prematurely is compared too: about a row of each stream."""
    window, rows = 200, 200 * 8 * 3
    pipeline = CircularPipeline([window] * streams)
    pipeline.run((number % streams, number) for number in range(rows))
    last = pipeline.entered[-1] - pipeline.entered[rows // 2]
    assert last == pytest.approx((window + streams) * (rows // 2) / streams, rel=0.02)
    assert not pipeline.results


def test_the_slowest_stage_holds_up_all_others() -> None:
    pipeline = CircularPipeline([200, 200, 200], widths=[1, 4, 4])
    pipeline.run((number % 3, number) for number in range(3_000))
    assert pipeline.entered[-1] - pipeline.entered[1500] == pytest.approx(500 * 203, rel=0.02)
