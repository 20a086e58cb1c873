"""`InterestIndex`: the filters of many owners at one node, asked all at once who wants an event.

A node with few subscriptions evaluates their filters one by one, which costs less than an index does. From
more than `FEW` on, they are in the indexes of `matching`, and an event costs what it matches; as soon as its
process may call kernels (`kernel_use`).

Rules:

- Filters are asked without memory: of a tolerance, only whether the event has the value. Who keeps
  subscriptions decides the rest.
- A document is read once an event, however many paths ask about it.
- The answer is the owners that the filters one by one give, each once: it does not matter how many of an
  owner's subscriptions match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.model import Event
from distributary.systems.kernel_use import KERNELS

if TYPE_CHECKING:
    from distributary.matching.combinations import Combinations

FEW = 12
"""So many subscriptions are evaluated one by one."""

K = TypeVar("K", bound=Hashable)
Owner = TypeVar("Owner", bound=Hashable)


class _Interest(NamedTuple, Generic[Owner]):
    """The filters of one subscription, and whose it is."""

    owner: Owner
    filters: Mapping[str, Filter]

    def passes(self, event: Event) -> bool:
        return all(filter.matches(event) for filter in self.filters.values())


class InterestIndex(Generic[K, Owner]):
    """Filters by key, such as a subscription's, and their owners, such as the addresses of homes.

    >>> from distributary.filters.kinds import parse_filters
    >>> from distributary.model import Subscription
    >>> index: InterestIndex[str, int] = InterestIndex()
    >>> index.put("ann's", 7, parse_filters(Subscription("s1", "ann", where="price > 8")))
    >>> index.wanting(Event("e1", attributes={"price": 8.4}))
    {7}
    """

    def __init__(self) -> None:
        self._interests: dict[K, _Interest[Owner]] = {}
        self._index: _SlotIndex[K, Owner] | None = None

    def __len__(self) -> int:
        return len(self._interests)

    def __contains__(self, key: K) -> bool:
        return key in self._interests

    def put(self, key: K, owner: Owner, filters: Mapping[str, Filter]) -> None:
        """Keep these filters of an owner under a key, in place of those that it had."""
        if key in self._interests:
            self.remove(key)
        self._interests[key] = _Interest(owner, filters)
        if self._index is not None:
            self._index.add(key, owner, filters)
        else:
            self._gather()

    def _gather(self) -> None:
        """Put filters that have become many into indexes, if kernels may be called."""
        if self._index is None and len(self._interests) > FEW and not KERNELS.withheld:
            self._index = _SlotIndex()
            for known, interest in self._interests.items():
                self._index.add(known, *interest)

    def remove(self, key: K) -> None:
        """Forget a key; KeyError when it is not here."""
        del self._interests[key]
        if self._index is not None:
            self._index.remove(key)

    def wanting(self, event: Event) -> set[Owner]:
        """The owners of filters that the event passes; DocumentError when its document cannot be read."""
        self._gather()
        if self._index is None:
            return {interest.owner for interest in self._interests.values() if interest.passes(event)}
        return self._index.wanting(event)


class _Group(NamedTuple, Generic[Owner]):
    """Subscriptions with equal filters but for the tolerances, which watch the same attributes."""

    change: Filter | None
    """The tolerance of one of them, which here asks for no more than those of the others."""
    owners: Counter[Owner]
    """How many of them each owner has."""


class _SlotIndex(Generic[K, Owner]):
    """The indexes of `matching`: each distinct combination of filters has a slot, and a slot its owners."""

    def __init__(self) -> None:
        from distributary.matching.combinations import Combinations

        self._combinations: Combinations = Combinations({})
        self._places: dict[K, tuple[int, tuple[str, ...], Owner]] = {}
        self._groups: dict[int, dict[tuple[str, ...], _Group[Owner]]] = {}
        """By slot and the attributes that tolerances watch."""
        self._owned: Counter[Owner] = Counter()

    def add(self, key: K, owner: Owner, filters: Mapping[str, Filter]) -> None:
        stateless = {kind: filter for kind, filter in filters.items() if kind != "change"}
        change = filters.get("change")
        watched = change.attributes if isinstance(change, ChangeFilter) else ()
        slot = self._combinations.add(stateless)
        self._places[key] = slot, watched, owner
        self._groups.setdefault(slot, {}).setdefault(watched, _Group(change, Counter())).owners[owner] += 1
        self._owned[owner] += 1

    def remove(self, key: K) -> None:
        slot, watched, owner = self._places.pop(key)
        self._combinations.leave(slot)
        owners = self._groups[slot][watched].owners
        _take_one(owners, owner)
        _take_one(self._owned, owner)
        if not owners:
            del self._groups[slot][watched]
        if not self._groups[slot]:
            del self._groups[slot]

    def wanting(self, event: Event) -> set[Owner]:
        from distributary.matching.single import SingleEvent

        found: set[Owner] = set()
        for slot in self._combinations.passed_by(SingleEvent(event)).tolist():
            for change, owners in self._groups[slot].values():
                if change is None or change.matches(event):
                    found.update(owners)
            if len(found) == len(self._owned):
                break
        return found


def _take_one(counts: Counter[Owner], owner: Owner) -> None:
    counts[owner] -= 1
    if not counts[owner]:
        del counts[owner]
