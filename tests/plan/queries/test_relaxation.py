"""Springs in a space of latencies."""

from __future__ import annotations

from distributary.plan.queries.cost import placement_cost
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.relaxation import relaxed
from plan.queries.networks import small

BANDWIDTH = parse_query_goal(
    "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
    "minimise aggregate(SUM, out, BROKERS)"
)


def test_springs_bring_queries_nearer_than_their_clients_and_rules_nearer_still() -> None:
    placement = small()
    springs = relaxed(placement.workload, placement.network)
    cost = [float(placement_cost(BANDWIDTH.cost, one)) for one in (placement, springs)]
    assert cost[1] < cost[0]
    assert climb(BANDWIDTH, springs).cost < cost[1]
