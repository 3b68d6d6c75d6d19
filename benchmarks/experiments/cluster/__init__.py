"""The suite ``cluster``: balance on many machines, in a model that runs the real routing table and balancer."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.cluster import communication, delay, growth, memory, reorganisation, skew

__all__ = ["EXPERIMENTS"]

MODULES: Final = (skew, memory, growth, reorganisation, delay, communication)
EXPERIMENTS: Final[dict[str, Experiment]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
"""By name, in the order in which they run."""
