"""What the model's cores report of a reorganisation epoch."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Float64s
from watersmeet.balance.generation import Generation
from watersmeet.balance.loads import FADING, HEAVIEST, CoreLoad, GroupLoad, GroupReport, Held, Observation

__all__ = ["Epoch"]


class Epoch:
    """Sums over the micro-batches of a reorganisation epoch."""

    def __init__(self, cores: int, groups: int) -> None:
        self._of_cores = np.zeros((3, cores))
        self._of_groups = np.zeros((3, groups))
        self._seconds = 0.0

    def add(self, of_cores: tuple[Float64s, ...], of_groups: tuple[Float64s, ...], seconds: float) -> None:
        """Add a micro-batch: rows, pairs and seconds of every core; left rows, right rows and pairs of every group."""
        self._of_cores = FADING * self._of_cores + np.stack(of_cores)
        self._of_groups = FADING * self._of_groups + np.stack(of_groups)
        self._seconds = FADING * self._seconds + seconds

    def observation(self, micro_batch: int, oldest: int, newest: Generation, held: list[Held]) -> Observation:
        """Return what the cores would report: a few groups by name, the rest in one sum."""
        group = np.repeat(np.arange(newest.groups), newest.parts)
        parts = newest.parts[group]
        load = np.stack(
            [self._of_groups[0][group] / parts, self._of_groups[1][group], self._of_groups[2][group] / parts]
        )
        order = np.lexsort((-load.sum(0), newest.cores))
        ends = np.cumsum(np.bincount(newest.cores, minlength=self._of_cores.shape[1]))
        cores = []
        for core, end in enumerate(ends.tolist()):
            own = order[0 if core == 0 else ends[core - 1] : end]
            named = tuple(GroupLoad(int(group[at]), *load[:, at].tolist()) for at in own[:HEAVIEST])
            rest = GroupLoad(len(own[HEAVIEST:]), *load[:, own[HEAVIEST:]].sum(1).tolist())
            rows, pairs, busy = self._of_cores[:, core].tolist()
            cores.append(CoreLoad(core, rows, pairs, busy, held[core], GroupReport(named, rest)))
        return Observation(micro_batch, self._seconds, oldest, tuple(cores))
