"""Two cores with the same rows, one of which took three times as long, were both left out when costs were fitted.

Then nothing cost anything, and nothing was ever decided, neither for work nor for bytes.
"""

from __future__ import annotations

from watersmeet.balance.balancer import Settings, decide
from watersmeet.balance.generation import RoutingTable, first_generation
from watersmeet.balance.loads import CoreLoad, GroupLoad, GroupReport, Held, Observation


def test_a_slow_one_of_two_cores_yields_groups() -> None:
    first = first_generation(2)
    groups = (GroupReport((), GroupLoad(first.groups // 2, 1000, 1000, 1000)) for _ in range(2))
    cores = tuple(
        CoreLoad(core, 2000, 1000, busy, Held(), report)
        for core, busy, report in zip((0, 1), (0.03, 0.01), groups, strict=True)
    )
    plan = decide(RoutingTable((first,)), Observation(3, 1.0, 0, cores), 2, Settings(decluster=False))
    assert plan.generation is not None
    assert plan.generation.owned_by(0).sum() < plan.generation.owned_by(1).sum()
