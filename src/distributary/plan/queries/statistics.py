"""The statistics that sites send each other, and what that costs in bytes: sections 5.3.2, 5.4.3 and 5.4.5.

Rules:

- Every site has one value (where the goal is over nodes), or one for each tree: what lies between the tree's
  root and the site (the seed's phi), as the goal aggregates it. Values travel up the tree and down again.
- Where the system's cost is a sum or an average, every site is told values. Where it is a MIN or MAX, only
  those sites are whose own value is within `slack` of it, or that host a query whose value is (the conditions
  of Table 5.2).
- A site is told only of values that are better than a bound: its own value. (In Table 5.2 the bound is the
  latency of the link to its parent, which leaves out paths that are longer than that and still better than
  the site's own; `own_link=True` is the table's.)
- Parents know the bounds of all sites below them, and pass down only values that are better than one of them.
- At most `top` values are passed on over a link each way, drawn by lottery: a better value has more tickets,
  and each has at least a few.
- The cost is counted in bytes: `VALUE` for a number, `NAME` for a site or a stream. Maintenance is what keeps
  the values themselves known; optimisation is what a site asks its neighbourhood when it weighs rules.

Cost: a period costs, for each tree, its links times the values that pass them.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import GoalAggregate, GoalMembers, names_in, parts
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.state import Floats, Indices
from distributary.plan.queries.system_forms import BrokersCost, QueriesCost

VALUE = 8
NAME = 4
LEAST_TICKETS = 0.05
"""The share of the best value's tickets that the worst one has."""


@dataclass(frozen=True)
class OptimiserTraffic:
    """Bytes sent in all."""

    maintenance: int = 0
    optimisation: int = 0
    statistics: int = 0

    def __add__(self, other: OptimiserTraffic) -> OptimiserTraffic:
        return OptimiserTraffic(*map(add, astuple(self), astuple(other)))

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(astuple(self))


@dataclass(frozen=True)
class DisseminationRound:
    """What came of a round: the sites that each site has heard of, the best first, and the bytes sent."""

    sites: tuple[Indices, ...]
    statistics: int


def critical_sites(estimate: PlacementEstimate, slack: float = 0.0) -> list[int]:
    """The sites that the system's cost hangs on (section 3.4.3)."""
    state, system = estimate.state, estimate.system
    everyone = [site for site in range(state.count) if state.local[site]]
    if not estimate.goal.cost.function.is_bottleneck:
        return everyone
    near = slack * abs(estimate.cost) + 1e-9 * abs(estimate.cost)
    if isinstance(system, BrokersCost):
        values = system.nodes.values()
        return [site for site in everyone if abs(values[site] - estimate.cost) <= near]
    if isinstance(system, QueriesCost):
        of_queries = system.queries.values()
        worst = np.flatnonzero(np.abs(of_queries - estimate.cost) <= near)
        return sorted({state.hosts[index] for number in worst for index in state.members[number]})
    return everyone


def values_by_tree(estimate: PlacementEstimate, own_link: bool = False) -> list[tuple[int, Floats, Floats]]:
    """By tree: every site's value, and what is better than which it wants to hear of."""
    state, system = estimate.state, estimate.system
    if isinstance(system, BrokersCost):
        values = system.nodes.values()
        return [(0, values, values)]
    if isinstance(system, QueriesCost) and system.queries.operators.ways:
        ways = next(iter(system.queries.operators.ways.values()))
        found = []
        for number, tree in enumerate(state.trees):
            values = np.nan_to_num(ways.from_root[number])
            links = ways.direct[tree.parents, np.arange(state.count)]
            found.append((number, values, np.nan_to_num(links) if own_link else values))
        return found
    load = state.quantities["load"] + state.duties.get("load", 0.0)
    return [(0, load, load)]


def better_sites(estimate: PlacementEstimate, site: int) -> Indices:
    """The sites that do better than this one in any tree, the best first: all that could be heard of."""
    sign = estimate.goal.sign
    best = np.full(estimate.state.count, np.inf)
    for _, values, _ in values_by_tree(estimate):
        best = np.where(sign * values < sign * values[site], np.minimum(best, sign * values), best)
    order: Indices = np.argsort(best, kind="stable")
    return order[: int(np.isfinite(best).sum())]


