"""The home of a subscription: the node its client talks to, which alone decides what is delivered.

Rules:

- Other nodes only preselect. Whatever they send here is checked against the filters themselves, so a needless
  or repeated message never becomes a wrong delivery, and a system is exact if no wanted event is missed.
- An event is delivered to a subscriber once, however often and by whichever way it arrives here. The keys of
  the latest events are remembered; one that arrives again after so many others counts as new.
- Events that come together are delivered together: to each subscriber all that they want, in one batch.
- Tolerances are measured here, against what was delivered here, in the order of arrival. Only `accept` leaves
  that decision to the rendezvous that sent the event.

Offering an event costs what it matches (`residents`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from distributary.filters.filter import Filter
from distributary.model import (
    Delivery,
    DeliveryBatch,
    Event,
    EventIdentity,
    EventKey,
    Offset,
    Subscription,
    SubscriptionKey,
)
from distributary.overlay.broker import ValuesByTopic
from distributary.overlay.node import Address, Node, SendMessage
from distributary.overlay.packed_events import PackedEvents, chosen, frozen, identities_of
from distributary.overlay.recent import RecentKeys
from distributary.systems.residents import Residents, Wanted, by_subscriber

REMEMBERED = 100_000
"""How many events a home remembers."""


@dataclass(slots=True)
class _SeenEvent:
    """The subscribers that an event was delivered to, and whether it was offered to all subscriptions."""

    reached: dict[str, int] = field(default_factory=dict)
    """By subscriber, how many events had been handed out here when it was their turn."""
    offered: bool = False


class Home:
    """The subscriptions of one node's clients, and what was delivered to them.

    Systems whose nodes offer events to each other's homes pass the class of that message as `notice` (it has
    one field, the event) and how to send it.

    >>> home = Home(Node(7))
    >>> home.add(Subscription("s1", "ann", where="price > 8"))
    >>> [given] = home.node.call(lambda: home.offer(Event("e1", attributes={"price": 8.4})), now=0)
    >>> given.item.event.id, given.item.subscriber, given.item.subscriptions
    ('e1', 'ann', ('s1',))
    >>> home.node.call(lambda: home.offer(Event("e1", attributes={"price": 8.4})), now=1)
    []
    """

    def __init__(
        self, node: Node, *, notice: type[Any] | None = None, send: SendMessage | None = None
    ) -> None:
        self.node = node
        self._notice = notice
        self._send = send or node.send
        self._residents = Residents()
        self._seen: OrderedDict[EventIdentity, _SeenEvent] = OrderedDict()
        self._offered: RecentKeys[EventIdentity, bool] = RecentKeys(REMEMBERED)
        """Events of a log that were offered: of these it is not remembered to whom they were delivered."""
        self._handed_out = 0
        if notice is not None:
            node.handle(notice, lambda message, sender: self.offer(message.event))

    def add(self, subscription: Subscription, last: ValuesByTopic | None = None) -> None:
        """Add a subscription, or replace the one with its key; FilterError when a filter cannot be parsed.

        Adding an equal subscription again changes nothing: it keeps the values last delivered. A new one
        begins with those given as `last`, by topic.
        """
        self._residents.put(subscription, last)

    def remove(self, key: SubscriptionKey) -> Subscription:
        """Remove a subscription and return it; UnknownSubscriptionError when it is not here."""
        return self._residents.remove(key)

    def start_from(self, key: SubscriptionKey, before: ValuesByTopic, values: ValuesByTopic) -> None:
        """Have a tolerance start from values; see `Broker.start_from`."""
        self._residents.start_from(key, before, values)

    @property
    def subscriptions(self) -> Mapping[SubscriptionKey, Subscription]:
        """The subscriptions here, in the order in which they were added."""
        return {each.subscription.key: each.subscription for each in self._residents}

    def __contains__(self, key: SubscriptionKey) -> bool:
        return key in self._residents

    def __len__(self) -> int:
        return len(self._residents)

    def filters(self, key: SubscriptionKey) -> Mapping[str, Filter]:
        """The parsed filters of a subscription, by kind; UnknownSubscriptionError when it is not here."""
        return self._residents[key].filters

    def offer(self, event: Event, offset: Offset | None = None) -> None:
        """Deliver the event to every client whose subscriptions match it, unless it was offered before."""
        key = event.identity
        seen = self._seen.get(key)
        if (seen is None or not seen.offered) and key not in self._offered:
            seen = self._note(key)
            seen.offered = True
            self._hand_out(event, self._residents.firing(event), seen.reached, offset)

    def offer_all(self, numbers: Sequence[int], events: Sequence[Event], epoch: float) -> None:
        """Offer events of a log together, with their numbers, in order: as `offer` does one by one."""
        keys = identities_of(events)
        unknown = self._offered.has_none_of(keys) and (not self._seen or self._seen.keys().isdisjoint(keys))
        if not unknown or (len(keys) > 1 and len(set(keys)) < len(keys)):
            for number, event in zip(numbers, events, strict=True):
                self.offer(event, Offset(epoch, number))
            return
        self._offered.put_all(keys, repeat(True, len(keys)))
        wanted = self._residents.wanted(events)
        if len(events) == 1 and type(events) is not PackedEvents:
            offset = Offset(epoch, numbers[0])
            for subscriber, names in wanted[0]:
                self.node.deliver(Delivery(events[0], subscriber, names, offset))
        elif wanted.count(wanted[0]) == len(wanted):  # all the same: as a rule one object
            told, given = tuple(numbers), frozen(events)
            for subscriber, names in wanted[0]:
                self.node.deliver(DeliveryBatch(subscriber, epoch, told, given, (names,)))
        else:
            self._hand_out_all(numbers, events, wanted, epoch)

    def audience(self, topic: str, lacking: str) -> Wanted | None:
        """Who wants an event of a topic that lacks an attribute; None where more than that decides."""
        return self._residents.audience(topic, lacking)

    def give(self, event: Event, keys: Iterable[SubscriptionKey], offset: Offset) -> None:
        """Deliver an event of a log that is read again, for these subscriptions that want it.

        Their subscriber asks for it because it did not come, though it may have been delivered here.
        """
        again: dict[str, int] = {}
        self._hand_out(event, keys, again, offset)
        self._note(event.identity).reached.update(again)

    def was_offered(self, key: EventKey) -> bool:
        """Whether an event was offered here, as far as is remembered."""
        known = key.identity
        return known in self._offered or (known in self._seen and self._seen[known].offered)

    def has_reached(self, key: EventKey, subscriber: str) -> bool:
        """Whether an event was delivered to a subscriber here, as far as is remembered."""
        return self.place_of(key, subscriber) is not None

    def place_of(self, key: EventKey, subscriber: str) -> int | None:
        """The place of an event in the order of a subscriber's deliveries here: greater ones came later.

        None when it was not delivered to them, as far as is remembered.
        """
        seen = self._seen.get(key.identity)
        return None if seen is None else seen.reached.get(subscriber)

    def accept(self, event: Event, keys: Iterable[SubscriptionKey]) -> None:
        """Deliver the event for these subscriptions, which a rendezvous has selected.

        Skipped are subscriptions removed meanwhile, those whose filters do not match, and subscribers who
        have the event already.
        """
        here = [key for key in dict.fromkeys(keys) if key in self._residents]
        wanted = [key for key in here if self._residents[key].passes(event)]
        if wanted:
            self._hand_out(event, wanted, self._note(event.identity).reached)

    def notify(self, homes: Iterable[Address], event: Event) -> None:
        """Offer the event at several nodes: directly here, by a message elsewhere."""
        assert self._notice is not None, "this home was made without a message for others"
        for home in homes:
            if home == self.node.address:
                self.offer(event)
            else:
                self._send(home, self._notice(event))

    def _note(self, key: EventIdentity) -> _SeenEvent:
        """Remember an event as the latest, and drop the oldest one beyond the limit."""
        seen = self._seen.pop(key, None)
        self._seen[key] = seen = seen or _SeenEvent()
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return seen

    def _hand_out(
        self,
        event: Event,
        keys: Iterable[SubscriptionKey],
        reached: dict[str, int],
        offset: Offset | None = None,
    ) -> None:
        """Deliver the event for these subscriptions, each given once, to those not reached before."""
        deliver = self.node.deliver
        self._handed_out += 1
        for subscriber, names in by_subscriber(keys):
            if subscriber not in reached:
                deliver(Delivery(event, subscriber, names, offset))
                reached[subscriber] = self._handed_out

    def _hand_out_all(
        self, numbers: Sequence[int], events: Sequence[Event], wanted: Sequence[Wanted], epoch: float
    ) -> None:
        """Deliver events, each to those who want it: to every subscriber all at once."""
        groups: dict[int, tuple[Wanted, list[int]]] = {}
        for place, each in enumerate(wanted):
            if each:
                group = groups.get(id(each))
                if group is None:
                    groups[id(each)] = (each, [place])
                else:
                    group[1].append(place)
        theirs: dict[str, list[tuple[tuple[str, ...], list[int]]]] = {}
        for each, places in groups.values():
            for subscriber, names in each:
                theirs.setdefault(subscriber, []).append((names, places))
        shared: dict[int, _Columns] = {}
        for subscriber in sorted(theirs):
            parts = theirs[subscriber]
            if len(parts) == 1:  # as those of all others who want just these
                names, places = parts[0]
                told: tuple[tuple[str, ...], ...] = (names,)
                columns = shared.get(id(places)) or shared.setdefault(
                    id(places), _columns(numbers, events, places)
                )
            else:
                told, places = _in_order(parts)
                columns = _columns(numbers, events, places)
            self.node.deliver(DeliveryBatch(subscriber, epoch, *columns, told))


_Columns = tuple[tuple[int, ...], Sequence[Event]]


def _columns(numbers: Sequence[int], events: Sequence[Event], places: list[int]) -> _Columns:
    """The numbers and the events of some places."""
    return tuple([numbers[place] for place in places]), chosen(events, places)


def _in_order(
    parts: list[tuple[tuple[str, ...], list[int]]],
) -> tuple[tuple[tuple[str, ...], ...], list[int]]:
    """What a subscriber is given for several reasons: names for each event, or once for all, and places."""
    by_place = sorted([(place, names) for names, places in parts for place in places])
    told = tuple([names for _, names in by_place])
    return (told[:1] if len(set(told)) == 1 else told), [place for place, _ in by_place]
