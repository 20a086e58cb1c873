"""What moving operators to each of several sites would change, for all these sites at once.

Every quantity of the nodes (`state.QUANTITIES`) is told as a matrix: a row for each site tried, a column for
each node. Where only the sum over all nodes is asked for, `total` knows it without the matrix.

Cost: the sites tried times all sites; for streams that spread by trees, a tree for each site tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from distributary.plan.queries.graph import WHOLE
from distributary.plan.queries.state import Floats, Indices, PlacementState, stream_flows

TRAVELLING = ("incoming", "published", "forwarding", "fanout")
"""The quantities that hang on the ways of streams."""


class OperatorMove:
    """Operators of one site, and the sites that all of them together are tried at.

    `rows` numbers the sites tried: `matrix[rows, sites]` are the cells of each row's own site.
    """

    def __init__(self, state: PlacementState, operators: Sequence[int], sites: Indices) -> None:
        self.state = state
        self.operators = frozenset(operators)
        self.sites = sites
        self.start = state.hosts[operators[0]]
        self.rows: Indices = np.arange(len(sites))
        self.asked: dict[int, int] = {}
        """How much of each stream from outside they read, in parts of `WHOLE`."""
        for operator in operators:
            for stream in state.inputs[operator]:
                if stream - state.sources not in self.operators:
                    self.asked[stream] = self.asked.get(stream, 0) + state.asked_by[operator]

    @property
    def _producers(self) -> list[int]:
        """The operators whose streams would take other ways: those that move, and those they read."""
        read = [stream - self.state.sources for stream in self.asked if stream >= self.state.sources]
        return [*self.operators, *read]

    def quantity(self, name: str) -> Floats:
        """A quantity of every node, for each of the sites tried."""
        now = self.state.quantities[name]
        if name in ("incoming", "published"):
            return now + self._sent[name] + self._spread[name]
        if name in ("forwarding", "fanout"):
            return now + self._forwarded[name] + self._spread[name]
        return now + self._shifted(sum(self.state.statistic(name, one) for one in self.operators))

    def total(self, name: str) -> Floats:
        """By how much the sum of a quantity over all nodes would change, for each of the sites tried."""
        found = np.zeros(len(self.sites))
        if name in TRAVELLING:
            found += self._spread[name].sum(axis=1)
        if name == "fanout":
            return np.asarray(found + self._forwarded[name].sum(axis=1))
        if name in ("forwarding", "incoming"):
            found += self._forwarded_in_all
        if name in ("published", "incoming"):
            found += self._published_in_all
        return found

    def _shifted(self, amount: float) -> Floats:
        change = np.zeros((len(self.sites), self.state.count))
        change[:, self.start] -= amount
        change[self.rows, self.sites] += amount
        return change

    # On trees

    @cached_property
    def _forwarded_in_all(self) -> Floats:
        state = self.state
        found = np.zeros(len(self.sites))
        for stream, share in self.asked.items():
            if stream < state.sources:
                tree, before = state.trees[state.tree_of[stream]], state.units[stream]
                path = tree.paths[self.start]
                without = before.copy()
                without[path] -= share
                less = (np.minimum(without[path], WHOLE) - np.minimum(before[path], WHOLE)).sum()
                more = np.minimum(without + share, WHOLE) - np.minimum(without, WHOLE)
                on_path = tree.passing @ more.astype(tree.passing.dtype)
                found += (on_path[self.sites] + less) * state.rates[stream] / WHOLE
        return found

    @cached_property
    def _on_links(self) -> Mapping[int, tuple[Floats, npt.NDArray[np.int32]]]:
        """By tree: what each link carries more, and how many streams more."""
        state = self.state
        found: dict[int, tuple[Floats, npt.NDArray[np.int32]]] = {}
        for stream, share in self.asked.items():
            if stream >= state.sources:
                continue
            number = state.tree_of[stream]
            above, before = state.trees[number].above, state.units[stream]
            after = (before - share * above[self.start]) + share * above[self.sites]
            change = np.minimum(after, WHOLE) - np.minimum(before, WHOLE)
            more = (after > 0).astype(np.int32) - (before > 0)
            rate: Floats = change * state.rates[stream] / WHOLE
            if number in found:
                rate, more = rate + found[number][0], more + found[number][1]
            found[number] = rate, more
        return found

    @cached_property
    def _forwarded(self) -> Mapping[str, Floats]:
        state = self.state
        forwarding = np.zeros((len(self.sites), state.count))
        fanout = np.zeros((len(self.sites), state.count))
        for number, (rate, more) in self._on_links.items():
            was = state.active[number]
            used = (was + more > 0).astype(np.float64) - (was > 0)
            forwarding += state.trees[number].by_sender(rate)
            fanout += state.trees[number].by_sender(used)
        return {"forwarding": forwarding, "fanout": fanout}

    # Sent directly

    @cached_property
    def _read(self) -> list[tuple[int, float, Floats]]:
        """By producer from outside: its host, what it sends less to where they were, more to each site."""
        state, found = self.state, []
        for stream, share in self.asked.items():
            if stream < state.sources or state.spreads(stream - state.sources):
                continue
            host, readers = state.hosts[stream - state.sources], state.reading[stream - state.sources]
            there = np.zeros(state.count)
            there[list(readers)] = list(readers.values())
            before = min(there[self.start], WHOLE)
            there[self.start] -= share
            without = np.minimum(there, WHOLE)
            more = (np.minimum(there + share, WHOLE) - without) * state.rates[stream] / WHOLE
            more[host] = 0
            less = (without[self.start] - before) * state.rates[stream] / WHOLE
            found.append((host, float(less) if self.start != host else 0.0, more))
        return found

    @cached_property
    def _published(self) -> Floats:
        """What goes to the readers at each site who do not move along."""
        state = self.state
        found = np.zeros(state.count)
        for operator in self.operators:
            if state.spreads(operator):
                continue
            stream = state.sources + operator
            along = sum(state.asked_by[one] for one in state.readers[stream] if one in self.operators)
            for site, share in state.reading[operator].items():
                found[site] += state.carried(stream, share - along if site == self.start else share)
        return found

    @cached_property
    def _published_in_all(self) -> Floats:
        found: Floats = self._published[self.start] - self._published[self.sites]
        for _, less, more in self._read:
            found = found + less + more[self.sites]
        return found

    @cached_property
    def _sent(self) -> Mapping[str, Floats]:
        """What is sent directly, and what comes in on all links."""
        published = np.zeros((len(self.sites), self.state.count))
        incoming = np.zeros((len(self.sites), self.state.count))
        for rate, _ in self._on_links.values():
            incoming += rate
        for host, less, more in self._read:
            published[:, host] += less + more[self.sites]
            incoming[:, self.start] += less
            incoming[self.rows, self.sites] += more[self.sites]
        rates = self._published
        total = float(rates.sum())
        published[:, self.start] -= total - rates[self.start]
        published[self.rows, self.sites] += total - rates[self.sites]
        incoming[:, self.start] += rates[self.start]
        incoming[self.rows, self.sites] -= rates[self.sites]
        return {"published": published, "incoming": incoming}

    # Spread by trees

    @cached_property
    def _spread(self) -> Mapping[str, Floats]:
        """What changes of operators' streams that may need more than their hosts to reach all sites."""
        state = self.state
        wide = [producer for producer in self._producers if state.spreads(producer)]
        size = (len(self.sites) if wide else 1, state.count)
        changes = {name: np.zeros(size) for name in TRAVELLING}
        for producer in wide:
            host, reading = state.hosts[producer], state.reading[producer]
            self._count_flows(changes, slice(None), producer, (host, reading), -1)
            for row, site in enumerate(self.sites.tolist()):
                moved = site if producer in self.operators else host
                self._count_flows(changes, row, producer, (moved, self._reading_at(producer, site)), 1)
        return changes

    def _reading_at(self, producer: int, site: int) -> dict[int, int]:
        """How much of an operator's stream is read at every site, with those that move at a site."""
        state = self.state
        readers = state.readers[state.sources + producer]
        along = sum(state.asked_by[one] for one in readers if one in self.operators)
        reading = dict(state.reading[producer])
        if along:
            reading[self.start] -= along
            reading[site] = reading.get(site, 0) + along
        return {at: share for at, share in reading.items() if share}

    def _count_flows(
        self,
        changes: Mapping[str, Floats],
        rows: int | slice,
        producer: int,
        placed: tuple[int, Mapping[int, int]],
        sign: int,
    ) -> None:
        """Count an operator's stream in (1) or out (-1), with its host and readers placed so."""
        state, host = self.state, placed[0]
        for sender, receiver, share in stream_flows(state.network, *placed):
            rate = sign * state.carried(state.sources + producer, share)
            changes["incoming"][rows, receiver] += rate
            if sender == host:
                changes["published"][rows, host] += rate
            else:
                changes["forwarding"][rows, sender] += rate
                changes["fanout"][rows, sender] += sign