class Dissemination:
    """Rounds of statistics.

    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> network = random_network(sites=30, trees=2, seed=1)
    >>> goal = parse_query_goal("minimise aggregate(SUM, node load, BROKERS)")
    >>> estimate = PlacementEstimate(goal, at_clients(feed_workload(network, 60, seed=1), network))
    >>> all_of_it, some = Dissemination().round(estimate), Dissemination(top=5).round(estimate)
    >>> some.statistics < all_of_it.statistics
    True
    """

    def __init__(
        self, top: int | None = None, *, seed: int = 0, slack: float = 0.0, own_link: bool = False
    ) -> None:
        if top is not None and top < 1:
            raise DistributaryError(f"top is at least 1, not {top}")
        self.top = top
        self.slack = slack
        self.own_link = own_link
        self._random = np.random.default_rng(seed)

    def round(self, estimate: PlacementEstimate) -> DisseminationRound:
        """Let every site tell of itself once."""
        interested = np.zeros(estimate.state.count, dtype=bool)
        interested[critical_sites(estimate, self.slack)] = True
        sign = estimate.goal.sign
        best: list[dict[int, float]] = [{} for _ in range(estimate.state.count)]
        sent = 0
        for number, values, bounds in values_by_tree(estimate, self.own_link):
            bounds = np.where(interested, sign * bounds, -np.inf)
            passed = self._tell(estimate, number, sign * values, bounds, best)
            sent += passed * (NAME + 2 * VALUE if len(estimate.state.trees) > 1 else NAME + VALUE)
        sites = tuple(
            np.array(sorted(heard, key=lambda site: (heard[site], site)), dtype=np.intp) for heard in best
        )
        return DisseminationRound(sites, sent)

    def _tell(
        self,
        estimate: PlacementEstimate,
        number: int,
        values: Floats,
        bounds: Floats,
        best: list[dict[int, float]],
    ) -> int:
        """Pass values up and down one tree; how many went over links."""
        tree = estimate.state.network.trees[number]
        widest = bounds.copy()
        for site in reversed(tree.order[1:]):
            widest[tree.parents[site]] = max(widest[tree.parents[site]], widest[site])
        up: dict[int, Indices] = {}
        for site in reversed(tree.order[1:]):
            heard = np.concatenate([[site], *(up[child] for child in tree.children[site])]).astype(np.intp)
            up[site] = self._drawn(heard, values)
        sent = sum(map(len, up.values()))
        down: dict[int, Indices] = {tree.root: np.array([], dtype=np.intp)}
        for site in tree.order:
            known = np.concatenate([[site], down[site], *(up[child] for child in tree.children[site])])
            known = known.astype(np.intp)
            for other in known[values[known] < bounds[site]]:
                if other != site:
                    place = int(other)
                    best[site][place] = min(best[site].get(place, np.inf), float(values[place]))
            for child in tree.children[site]:
                useful = known[values[known] < widest[child]]
                useful = useful[~np.isin(useful, up[child])]
                down[child] = self._drawn(useful, values)
                sent += len(down[child])
        return sent

    def _drawn(self, sites: Indices, values: Floats) -> Indices:
        """At most `top` of these, by lottery."""
        return sites[drawn(self._random, values[sites], self.top)]


def drawn(random: np.random.Generator, worth: Floats, top: int | None) -> Indices:
    """Which of so many values are passed on: all, or `top` of them by lottery, in which the least fare best.

    >>> len(drawn(np.random.default_rng(1), np.array([3.0, 1.0, 2.0]), 2))
    2
    """
    if top is None or len(worth) <= top:
        return np.arange(len(worth))
    spread = float(worth.max() - worth.min()) or 1.0
    tickets = LEAST_TICKETS + (worth.max() - worth) / spread
    # Of exponential times with rates in proportion to the tickets, the first are drawn as in a lottery.
    times = random.exponential(size=len(worth)) / tickets
    found: Indices = np.argpartition(times, top)[:top]
    return found


def maintenance(estimate: PlacementEstimate) -> int:
    """Bytes a period that keep every site's own values known."""
    state = estimate.state
    by_tree = estimate.goal.cost.members is GoalMembers.QUERIES or _names_rates(estimate)
    return (state.count - 1) * (len(state.trees) if by_tree else 2) * (NAME + VALUE)


def _names_rates(estimate: PlacementEstimate) -> bool:
    """Whether the goal's cost names a rate that follows from what every site asks for."""
    named = names_in(estimate.goal.cost.value)
    return bool(named & {"forwarding rate", "incoming rate", "output rate"})


def asked_for(estimate: PlacementEstimate, sites: int) -> int:
    """Bytes that a site gets from so many others when it weighs its rules against them."""
    expressions = list(parts(estimate.goal.cost.value))
    profile = (len(estimate.state.workload.sources) + 7) // 8 + VALUE if _names_rates(estimate) else 0
    trees = len(estimate.state.trees) if any(isinstance(part, GoalAggregate) for part in expressions) else 1
    return sites * (
        NAME + VALUE * (1 if estimate.goal.cost.members is GoalMembers.BROKERS else trees) + profile
    )
