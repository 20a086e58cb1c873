"""What a node leaves out of the work of its operators while queries are thinned out.

Rules:

- The registry tells every node which queries keep which share of their units (`flow.thinning`), from which
  time of items on, and which operators work for such queries alone: a `ThinningTable`, always the whole one.
- An operator leaves out an item when each query that reads the operator leaves out the item's unit. As every
  query does so by units, and by the same hash, what one operator leaves out all operators after it can spare.
- What is left out was promised before (`client_shares`): no answer that a client still delivers comes of it.
  So a node that has not heard of a smaller share yet does no harm. A larger share counts from when all nodes
  have confirmed it, and after the last item that any of them has left out.

Cost: for an operator that is thinned out, a hash for each item and query that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distributary.flow import BEGINNING, Item
from distributary.flow.thinning import ThinningUnit, survives
from distributary.systems.queries.messages import Element, whole_operator


class ThinningRule(NamedTuple):
    """What a query that is thinned out keeps."""

    query: str
    """Its name in the network."""
    share: float
    since: int
    """Nothing is left out whose time is before this."""
    unit: ThinningUnit
    """With the names that streams have in the network."""

    def keeps(self, stream: str, item: Item, seed: int) -> bool:
        """Whether the query wants an item of a stream."""
        if item.time < self.since or stream not in self.unit.keys:
            return True
        return survives(self.unit.text(stream, item), self.share, seed)


class ThinningTable(NamedTuple):
    """All queries that are thinned out; from the registry to every node."""

    version: int
    rules: tuple[ThinningRule, ...]
    readers: tuple[tuple[str, tuple[str, ...]], ...]
    """The operators that only such queries read, and which ones."""


class ThinningReceipt(NamedTuple):
    """To the registry: the sender follows a table from now on."""

    version: int
    dropped: tuple[tuple[str, int], ...]
    """By query, the time of the latest item that the sender has left out."""


class NodeThinning:
    """The table that a node follows."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._version = 0
        self._readers: dict[str, tuple[ThinningRule, ...]] = {}
        """By operator, the rules of the queries that read it."""
        self._dropped: dict[str, int] = {}
        """By query, the time of the latest item that was left out here."""

    def follow(self, table: ThinningTable) -> ThinningReceipt:
        """Follow a table from now on, unless a later one has come."""
        if table.version < self._version:
            return ThinningReceipt(self._version, tuple(self._dropped.items()))
        self._version = table.version
        rules = {rule.query: rule for rule in table.rules}
        self._readers = {name: tuple(rules[one] for one in queries) for name, queries in table.readers}
        self._dropped = {query: self._dropped.get(query, BEGINNING) for query in rules}
        return ThinningReceipt(table.version, tuple(self._dropped.items()))

    def share_of(self, stream: str) -> float:
        """The share of a stream's items that is left by what its operator leaves out; 1 for a source."""
        rules = self._readers.get(whole_operator(stream)) if self._readers else None
        return 1.0 if rules is None else max(rule.share for rule in rules)

    def wanted(self, operator: str, stream: str, elements: Sequence[Element]) -> Sequence[Element]:
        """The elements of a stream without the items that an operator leaves out."""
        rules = self._readers.get(whole_operator(operator)) if self._readers else None
        if rules is None:
            return elements
        return [one for one in elements if one.item is None or self._keeps(rules, stream, one.item)]

    def leave_out(self, operator: str, stream: str, elements: Sequence[Element]) -> Sequence[Element]:
        """The same, for good: what is not among them is noted as left out."""
        wanted = self.wanted(operator, stream, elements)
        if len(wanted) < len(elements):
            kept = {one.number for one in wanted}
            latest = max(one.item.time for one in elements if one.item is not None and one.number not in kept)
            for rule in self._readers[whole_operator(operator)]:
                self._dropped[rule.query] = max(self._dropped[rule.query], latest)
        return wanted

    def _keeps(self, rules: Sequence[ThinningRule], stream: str, item: Item) -> bool:
        return any(rule.keeps(stream, item, self._seed) for rule in rules)
