"""The comparison with other engines: who cannot take part is named, and who can has to find the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.contestant import Arena
from benchmarks.experiment import Context, DisagreementError
from benchmarks.experiments.peers import EXPERIMENTS
from benchmarks.experiments.peers.queries import QUERIES
from benchmarks.feed import KEY_RANGE
from benchmarks.peers.contest import DUCKDB, FLINK, IN_PROCESS, POLARS, SMALL, Contest, Entry, Sizes, agreed, entry_of
from benchmarks.peers.environment import Environment, UnavailableError
from benchmarks.report import Progress

CONTEXT = Context(quick=True, progress=Progress("test"))


def test_a_peer_without_a_python_says_which_it_needs() -> None:
    nobody = Environment("nobody", ("nobody==1.0",), ("2.0", "2.1"))
    with pytest.raises(UnavailableError, match=r"nobody 1\.0 needs Python 2\.0 or 2\.1; none was found"):
        nobody.python()


def test_a_peer_that_cannot_take_part_is_named_with_the_reason() -> None:
    nobody = Environment("nobody", ("nobody==1.0",), ("2.0",))
    entry = entry_of(CONTEXT, FLINK.name, lambda: pytest.fail("it has no environment"), nobody)
    assert entry.rows_per_second is None
    assert "needs Python 2.0" in entry.reason


def test_a_peer_that_fails_is_named_with_its_last_words() -> None:
    def fail() -> Entry:
        raise RuntimeError("the task flink failed:\nat line 1\nno more memory\n")

    assert entry_of(CONTEXT, FLINK.name, fail).reason == "no more memory"


def test_ours_must_not_fail() -> None:
    def fail() -> Entry:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        entry_of(CONTEXT, IN_PROCESS, fail)


def test_different_pairs_are_refused() -> None:
    ours = Entry(IN_PROCESS, pairs={10: 4, 20: 9}, checksums={10: 40, 20: 90})
    assert agreed([ours, Entry(DUCKDB, pairs={20: 9}, checksums={20: 90})]) == [
        "DuckDB, by hand: the same 9 pairs and their checksum of the first 20 rows a side"
    ]
    with pytest.raises(DisagreementError, match="pairs of the first 20 rows"):
        agreed([ours, Entry(DUCKDB, pairs={20: 8})])
    with pytest.raises(DisagreementError, match="checksums of the first 20 rows"):
        agreed([ours, Entry(DUCKDB, pairs={20: 9}, checksums={20: 91})])


@pytest.fixture(params=QUERIES)
def contest(request: pytest.FixtureRequest) -> Iterator[Contest]:
    query, sizes = QUERIES[request.param], Sizes.of(CONTEXT)
    key_range = KEY_RANGE if query.condition == "band" else sizes.window
    with Arena.open(CONTEXT, seed=query.seed, block=SMALL, key_range=key_range, hot=query.hot) as arena:
        yield Contest(CONTEXT, query, sizes, arena)


@pytest.mark.long
def test_whoever_needs_no_environment_finds_the_same_pairs(contest: Contest) -> None:
    entries = [
        entry_of(CONTEXT, name, lambda name=name, worker=worker: contest.local(name, worker))
        for name, worker in ((IN_PROCESS, "in-process"), (DUCKDB, "DuckDB"), (POLARS, "Polars"))
    ]
    assert len(agreed(entries)) == 2
    assert all(entry.rows_per_second and entry.delay and entry.memory_bytes for entry in entries)


def test_each_query_is_an_experiment() -> None:
    assert set(EXPERIMENTS) == set(QUERIES)
