"""Networks in which many operators read one stream, so that it spreads by a tree."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from distributary.plan.queries.graph import PlannedOperator, PlannedQuery, QueryWorkload, client
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.spreading import ParentPreference, StreamSpreading
from plan.queries.networks import exact_network, exact_placement, exact_workload

READERS = 6


def some_placement(seed: int) -> Placement:
    """A random placement; on every second seed one in which a stream spreads by a tree."""
    return wide_placement(seed) if seed % 2 else exact_placement(seed)


def wide_placement(seed: int, sites: int = 7) -> Placement:
    """A random placement in which one operator's stream is read by six others at random sites."""
    random = Random(f"{seed}/wide")
    spreading = StreamSpreading(random.randint(1, 3), random.choice([*ParentPreference]))
    network = replace(exact_network(sites, 2, random), spreading=spreading)
    workload = exact_workload(network, 2, random)
    operators, queries = list(workload.operators), list(workload.queries)
    free = [index for index, one in enumerate(operators) if one.pinned is None]
    read = len(workload.sources) + random.choice(free)
    for number in range(READERS):
        selectivity = Fraction(random.choice((1, 2, 4)), 4)
        kind = random.choice(("filter", "count"))
        operators.append(PlannedOperator(f"wide{number}", kind, (read,), selectivity, cost=number % 3))
        stream = len(workload.sources) + len(operators) - 1
        operators.append(client(f"reader{number}", stream, random.randrange(sites)))
        mine = (read - len(workload.sources), len(operators) - 2, len(operators) - 1)
        queries.append(PlannedQuery(f"wide{number}", mine))
    hosts = tuple(random.randrange(sites) if one.pinned is None else one.pinned for one in operators)
    return Placement(QueryWorkload(workload.sources, tuple(operators), tuple(queries)), network, hosts)
