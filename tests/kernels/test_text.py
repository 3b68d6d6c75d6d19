"""Keys of strings, against their definitions in Python integers and bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64, key_arrays
from watersmeet.arrays import Int64s
from watersmeet.kernels.text import hash_strings, mix_hashes, prefix_strings, rank_strings

WORD = 2**64
FACTOR = 0x9E3779B97F4A7C15
TEXTS = st.lists(
    st.binary(max_size=20) | st.sampled_from([b"", b"\0", b"\0" * 8, b"\xff" * 9, b"customer-7", b"customer-77"]),
    max_size=12,
)
OFFSETS = pytest.mark.parametrize("offsets", [np.int32, np.int64])


def arrays(
    texts: list[bytes], offsets: type, before: bytes = b""
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where texts begin and end, behind some bytes that are none of theirs, and more such bytes at the end."""
    ends: npt.NDArray[Any] = np.cumsum([len(before), *map(len, texts)]).astype(offsets)
    return ends, np.frombuffer(before + b"".join(texts) + b"\xffbeyond the last", np.uint8)


def scrambled(h: int) -> int:
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % WORD
    h = (h ^ h >> 27) * 0x94D049BB133111EB % WORD
    return h ^ h >> 31


def signed(number: int) -> int:
    return number - WORD if number >= WORD // 2 else number


def hashed(text: bytes) -> int:
    h = 0xCBF29CE484222325 ^ len(text)
    whole = len(text) // 8 * 8
    for at in range(0, whole, 8):
        h = scrambled(h ^ int.from_bytes(text[at : at + 8], "big")) * FACTOR % WORD
    return signed(scrambled(h ^ int.from_bytes(text[whole:], "big")))


@OFFSETS
@given(texts=TEXTS)
@example(texts=[])
def test_oracle_hashes(offsets: type, texts: list[bytes]) -> None:
    """The hash decides which core owns a key, so it stays what it is."""
    assert hash_strings(*arrays(texts, offsets, b"abc")).tolist() == [hashed(text) for text in texts]


@OFFSETS
@given(texts=TEXTS)
@example(texts=[])
def test_oracle_first_eight_bytes(offsets: type, texts: list[bytes]) -> None:
    found = prefix_strings(*arrays(texts, offsets, b"abc")).tolist()
    assert found == [int.from_bytes(text[:8].ljust(8, b"\0"), "big") - WORD // 2 for text in texts]


def shared_bytes(a: bytes, b: bytes) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def rank(text: bytes, borders: list[bytes], shared: list[int], bits: int) -> int:
    below = sum(border <= text for border in borders)
    beginning = borders[max(below - 1, 0)][: shared[below]]
    if text.startswith(beginning):
        word = int.from_bytes(text[len(beginning) :][:8].ljust(8, b"\0"), "big")
    else:
        word = WORD - 1 if text > beginning else 0
    return ((below << (64 - bits)) | word >> bits) - WORD // 2


@OFFSETS
@given(
    texts=TEXTS,
    borders=st.sets(st.sampled_from([b"", b"a", b"customer-", b"customer-5", b"customer-77", b"\xff\xff"]), min_size=1),
)
@example(texts=[], borders={b""})
@example(texts=[b"cust", b"customer", b"d", b"b", b"customer-6"], borders={b"customer-5", b"customer-77"})
def test_oracle_ranks_between_borders(offsets: type, texts: list[bytes], borders: set[bytes]) -> None:
    cuts = sorted(borders)
    outside = shared_bytes(cuts[0], cuts[-1])
    shared = [outside, *(shared_bytes(a, b) for a, b in pairwise(cuts)), outside]
    bits = len(cuts).bit_length()
    border_offset, border_data = arrays(cuts, np.int64)
    ranks = rank_strings(*arrays(texts, offsets, b"abc"), border_offset, border_data, np.array(shared), bits).tolist()
    assert ranks == [rank(text, cuts, shared, bits) for text in texts]
    ordered = [number for _, number in sorted(zip(texts, ranks, strict=True))]
    assert ordered == sorted(ordered), "texts in order have ranks in order"


@given(key=key_arrays(20), seed=st.sampled_from([0, 1, -1, int(INT64.min), int(INT64.max)]))
@example(key=np.empty(0, np.int64), seed=0)
def test_oracle_hash_of_two_keys(key: Int64s, seed: int) -> None:
    found = mix_hashes(np.full_like(key, seed), key).tolist()
    assert found == [signed(scrambled(seed * FACTOR % WORD ^ each % WORD)) for each in key.tolist()]
