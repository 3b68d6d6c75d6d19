"""The options that shape a topology: ``fanout`` and ``weights``. Which topology has which, and how they are saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.engine.topologies import TOPOLOGIES
from watersmeet.spec.options import TopologyName, check_weights, refuse_fanout, refuse_weights

__all__ = ["check_shape", "fitting_shape", "shape_to_json"]


def check_shape(topology: TopologyName, cores: int, *, fanout: int | None, weights: Sequence[float] | None) -> None:
    """Raise unless the topology has what is shaped, and can have this shape."""
    if fanout is not None and (fanout == 1 or not TOPOLOGIES[topology].has_trees):
        raise refuse_fanout(fanout, topology)
    if weights is not None:
        if not TOPOLOGIES[topology].has_segments:
            raise refuse_weights(weights, topology)
        check_weights(weights, cores)


def shape_to_json(*, fanout: int | None, weights: Sequence[float] | None) -> dict[str, Any]:
    """Return what was given as it is saved among the options."""
    given = {"fanout": fanout, "weights": None if weights is None else [float(weight) for weight in weights]}
    return {name: value for name, value in given.items() if value is not None}


def fitting_shape(options: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """Return saved options without those that the topology, or ``changed`` number of cores, has no use for."""
    topology = TOPOLOGIES[options["topology"]]
    unfit = set() if topology.has_trees else {"fanout"}
    if not topology.has_segments or "cores" in changed:
        unfit.add("weights")
    return {name: value for name, value in options.items() if name not in unfit}
