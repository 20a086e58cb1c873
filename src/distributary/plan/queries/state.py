"""A placement as arrays, kept up to date while operators move and are split.

Every quantity of the nodes is a row of numbers, one for each site:

| quantity | of a site |
|---|---|
| load | processor cycles a second that its operators spend |
| cycles | processor cycles that an item costs all its operators together |
| operators | how many operators it runs |
| fanout | links of trees on which it forwards anything, of others' operators' streams too |
| incoming | bytes a second that come in from other sites |
| forwarding | bytes a second that it forwards on trees, of others' operators' streams too |
| published | bytes a second that its operators send to other sites |
| produced | bytes a second that its operators put out |
| input, selectivity | sums of what its operators read a second, and of their selectivities |

Rules:

- For every link of a tree and every stream it is known how much of the stream is asked for beyond the link,
  in parts of `WHOLE`; for every operator and site, how much of its output is read there. What a link carries
  follows.
- Numbers are floats. Whole numbers stay exact (parts of a stream are whole, so rates are multiplied by them
  before they are divided by `WHOLE`); others gather rounding errors, which `recount` removes.

Cost: a change costs the length of the paths to the roots, and where an operator's stream spreads by a tree,
the sites that read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from distributary.plan.queries.graph import WHOLE, QueryWorkload
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.spreading import tree_links
from distributary.plan.trees.tree import Tree

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

QUANTITIES = ("load", "cycles", "operators", "fanout", "incoming", "forwarding", "published", "produced")
"""What is known of every node, beside sums of what its operators read (`input`, `selectivity`)."""


DUTIES = ("load", "cycles", "operators", "incoming", "forwarding")
"""Of these, what a site has besides the workload's."""


LARGEST = 2**24
"""Whole numbers up to this are exact in 32 bits."""


class TreeArrays:
    """A tree as arrays: the links on the way to each site, and the sites that send on them."""

    def __init__(self, tree: Tree) -> None:
        count = len(tree.parents)
        self.root = tree.root
        self.parents: Indices = np.array(tree.parents, dtype=np.intp)
        self.above: Floats = np.zeros((count, count))
        """1 where a link, known by its lower end, is on the way to a site; floats, for products."""
        for site in tree.order[1:]:
            self.above[site] = self.above[tree.parents[site]]
            self.above[site, site] = 1
        exact = int(self.above.sum(axis=1).max()) * WHOLE < LARGEST
        self.passing: npt.NDArray[np.floating] = self.above.astype(np.float32) if exact else self.above
        """The same in the smallest numbers in which the parts asked for on any way add up exactly."""
        self.paths: list[Indices] = [np.flatnonzero(row) for row in self.above]
        """The links on the way to each site, each known by its lower end."""
        self.links: Indices = np.argsort(self.parents, kind="stable")[1:]
        """All links, those of one parent together; the root, which has none, comes first and is left out."""
        parents = self.parents[self.links]
        self.starts: Indices = np.flatnonzero(np.r_[True, parents[1:] != parents[:-1]][: len(parents)])
        self.senders: Indices = parents[self.starts]

    def by_sender(self, values: Floats) -> Floats:
        """The values of links (by their lower ends) added up at the sites that send on them."""
        found = np.zeros_like(values)
        if len(self.links):
            found[..., self.senders] = np.add.reduceat(values[..., self.links], self.starts, axis=-1)
        return found


