"""Placements to compare with, made by simple rules (the seed's comparisons, section 5.5.1).

Rules:

- CLIENT-STAR runs every query at its client's site, over stars. (CLIENT-TREE, over the given trees, is where
  a climb starts: `generator.at_clients`.)
- SOURCE runs every operator at the root of the tree of its (first) feed; results go to the clients directly.
- GLOBAL takes queries in their order and puts each at the site where the goal is best at that moment, knowing
  everything. A site that would break a constraint is passed over; where every site would, the query stays at
  its client's.
- For the greatest load of a site there is a bound that no placement can be below.

Cost: GLOBAL weighs every site for every query.
"""

from __future__ import annotations

import numpy as np

from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.generator import at_clients, with_stars
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.placement import Placement, SiteNetwork


def client_star(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """Every operator at its client's, every site directly under the roots."""
    return at_clients(workload, with_stars(network))


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


def globally(goal: Goal, workload: QueryWorkload, network: SiteNetwork) -> Placement:
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
        worth = estimate.benefits(mine, sites) if mine else np.array([-np.inf])
        if np.isfinite(worth).any():
            estimate.move_all(dict.fromkeys(mine, int(worth.argmax())))
    return estimate.placement


def least_maximum_load(workload: QueryWorkload, network: SiteNetwork) -> float:
    """What the most loaded site carries at least, however operators are placed."""
    anywhere = at_clients(workload, network)
    loads = [float(anywhere.load(index)) for index in range(len(workload.operators))]
    besides = [float(network.duties_of(site).load) for site in range(network.sites.count)]
    heaviest = max(loads, default=0.0) + min(besides)
    return max(heaviest, max(besides), (sum(loads) + sum(besides)) / network.sites.count)
