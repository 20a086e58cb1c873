"""Streams of operators that spread by trees: what a plan counts is what following every copy shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import WHOLE
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.rules import HYBRID
from distributary.plan.queries.spreading import ParentPreference, SpreadTrees, StreamSpreading
from distributary.plan.trees.tree import Sites, star
from distributary.systems.queries.links import LinkEstimate, LinkTable
from distributary.systems.queries.source_trees import ParentChoice, SourceTree
from plan.queries.networks import exact_placement
from plan.queries.wide import wide_placement

SEEDS = st.integers(0, 100_000)
SPREADINGS = st.builds(StreamSpreading, st.integers(1, 3), st.sampled_from(ParentPreference))


def random_latency(random: Random, count: int) -> list[list[int]]:
    rows = [[0] * count for _ in range(count)]
    for one in range(count):
        for other in range(one):
            rows[one][other] = rows[other][one] = random.randint(1, 30)
    return rows


@given(SEEDS, SPREADINGS)
def test_a_tree_is_what_a_live_network_makes_of_sites_that_join_nearest_first(
    seed: int, spreading: StreamSpreading
) -> None:
    random = Random(seed)
    latency = random_latency(random, 9)
    sites = random.sample(range(9), random.randint(1, 9))
    host = random.randrange(9)
    known = {(one, other): LinkEstimate(latency[one][other]) for one in range(9) for other in range(one)}
    links = LinkTable({(min(pair), max(pair)): estimate for pair, estimate in known.items()})
    choice = ParentChoice(links, spreading.fanout, spreading.prefer)
    live = SourceTree(host)
    for site in sorted(set(sites) - {host}, key=lambda one: (latency[host][one], one)):
        if live.children(host) < spreading.fanout:
            live.parents[site] = host  # the host serves as many as it may itself
        else:
            live.join(site, choice)
    found = SpreadTrees(spreading, latency).parents(host, sites)
    assert found == live.parents
    assert all(list(found.values()).count(site) <= spreading.fanout for site in range(9))


def wanted(site: int, parents: Mapping[int, int], asked: Mapping[int, int]) -> int:
    """How much of a stream is asked for at a site and at all that get it by way of it."""
    below = [child for child, parent in parents.items() if parent == site]
    return min(WHOLE, asked.get(site, 0) + sum(wanted(child, parents, asked) for child in below))


def followed(placement: Placement) -> dict[str, list[Fraction]]:
    """What sites send and get of operators' streams, by following every stream from site to site."""
    workload, network, hosts = placement.workload, placement.network, placement.hosts
    found = {
        name: [Fraction(0)] * network.sites.count for name in ("published", "forwarded", "incoming", "links")
    }
    for operator, host in enumerate(hosts):
        stream = workload.stream(operator)
        asked: dict[int, int] = defaultdict(int)
        for reader, other in enumerate(workload.operators):
            for read in other.inputs:
                if read == stream:
                    asked[hosts[reader]] += network.asked(other)
        parents = network.spread(host, set(asked))
        for site, parent in parents.items():
            rate = Fraction(workload.rate(stream)) * wanted(site, parents, asked) / WHOLE
            found["incoming"][site] += rate
            found["published" if parent == host else "forwarded"][parent] += rate
            found["links"][parent] += parent != host
    return found


@given(SEEDS)
def test_what_travels_is_what_following_every_stream_shows(seed: int) -> None:
    placement = wide_placement(seed)
    measured = MeasuredPlacement(placement)
    expected = followed(placement)
    direct = MeasuredPlacement(Placement(placement.workload, _direct(placement.network), placement.hosts))
    for site in range(placement.network.sites.count):
        local = [index for index, host in enumerate(placement.hosts) if host == site]
        sent = sum(measured.operator_statistic("output rate", index) for index in local)
        assert sent == expected["published"][site]
        # What comes from sources is the same whether operators' streams spread or not.
        forwarded = measured.node_statistic("forwarding rate", site)
        assert forwarded - direct.node_statistic("forwarding rate", site) == expected["forwarded"][site]
        assert measured.fanout(site) - direct.fanout(site) == expected["links"][site]
        straight = sum(
            rate
            for (stream, link), rate in direct.carried.items()
            if link[1] == site and stream >= len(placement.workload.sources)
        )
        incoming = measured.node_statistic("incoming rate", site) + straight
        assert incoming - direct.node_statistic("incoming rate", site) == expected["incoming"][site]


def _direct(network: SiteNetwork) -> SiteNetwork:
    return replace(network, spreading=None)


def test_such_networks_have_streams_that_spread() -> None:
    spread = [any(followed(wide_placement(seed))["links"]) for seed in range(40)]
    assert sum(spread) > 20


@given(SEEDS)
def test_a_large_fanout_is_no_tree(seed: int) -> None:
    placement = exact_placement(seed)
    network = placement.network
    wide = replace(network, spreading=StreamSpreading(network.sites.count))
    measured = MeasuredPlacement(Placement(placement.workload, wide, placement.hosts))
    direct = MeasuredPlacement(Placement(placement.workload, _direct(network), placement.hosts))
    assert measured.carried == direct.carried


@pytest.mark.parametrize("seed", range(6))
def test_where_a_climb_ends_every_move_is_weighed_as_measured(seed: int) -> None:
    goal = parse_query_goal(
        """out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate
        minimise aggregate(MAX, out, BROKERS)"""
        if seed % 2
        else """cost = aggregate(SUM, latency, UPSTREAM OPERATORS)
        minimise aggregate(SUM, aggregate(SUM, cost, QUERY OPERATORS), QUERIES)"""
    )
    placement = wide_placement(seed)
    found = climb(goal, placement, area=HYBRID)
    assert found.cost == pytest.approx(float(MeasuredPlacement(found.placement).system(goal.cost)))
    assert found.cost <= found.before
    free = [index for index, one in enumerate(placement.workload.operators) if one.pinned is None]
    sites = range(placement.network.sites.count)
    estimate = PlacementEstimate(goal, found.placement)
    for operator, site in product(free, sites):
        moved = MeasuredPlacement(found.placement.moved({operator: site})).system(goal.cost)
        assert estimate.benefits(operator, [site])[0] == pytest.approx(found.cost - float(moved), abs=1e-6)


def test_a_fanout_of_nothing_is_refused() -> None:
    with pytest.raises(DistributaryError, match="serves nobody"):
        StreamSpreading(0)
    network = SiteNetwork(Sites(latency=[[0, 1], [1, 0]]), (star(2),), spreading=StreamSpreading(1))
    assert network.spread(0, {0, 1}) == {1: 0}
