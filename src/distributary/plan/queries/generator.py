"""The seed's workload (section 5.5), and networks to place it in; all from one seed.

    network = random_network(sites=200, trees=4, seed=1)          # random trees: CLIENT-TREE's
    workload = feed_workload(network, queries=900, seed=1)        # five operators each, 700 feeds
    placement = at_clients(workload, network)                     # where every query starts

Rules:

- Feeds are dealt at random to the trees; which feed a query reads follows a Zipf distribution. Clients are at
  random sites that are no tree's root.
- A query is a chain of five operators of Table 5.6 (a `split` counts as one that passes everything on). A
  share of the queries read two feeds: then the first operator takes both together.
- What the seed does not give is set here, to round numbers: selectivities and cycles an item by kind, and the
  size of an item. `filters_only` is the seed's own variant for bandwidth: five filters, each with a
  selectivity uniform in [0, 1].

Cost: linear in what is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import hypot
from random import Random

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.queries import graph
from distributary.plan.queries.graph import PlannedOperator, QueryWorkload
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.trees.tree import Sites, random_tree, star

FEEDS = 700
SKEW = 0.97
RATE = 3200.0
"""Bytes a second of a feed (section 5.5)."""
ITEM = 1600.0
"""Bytes of an item: so a feed has two a second."""
OPERATORS = 5

KINDS: Mapping[str, tuple[float, float, float]] = {
    "count": (0.1, 0.1, 1.0),
    "filter": (0.0, 1.0, 1.0),
    "rename": (1.0, 1.0, 0.5),
    "copy": (1.0, 1.0, 0.5),
    "sort": (1.0, 1.0, 3.0),
    "split": (1.0, 1.0, 0.5),
    "truncate": (0.2, 0.8, 0.5),
    "unique": (0.5, 1.0, 2.0),
}
"""Each kind's least and greatest selectivity, and thousandths of a processor cycle an item (`CYCLE`)."""

CYCLE = 0.1
"""Cycles of a unit in `KINDS`: with it 500 queries on 100 sites come to some five cycles a site a second, the
scale on which the seed states its limits (Figure 5.12)."""


def random_network(sites: int, trees: int, seed: int) -> SiteNetwork:
    """Sites at random places in a square 100 milliseconds wide, and random trees with different roots."""
    if not 0 < trees <= sites:
        raise DistributaryError(f"{trees} trees need as many roots, and there are {sites} sites")
    random = Random(seed)
    places = [(100 * random.random(), 100 * random.random()) for _ in range(sites)]
    latency = [[1 + hypot(a - c, b - d) if (a, b) != (c, d) else 0.0 for c, d in places] for a, b in places]
    bandwidth = [[0.0] * sites for _ in range(sites)]
    for one in range(sites):
        for other in range(one):
            bandwidth[one][other] = bandwidth[other][one] = 1e5 * random.uniform(1, 10)
    return SiteNetwork(
        Sites(latency=latency, bandwidth=bandwidth),
        tuple(random_tree(sites, random, root) for root in range(trees)),
    )


def with_stars(network: SiteNetwork) -> SiteNetwork:
    """The same network with every site directly under each root."""
    count = network.sites.count
    return replace(network, trees=tuple(star(count, tree.root) for tree in network.trees))


def feed_workload(
    network: SiteNetwork,
    queries: int,
    seed: int,
    *,
    feeds: int = FEEDS,
    operators: int = OPERATORS,
    two_feeds: float = 0.2,
    filters_only: bool = False,
) -> QueryWorkload:
    """Queries over feeds, as in the seed's experiments."""
    draw = np.random.default_rng(seed)
    sources = tuple(
        graph.PlannedSource(f"feed{number}", int(tree), RATE, RATE / ITEM)
        for number, tree in enumerate(draw.integers(len(network.trees), size=feeds))
    )
    popularity = 1 / np.arange(1, feeds + 1) ** SKEW
    popularity /= popularity.sum()
    roots = {tree.root for tree in network.trees}
    hosts = [site for site in range(network.sites.count) if site not in roots] or sorted(roots)
    made: list[PlannedOperator] = []
    asked: list[graph.PlannedQuery] = []
    kinds = ["filter"] if filters_only else sorted(KINDS)
    for number in range(queries):
        first = len(made)
        count = 2 if draw.random() < two_feeds else 1
        inputs = tuple(int(feed) for feed in draw.choice(feeds, size=count, replace=False, p=popularity))
        for place in range(operators):
            kind = kinds[int(draw.integers(len(kinds)))]
            low, high, cost = KINDS[kind]
            name = f"q{number}.{place}"
            chance = float(draw.uniform(low, high))
            made.append(PlannedOperator(name, kind, inputs, selectivity=chance, cost=cost * CYCLE))
            inputs = (len(sources) + len(made) - 1,)
        site = hosts[int(draw.integers(len(hosts)))]
        made.append(graph.client(f"q{number}.client", inputs[0], site))
        asked.append(graph.PlannedQuery(f"q{number}", tuple(range(first, len(made)))))
    return QueryWorkload(sources, tuple(made), tuple(asked), final_cost=0.5 * CYCLE)


def at_clients(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """Every operator at the site of the (first) client that it works for: where queries start."""
    pinned = [operator.pinned for operator in workload.operators]
    hosts = [site or 0 for site in pinned]
    for query in reversed(workload.queries):
        for index in query.operators:
            if pinned[index] is None:
                hosts[index] = pinned[query.operators[-1]] or 0
    return Placement(workload, network, tuple(hosts))
