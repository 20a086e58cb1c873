"""Stored events of a HOPE system, and how subscribers get what they missed (001, section 6.2).

Rules:

- The vertex of an event's key stores the latest `limit` events that were published there. `catch_up` sends a
  request to every vertex whose events may match a subscription, in every cube that events were ever published
  in: what was stored before the length of keys changed is found too. A vertex answers which events it has,
  and the home asks for those that the subscriber does not have.
- A subscriber that comes back gets what it missed by itself. When a subscription is removed, or expires since
  its home has vanished, the time is kept with the owner of the subscription's own key on the ring, which does
  not depend on the cubes. A vertex where that subscription is registered anew, by whichever home, asks there.
- A home that starts again with its state catches up with what came while it was down.
- Clocks need not agree. Nodes tell each other how long ago something was, and each measures that by itself:
  an absence by its clock, which makes it longer when that is put forward, and the age of an event by
  `Replication.uptime`, which does not make it older then. A margin is added for the time that messages take.
  So rather too much is sent. That does no harm at the same home, which delivers nothing twice; another home
  may repeat what was delivered within the margin. It grows with the absence, by the share that speeds of
  clocks may differ (`DRIFT`); where they differ more, the first events of a long absence may be missed.
- Not for subscriptions with a tolerance, whose answer depends on the order of events. A home that has lost
  its state does not know what it has delivered, so it catches up only when asked.

Cost: a message for each subscription that is made or removed, about half of log2 N hops, and for catching up
one to each host of vertices above the subscription's key, in each of the cubes used so far. Each host with
such events answers with their ids, and is asked for those that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from distributary.errors import DistributaryError
from distributary.model import SubscriptionKey
from distributary.overlay.hypercube import CubeVertex, Key, children_above
from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Arrival
from distributary.systems.hope.messages import (
    Absence,
    AbsenceName,
    AbsenceNotice,
    AbsenceQuery,
    AbsenceReply,
    EventName,
    EventRecall,
    EventRecallReply,
    RegistrationName,
    StoredEvent,
    StoredEventOffer,
    StoredEventPlace,
    StoredEventRequest,
    XmlPublication,
)

if TYPE_CHECKING:
    from distributary.systems.hope.broker import HopeBroker

LONGEST_ABSENCE = 7 * 86_400.0
"""Seconds after which it is forgotten that a subscription was there."""
MARGIN = 5.0
"""Seconds that messages may take, at least; a refresh period where faults are borne."""

DRIFT = 0.001
"""The share by which the node that counted an absence may run slower than one that stores events: the clocks
of computers differ by less than half of it from the true rate."""


class EventHistory:
    """The part of a node that stores events and has them delivered to those who were away."""

    def __init__(self, broker: HopeBroker, limit: int) -> None:
        self.broker = broker
        self.limit = limit
        """How many events a vertex stores; 0 switches all of this off."""
        self._active_at = 0.0
        """When this node was last known to be running."""
        self._starts_again = False
        node, ring, replication = broker.node, broker.ring, broker.replication
        replication.dated(StoredEvent, replication.uptime)
        replication.dated(Absence, lambda: node.now)
        ring.listen(EventRecall, self._recall)
        ring.listen(StoredEventRequest, self._fetch)
        ring.listen(AbsenceNotice, self._note_absence)
        ring.listen(AbsenceQuery, self._answer_query)
        node.handle(StoredEventOffer, self._ask_for_missing)
        node.handle(EventRecallReply, self._deliver)
        node.handle(AbsenceReply, self._welcome_back)
        node.at_start(self._started)

    # Events.

    def remember(self, position: int, message: XmlPublication) -> None:
        """Store an event for later requests, dropping the oldest beyond the limit."""
        if not self.limit:
            return
        replication = self.broker.replication
        name = EventName(message.event.key)
        contents = replication.contents(position).items()
        past = {known: entry.time for known, entry in contents if isinstance(known, EventName)}
        if name in past:
            return
        if len(past) >= self.limit:
            replication.drop(position, min(past, key=lambda known: (past[known], known)))
        stored = StoredEvent(replication.uptime(), message.filter, message.event)
        replication.put(position, name, stored)

    def catch_up(self, key: SubscriptionKey, since: float) -> None:
        """As `HopeBroker.catch_up`."""
        if not self._applies_to(key):
            raise DistributaryError(
                f"subscription {key} has a tolerance, which depends on the order of events; "
                "that of remembered ones is not known; catch up with a subscription without one"
            )
        self._ask_for(key, self.broker.node.now - since)

    def _ask_for(self, key: SubscriptionKey, seconds: float) -> None:
        agreed = self.broker.agreement.settled
        ranks = sorted({*agreed.past, agreed.publishing, *agreed.registering})
        recall = EventRecall(key, self.broker.node.address, self.broker.filter_of(key), seconds)
        self.broker.send_up(key, ranks, recall)

    def _applies_to(self, key: SubscriptionKey) -> bool:
        return "change" not in self.broker.home.filters(key)

    def _recall(self, message: EventRecall, arrival: Arrival) -> None:
        broker = self.broker
        if message.came_from is not None:
            broker.introduce(arrival, arrival.origin)
        found: list[StoredEventPlace] = []

        def visit(position: int, place: CubeVertex, came_from: Key | None) -> Iterator[Key]:
            found.extend(self._past(position, message))
            return children_above(place.vertex, broker.cubes.dimension(place), came_from)

        for start in arrival.keys:
            broker.spread(start, message, visit)
        if found:
            broker.tell(message.home, StoredEventOffer(message.subscription, tuple(found)))

    def _past(self, position: int, message: EventRecall) -> list[StoredEventPlace]:
        replication = self.broker.replication
        oldest = replication.uptime() - message.seconds
        return [
            StoredEventPlace(position, entry.event.key)
            for entry in replication.contents(position).values()
            if isinstance(entry, StoredEvent) and entry.time >= oldest and not message.filter & ~entry.filter
        ]

    def _ask_for_missing(self, message: StoredEventOffer, sender: Address) -> None:
        home, (subscription, stored) = self.broker.home, message
        missing = tuple(each for each in stored if not home.has_reached(each.event, subscription.subscriber))
        if missing and subscription in home:
            request = StoredEventRequest(subscription, self.broker.node.address, missing)
            positions = tuple(dict.fromkeys(each.position for each in missing))
            self.broker.send_to_host(sender, positions, request)

    def _fetch(self, message: StoredEventRequest, arrival: Arrival) -> None:
        """Send what is asked for of the vertices hosted here, the oldest first."""
        contents = self.broker.replication.contents
        places = [each for each in message.wanted if each.position in arrival.keys]
        found = [contents(position).get(EventName(event)) for position, event in places]
        kept = sorted((one for one in found if one is not None), key=lambda one: (one.time, one.event.key))
        if kept:
            events = tuple(one.event for one in kept)
            self.broker.tell(message.home, EventRecallReply(message.subscription, events))

    def _deliver(self, message: EventRecallReply, sender: Address) -> None:
        for event in message.events:
            self.broker.home.accept(event, [message.subscription])

    # Absences.

    def leaves(self, key: SubscriptionKey, since: float) -> None:
        """Note that nobody gets a subscription's events since a time, by the clock here."""
        if self.limit:
            seconds = self.broker.node.now - since
            self.broker.ring.route(self._absence_key(key), AbsenceNotice(key, seconds))

    def comes(self, registration: RegistrationName) -> None:
        """Have a home catch up with what a subscription of it has missed, if that was there before."""
        if self.limit:
            self.broker.ring.route(self._absence_key(registration.subscription), AbsenceQuery(*registration))

    def _absence_key(self, key: SubscriptionKey) -> int:
        return self.broker.ring.circle.hash(f"absence of {key.subscriber}\0{key.id}")

    def _note_absence(self, message: AbsenceNotice, arrival: Arrival) -> None:
        (position,) = arrival.keys
        name = AbsenceName(message.subscription)
        since = self.broker.node.now - message.seconds
        known = self.broker.replication.contents(position).get(name, Absence(since))
        self.broker.replication.put(position, name, Absence(max(known.time, since)))

    def _answer_query(self, message: AbsenceQuery, arrival: Arrival) -> None:
        (position,) = arrival.keys
        name = AbsenceName(message.subscription)
        absence = self.broker.replication.contents(position).get(name)
        if absence is not None:
            self.broker.replication.drop(position, name)
            seconds = self.broker.node.now - absence.time
            self.broker.tell(message.home, AbsenceReply(message.subscription, seconds))

    def _welcome_back(self, message: AbsenceReply, sender: Address) -> None:
        if message.subscription in self.broker.home and self._applies_to(message.subscription):
            margin = max(MARGIN, self.broker.refresh or 0.0) + DRIFT * message.seconds
            self._ask_for(message.subscription, message.seconds + margin)

    # Time.

    def _started(self) -> None:
        self._starts_again = bool(self.limit and len(self.broker.home))
        if self.broker.refresh is None:
            self._catch_up_with_downtime(margin=MARGIN)

    def each_period(self, refresh: float) -> None:
        """Catch up after a restart as soon as this node is a member again, and forget long absences."""
        self._catch_up_with_downtime(margin=refresh)
        self._active_at = self.broker.node.now
        replication = self.broker.replication
        before = self.broker.node.now - LONGEST_ABSENCE
        for position in list(replication.hosted()):
            for name, entry in list(replication.contents(position).items()):
                if isinstance(entry, Absence) and entry.time < before:
                    replication.drop(position, name)

    def _catch_up_with_downtime(self, margin: float) -> None:
        """After a restart: `margin` is for what was on its way to this node before it went down."""
        if not self._starts_again:
            return
        self._starts_again = False
        for key in self.broker.home.subscriptions:
            if self._applies_to(key):
                self.catch_up(key, max(self.broker.subscribed_at(key), self._active_at - margin))
