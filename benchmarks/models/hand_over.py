"""How many stored rows cores hand over when groups get other owners."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Float64s, Int64s
from watersmeet.balance.generation import Generation

__all__ = ["handed_over"]


def handed_over(
    before: Generation, after: Generation, left: Float64s, right: Float64s, cores: int
) -> tuple[Float64s, Float64s]:
    """Return how many rows each core gives and takes, so that they lie as if ``after`` had always been in effect.

    ``left`` and ``right`` are the rows of each group. A part of a group has its fraction of the left rows and all right
    ones, of which the former owners give equally many.
    """
    changed = np.flatnonzero(~before.agrees_with(after))
    had, has = (_owned(generation, changed, cores) for generation in (before, after))
    parts_before, parts_after = before.parts[changed, None], after.parts[changed, None]
    of_left = left[changed, None] * (has / parts_after - had / parts_before)
    of_right = right[changed, None] * np.maximum(0.0, has - had)
    given = np.maximum(0.0, -of_left) + of_right.sum(1, keepdims=True) * had / parts_before
    return given.sum(0), (np.maximum(0.0, of_left) + of_right).sum(0)


def _owned(generation: Generation, groups: Int64s, cores: int) -> Float64s:
    """Return a 1 for each of some groups and every core that owns it."""
    owned = np.zeros((len(groups), cores))
    for line, group in enumerate(groups.tolist()):
        owned[line, list(generation.owners[group])] = 1.0
    return owned
