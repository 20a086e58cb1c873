"""Brokers as the planner's sites: what is known of one and its neighbours, made into a small tree.

Cost: as many sites as brokers; values of single brokers are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from distributary.plan.trees.cost import local_value
from distributary.plan.trees.tree import NO_PARENT, Sites
from distributary.plan.trees.tree import Tree as Plan
from distributary.systems.tree.cost_model import CostModel, Values
from distributary.systems.tree.messages import BrokerFacts, LinkMeasurement, Streams
from distributary.systems.tree.stream_rates import merged

SiteLinks = Mapping[tuple[int, int], LinkMeasurement]
"""What was measured of links, by the numbers of parent and child."""


@lru_cache(1 << 12)
def local_values(
    model: CostModel,
    link: LinkMeasurement | None,
    facts: BrokerFacts,
    fanout: int,
    streams: Streams,
    over_children: Values,
) -> Values:
    """A node's part in its own values, under a parent at the end of a link; as the root, without one."""
    return model.local_values(*alone(model, link, facts, fanout, streams), over_children)


@lru_cache(1 << 12)
def as_child(
    model: CostModel, link: LinkMeasurement, facts: BrokerFacts, fanout: int, streams: Streams
) -> Values:
    """What a node is for the aggregates over children of its parent: a value for each of these."""
    at = alone(model, link, facts, fanout, streams)
    found = [local_value(one.value, *at) for one in model.children]
    return tuple(None if value is None else float(value) for value in found)


def alone(
    model: CostModel, link: LinkMeasurement | None, facts: BrokerFacts, fanout: int, streams: Streams
) -> tuple[Sites, Plan, int]:
    """A node, its parent if it has a link, and its children, the first of which wants those streams."""
    links = {} if link is None else {(0, 1): link}
    me = len(links)
    below: list[Streams] = [streams, *[()] * (fanout - 1)] if fanout else []
    wanted: list[Streams] = [*[()] * me, facts.streams, *below]
    sites = known_sites(model, links, [facts._replace(streams=row) for row in wanted], unknown=0.0)
    return sites, Plan((NO_PARENT, *[0] * me, *[me] * fanout)), me


def known_sites(
    model: CostModel,
    links: SiteLinks,
    facts: Sequence[BrokerFacts],
    unknown: float,
    counts: Sequence[int] = (),
) -> Sites:
    """The planner's sites: what is known of some brokers, and of the links between them.

    `unknown` is the latency where there is no link; `counts` says how many brokers each site stands for.
    """
    size = len(facts)
    latency, bandwidth, *own = (
        [[value] * size for _ in facts] for value in (unknown, 0.0, *[0.0] * len(model.own_links))
    )
    for (parent, child), link in links.items():
        latency[parent][child], bandwidth[parent][child] = link.latency, link.bandwidth
        for matrix, value in zip(own, link.own, strict=False):
            matrix[parent][child] = value
    rates = dict(merged(*(one.streams for one in facts)))
    bits = {stream: 1 << number for number, stream in enumerate(rates)}
    return Sites(
        latency=latency,
        bandwidth=bandwidth,
        clients=[one.clients for one in facts],
        processing=[one.processing for one in facts],
        interest=[sum(bits[stream] for stream, _ in one.streams) for one in facts],
        rates=list(rates.values()),
        counts=counts,
        link_metrics=dict(zip(model.own_links, own, strict=True)),
        site_metrics={
            name: [one.own[number] if one.own else 0.0 for one in facts]
            for number, name in enumerate(model.own_nodes)
        },
    )
