"""The checksum, against its definition in Python integers; and what it must see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.kernels.checksum import checksum

WORD = 2**64
WORDS = st.lists(st.integers(0, WORD - 1) | st.sampled_from([0, 1, WORD - 1]), max_size=13)


def step(lane: int, word: int) -> int:
    lane = (lane ^ word) * 0x9E3779B97F4A7C15 % WORD
    return lane ^ lane >> 32


def expected(words: list[int], rest: int) -> int:
    """Four lanes take a word each in turn; the first one takes what is behind the last four."""
    lanes = [1, 2, 3, 4]
    whole = len(words) // 4 * 4
    for at, word in enumerate(words):
        lane = at % 4 if at < whole else 0
        lanes[lane] = step(lanes[lane], word)
    result, *others = lanes
    for word in (*others, rest, len(words)):
        result = step(result, word)
    return result


def found(words: list[int], rest: int = 0) -> int:
    return int(checksum(np.array(words, np.uint64), np.uint64(rest)))


@given(words=WORDS, rest=st.integers(0, WORD - 1))
@example(words=[], rest=0)
@example(words=[0], rest=WORD - 1)
def test_four_lanes_are_put_together(words: list[int], rest: int) -> None:
    assert found(words, rest) == expected(words, rest)


@given(words=WORDS.filter(len), at=st.integers(0, 12), change=st.integers(1, WORD - 1))
def test_a_changed_word_is_seen(words: list[int], at: int, change: int) -> None:
    changed = words.copy()
    changed[at % len(words)] ^= change
    assert found(changed) != found(words)


@pytest.mark.parametrize("size", [2, 4, 7, 8, 9])
def test_words_in_another_place_are_seen(size: int) -> None:
    words = np.random.default_rng(size).integers(0, WORD, size, np.uint64, endpoint=False).tolist()
    swapped = [
        [words[b if at == a else a if at == b else at] for at in range(size)] for a in range(size) for b in range(a)
    ]
    assert len({found(some) for some in [words, *swapped]}) == len(swapped) + 1


def test_how_many_words_there_are_is_seen() -> None:
    assert len({found([0] * size) for size in range(20)}) == 20
    assert found([], 5) != found([5])
