"""Values gathered by address, against NumPy's own ``take``."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.kernels.gather import gather_stretch, gather_values
from watersmeet.kernels.team import ALONE

WIDTHS = [1, 2, 3, 4, 8, 16, 20]
MARGIN = 32
ROWS = st.integers(0, 9) | st.sampled_from([-(2**31), -1, 10, 2**31 - 1])
Pieces = list[tuple[int, list[int]]]
PIECES = st.lists(st.tuples(st.integers(1, 9), st.lists(ROWS, max_size=12)), max_size=4)


@pytest.mark.parametrize("shift", [0, 1, 3], ids=["aligned", "shifted by 1", "shifted by 3"])
@given(pieces=PIECES)
@example(pieces=[(5, [4, 4, 0])])
@example(pieces=[(0, []), (3, [2]), (0, [])])
def test_oracle_values_of_any_width_and_any_pieces(shift: int, pieces: Pieces) -> None:
    """A row beyond its piece is the first or the last; nothing is written behind the last value."""
    random = np.random.default_rng(len(pieces))
    rows = [np.array(some, np.int32) for _, some in pieces]
    sizes = np.array([size for size, _ in pieces], np.int64)
    ends = np.array(list(accumulate(map(len, rows))), np.int64)
    total = sum(map(len, rows))
    columns = [[random.bytes(shift + size * width + 1) for size in sizes] for width in WIDTHS]
    memory = [[np.frombuffer(piece, np.uint8) for piece in column] for column in columns]
    targets = [np.full(shift + total * width + MARGIN, 7, np.uint8) for width in WIDTHS]
    addresses = [[piece.ctypes.data + shift for piece in column] for column in memory]
    gather_values(
        ALONE,
        gather_stretch(),
        np.array(addresses, np.int64).reshape(-1),
        sizes,
        np.array(WIDTHS, np.int64),
        np.array([some.ctypes.data for some in rows], np.int64),
        ends,
        np.array([target.ctypes.data + shift for target in targets], np.int64),
    )
    for width, column, target in zip(WIDTHS, columns, targets, strict=True):
        values = [
            piece[shift + width * at : shift + width * (at + 1)]
            for piece, size, some in zip(column, sizes.tolist(), rows, strict=True)
            for at in np.clip(some, 0, max(size - 1, 0)).tolist()
        ]
        assert target.tobytes() == bytes([7]) * shift + b"".join(values) + bytes([7]) * MARGIN


def test_no_columns_are_gathered_too() -> None:
    nothing = np.empty(0, np.int64)
    rows = np.zeros(2, np.int32)
    at = np.array([rows.ctypes.data])
    gather_values(ALONE, gather_stretch(), nothing, np.array([3]), nothing, at, np.array([2]), nothing)