def stream_flows(network: SiteNetwork, host: int, reading: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """The links that an operator's stream takes, and how much of it is asked for beyond each.

    `reading` has how much is read at every site.
    """
    parents = network.spread(host, reading.keys())
    asked = {site: reading[site] for site in parents}
    for site in reversed(parents):  # who gets it by way of a site comes after that site
        if parents[site] != host:
            asked[parents[site]] += asked[site]
    return [(parent, site, asked[site]) for site, parent in parents.items()]


class PlacementState:
    """A placement that can be changed in place."""

    def __init__(self, placement: Placement) -> None:
        self.network: SiteNetwork = placement.network
        self.workload: QueryWorkload = placement.workload
        self.count = self.network.sites.count
        self.trees = [TreeArrays(tree) for tree in self.network.trees]
        self.duties: dict[str, Floats] = {
            name: np.array([float(getattr(duties, name)) for duties in self.network.duties])
            for name in DUTIES
            if any(getattr(duties, name) for duties in self.network.duties)
        }
        """What sites have of some quantities besides the workload's, which no move changes."""
        self.hosts: list[int] = list(placement.hosts)
        workload, sources = self.workload, len(self.workload.sources)
        self.sources = sources
        self.tree_of = [source.tree for source in workload.sources]
        self.inputs = [operator.inputs for operator in workload.operators]
        self.asked_by = [self.network.asked(operator) for operator in workload.operators]
        """How much of its inputs each operator asks for, in parts of `WHOLE`."""
        self.readers = [list(row) for row in workload.readers]
        self.rates = [float(workload.rate(stream)) for stream in range(sources + len(self.hosts))]
        self.items = [float(workload.items(stream)) for stream in range(sources + len(self.hosts))]
        self.queries_of = [list(row) for row in workload.queries_of]
        self.members = [list(query.operators) for query in workload.queries]
        self.local: list[set[int]] = [set() for _ in range(self.count)]
        for operator, host in enumerate(self.hosts):
            self.local[host].add(operator)
        self.units: Floats = np.zeros((sources, self.count))
        """How much of each source is asked for beyond each link of its tree."""
        self.active: npt.NDArray[np.int32] = np.zeros((len(self.trees), self.count), dtype=np.int32)
        self.reading: list[dict[int, int]] = [{} for _ in self.hosts]
        self.quantities: dict[str, Floats] = {}
        for operator in range(len(self.hosts)):
            for stream in self.inputs[operator]:
                if stream < sources:
                    path = self.trees[self.tree_of[stream]].paths[self.hosts[operator]]
                    self.units[stream, path] += self.asked_by[operator]
                else:
                    readers = self.reading[stream - sources]
                    site = self.hosts[operator]
                    readers[site] = readers.get(site, 0) + self.asked_by[operator]
        self.recount()

    @property
    def placement(self) -> Placement:
        """The placement as it stands now."""
        return Placement(self.workload, self.network, tuple(self.hosts))

    # What operators are worth by themselves

    def statistic(self, name: str, operator: int) -> float:
        """A statistic of an operator that does not depend on where it runs."""
        one = self.workload.operators[operator]
        if name == "load":
            items = sum(self.items[stream] for stream in self.inputs[operator])
            return float(one.cost) * (items * self.asked_by[operator] / WHOLE)
        if name == "cycles":
            return float(one.cost)
        if name == "operators":
            return float(self.workload.runs(operator))
        if name in ("produced", "produced rate"):
            return self.rates[self.sources + operator]
        if name == "selectivity":
            return float(one.selectivity)
        return sum(self.rates[stream] for stream in self.inputs[operator]) * self.asked_by[operator] / WHOLE

    def carried(self, stream: int, share: int) -> float:
        """What a link carries of a stream of which so much is asked for beyond it."""
        return self.rates[stream] * min(share, WHOLE) / WHOLE

    def near(self, operator: int) -> list[int]:
        """An operator and those it exchanges data with.

        Where streams spread by trees, also those that read the same: the ways to these may lead by its site.
        """
        found = {operator, *self.readers[self.sources + operator]}
        read = [stream for stream in self.inputs[operator] if stream >= self.sources]
        found |= {stream - self.sources for stream in read}
        if self.network.spreading is not None:
            found |= {reader for stream in read for reader in self.readers[stream]}
        return sorted(found)

    def spreads(self, producer: int) -> bool:
        """Whether the stream of an operator may need more than its host to reach all readers' sites.

        So may one that as many operators read as a host may serve sites: one of them may go elsewhere.
        """
        spreading = self.network.spreading
        return spreading is not None and len(self.readers[self.sources + producer]) > spreading.fanout

    def way(self, stream: int, reader: int, moved: Collection[int], site: int) -> list[tuple[int, int]]:
        """The links of an operator's stream to a reader, with some operators at another site."""

        def host(operator: int) -> int:
            return site if operator in moved else self.hosts[operator]

        start = host(stream - self.sources)
        parents = self.network.spread(start, {host(one) for one in self.readers[stream]})
        return tree_links(parents, start, host(reader))

    # Counting anew

    def recount(self) -> None:
        """Every quantity of every node, from what is asked for on every link."""
        quantities = {name: np.zeros(self.count) for name in (*QUANTITIES, "input", "selectivity")}
        self.quantities = quantities
        for operator, host in enumerate(self.hosts):
            for name in ("load", "cycles", "operators", "produced", "input", "selectivity"):
                quantities[name][host] += self.statistic(name, operator)
            self._count_stream(operator, 1)
        rates = np.array(self.rates[: self.sources])
        streams = np.array(self.tree_of, dtype=np.intp)
        for number, tree in enumerate(self.trees):
            units = self.units[streams == number]
            carried = np.minimum(units, WHOLE).T @ rates[streams == number] / WHOLE
            quantities["incoming"] += carried
            quantities["forwarding"] += tree.by_sender(carried)
            self.active[number] = (units > 0).sum(axis=0)
            quantities["fanout"] += tree.by_sender((self.active[number] > 0).astype(np.float64))

    # Changes

    def move(self, operator: int, site: int) -> None:
        """Let an operator run at another site."""
        self.count_operator(operator, -1)
        self.hosts[operator] = site
        self.count_operator(operator, 1)

    def rewire(self, workload: QueryWorkload, changed: Sequence[int], hosts: Sequence[int]) -> None:
        """Take up a workload in which these operators differ or are new; or drop the last ones again.

        In `changed` readers stand before those they read. Operators that are new run at `hosts`.
        """
        before = len(self.hosts)
        for operator in changed:
            if operator < before:
                self.count_operator(operator, -1)
                for stream in self.inputs[operator]:
                    self.readers[stream].remove(operator)
        del self.hosts[len(workload.operators) :]
        for rows in (self.inputs, self.asked_by, self.reading, self.queries_of):
            del rows[len(self.hosts) :]
        for numbers in (self.rates, self.items):
            del numbers[self.sources + len(self.hosts) :]
        del self.readers[self.sources + len(self.hosts) :]
        for host in hosts:
            self._extend(host)
        kept = [operator for operator in changed if operator < min(before, len(self.queries_of))]
        affected = {number for operator in kept for number in self.queries_of[operator]}
        self.workload = workload
        there = [operator for operator in reversed(changed) if operator < len(self.hosts)]
        for operator in there:
            self._describe(operator)
        for number in affected:
            self._enlist(number)
        for operator in there:
            self.count_operator(operator, 1)

    def _extend(self, host: int) -> None:
        self.hosts.append(host)
        self.inputs.append(())
        self.asked_by.append(WHOLE)
        self.reading.append({})
        self.queries_of.append([])
        self.rates.append(0.0)
        self.items.append(0.0)
        self.readers.append([])

    def _describe(self, operator: int) -> None:
        """Read an operator's description from the workload. Those it reads have been described before."""
        one, stream = self.workload.operators[operator], self.sources + operator
        self.inputs[operator] = one.inputs
        self.asked_by[operator] = self.network.asked(one)
        for above in one.inputs:
            self.readers[above].append(operator)
        passed = float(one.selectivity) * one.share / WHOLE
        self.items[stream] = passed * sum(self.items[above] for above in one.inputs)
        self.rates[stream] = passed * float(one.growth) * sum(self.rates[above] for above in one.inputs)

    def _enlist(self, number: int) -> None:
        """Read a query's operators from the workload."""
        for operator in self.members[number]:
            if operator < len(self.hosts):
                self.queries_of[operator].remove(number)
        self.members[number] = list(self.workload.queries[number].operators)
        for operator in self.members[number]:
            self.queries_of[operator].append(number)

    def count_operator(self, operator: int, sign: int) -> None:
        """Count an operator in (1) or out (-1): its work, what it asks for, what it sends.

        An operator is counted out after its readers, and counted in after those it reads.
        """
        host, quantities = self.hosts[operator], self.quantities
        (self.local[host].add if sign > 0 else self.local[host].discard)(operator)
        for name in ("load", "cycles", "operators", "produced", "input", "selectivity"):
            quantities[name][host] += sign * self.statistic(name, operator)
        for stream in self.inputs[operator]:
            if stream < self.sources:
                self._ask(stream, host, sign * self.asked_by[operator])
            else:
                self._read(stream - self.sources, host, sign * self.asked_by[operator])
        self._count_stream(operator, sign)

    def _count_stream(self, operator: int, sign: int) -> None:
        """Count what travels of an operator's stream in (1) or out (-1)."""
        stream, host, quantities = self.sources + operator, self.hosts[operator], self.quantities
        for sender, receiver, share in stream_flows(self.network, host, self.reading[operator]):
            rate = sign * self.carried(stream, share)
            quantities["incoming"][receiver] += rate
            if sender == host:
                quantities["published"][host] += rate
            else:
                quantities["forwarding"][sender] += rate
                quantities["fanout"][sender] += sign

    def _ask(self, stream: int, site: int, share: int) -> None:
        number = self.tree_of[stream]
        tree, quantities = self.trees[number], self.quantities
        path = tree.paths[site]
        before = self.units[stream, path]
        after = before + share
        self.units[stream, path] = after
        change = (np.minimum(after, WHOLE) - np.minimum(before, WHOLE)) * self.rates[stream] / WHOLE
        senders = tree.parents[path]
        quantities["incoming"][path] += change
        quantities["forwarding"][senders] += change
        was = self.active[number, path]
        now = was + (after > 0) - (before > 0)
        self.active[number, path] = now
        quantities["fanout"][senders] += (now > 0).astype(np.float64) - (was > 0)

    def _read(self, producer: int, site: int, share: int) -> None:
        readers, stream = self.reading[producer], self.sources + producer
        spreads = self.spreads(producer)
        if spreads:
            self._count_stream(producer, -1)
        before = readers.get(site, 0)
        after = before + share
        if after:
            readers[site] = after
        else:
            readers.pop(site, None)
        if spreads:
            self._count_stream(producer, 1)
        elif site != self.hosts[producer]:
            change = self.carried(stream, after) - self.carried(stream, before)
            self.quantities["published"][self.hosts[producer]] += change
            self.quantities["incoming"][site] += change
