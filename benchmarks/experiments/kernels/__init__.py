"""The suite ``kernels``: structures and the in-process join, on one thread."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.kernels import (
    ablations,
    btree,
    choosing,
    cliffs,
    counting,
    forms,
    fpga,
    growth,
    insertion,
    kinds,
    memory,
    predicates,
    probing,
    push,
    splitters,
)

__all__ = ["EXPERIMENTS"]

MODULES: Final = (
    insertion,
    probing,
    splitters,
    choosing,
    btree,
    ablations,
    push,
    growth,
    counting,
    forms,
    kinds,
    fpga,
    cliffs,
    predicates,
    memory,
)
EXPERIMENTS: Final[dict[str, Experiment]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
"""By name, in the order in which they run."""
