"""The suite ``spark``: the join as a streaming query. Nothing here imports PySpark: queries run in other processes."""

from typing import Final

from benchmarks.experiment import Experiment
from benchmarks.experiments.spark import (
    cluster_delay,
    growth,
    hot_key,
    kinds,
    nexmark,
    small_batches,
    spark_join,
    speed,
    state,
    three_streams,
    workers,
)

__all__ = ["EXPERIMENTS"]

MODULES: Final = (
    speed,
    kinds,
    spark_join,
    growth,
    small_batches,
    state,
    three_streams,
    hot_key,
    cluster_delay,
    workers,
    nexmark,
)
EXPERIMENTS: Final[dict[str, Experiment]] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
"""By name, in the order in which they run."""
