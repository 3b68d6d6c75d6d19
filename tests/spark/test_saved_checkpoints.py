"""Checkpoints that earlier versions wrote: the query goes on from each of them, exactly, or refuses it by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import oracle
from saved_joins import (
    BEFORE,
    FIXTURES,
    QUERIES,
    Query,
    found_ids,
    joined,
    open_checkpoint,
    query_frames,
    query_rows,
    run_once,
)
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

SAVED = sorted((FIXTURES / "checkpoints").glob("*/*.tar.xz"))
FAST = ("hash",)


def truth(spark: SparkSession, case: Query, batches: int) -> Counter[Any]:
    """Return what the join gives for the first micro-batches, by the oracle."""
    rows = query_rows(spark, case, batches)
    schemas = {name: table.schema for name, table in rows[0].items()}
    if case.names == ("left", "right"):
        both = [(push["left"], push["right"]) for push in rows]
        return oracle.pairs(parse_predicate(case.on), case.window, schemas, both)
    windows = windows_of(case.window, case.names)
    return oracle.results(read_predicate(case.on, case.names), windows, schemas, rows)


def name_of(saved: Path) -> str:
    return saved.name.partition(".")[0]


def test_every_query_was_saved() -> None:
    assert {name_of(saved) for saved in SAVED} == set(QUERIES)


@pytest.mark.parametrize(
    "saved",
    [saved if name_of(saved) in FAST else pytest.param(saved, marks=pytest.mark.long) for saved in SAVED],
    ids=lambda saved: f"{saved.parent.name}-{name_of(saved)}",
)
def test_a_checkpoint_of_an_earlier_version(spark: SparkSession, tmp_path: Path, saved: Path) -> None:
    """With those written before, the results are all there are, each once."""
    case = QUERIES[name_of(saved)]
    checkpoint, found = tmp_path / "checkpoint", tmp_path / "found"
    open_checkpoint(saved, checkpoint)
    run_once(joined(query_frames(spark, case), case), checkpoint, found)
    before = json.loads((saved.parent / BEFORE).read_text(encoding="utf-8"))[name_of(saved)]
    after = found_ids(spark, case, found)
    new = case.batches * case.rows
    assert any(min(ids) < new <= max(ids) for ids in after), "new rows meet rows that were saved"
    assert Counter(map(tuple, before)) + Counter(after) == truth(spark, case, case.batches + 1)
