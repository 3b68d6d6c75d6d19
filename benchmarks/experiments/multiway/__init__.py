"""The suite ``multiway``: joins of many streams on one machine."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.multiway import order, pipeline, query, stash, streams

__all__ = ["EXPERIMENTS"]

MODULES: Final = (streams, query, stash, order, pipeline)
EXPERIMENTS: Final[dict[str, Experiment]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
"""By name, in the order in which they run."""
