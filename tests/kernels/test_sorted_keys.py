"""Sorting and merging runs, against Python's own sort: stable, by equality and key, padded behind the last key."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.kernels import sorted_keys

LIMIT = np.iinfo(np.int64)


def drawn(seed: int, size: int) -> list[tuple[int, int]]:
    """Return equalities and keys: few, so that many are equal; or from all of int64."""
    random = np.random.default_rng(seed)
    equalities = random.integers(0, 4, size)
    keys = random.integers(-5, 5, size) if seed % 2 else random.integers(LIMIT.min, LIMIT.max, size, endpoint=True)
    return list(zip(equalities.tolist(), keys.tolist(), strict=True))


def run_of(entries: list[tuple[int, int]], has_equality: bool) -> tuple[sorted_keys.Int64s, sorted_keys.Int64s | None]:
    """Return padded keys and equalities."""
    columns = []
    for number in (1, 0):
        run = sorted_keys.empty_keys(len(entries))
        run[: len(entries)] = [entry[number] for entry in entries]
        run[len(entries) :] = LIMIT.max
        columns.append(run)
    return columns[0], columns[1] if has_equality else None


@pytest.mark.parametrize("has_equality", [False, True])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 5), (5, 0), (1, 1), (1, 40), (40, 1), (33, 40), (64, 64)])
def test_two_runs_become_one(left: int, right: int, has_equality: bool) -> None:
    for seed in range(8):
        parts = [drawn(seed, left), drawn(seed + 100, right)]
        if not has_equality:
            parts = [[(0, key) for _, key in part] for part in parts]
        a, b = (sorted(part) for part in parts)
        (key_a, equality_a), (key_b, equality_b) = run_of(a, has_equality), run_of(b, has_equality)
        size = left + right
        key, row = sorted_keys.empty_keys(size), np.empty(size, np.int32)
        equality = sorted_keys.empty_keys(size) if has_equality else None
        rows = np.arange(size, dtype=np.int32)
        sorted_keys.merge_keys(
            key_a, rows[:left], equality_a, left, key_b, rows[left:], equality_b, right, key, row, equality
        )
        order = sorted(range(size), key=lambda at: [*a, *b][at])  # stable: of equal ones the first run's come first
        assert row.tolist() == order
        assert key.tolist() == [[*a, *b][at][1] for at in order] + [LIMIT.max] * sorted_keys.LINE
        if equality is not None:
            assert equality.tolist() == [[*a, *b][at][0] for at in order] + [LIMIT.max] * sorted_keys.LINE


@pytest.mark.parametrize("span", [0, 1, 2, 2**11 - 1, 2**11, 2**22, 2**33 + 1, 2**63, 2**64 - 1])
def test_keys_are_sorted_whatever_their_span(span: int) -> None:
    random = np.random.default_rng(7)
    smallest = max(LIMIT.min, -span)
    keys = np.array(sorted({smallest, smallest + span, *(smallest + span * n // 40 for n in range(40))}), np.int64)
    shuffled = random.permutation(np.repeat(keys, 3))
    order = np.arange(len(shuffled), dtype=np.int32)
    assert sorted_keys.sort_keys(shuffled, order).tolist() == np.argsort(shuffled, kind="stable").tolist()


def test_nothing_is_sorted_too() -> None:
    assert len(sorted_keys.sort_keys(np.empty(0, np.int64), np.empty(0, np.int32))) == 0


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_part_of_the_rows_is_sorted_and_equal_ones_keep_their_order(size: int) -> None:
    """Sorting by one key and then by another sorts by both."""
    random = np.random.default_rng(size)
    key, equality = random.integers(-3, 3, 200), random.choice([LIMIT.min, 0, LIMIT.max], 200)
    order = random.permutation(200)[:size].astype(np.int32)
    given = order.tolist()
    both = sorted_keys.sort_keys(equality, sorted_keys.sort_keys(key, order)).tolist()
    assert both == sorted(given, key=lambda at: (equality[at], key[at]))
    assert order.tolist() == given, "what was given stays as it was"


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 65])
def test_keys_and_their_padding_begin_on_a_cache_line(size: int) -> None:
    run = sorted_keys.empty_keys(size)
    assert run.ctypes.data % sorted_keys.CACHE_LINE == 0
    assert len(run) == size + sorted_keys.LINE
