"""Local metrics: one number of a link or a node, from which node costs are made.

Rules:

- A LINK metric is measured on the link from a site's parent; the root has none, so it has no value there. A
  NODE metric has a value at every site.
- A metric says what it reads (`Reads`), so that a change of the tree measures again only what it touched.
  ANYTHING is always right and always slow.
- A user's own metric is `measured`: a number for every link, or for every site, which `Sites` holds by name
  and which brokers measure with a gauge of that name. Or it is a function of sites and tree, for the planner
  alone: brokers know no more of a tree than they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Expression, Measure, Number, Place, parts
from distributary.plan.trees.tree import Sites, Tree


class Reads(Enum):
    """What a metric's value at a site depends on, beside the sites themselves."""

    NOTHING = "nothing of the tree"
    PARENT = "the site's parent"
    CHILDREN = "the site's parent and children"
    SUBTREE = "the site's parent and everything below it"
    ANYTHING = "the whole tree"


@dataclass(frozen=True)
class Metric(Measure):
    """A named local metric; an application defines its own by `measured`, or by giving a function.

    >>> distance = Metric("hops", Place.LINK, Reads.PARENT, lambda sites, tree, site: 1)
    """

    reads: Reads
    function: Callable[[Sites, Tree, int], Number]


def metrics_of(expression: Expression) -> list[Metric]:
    """The metrics in an expression."""
    return [part for part in parts(expression) if isinstance(part, Metric)]


@dataclass(frozen=True)
class MeasuredValue:
    """Reads what the user has measured at a site, or on the link from its parent."""

    name: str
    place: Place

    def __call__(self, sites: Sites, tree: Tree, site: int) -> Number:
        """The value at a site of a tree."""
        if self.place is Place.LINK:
            matrix = sites.link_metrics.get(self.name)
            if matrix is not None:
                return matrix[tree.parents[site]][site]
        row = sites.site_metrics.get(self.name)
        if row is None or self.place is Place.LINK:
            raise DistributaryError(f"the goal asks for {self.name}, of which no values were given")
        return row[site]


def measured(name: str, place: Place) -> Metric:
    """A metric of the user's own, with a value for every link or for every site.

    >>> toll = measured("toll", Place.LINK)
    >>> sites = Sites([[0, 5], [5, 0]], link_metrics={"toll": [[0, 2], [3, 0]]})
    >>> toll.function(sites, Tree((-1, 0)), 1)
    2
    """
    if place not in (Place.LINK, Place.NODE):
        raise DistributaryError(f"a metric of {place.value} cannot be measured: take a link or a node")
    reads = Reads.PARENT if place is Place.LINK else Reads.NOTHING
    return Metric(name, place, reads, MeasuredValue(name, place))


def link_latency(sites: Sites, tree: Tree, site: int) -> Number:
    """The latency of the link from the parent."""
    return sites.latency[tree.parents[site]][site]


def link_bandwidth(sites: Sites, tree: Tree, site: int) -> Number:
    """The bandwidth of the link from the parent."""
    if not sites.bandwidth:
        raise DistributaryError("the goal asks for link bandwidth, and no bandwidth matrix was given")
    return sites.bandwidth[tree.parents[site]][site]


def wanted(sites: Sites, tree: Tree, site: int) -> int:
    """The streams that the site or somebody below it wants: its merged profile."""
    if not sites.interest:
        raise DistributaryError("the goal asks for data rates, and no interest in streams was given")
    streams = 0
    # By children: the tree's order is not derived for this, since every rewrite that is weighed comes here.
    waiting = [site]
    while waiting:
        member = waiting.pop()
        streams |= sites.interest[member]
        waiting.extend(tree.children[member])
    return streams


def incoming_rate(sites: Sites, tree: Tree, site: int) -> Number:
    """The rate of all streams that are wanted here or below."""
    return sites.rate_of(wanted(sites, tree, site))


def superfluous_data(sites: Sites, tree: Tree, site: int) -> Number:
    """What comes in for those below, and that no client here wants."""
    return sites.rate_of(wanted(sites, tree, site) & ~sites.interest[site])


def fanout(sites: Sites, tree: Tree, site: int) -> Number:
    """How many children the site has."""
    return len(tree.children[site])


def processing_time(sites: Sites, tree: Tree, site: int) -> Number:
    """How long a message is matched here: longer the more children and clients there are."""
    if not sites.processing:
        raise DistributaryError("the goal asks for cpu, and no processing times were given")
    clients = sites.clients[site] if sites.clients else 0
    return sites.processing[site] * (len(tree.children[site]) + clients)


BUILT_IN: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("link latency", Place.LINK, Reads.PARENT, link_latency),
        Metric("link bandwidth", Place.LINK, Reads.PARENT, link_bandwidth),
        Metric("incoming rate", Place.LINK, Reads.SUBTREE, incoming_rate),
        Metric("superfluous data", Place.LINK, Reads.SUBTREE, superfluous_data),
        Metric("fanout", Place.NODE, Reads.CHILDREN, fanout),
        Metric("cpu", Place.NODE, Reads.CHILDREN, processing_time),
    )
}
"""The metrics every goal may name."""

SPELLINGS: Mapping[str, str] = {"extraincoming": "superfluous data", "incoming data rate": "incoming rate"}
"""Other words for them, from the seed's examples (section 4.2)."""
