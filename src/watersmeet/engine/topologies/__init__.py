"""Topologies: five ways to spread windows over cores so that every pair of rows meets once, and their contract.

A new one needs a module here, a line below, and a name in :mod:`watersmeet.spec.options`.
"""

from typing import Final

from watersmeet.engine.topologies.contract import Topology
from watersmeet.engine.topologies.handshake import Handshake
from watersmeet.engine.topologies.kang import Kang
from watersmeet.engine.topologies.low_latency_handshake import LowLatencyHandshake
from watersmeet.engine.topologies.panjoin import PanJoin
from watersmeet.engine.topologies.splitjoin import SplitJoin
from watersmeet.spec.options import TopologyName

__all__ = ["TOPOLOGIES"]

TOPOLOGIES: Final[dict[TopologyName, type[Topology]]] = {
    "kang": Kang,
    "handshake": Handshake,
    "low_latency_handshake": LowLatencyHandshake,
    "splitjoin": SplitJoin,
    "panjoin": PanJoin,
}
