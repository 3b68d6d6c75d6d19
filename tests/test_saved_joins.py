"""Snapshots that earlier versions wrote: the join goes on from each of them, exactly, or refuses it by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import oracle
import watersmeet as wm
from saved_joins import BEFORE, FIXTURES, SAVED_AFTER, SNAPSHOTS, Many, Pair, joins, pushes, result_ids
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

SAVED = sorted((FIXTURES / "snapshots").glob("*/*.snapshot"))


def truth(case: Pair | Many) -> Counter[Any]:
    """Return what the join gives for all pushes, by the oracle."""
    given = pushes(case)
    schemas = {stream: table.schema for stream, table in given[0].items()}
    if isinstance(case, Pair):
        both = [(push["left"], push["right"]) for push in given]
        pairs = oracle.pairs(parse_predicate(case.on), case.window, schemas, both)
        return oracle.of_kind(case.options.get("how", "inner"), pairs, case.window, both)
    names = tuple(schemas)
    return oracle.results(read_predicate(case.on, names), windows_of(case.window, names), schemas, given)


def test_every_join_was_saved() -> None:
    for folder in (FIXTURES / "snapshots").iterdir():
        assert {path.stem for path in folder.glob("*.snapshot")} <= set(SNAPSHOTS)
    assert {path.stem for path in SAVED} == set(SNAPSHOTS)


@pytest.mark.parametrize("saved", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_snapshot_of_an_earlier_version(saved: Path) -> None:
    """With those returned before, the results are all there are, each once."""
    case = SNAPSHOTS[saved.stem]
    before = json.loads((saved.parent / BEFORE).read_text(encoding="utf-8"))[saved.stem]
    kind: Any = wm.StreamJoin if isinstance(case, Pair) else wm.MultiStreamJoin
    join = kind.restore(saved.read_bytes())
    found = [join.push(**push) for push in pushes(case)[SAVED_AFTER:]] + [join.finish()]
    after = [ids for results in found for ids in result_ids(case, results)]
    assert after, "the rows that were saved are met"
    expected = truth(case)
    assert Counter(map(tuple, before)) + Counter(after) == expected
    assert len(before) < expected.total()


@pytest.mark.parametrize("name", ["handshake", "handshake_count", "full_handshake"])
def test_pairs_were_still_owed(name: str) -> None:
    """A chain's snapshot holds pairs, and rows that have yet to meet, of which a new join knows nothing."""
    case = SNAPSHOTS[name]
    join, kind = joins(case)
    join.close()
    for saved in (FIXTURES / "snapshots").glob(f"*/{name}.snapshot"):
        restored = kind.restore(saved.read_bytes())
        assert restored.finish().num_rows > 0
