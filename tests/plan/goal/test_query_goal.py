"""The cost language for queries: the seed's examples of section 5.3.1, both ways round, and its errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary.errors import DistributaryError, InputError
from distributary.plan.goal.expression import (
    GoalAggregate,
    GoalFunction,
    GoalMembers,
    Place,
    Scope,
    SystemCost,
)
from distributary.plan.goal.text import goal_text
from distributary.plan.queries.cost import MeasuredPlacement, placement_cost, query_violations
from distributary.plan.queries.goals import STATISTICS, parse_query_goal
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.placement import NO_DUTIES, Duties, Placement, SiteNetwork
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

MAXIMUM_LATENCY = """
operator latency= aggregate(SUM, latency, UPSTREAM OPERATOR) + processing latency
query latency= aggregate(SUM, operator latency, QUERY OPERATORS)
system cost= aggregate(MAX, query latency, QUERIES)
"""
MAXIMUM_LOAD = """
node load = aggregate(SUM, operator processing load, LOCAL OPERATORS)
system cost = aggregate(MAX, node load, BROKERS)
"""
TOTAL_BANDWIDTH = """
node out rate = aggregate(SUM, operator output rate, LOCAL OPERATORS)
    + forwarding rate
system cost = aggregate(SUM, node out rate, BROKERS)
"""
CAPACITY = """
operator capacity = aggregate(MIN, bandwidth, UPSTREAM OPERATORS)
operator capacity ≥ operator input rate
"""

# Site 0 is the root of a chain 0 -> 1 -> 2 -> 3 that publishes feed A (100 bytes, 10 items a second); site 3
# that of a star, which publishes B. The first query filters A and takes it with B, for a client at 2; the
# second counts what the first one's filter lets pass, for a client at 3.
NETWORK = SiteNetwork(
    Sites(
        latency=[[0, 10, 40, 90], [10, 0, 20, 50], [40, 20, 0, 5], [90, 50, 5, 0]],
        bandwidth=[[0, 800, 300, 200], [800, 0, 60, 400], [300, 60, 0, 900], [200, 400, 900, 0]],
    ),
    (Tree((NO_PARENT, 0, 1, 2)), Tree((3, 3, 3, NO_PARENT))),
    speed=(1, 2, 1, 1),
    matching=1,
)
WORKLOAD = QueryWorkload(
    (PlannedSource("A", 0, 100, 10), PlannedSource("B", 1, 60, 6)),
    (
        PlannedOperator("large", "filter", (0,), selectivity=0.5, cost=2),
        PlannedOperator("both", "union", (1, 2), cost=1),
        client("ann", 3, site=2),
        PlannedOperator("many", "count", (2,), selectivity=0.2, cost=3),
        client("bob", 5, site=3),
    ),
    (PlannedQuery("first", (0, 1, 2)), PlannedQuery("second", (0, 3, 4))),
)
AT_CLIENTS = Placement(WORKLOAD, NETWORK, (2, 2, 2, 3, 3))
SPREAD = Placement(WORKLOAD, NETWORK, (1, 2, 2, 1, 3))


def test_maximum_query_latency_of_section_5_3_1() -> None:
    cost = parse_query_goal(MAXIMUM_LATENCY).cost
    # At the clients: A comes to 2 over 10 + 20, B over 5; the first query also reads its filter locally.
    # Site 2 runs operators of 2 + 1 cycles and forwards nothing; site 3 one of 3, and forwards B to site 2.
    delay = {2: 3, 3: 3 + 1}
    first = (30 + delay[2]) + ((0 + 5) / 2 + delay[2]) + (0 + delay[2])
    second = (30 + delay[2]) + (5 + delay[3]) + (0 + delay[3])
    measured = MeasuredPlacement(AT_CLIENTS)
    assert measured.values(cost.value) == [first, second]
    assert measured.system(cost) == max(first, second)


def test_maximum_load_of_section_5_3_1() -> None:
    cost = parse_query_goal(MAXIMUM_LOAD).cost
    # The filter: 10 items of 2 cycles. The union: 5 + 6 items of 1. The count: 5 items of 3.
    assert MeasuredPlacement(AT_CLIENTS).values(cost.value) == [0, 0, 20 + 11, 15]
    assert placement_cost(cost, AT_CLIENTS) == 31
    assert MeasuredPlacement(SPREAD).values(cost.value) == [0, 20 + 15, 11, 0]


def test_what_sites_do_besides_counts_for_them_and_not_for_the_workloads_operators() -> None:
    duties = Duties(load=7, incoming=300, forwarding=50, operators=2, cycles=5)
    network = replace(NETWORK, duties=(NO_DUTIES, NO_DUTIES, duties, NO_DUTIES))
    busy, idle = (
        MeasuredPlacement(Placement(WORKLOAD, network, AT_CLIENTS.hosts)),
        MeasuredPlacement(AT_CLIENTS),
    )
    more = {
        name: [
            busy.node_statistic(name, site) - idle.node_statistic(name, site)
            for site in range(NETWORK.sites.count)
        ]
        for name, meaning in STATISTICS.items()
        if meaning.place is Place.NODE
    }
    assert more == {
        "node load": [0, 0, 7, 0],
        "capacity": [0, 0, 0, 0],
        "operators": [0, 0, 2, 0],
        "fanout": [0, 0, 0, 0],
        "incoming rate": [0, 0, 300, 0],
        "forwarding rate": [0, 0, 50, 0],
        "node delay": [0, 0, 5, 0],
    }
    assert busy.values(parse_query_goal(MAXIMUM_LOAD).cost.value) == [0, 0, 20 + 11, 15]


def test_a_network_that_filters_sends_a_filter_what_passes_it_and_that_is_its_work() -> None:
    network = replace(NETWORK, filtering=True)
    measured = MeasuredPlacement(Placement(WORKLOAD, network, AT_CLIENTS.hosts))
    # Of A's 100 bytes and 10 items, half pass. The union at 2 gets B's 60, the count at 3 the filter's 50.
    assert measured.carried == {(0, (0, 1)): 50, (0, (1, 2)): 50, (1, (3, 2)): 60, (2, (2, 3)): 50}
    assert [measured.operator_statistic("load", index) for index in (0, 1, 3)] == [5 * 2, 11, 5 * 3]
    assert [measured.operator_statistic("input rate", index) for index in (0, 1, 3)] == [50, 110, 50]
    total = parse_query_goal(TOTAL_BANDWIDTH).cost
    nearer = Placement(WORKLOAD, network, (1, *AT_CLIENTS.hosts[1:]))
    # One byte in two travels on from 1 either way; now the count's come from there as well.
    assert placement_cost(total, nearer) - measured.system(total) == -50 + 50
    thirds = WORKLOAD.partitioned(0, 3)
    split = MeasuredPlacement(Placement(thirds, AT_CLIENTS.network, (*AT_CLIENTS.hosts, 2, 1, 0)))
    filtered = MeasuredPlacement(Placement(thirds, network, split.placement.hosts))
    for (stream, link), rate in split.carried.items():
        assert filtered.carried[stream, link] == pytest.approx(rate / 2 if stream == 0 else rate)


def test_duties_are_of_every_site_and_never_negative() -> None:
    with pytest.raises(DistributaryError, match="duties has 1 entries for 4 sites"):
        replace(NETWORK, duties=(NO_DUTIES,))
    with pytest.raises(DistributaryError, match="load is -1"):
        Duties(load=-1)


def test_total_bandwidth_of_section_5_3_1() -> None:
    cost = parse_query_goal(TOTAL_BANDWIDTH).cost
    # A over 0-1 and 1-2, B from 3 to 2, the filter's half of A from 2 to 3.
    assert MeasuredPlacement(AT_CLIENTS).values(cost.value) == [100, 100, 50, 60]
    # A over 0-1, B from 3 to 2, the filter's half from 1 to 2, the count's tenth from 1 to 3.
    assert MeasuredPlacement(SPREAD).values(cost.value) == [100, 50 + 10, 0, 60]
    assert placement_cost(cost, SPREAD) == 220


def test_the_capacity_constraint_of_section_5_3_1() -> None:
    goal = parse_query_goal(TOTAL_BANDWIDTH + CAPACITY)
    # The link 1-2 carries at most 60, and the filter wants 100.
    assert query_violations(goal, AT_CLIENTS) == [
        "(aggregate(MIN, bandwidth, UPSTREAM OPERATORS) - input rate) >= 0: of operator large it is -40"
    ]
    # The union has 60 towards the filter and 900 towards B, on average 480; others are side by side.
    assert MeasuredPlacement(SPREAD).values(goal.constraints[0].metric) == [700, 370, None, None, 390]
    assert query_violations(goal, SPREAD) == []


def test_what_is_shared_travels_once() -> None:
    cost = parse_query_goal(TOTAL_BANDWIDTH).cost
    operators = (*WORKLOAD.operators, PlannedOperator("again", "rename", (0,)), client("cem", 7, site=2))
    both = QueryWorkload(WORKLOAD.sources, operators, (*WORKLOAD.queries, PlannedQuery("third", (5, 6))))
    placement = Placement(both, NETWORK, (*AT_CLIENTS.hosts, 2, 2))
    assert placement_cost(cost, placement) == placement_cost(cost, AT_CLIENTS)


@pytest.mark.parametrize(
    "text",
    [
        MAXIMUM_LATENCY,
        MAXIMUM_LOAD,
        TOTAL_BANDWIDTH + CAPACITY,
        "maximise aggregate(MIN, aggregate(MIN, aggregate(MIN, bandwidth, DOWNSTREAM OPERATORS), "
        "QUERY OPERATORS), QUERIES)\nsubject to node load * 2 <= 7\nconstraint(fanout, <=, 3)",
        "minimise aggregate(AVERAGE, aggregate(SUM, load), QUERIES)",
    ],
)
def test_a_goal_is_written_as_it_is_read(text: str) -> None:
    goal = parse_query_goal(text)
    assert parse_query_goal(goal_text(goal)) == goal


def test_an_aggregate_without_a_set_takes_that_of_the_system() -> None:
    load = STATISTICS["load"]
    of_query = GoalAggregate(GoalFunction.SUM, load, Scope.QUERY)
    text = "minimise aggregate(MAX, aggregate(SUM, load), {})"
    assert parse_query_goal(text.format("QUERIES")).cost == SystemCost(
        GoalFunction.MAX, of_query, GoalMembers.QUERIES
    )
    of_node = GoalAggregate(GoalFunction.SUM, load, Scope.LOCAL)
    assert parse_query_goal(text.format("BROKERS")).cost.value == of_node
    assert (
        parse_query_goal("minimise aggregate(MAX, aggregate(SUM, fanout), BROKERS)").cost.value
        == STATISTICS["fanout"]
    )


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("minimise aggregate(SUM, speed, BROKERS)", "'speed' is neither defined nor a statistic", 24),
        (
            "minimise aggregate(SUM, latency, QUERY OPERATORS)",
            "takes values of an operator, not of a link",
            24,
        ),
        ("minimise aggregate(SUM, load, BROKERS)", "takes values of a node, not of an operator", 9),
        ("minimise aggregate(MEDIAN, fanout, BROKERS)", "expected one of MIN MAX SUM AVERAGE", 19),
        ("minimise aggregate(SUM, latency + load, BROKERS)", "cannot be combined", 38),
        ("minimise aggregate(SUM, fanout, NEIGHBOURS)", "not NEIGHBOURS", 32),
        ("a = b; b = a; minimise aggregate(SUM, a, BROKERS)", "'a' is defined by itself", 11),
        ("minimise aggregate(SUM, aggregate(SUM, latency), QUERIES)", "expected a set: UPSTREAM", 39),
        ("minimise aggregate(SUM, fanout, BROKERS); latency < 3", "a constraint is on the system", 42),
    ],
)
def test_an_error_says_where_and_what_would_be_right(text: str, reason: str, position: int) -> None:
    with pytest.raises(InputError) as caught:
        parse_query_goal(text)
    assert reason in str(caught.value)
    assert caught.value.position == position


def test_a_goal_that_needs_bandwidths_says_so_when_there_are_none() -> None:
    network = SiteNetwork(Sites(latency=NETWORK.sites.latency), NETWORK.trees)
    goal = parse_query_goal(TOTAL_BANDWIDTH + CAPACITY)
    with pytest.raises(DistributaryError, match="asks for bandwidth, of which no values were given"):
        query_violations(goal, Placement(WORKLOAD, network, AT_CLIENTS.hosts))
