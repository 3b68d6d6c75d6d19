"""Topologies: windows and cores put together so that every pair of rows meets once. The contract, and the five.

A new one is a module here and a line below.
"""

from typing import Final, Literal

from watersmeet.engine.topologies.contract import Topology
from watersmeet.engine.topologies.handshake import Handshake
from watersmeet.engine.topologies.kang import Kang
from watersmeet.engine.topologies.low_latency_handshake import LowLatencyHandshake
from watersmeet.engine.topologies.panjoin import PanJoin
from watersmeet.engine.topologies.splitjoin import SplitJoin

__all__ = ["TOPOLOGIES", "TopologyName"]

TopologyName = Literal["kang", "handshake", "low_latency_handshake", "splitjoin", "panjoin"]
TOPOLOGIES: Final[dict[TopologyName, type[Topology]]] = {
    "kang": Kang,
    "handshake": Handshake,
    "low_latency_handshake": LowLatencyHandshake,
    "splitjoin": SplitJoin,
    "panjoin": PanJoin,
}
