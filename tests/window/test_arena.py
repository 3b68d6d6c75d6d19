"""Growing arrays: values stay where they are numbered, and memory goes back in pages."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.window.arena import CAN_FREE, LARGE_ARENA, Arena

pytestmark = pytest.mark.skipif(not CAN_FREE, reason="this system takes no single pages back, so rows lie in chunks")


@pytest.mark.parametrize("reserve", [1, LARGE_ARENA // 8])
def test_an_arena_gives_whole_pages_back_and_keeps_the_rest(reserve: int) -> None:
    arena = Arena(np.dtype(np.int64), reserve)
    count = LARGE_ARENA // 4
    for first in range(0, count, count // 16):
        arena.append(np.arange(first, first + count // 16))
    full = arena.nbytes
    assert full == 8 * count
    arena.free_before(count // 2)
    assert arena.nbytes == full // 2
    assert arena.values[count // 2 :].tolist() == list(range(count // 2, count))
    assert not arena.values[: count // 2].any(), "the system has taken these pages back"
    arena.append(np.arange(count, 2 * count))  # moves to a larger one
    assert arena.nbytes == full // 2 + full
    assert arena.values[count // 2 :].tolist() == list(range(count // 2, 2 * count))
