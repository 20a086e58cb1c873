"""Placement by springs in a space of latencies, as stream overlays without rules do it (SBON).

Rules:

- Sites are points whose distances approximate latencies (classical scaling of the symmetric latencies). What
  is pinned stands still: the trees' roots and the clients.
- Every other operator is pulled by those it exchanges data with, the harder the more flows: it comes to rest
  at the average of their places, weighted by rates. It then runs at the nearest site.
- The goal is not asked: springs know of latency and rates alone, and of no sharing. A climb may follow.

Cost: the cube of the sites once; then so many rounds over all streams.
"""

from __future__ import annotations

import numpy as np

from distributary.plan.queries.generator import at_clients
from distributary.plan.queries.graph import WHOLE, QueryWorkload
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.state import Floats
from distributary.plan.trees.tree import Sites

ROUNDS = 200
"""After so many rounds all operators are at rest."""


def latency_space(sites: Sites, dimensions: int = 3) -> Floats:
    """A point for every site.

    >>> points = latency_space(Sites(latency=[[0, 3, 7], [3, 0, 4], [7, 4, 0]]), dimensions=1)
    >>> float(abs(points[0] - points[2])[0].round(6))
    7.0
    """
    latency = np.array(sites.latency, dtype=np.float64)
    squares = ((latency + latency.T) / 2) ** 2
    centre = np.eye(sites.count) - 1 / sites.count
    values, vectors = np.linalg.eigh(-centre @ squares @ centre / 2)
    chosen = np.argsort(values)[::-1][:dimensions]
    return np.asarray(vectors[:, chosen] * np.sqrt(np.maximum(values[chosen], 0)))


def relaxed(workload: QueryWorkload, network: SiteNetwork) -> Placement:
    """Let all operators come to rest, and run each at the nearest site."""
    points = latency_space(network.sites)
    start = at_clients(workload, network)
    sources, count = len(workload.sources), len(workload.operators)
    roots = points[[network.trees[source.tree].root for source in workload.sources]]
    free = np.array([operator.pinned is None for operator in workload.operators])
    ends = [
        (stream, sources + reader, float(workload.rate(stream)) * network.asked(operator) / WHOLE)
        for reader, operator in enumerate(workload.operators)
        for stream in operator.inputs
    ]
    one = np.array([end[0] for end in ends], dtype=np.intp)
    other = np.array([end[1] for end in ends], dtype=np.intp)
    # What flows nowhere still pulls a little, so that every operator has a place.
    pull = np.array([end[2] for end in ends]) + 1e-9
    weight = np.zeros(sources + count)
    np.add.at(weight, one, pull)
    np.add.at(weight, other, pull)
    places = np.concatenate([roots, points[list(start.hosts)]])
    moving = np.concatenate([np.zeros(sources, dtype=bool), free & (weight[sources:] > 0)])
    for _ in range(ROUNDS):
        drawn = np.zeros_like(places)
        np.add.at(drawn, one, pull[:, None] * places[other])
        np.add.at(drawn, other, pull[:, None] * places[one])
        places[moving] = drawn[moving] / weight[moving, None]
    hosts = list(start.hosts)
    for index in np.flatnonzero(moving[sources:]):
        away = ((points - places[sources + index]) ** 2).sum(axis=1)
        hosts[int(index)] = int(away.argmin())
    return Placement(workload, network, tuple(hosts))
