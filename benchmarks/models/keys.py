"""Load of a cluster: keys that are uniform or skewed by the b-model, and the rows per second that have them.

Keys follow the b-model: of every interval of the key's range one half has the fraction ``b`` of its rows, at every
scale. Two rows of a group meet with the probability that follows from the keys that hash to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.models.costs import Costs
from watersmeet.arrays import Float64s, Int64s
from watersmeet.balance.generation import Generation

__all__ = ["Keys", "Load", "b_model", "rate_for"]


def b_model(b: float, levels: int) -> Float64s:
    """Return the probabilities of ``2 ** levels`` keys: one half of every interval has ``b`` of its rows."""
    keys = np.ones(1)
    for _ in range(levels):
        keys = np.concatenate([keys * b, keys * (1 - b)])
    return keys


@dataclass(frozen=True, eq=False)
class Keys:
    """How rows spread over groups, and how likely two rows of one group meet."""

    share: Float64s
    meeting: Float64s
    probabilities: Float64s
    """Of every key; empty where keys are too many to tell one from another."""
    group: Int64s
    alike: float = 1.0
    """Keys that each of these stands for, all as likely as another: the more, the fewer rows meet."""

    @classmethod
    def of(cls, probabilities: Float64s, generation: Generation) -> Keys:
        """Hash keys, which are numbered from 0, to groups."""
        return cls._hashed(probabilities, generation.group_of(np.arange(len(probabilities))), generation.groups)

    @classmethod
    def uniform(cls, keys: float, generation: Generation, seed: int) -> Keys:
        """Spread any number of keys that all are equally likely; how many a group gets is random."""
        count = np.maximum(1, np.random.default_rng(seed).poisson(keys / generation.groups, generation.groups))
        return cls(count / count.sum(), 1 / count, np.empty(0), np.empty(0, np.int64))

    @classmethod
    def _hashed(cls, probabilities: Float64s, group: Int64s, groups: int) -> Keys:
        share = np.asarray(np.bincount(group, probabilities, groups), float)
        both = np.bincount(group, probabilities**2, groups)
        return cls(share, np.divide(both, share**2, out=np.zeros(groups), where=share > 0), probabilities, group)

    def drifted(self, places: int) -> Keys:
        """Return the same probabilities for other keys, so many places away."""
        moved = self._hashed(np.roll(self.probabilities, places), self.group, len(self.share))
        return replace(moved, meeting=moved.meeting / self.alike, alike=self.alike)

    def thinned(self, alike: float) -> Keys:
        """Return as many keys for each of these; they share its probability, and its group."""
        return replace(self, meeting=self.meeting / alike, alike=self.alike * alike)

    def meet(self, others: Keys) -> Float64s:
        """Return for every group how likely a row of these keys meets one of others."""
        if others is self:
            return self.meeting
        both = np.bincount(self.group, self.probabilities * others.probabilities, len(self.share))
        all_pairs = self.share * others.share * self.alike
        return np.divide(both, all_pairs, out=np.zeros(len(self.share)), where=all_pairs > 0)


@dataclass(frozen=True)
class Load:
    """Rows of each stream per second, and how they are spread."""

    rate: float
    keys: Keys


def rate_for(costs: Costs, keys: Keys, window: float, busy: float) -> float:
    """Return the rate per stream at which cores are ``busy`` altogether: a row costs the more, the more it meets.

    ``window`` is in seconds; how uneven cores are, and what balancing costs, is left out.
    """
    per_row = costs.probe + costs.store + costs.sent
    meeting = float((keys.share**2 * keys.meeting).sum()) * window * costs.pair
    return float((-per_row + np.sqrt(per_row**2 + 2 * meeting * busy)) / (2 * meeting))
