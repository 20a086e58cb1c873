"""Where a subscription lives: at the node its client talks to, which alone decides what is delivered.

Rules:

- Other nodes only preselect. Whatever they send here is checked against the filters themselves, so a needless
  or repeated message never becomes a wrong delivery, and a system is exact when no wanted event is missed.
- An event is delivered to a subscriber once, however often and by whichever way it comes here. The ids of the
  latest events are remembered; one that comes again after so many others would count as new.
- Tolerances are measured here, against what was delivered here: an event moves a memory once, in the order of
  arrival. Only `accept` leaves them to the rendezvous that speaks.

An offer costs one evaluation for each subscription of this node's clients, who are few.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from distributary.errors import UnknownSubscriptionError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.model import Delivery, Event, Subscription
from distributary.overlay.node import Node

REMEMBERED = 100_000
"""How many events a home remembers to have seen, unless told otherwise."""


class _Seen(NamedTuple):
    """What became of an event here: who has got it, and whether all subscriptions were asked."""

    reached: set[str]
    offered: bool


class _Resident:
    """A subscription that lives here, with its filters and what its tolerances remember of each topic."""

    __slots__ = ("change", "filters", "last", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.filters: dict[str, Filter] = parse_filters(subscription)
        change = self.filters.get("change")
        self.change = change if isinstance(change, ChangeFilter) else None
        self.last: dict[str | None, dict[str, float]] = {}

    def passes(self, event: Event) -> bool:
        """Whether every filter lets the event pass; of a tolerance, the part that needs no memory."""
        return all(filter.matches(event) for filter in self.filters.values())

    def fires(self, event: Event) -> bool:
        """Whether the event is to be delivered; if so its values are the last delivered from now on."""
        if not self.passes(event):
            return False
        if self.change is None:
            return True
        last = self.last.get(event.topic, {})
        numbers = self.change.numbers(event)
        moved = self.change.moved(numbers, last)
        if moved:
            self.last[event.topic] = {**last, **numbers}
        return moved


class Home:
    """The subscriptions of one node's clients.

    >>> home = Home(Node(7))
    >>> home.add(Subscription("s1", "ann", where="price > 8"))
    >>> home.node.call(lambda: home.offer(Event("e1", attributes={"price": 8.4})), now=0)
    [Deliver(item=Delivery(event='e1', subscriber='ann', subscriptions=('s1',)))]
    >>> home.node.call(lambda: home.offer(Event("e1", attributes={"price": 8.4})), now=1)
    []
    """

    def __init__(self, node: Node, *, remember: int = REMEMBERED) -> None:
        self.node = node
        self._remember = remember
        self._residents: dict[str, _Resident] = {}
        self._seen: OrderedDict[str, _Seen] = OrderedDict()

    def add(self, subscription: Subscription) -> None:
        """Take a subscription in, or change the one that has its id; FilterError when it cannot be read.

        The same subscription again changes nothing: its tolerances go on from what was delivered.
        """
        resident = self._residents.get(subscription.id)
        if resident is None or resident.subscription != subscription:
            self._residents[subscription.id] = _Resident(subscription)

    def remove(self, subscription_id: str) -> Subscription:
        """Forget a subscription and give it back; UnknownSubscriptionError when it does not live here."""
        if subscription_id not in self._residents:
            raise UnknownSubscriptionError(subscription_id)
        return self._residents.pop(subscription_id).subscription

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions that live here, by id, in the order in which they came."""
        return MappingProxyType({name: each.subscription for name, each in self._residents.items()})

    def __contains__(self, subscription_id: str) -> bool:
        return subscription_id in self._residents

    def __len__(self) -> int:
        return len(self._residents)

    def filters(self, subscription_id: str) -> Mapping[str, Filter]:
        """The filters of a subscription by kind, parsed."""
        return self._residents[subscription_id].filters

    def offer(self, event: Event) -> None:
        """Deliver the event to whoever of the clients asked for it, unless it was offered before."""
        seen = self._recall(event)
        if not seen.offered:
            self._note(event, seen._replace(offered=True))
            self._hand_out(event, [name for name, each in self._residents.items() if each.fires(event)])

    def accept(self, event: Event, subscription_ids: Iterable[str]) -> None:
        """Deliver the event for these subscriptions, which a rendezvous found to want it now.

        Those that left meanwhile, or whose filters do not let the event pass, are left out; so are
        subscribers who have got it.
        """
        found = [self._residents.get(name) for name in subscription_ids]
        wanted = [each.subscription.id for each in found if each is not None and each.passes(event)]
        if wanted:
            self._note(event, self._recall(event))
            self._hand_out(event, wanted)

    def _recall(self, event: Event) -> _Seen:
        return self._seen.get(event.id) or _Seen(set(), offered=False)

    def _note(self, event: Event, seen: _Seen) -> None:
        """Remember what became of an event, and forget the event that nothing was heard of for longest."""
        self._seen[event.id] = seen
        self._seen.move_to_end(event.id)
        if len(self._seen) > self._remember:
            self._seen.popitem(last=False)

    def _hand_out(self, event: Event, subscription_ids: Iterable[str]) -> None:
        reached = self._seen[event.id].reached
        asked: dict[str, list[str]] = {}
        for name in sorted(set(subscription_ids)):
            asked.setdefault(self._residents[name].subscription.subscriber, []).append(name)
        for subscriber in sorted(asked.keys() - reached):
            reached.add(subscriber)
            self.node.deliver(Delivery(event.id, subscriber, tuple(asked[subscriber])))
