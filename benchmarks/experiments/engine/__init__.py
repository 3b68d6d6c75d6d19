"""The suite ``engine``: the topologies on one machine, many threads."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.engine import (
    bursts,
    cores,
    fanout,
    flowing,
    indexed,
    latency,
    load,
    lock_step,
    merge_join,
    nested_loops,
    ordering,
    scaling,
    selectivity,
    time_windows,
    visiting,
)

__all__ = ["EXPERIMENTS"]

MODULES: Final = (
    scaling,
    time_windows,
    merge_join,
    indexed,
    cores,
    nested_loops,
    latency,
    visiting,
    load,
    fanout,
    ordering,
    flowing,
    bursts,
    selectivity,
    lock_step,
)
EXPERIMENTS: Final[dict[str, Experiment]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
"""By name, in the order in which they run."""
