"""`InterestIndex`: the filters of many subscriptions at one node, asked all at once who wants an event.

A node with few subscriptions evaluates their filters one by one, which costs less than an index does. From
more than `FEW` on, they are in the indexes of `matching`, and an event costs what it matches.

Rules:

- Filters are asked without memory: of a tolerance, only whether the event has the value. Who keeps
  subscriptions decides the rest.
- A document is read once an event, however many paths ask about it.
- Answers are those of the filters one by one, in the order in which the subscriptions came.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.model import Event

if TYPE_CHECKING:
    from distributary.matching.combinations import Combinations

FEW = 12
"""So many subscriptions are evaluated one by one."""

K = TypeVar("K", bound=Hashable)


class _Interest(NamedTuple):
    """The filters of one subscription, and its place in the order of coming."""

    serial: int
    filters: Mapping[str, Filter]

    def passes(self, event: Event) -> bool:
        return all(filter.matches(event) for filter in self.filters.values())


class InterestIndex(Generic[K]):
    """Filters by key, such as a subscription's.

    >>> from distributary.filters.kinds import parse_filters
    >>> from distributary.model import Subscription
    >>> index: InterestIndex[str] = InterestIndex()
    >>> index.put("ann's", parse_filters(Subscription("s1", "ann", where="price > 8")))
    >>> index.matching(Event("e1", attributes={"price": 8.4}))
    ["ann's"]
    """

    def __init__(self) -> None:
        self._interests: dict[K, _Interest] = {}
        self._serial = 0
        self._index: _SlotIndex[K] | None = None

    def __len__(self) -> int:
        return len(self._interests)

    def __contains__(self, key: K) -> bool:
        return key in self._interests

    def __iter__(self) -> Iterator[K]:
        return iter(self._interests)

    def put(self, key: K, filters: Mapping[str, Filter]) -> None:
        """Keep these filters under a key, in place of those that it had."""
        if key in self._interests:
            self.remove(key)
        self._serial += 1
        self._interests[key] = _Interest(self._serial, filters)
        if self._index is not None:
            self._index.add(key, filters)
        elif len(self._interests) > FEW:
            self._index = _SlotIndex()
            for known, interest in self._interests.items():
                self._index.add(known, interest.filters)

    def remove(self, key: K) -> None:
        """Forget a key; KeyError when it is not here."""
        del self._interests[key]
        if self._index is not None:
            self._index.remove(key)

    def matching(self, event: Event) -> list[K]:
        """The keys whose filters the event passes; DocumentError when its document cannot be read."""
        if self._index is None:
            return [key for key, interest in self._interests.items() if interest.passes(event)]
        return sorted(self._index.matching(event), key=lambda key: self._interests[key].serial)


class _SlotIndex(Generic[K]):
    """The indexes of `matching`: each distinct combination of filters has a slot, and a slot its keys."""

    def __init__(self) -> None:
        from distributary.matching.combinations import Combinations

        self._combinations: Combinations = Combinations({})
        self._groups: dict[K, tuple[int, tuple[str, ...]]] = {}
        self._keys: dict[int, dict[tuple[str, ...], dict[K, Filter | None]]] = {}
        """By slot and the attributes that tolerances watch, the keys, each with its tolerance."""

    def add(self, key: K, filters: Mapping[str, Filter]) -> None:
        stateless = {kind: filter for kind, filter in filters.items() if kind != "change"}
        change = filters.get("change")
        watched = change.attributes if isinstance(change, ChangeFilter) else ()
        slot = self._combinations.add(stateless)
        self._groups[key] = slot, watched
        self._keys.setdefault(slot, {}).setdefault(watched, {})[key] = change

    def remove(self, key: K) -> None:
        slot, watched = self._groups.pop(key)
        self._combinations.leave(slot)
        group = self._keys[slot][watched]
        del group[key]
        if not group:
            del self._keys[slot][watched]
        if not self._keys[slot]:
            del self._keys[slot]

    def matching(self, event: Event) -> Iterator[K]:
        from distributary.matching.single import SingleEvent

        for slot in self._combinations.passed_by(SingleEvent(event)).tolist():
            for group in self._keys[slot].values():
                change = next(iter(group.values()))  # all of a group watch the same, and ask for no more here
                if change is None or change.matches(event):
                    yield from group
