"""Restarts in a new process, with nothing remembered and no cache, for generated schemas and every kind of join.

The cores, packers and the unpacker are the real ones; who calls them stands in for Spark (:mod:`stand_in`), which
``test_the_stand_in_is_like_spark`` compares with real queries.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dressed import Case, multi_cases, pair_cases, possible, texts
from multiway.drawing import SHAPES
from stand_in import Checkpoint, Query, forget, multi_query, pair_query
from strategies import KINDS

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give cores a folder for their cache; runs are merged often."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    monkeypatch.setattr("watersmeet.spark.state.FAN_IN", 2)
    return tmp_path / "scratch"


def joined(case: Case, make: Any, data: st.DataObject, scratch: Path) -> Counter[str]:
    """Run all micro-batches of a case, most of them in a new process; return the results."""
    found: Counter[str] = Counter()
    checkpoint = Checkpoint()
    forget(scratch)
    random = np.random.default_rng(data.draw(st.integers(0, 99), label="tasks"))
    for batch in case.batches:
        if data.draw(st.integers(0, 2), label="restart"):
            forget(scratch)
        query: Query = make(checkpoint=checkpoint)
        found.update(texts(query.run(batch, random, random)))
        checkpoint = query.checkpoint
    return found


def _two_streams(kind: str, data: st.DataObject, scratch: Path) -> None:
    case = data.draw(pair_cases(kind))
    make = partial(pair_query, case.schemas, case.on, case.window, cores=data.draw(st.integers(1, 3)))
    routings = possible(("hash", "bucket", "broadcast"), lambda routing: make(routing=routing))
    routing = data.draw(st.sampled_from(routings), label="routing")
    assert joined(case, partial(make, routing=routing), data, scratch) == case.expected


def _many_streams(shape: str, count: int, data: st.DataObject, scratch: Path) -> None:
    case = data.draw(multi_cases(shape, count))
    make = partial(multi_query, case.schemas, case.on, case.window, cores=data.draw(st.integers(1, 3)))
    routings = possible(("hash", "bucket", "replicate"), lambda routing: make(routing=routing))
    routing = data.draw(st.sampled_from(routings), label="routing")
    assert joined(case, partial(make, routing=routing), data, scratch) == case.expected


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_two_streams_go_on_in_a_new_process(data: st.DataObject, scratch: Path) -> None:
    for kind in data.draw(st.permutations(KINDS))[:3]:
        _two_streams(kind, data, scratch)


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_many_streams_go_on_in_a_new_process(data: st.DataObject, scratch: Path) -> None:
    _many_streams(data.draw(st.sampled_from(SHAPES)), data.draw(st.integers(2, 3)), data, scratch)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_two_streams_of_every_kind(kind: str, data: st.DataObject, scratch: Path) -> None:
    _two_streams(kind, data, scratch)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [2, 3, 4])
@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_many_streams_of_every_shape(shape: str, count: int, data: st.DataObject, scratch: Path) -> None:
    _many_streams(shape, count, data, scratch)
