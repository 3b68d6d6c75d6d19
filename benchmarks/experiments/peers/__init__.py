"""The suite ``peers``: the same queries for ours and for what else people join streams with."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.peers import queries

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Final[dict[str, Experiment]] = {
    experiment.name: experiment for experiment in (queries.BAND, queries.EQUALITY, queries.SKEWED)
}
"""By name, in the order in which they run."""
