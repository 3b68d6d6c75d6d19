"""The suite ``engine``: the topologies on one machine, many threads."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.engine import (
    indexed,
    latency,
    lock_step,
    nested_loops,
    ordering,
    scaling,
    selectivity,
    time_windows,
)

__all__ = ["EXPERIMENTS"]

MODULES: Final = (scaling, time_windows, indexed, nested_loops, latency, ordering, selectivity, lock_step)
EXPERIMENTS: Final[dict[str, Experiment]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
"""By name, in the order in which they run."""
