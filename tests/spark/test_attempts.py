"""Two attempts of one micro-batch write the same state: a late one that overwrites the other's harms nothing."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn_streams import SHAPES
from dressed import Case, multi_cases, pair_cases, texts
from stand_in import Checkpoint, forget, multi_query, pair_query, replayed
from strategies import KINDS

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give cores a folder for their cache; runs are merged often."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    monkeypatch.setattr("watersmeet.spark.state.FAN_IN", 2)
    return tmp_path / "scratch"


def _check(case: Case, make: Any, data: st.DataObject, scratch: Path) -> None:
    """Run every micro-batch twice from one state: another worker, or the same one; envelopes in another order."""
    checkpoint = Checkpoint()
    forget(scratch)
    for seed, batch in enumerate(case.batches):
        attempts = []
        for attempt in range(2):
            if data.draw(st.booleans(), label="another worker"):
                forget(scratch)
            query = make(checkpoint=checkpoint)
            query.run(batch, np.random.default_rng(seed), np.random.default_rng((seed, attempt)))
            attempts.append(query.checkpoint)
        assert attempts[0] == attempts[1]
        checkpoint = deepcopy(attempts[0])


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_attempts_of_two_streams_write_the_same_bytes(data: st.DataObject, scratch: Path) -> None:
    case = data.draw(pair_cases(data.draw(st.sampled_from(KINDS))))
    _check(case, partial(pair_query, case.schemas, case.on, case.window, cores=2), data, scratch)


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_attempts_of_many_streams_write_the_same_bytes(data: st.DataObject, scratch: Path) -> None:
    case = data.draw(multi_cases(data.draw(st.sampled_from(SHAPES)), data.draw(st.integers(2, 3))))
    _check(case, partial(multi_query, case.schemas, case.on, case.window, cores=2), data, scratch)


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_a_state_of_two_attempts_goes_on(data: st.DataObject, scratch: Path) -> None:
    """A late attempt, its rows in another order where that does not matter, replaces the files of the one before."""
    if data.draw(st.booleans(), label="many"):
        case = data.draw(multi_cases(data.draw(st.sampled_from(SHAPES)), data.draw(st.integers(2, 3))))
        make: Any = partial(multi_query, case.schemas, case.on, case.window, cores=2)
    else:
        case = data.draw(pair_cases(data.draw(st.sampled_from(KINDS))))
        make = partial(pair_query, case.schemas, case.on, case.window, cores=2)
    found: Counter[str] = Counter()
    state = files = Checkpoint()  # what the executor has, and what was written
    random = np.random.default_rng(1)
    forget(scratch)
    for batch in case.batches:
        if data.draw(st.booleans(), label="restart"):
            forget(scratch)
            state = files
        own, late = make(checkpoint=state), make(checkpoint=files)
        found.update(texts(own.run(batch, random)))
        if data.draw(st.booleans(), label="the late one's files win"):
            is_timed = own.ts is not None
            again = {side: _shuffled(rows, random) if is_timed else rows for side, rows in batch.items()}
            late.run(again, random, random)
            files = late.checkpoint
        else:
            files = replayed(files, state, own.checkpoint)
        state = own.checkpoint
    assert found == case.expected


def _shuffled(rows: pa.Table | None, random: np.random.Generator) -> pa.Table | None:
    return None if rows is None else rows.take(random.permutation(rows.num_rows))
