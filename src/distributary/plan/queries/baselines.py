"""Placements to compare with: made by simple rules, or best of all (the seed's comparisons, section 5.5.1).

Rules:

- CLIENT-STAR and CLIENT-TREE run every query at its client's site, over stars and over the given trees.
- SOURCE runs every operator at the root of the tree of its (first) feed; results go to the clients directly.
- GLOBAL takes queries in their order and puts each where the goal is best at that moment, knowing everything:
  all its operators at one site, and with `spread` then one operator after the other. A site that would break
  a constraint is passed over; where every site would, the query stays at its client's.
- The optimum tries every placement, and refuses where that is hopeless. For the greatest load of a site there
  is a bound that no placement can be below.

Cost: GLOBAL weighs every site for every query; the optimum is the sites to the power of the operators.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import placement_cost, query_violations
from distributary.plan.queries.generator import at_clients, with_stars
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.state import Indices

MOST = 200_000
"""Placements that the optimum is sought among."""


def client_star(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """Every operator at its client's, every site directly under the roots."""
    return at_clients(workload, with_stars(network))


def client_tree(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """Every operator at its client's, over the network's trees: where a climb starts."""
    return at_clients(workload, network)


def at_sources(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """SOURCE: every operator at the root that publishes its (first) feed."""
    hosts = [0] * len(workload.operators)
    for index in workload.order:
        operator = workload.operators[index]
        if operator.pinned is not None:
            hosts[index] = operator.pinned
        elif operator.inputs:
            stream = operator.inputs[0]
            producer = workload.producer(stream)
            if producer is None:
                hosts[index] = network.trees[workload.sources[stream].tree].root
            else:
                hosts[index] = hosts[producer]
    return Placement(workload, network, tuple(hosts))


def least_loaded(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """Every query, in its order, at the site with the least load so far."""
    loads = np.array([float(network.duties_of(site).load) for site in range(network.sites.count)])
    start = at_clients(workload, network)
    hosts = list(start.hosts)
    placed: set[int] = set()
    for query in workload.queries:
        site = int(loads.argmin())
        for index in query.operators:
            if workload.operators[index].pinned is None and index not in placed:
                placed.add(index)
                hosts[index] = site
                loads[site] += float(start.load(index))
    return Placement(workload, network, tuple(hosts))


def globally(goal: Goal, workload: QueryWorkload, network: SiteNetwork, *, spread: bool = False) -> Placement:
    """GLOBAL: each query in turn where the goal is best, as things are by then.

    Queries that are still to come count as if they did nothing and asked for nothing.
    """
    estimate = PlacementEstimate(goal, at_clients(workload, network))
    estimate.leave_out_all()
    rank = {index: place for place, index in enumerate(workload.order)}
    sites = np.arange(network.sites.count)
    begun: set[int] = set()
    for query in workload.queries:
        new = sorted(set(query.operators) - begun, key=rank.__getitem__)
        begun.update(new)
        estimate.bring_in(new)
        mine = [index for index in new if workload.operators[index].pinned is None]
        _put_best(estimate, mine, sites)
        for index in mine if spread else ():
            _put_best(estimate, [index], sites)
    return estimate.placement


def _put_best(estimate: PlacementEstimate, group: list[int], sites: Indices) -> None:
    worth = estimate.benefits(group, sites) if group else np.array([-np.inf])
    if np.isfinite(worth).any():
        estimate.move_all(dict.fromkeys(group, int(worth.argmax())))


def optimum(goal: Goal, placement: Placement) -> tuple[Placement, float]:
    """The best placement of all (trees as they are), and its cost; constraints are kept.

    >>> from distributary.plan.queries.generator import feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> network = random_network(sites=4, trees=1, seed=1)
    >>> workload = feed_workload(network, 1, seed=1, operators=2)
    >>> goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    >>> best, cost = optimum(goal, at_clients(workload, network))
    >>> cost <= placement_cost(goal.cost, at_sources(workload, network))
    True
    """
    workload, count = placement.workload, placement.network.sites.count
    free = [index for index, operator in enumerate(workload.operators) if operator.pinned is None]
    if count ** len(free) > MOST:
        raise DistributaryError(
            f"{len(free)} operators on {count} sites have {count ** len(free)} placements: too many to try"
        )
    best: tuple[Placement, float] | None = None
    for hosts in product(range(count), repeat=len(free)):
        tried = placement.moved(dict(zip(free, hosts, strict=True)))
        cost = float(placement_cost(goal.cost, tried))
        better = best is None or goal.sign * cost < goal.sign * best[1]
        if better and not (goal.constraints and query_violations(goal, tried)):
            best = tried, cost
    if best is None:
        raise DistributaryError("no placement keeps the constraints")
    return best


def least_maximum_load(workload: QueryWorkload, network: SiteNetwork) -> float:
    """What the most loaded site carries at least, however operators are placed."""
    anywhere = at_clients(workload, network)
    loads = [float(anywhere.load(index)) for index in range(len(workload.operators))]
    besides = [float(network.duties_of(site).load) for site in range(network.sites.count)]
    heaviest = max(loads, default=0.0) + min(besides)
    return max(heaviest, max(besides), (sum(loads) + sum(besides)) / network.sites.count)
