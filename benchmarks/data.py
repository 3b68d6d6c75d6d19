"""Seeded data: keys of several distributions, streams of rows.

Everything follows from a seed and a number, so that a second process can make the same rows again. Nothing here imports
the package: that process may use an older tree of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:  # an older tree may have them elsewhere
    from watersmeet.arrays import Float64s, Int64s

__all__ = [
    "DISTRIBUTIONS",
    "KEY_RANGE",
    "STREAMS",
    "SideName",
    "band_for",
    "draw_keys",
    "stream_rows",
]

Rng = np.random.Generator
SideName = Literal["left", "right", "third"]
STREAMS: Final[tuple[SideName, ...]] = ("left", "right", "third")

KEY_RANGE: Final = 1 << 32
"""The paper's values are 32-bit integers."""
MODES: Final = 4


def _uniform(rng: Rng, n: int, first: int) -> Int64s:  # noqa: ARG001 -- only increasing keys know where they are
    return rng.integers(0, KEY_RANGE, n)


def _normal(rng: Rng, n: int, first: int) -> Int64s:  # noqa: ARG001
    return _clipped(rng.normal(0.5, 0.05, n))


def _multimodal(rng: Rng, n: int, first: int) -> Int64s:  # noqa: ARG001
    centre = (rng.integers(0, MODES, n) + 0.5) / MODES
    return _clipped(rng.normal(centre, 0.005))


def _rank_size(rng: Rng, n: int, first: int) -> Int64s:  # noqa: ARG001
    # A power law, value = least * (1/u - 1): 99 % of the values lie in the lowest 1 % of the range.
    least = 1e-4
    return _clipped(least * (1 / rng.uniform(least, 1, n) - 1))


def _rank_size_narrow(rng: Rng, n: int, first: int) -> Int64s:
    return _rank_size(rng, n, first) // 100


def _increasing(rng: Rng, n: int, first: int) -> Int64s:
    # About 100 a row, with jitter: the next subwindow's keys all lie above this one's.
    return 100 * (first + np.arange(n)) + rng.integers(0, 10_000, n)


def _clipped(fraction: Float64s) -> Int64s:
    return np.clip(fraction * KEY_RANGE, 0, KEY_RANGE - 1).astype(np.int64)


DISTRIBUTIONS: Final[dict[str, Callable[[Rng, int, int], Int64s]]] = {
    "uniform": _uniform,
    "normal": _normal,
    "multimodal": _multimodal,
    "rank_size": _rank_size,
    "rank_size_narrow": _rank_size_narrow,
    "increasing": _increasing,
}


def draw_keys(distribution: str, n: int, *, seed: int, first: int = 0) -> Int64s:
    """Return ``n`` unsorted keys; ``first`` is how many were drawn before (increasing keys go on from there)."""
    return DISTRIBUTIONS[distribution](np.random.default_rng((seed, first)), n, first)


def band_for(stored: Int64s, probing: Int64s, matches: float) -> int:
    """Return the half-width of a band in which a probing key meets about ``matches`` of the sorted ``stored`` keys."""

    def met(half: int) -> float:
        first = np.searchsorted(stored, probing - half, "left")
        return float((np.searchsorted(stored, probing + half, "right") - first).mean())

    low, high = 0, 1
    while met(high) < matches:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if met(middle) < matches else (low, middle)
    return high if abs(met(high) - matches) < abs(met(low) - matches) else low


def stream_rows(
    side: SideName, number: int, rows: int, *, seed: int, key_range: int = 1 << 31, hot: float = 0.0
) -> pa.Table:
    """Return batch ``number`` of a stream: uniform keys, one row per microsecond, 8 bytes of payload.

    The part ``hot`` of all rows has the key 0 instead.
    """
    rng = np.random.default_rng((seed, STREAMS.index(side), number))
    first = number * rows
    keys = rng.integers(0, key_range, rows)
    if hot:
        keys[rng.random(rows) < hot] = 0
    return pa.table(
        {
            "key": keys,
            "ts": pa.array(np.arange(first, first + rows), pa.timestamp("us")),
            "payload": np.arange(first, first + rows),
        }
    )
