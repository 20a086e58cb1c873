"""Random query networks for the tests: whole numbers and fractions, so that costs are measured exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

from distributary.plan.goal.expression import Goal
from distributary.plan.queries.cost import placement_cost, query_violations
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.placement import Duties, Placement, SiteNetwork
from distributary.plan.queries.spreading import ParentPreference, StreamSpreading
from distributary.plan.trees.tree import Sites, random_tree

KINDS = ("filter", "count", "union", "unique", "sort", "rename")


def exact_network(count: int, trees: int, random: Random) -> SiteNetwork:
    def matrix() -> list[list[int]]:
        return [[random.randint(1, 12) for _ in range(count)] for _ in range(count)]

    return SiteNetwork(
        Sites(latency=matrix(), bandwidth=matrix()),
        tuple(random_tree(count, random, random.randrange(count)) for _ in range(trees)),
        speed=[random.choice((1, 2, 4)) for _ in range(count)],
        matching=random.randint(0, 3),
        duties=[exact_duties(random) for _ in range(count)] if random.random() < 0.5 else (),
        filtering=random.random() < 0.5,
        spreading=exact_spreading(random),
    )


def exact_spreading(random: Random) -> StreamSpreading | None:
    """How streams spread; every third time straight to their readers."""
    return random.choice((None, StreamSpreading(1), StreamSpreading(2, random.choice([*ParentPreference]))))


def exact_duties(random: Random) -> Duties:
    """What a site does besides; each kind of it about every second time."""
    return Duties(*(random.choice((0, random.randint(0, 4000))) for _ in range(5)))


def exact_workload(network: SiteNetwork, queries: int, random: Random) -> QueryWorkload:
    """Queries that share feeds and each other's operators; rates are multiples of a power of two."""
    sources = tuple(
        PlannedSource(
            f"s{number}",
            random.randrange(len(network.trees)),
            Fraction(1024 * random.randint(1, 4)),
            Fraction(1024),
        )
        for number in range(random.randint(2, 4))
    )
    operators: list[PlannedOperator] = []
    asked = []
    published: list[int] = []
    for number in range(queries):
        mine: list[int] = []
        streams = random.sample(range(len(sources)), random.randint(1, 2))
        if published and random.random() < 0.4:
            streams.append(random.choice(published))
        for place in range(random.randint(1, 3)):
            selectivity = Fraction(random.choice((0, 1, 2, 4, 8)), 4)
            kind = random.choice(KINDS)
            inputs = tuple(streams) if place == 0 else (len(sources) + len(operators) - 1,)
            if kind == "union":
                selectivity = Fraction(1)
            operators.append(
                PlannedOperator(f"o{len(operators)}", kind, inputs, selectivity, cost=random.randint(0, 3))
            )
            mine.append(len(operators) - 1)
            published.append(len(sources) + mine[-1])
        shared = [stream - len(sources) for stream in streams if stream >= len(sources)]
        operators.append(client(f"c{number}", published[-1], random.randrange(network.sites.count)))
        asked.append(PlannedQuery(f"q{number}", (*shared, *mine, len(operators) - 1)))
    return QueryWorkload(sources, tuple(operators), tuple(asked))


def exact_placement(seed: int, sites: int = 7, trees: int = 2, queries: int = 4) -> Placement:
    random = Random(seed)
    network = exact_network(sites, trees, random)
    workload = exact_workload(network, queries, random)
    hosts = tuple(
        random.randrange(sites) if operator.pinned is None else operator.pinned
        for operator in workload.operators
    )
    return Placement(workload, network, hosts)


def small(queries: int = 40, sites: int = 20) -> Placement:
    """Queries over feeds at their clients, on random sites in three trees."""
    network = random_network(sites, 3, seed=4)
    return at_clients(feed_workload(network, queries, 4, feeds=40), network)


def least_cost(goal: Goal, placement: Placement) -> float:
    """The cost of the best of all placements that keep the constraints; trees are as they are."""
    free = [index for index, one in enumerate(placement.workload.operators) if one.pinned is None]
    every = product(range(placement.network.sites.count), repeat=len(free))
    tried = (placement.moved(dict(zip(free, hosts, strict=True))) for hosts in every)
    costs = (placement_cost(goal.cost, each) for each in tried if not query_violations(goal, each))
    return goal.sign * min(goal.sign * float(cost) for cost in costs)
