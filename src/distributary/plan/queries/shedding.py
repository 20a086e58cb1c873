"""When there is more to do than the sites can: which queries to thin out, and what that costs their clients.

    shed = shed_load(placement, limit=5.0)
    shed.kept["q7"]                # the share of its items that query q7 still gets
    shed.lost                      # the share of all utility that is lost

Rules:

- A query keeps a share of its items; dropping them early drops the work on them at all its operators. An
  operator of several queries works for the one that keeps most. Utility is lost in proportion to what is
  dropped, at each query's own worth (`Query.utility`).
- As long as a site has too much, its queries are thinned out, those first that lose the least utility for the
  load they free; no further than needed. Then room that is left is given back, the most worthy first.
- What a site does besides the workload (`Duties`) is not thinned out: queries get what it leaves them, which
  may be nothing.
- Queries that must stay whole (`fixed`) are not thinned out. What a site has too much for their sake stays:
  it is in `loads`.
- With one site that has too much, and no operator shared, no other way loses less.

A network that runs measures what its operators take instead: `shed_work` is the same for that.

Cost: about the queries, times the sites that have too much.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.state import Floats

ROOM = 1e-9
"""The share of its limit by which a site may be over for rounding."""


@dataclass(frozen=True)
class SheddingResult:
    """What every query keeps, and what is lost by that."""

    kept: Mapping[str, float]
    lost: float
    loads: tuple[float, ...]
    """Every site's load after it, with what it does besides."""


def shed_load(placement: Placement, limit: float | Sequence[float]) -> SheddingResult:
    """Thin queries out until no site has more than its limit, in cycles a second: one for all, or each."""
    workload, count = placement.workload, placement.network.sites.count
    limits = np.broadcast_to(np.asarray(limit, dtype=np.float64), (count,))
    if (limits < 0).any():
        raise DistributaryError("a site's limit is at least 0")
    duties = np.array([float(placement.network.duties_of(site).load) for site in range(count)])
    work = QueryWork(
        [float(query.utility) for query in workload.queries],
        [query.operators for query in workload.queries],
        placement.hosts,
        [float(placement.load(at)) for at in range(len(workload.operators))],
    )
    kept, loads = shed_work(work, np.maximum(limits - duties, 0.0))
    total = float(work.utility.sum())
    lost = float((work.utility * (1 - kept)).sum()) / total if total else 0.0
    names = [query.name for query in workload.queries]
    return SheddingResult(
        dict(zip(names, kept.tolist(), strict=True)), lost, tuple((duties + loads).tolist())
    )


def shed_work(work: QueryWork, limits: Floats) -> tuple[Floats, Floats]:
    """The share that each query keeps so that no site has more than its limit, and the sites' loads then."""
    kept = np.ones(len(work.operators))
    # Where nothing can be thinned out any more, a site has more than its limit: nothing is added there.
    limits = _thin_out(work, kept, limits)
    _give_back(work, kept, limits)
    return kept, work.loads(kept, len(limits))


class QueryWork:
    """Who works where for whom: operators with their site and load, and those of each query, by number."""

    def __init__(
        self,
        utility: Sequence[float],
        operators: Sequence[Sequence[int]],
        hosts: Sequence[int],
        load: Sequence[float],
        fixed: Collection[int] = (),
    ) -> None:
        self.utility: Floats = np.array(utility, dtype=np.float64)
        self.operators = operators
        """The numbers of the operators of each query."""
        self.hosts = np.array(hosts, dtype=np.intp)
        self.load: Floats = np.array(load, dtype=np.float64)
        self.fixed = frozenset(fixed)
        """The numbers of the queries that stay whole."""
        self.queries_of: list[list[int]] = [[] for _ in hosts]
        for number, row in enumerate(operators):
            for index in row:
                self.queries_of[index].append(number)

    def share(self, kept: Floats) -> Floats:
        """What each operator still works on."""
        return np.array([max((kept[number] for number in row), default=0.0) for row in self.queries_of])

    def loads(self, kept: Floats, sites: int) -> Floats:
        """Every site's load when queries keep these shares."""
        found: Floats = np.zeros(sites)
        np.add.at(found, self.hosts, self.load * self.share(kept))
        return found

    def freed(self, number: int, kept: Floats, sites: int) -> Floats:
        """What each site is spared by a query that keeps nothing; operators that others need stay."""
        found = np.zeros(sites)
        for index in self.operators[number]:
            others = max((kept[other] for other in self.queries_of[index] if other != number), default=0.0)
            found[self.hosts[index]] += self.load[index] * max(kept[number] - others, 0.0)
        return found


def _thin_out(work: QueryWork, kept: Floats, limits: Floats) -> Floats:
    """Thin out until all sites keep their limits; returns these, and where one cannot be kept the load."""
    limits, sites = limits.copy(), len(limits)
    while True:
        over = work.loads(kept, sites) - limits
        site = int(over.argmax())
        if over[site] <= ROOM * max(limits[site], 1.0):
            return limits
        too_much = over > 0
        offers = [
            (float(work.utility[number] * kept[number] / freed[too_much].sum()), number, freed[site])
            for number in map(int, np.flatnonzero(kept > 0))
            if number not in work.fixed and (freed := work.freed(number, kept, sites))[site] > 0
        ]
        if offers:
            _, chosen, spared = min(offers)
            kept[chosen] *= max(0.0, 1 - over[site] / spared)
        elif not _thin_shared(work, kept, site):
            limits[site] += over[site]


def _thin_shared(work: QueryWork, kept: Floats, site: int) -> bool:
    """Where every operator works for several queries alike: thin all of the least worthy one's a little.

    Returns whether there was one.
    """
    here = [int(index) for index in np.flatnonzero(work.hosts == site) if work.load[index] > 0]
    busy = [
        index
        for index in here
        if any(kept[number] > 0 for number in work.queries_of[index])
        and work.fixed.isdisjoint(work.queries_of[index])
    ]

    def price(index: int) -> float:
        return float(sum(work.utility[number] for number in work.queries_of[index])) / float(work.load[index])

    for number in work.queries_of[min(busy, key=price)] if busy else ():
        kept[number] = max(0.0, kept[number] - 0.05)
    return bool(busy)


def _give_back(work: QueryWork, kept: Floats, limits: Floats) -> None:
    for number in np.argsort(-work.utility, kind="stable"):
        if kept[number] >= 1:
            continue
        low, high = float(kept[number]), 1.0
        for _ in range(30):
            kept[number] = (low + high) / 2
            loads = work.loads(kept, len(limits))
            fits = (loads <= limits + ROOM * np.maximum(limits, 1.0) / 2).all()
            low, high = (float(kept[number]), high) if fits else (low, float(kept[number]))
        kept[number] = low
