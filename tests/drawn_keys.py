"""Keys as Hypothesis draws them: few, so that many are equal; some; from all of int64, and its ends."""

from __future__ import annotations

from typing import Final

import numpy as np
from hypothesis import strategies as st

from watersmeet.arrays import Int64s

INT64: Final = np.iinfo(np.int64)
KEYS: Final = st.one_of(
    st.integers(-4, 4),
    st.integers(-200, 200),
    st.integers(int(INT64.min), int(INT64.max)),
    st.sampled_from([int(INT64.min), int(INT64.min) + 1, int(INT64.max) - 1, int(INT64.max)]),
)


def key_arrays(most: int) -> st.SearchStrategy[Int64s]:
    """Draw up to ``most`` keys, in any order."""
    return st.lists(KEYS, max_size=most).map(lambda keys: np.array(keys, np.int64))


def shapes() -> dict[str, Int64s]:
    """Return 3,000 keys of every shape that partitions find hard."""
    random = np.random.default_rng(3)
    n = 3000
    return {
        "wide": random.integers(INT64.min, INT64.max, n, endpoint=True),
        "dense": random.integers(0, n, n),
        "few values": random.integers(-3, 3, n, endpoint=True),
        "one value": np.full(n, INT64.min),
        "increasing": np.arange(n, dtype=np.int64) * 1000,
        "decreasing": np.arange(n, dtype=np.int64)[::-1] - n,
        "a hot key among others": np.where(random.random(n) < 0.6, 50, random.integers(0, 100, n)),
        "rank-size": np.minimum(1e4 / random.random(n), 1e9).astype(np.int64),
    }
