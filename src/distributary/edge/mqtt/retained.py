"""Retained messages: the last message of each topic that was published to be kept, for new subscriptions.

Rules:

- Every broker of a network has them all: each asks the network for retained messages, as a subscriber of its
  own, and keeps the last one of each topic. An empty payload removes what is kept of its topic.
- They are kept on the disk with how far the network's log had come. A broker that was away is given what it
  has missed. One that is new in a network, or was away for longer than the log goes back, is given what is
  retained by another broker (`retained_copy`). Of two messages of a topic the one that stands later in the
  log is kept, and what was removed meanwhile does not come back.
- A message that has expired is not given to anybody any more.
- There are bounds on their number and their bytes. What does not fit is delivered and not kept, nor is an
  older message of its topic; the first such message is told, and those that have expired make room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from distributary.edge.broker import EdgeBroker
from distributary.edge.mqtt.messages import RETAIN, RETAINED, expiry_of
from distributary.edge.mqtt.retained_copy import (
    ABOUT,
    MOST_BYTES,
    MOST_TOGETHER,
    RetainedCopy,
    RetainedReply,
    RetainedRequest,
    SortedTopics,
)
from distributary.edge.payloads import payload_of
from distributary.edge.stored import StoredPlace, StoredRetained
from distributary.filters.profile import Profile
from distributary.live.peers import PeerRoom, Reply
from distributary.live.runner import Disk
from distributary.model import Delivery, DeliveryBatch, Event, Offset, Subscription
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Message, Store
from distributary.overlay.packed_events import chosen, topics_of

NAME, PLACE = "retained/", "retained-place"
"""Names on the disk."""
WHOLE = 1
"""Stands with the place on the disk once nothing of before is missing."""
MISSING = "what was retained before this broker joined may be missing: no other broker has given it"
OUT_OF_DATE = "retained messages may be out of date: the network's log no longer has some of them"
BETWEEN_SEARCHES = 60.0
"""Seconds from one search for expired messages to the next, while there is no room."""


class RetainedBounds(NamedTuple):
    """How much a broker retains."""

    messages: int = 100_000
    bytes: int = 256 << 20
    """Of topics and payloads."""


class _Retained(NamedTuple):
    event: Event
    size: int
    """Bytes of its topic and payload."""
    offset: Offset | None
    """Where it stands in the network's log."""


class RetainedMessages:
    """The retained messages that a broker knows. A client of the broker in its own process."""

    def __init__(
        self,
        broker: EdgeBroker,
        now: Callable[[], float],
        disk: Disk | None,
        notice: Callable[[str], None],
        bounds: RetainedBounds,
        peers: PeerRoom | None = None,
        joins: bool = False,
    ) -> None:
        self._broker, self._now, self._disk, self._notice = broker, now, disk, notice
        self._bounds = bounds
        self._events: dict[str, _Retained] = {}
        self._bytes = 0
        self._full = False
        """Whether there was no room for the last message of a new topic."""
        self._searched = float("-inf")
        """When expired messages were last looked for."""
        self._reached: Offset | None = None
        self._subscriber = f"$retained/{broker.name}"
        self.whole = not joins or peers is None
        """Whether it has what was retained before the broker joined its network."""
        self._removed: dict[str, Offset | None] = {}
        """While it is not: the topics whose messages were removed since it asks for them, and where."""
        self._stale: Offset | None = None
        """What stands up to there in the log, and is no longer retained by others, was removed."""
        self._given: set[str] = set()
        """While there is such a place: the topics of which others retain something."""
        self._sorted = SortedTopics()
        self._copy: RetainedCopy | None = None
        if peers is not None:
            self._copy = RetainedCopy(peers, now, self._place, self.merge, self._copied)
            peers.serve(ABOUT, self._answer)

    def __len__(self) -> int:
        return len(self._events)

    def start(self, stored: Mapping[str, Message]) -> None:
        """Take up what was kept, and ask the network for what comes next."""
        for name, value in stored.items():
            if isinstance(value, StoredRetained):
                self._put(name.removeprefix(NAME), value.event, len(payload_of(value.event)), value.offset)
            elif name == PLACE and isinstance(value, StoredPlace):
                self._reached = value.offset
                self.whole |= value.place == WHOLE
        self._broker.admit(self._subscriber, self)
        asked = Subscription("retained", self._subscriber, where=f"{RETAIN} = true")
        self._broker.register(SessionState((asked,), self._reached, ()), self._registered)

    def _registered(self, reason: str | None) -> None:
        if reason is not None:
            self._notice(f"messages are not retained: {reason}")
            return
        self.tell_progress()  # so that a crash loses nothing of what comes from now on
        if self._copy is not None and not self.whole:
            self._copy.begin()
            self._copy.tick()

    def tick(self) -> None:
        """Now and then: go on asking for what was retained before the broker joined."""
        if self._copy is not None:
            self._copy.tick()

    def matching(self, subscription: Subscription) -> Iterator[Event]:
        """The retained messages that a subscription lets pass, marked as such."""
        wanted, now = Profile.of(subscription), self._now()
        syntax, colon, topic = (subscription.topic or "").partition(":")
        if (syntax, colon) == ("mqtt", ":") and "+" not in topic and "#" not in topic:  # one topic
            candidates = [self._events[topic]] if topic in self._events else []
        else:
            candidates = list(self._events.values())
        for event, _, _ in candidates:
            if not _has_expired(event, now) and wanted.matches(event):
                yield replace(event, attributes={**event.attributes, RETAINED: True})

    # As a client of the broker.

    @property
    def paused(self) -> bool:
        """It does not publish."""
        return False

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Keep retained messages, the last of each topic."""
        if isinstance(delivery, DeliveryBatch):
            deliveries = self._last_of_each_topic(delivery).deliveries
        else:
            deliveries = [delivery]
        stores: dict[str, StoredRetained | None] = {}
        for event, _, _, offset in deliveries:
            if event.topic is None or not self._advance(offset):
                continue
            if (known := self._events.get(event.topic)) is not None and _is_later(known.offset, offset):
                continue  # another broker has given what is still on its way here
            self._replace(event.topic, event, offset, stores)
        self._keep([Store(name, kept) for name, kept in stores.items()])

    def _replace(
        self, topic: str, event: Event, offset: Offset | None, stores: dict[str, StoredRetained | None]
    ) -> None:
        """Have a message in place of the one before, if it is one and there is room for it."""
        payload = payload_of(event)
        self._remove(topic)
        stores[NAME + topic] = None
        if payload and self._has_room(topic, len(payload), stores):
            self._put(topic, event, len(payload), offset)
            stores[NAME + topic] = StoredRetained(event, offset)
        elif not self.whole:
            self._note_removed(topic, offset)

    def _put(self, topic: str, event: Event, payload: int, offset: Offset | None) -> None:
        size = len(topic) + payload
        self._events[topic] = _Retained(event, size, offset)
        self._bytes += size
        self._removed.pop(topic, None)

    def _remove(self, topic: str) -> None:
        if (removed := self._events.pop(topic, None)) is not None:
            self._bytes -= removed.size

    def _has_room(self, topic: str, payload: int, stores: dict[str, StoredRetained | None]) -> bool:
        """Whether one more fits; if need be after those are removed that have expired."""
        if self._fits(topic, payload):
            self._full = False
            return True
        if self._now() >= self._searched + BETWEEN_SEARCHES:
            self._searched = self._now()
            for each in [
                name for name, (event, _, _) in self._events.items() if _has_expired(event, self._now())
            ]:
                self._remove(each)
                stores[NAME + each] = None
            if self._fits(topic, payload):
                return True
        if not self._full:
            self._full = True
            self._notice(
                f"{len(self._events):,} messages with {self._bytes:,} bytes are retained, and there is no"
                f" room for that of {topic!r}: remove some with empty retained messages, or let them expire"
            )
        return False

    def _fits(self, topic: str, payload: int) -> bool:
        within = self._bytes + len(topic) + payload <= self._bounds.bytes
        return within and len(self._events) < self._bounds.messages

    def _last_of_each_topic(self, batch: DeliveryBatch) -> DeliveryBatch:
        """Of what came together, what later messages do not replace; all of it where some came before."""
        reached = self._reached
        if reached is not None and Offset(batch.epoch, batch.numbers[0]) <= reached:
            return batch
        last = {topic: place for place, topic in enumerate(topics_of(batch.events))}
        places = sorted(last.values())
        names = batch.names if len(batch.names) == 1 else tuple(batch.names[place] for place in places)
        numbers = tuple(batch.numbers[place] for place in places)
        return batch._replace(numbers=numbers, events=chosen(batch.events, places), names=names)

    def _advance(self, offset: Offset | None) -> bool:
        """Come to an offset; whether it is a new one."""
        if offset is not None:
            if self._reached is not None and offset <= self._reached:
                return False
            self._reached = offset
        return True

    def _keep(self, stores: list[Store]) -> None:
        if self._disk is not None:
            stores.append(Store(PLACE, StoredPlace(self._reached, (), WHOLE if self.whole else 0)))
            self._disk.write(stores, lambda: None)

    def miss(self, gap: LogGap) -> None:
        """Messages that were retained while the broker was away are no longer in the network's log."""
        self._advance(gap.through)
        if self._copy is None:
            self._notice(OUT_OF_DATE)
            return
        self.whole, self._stale = False, gap.through
        self._keep([])
        self._copy.begin()

    def tell_progress(self) -> None:
        """Keep how far the network has come, when nothing was retained for a while."""
        reached = self._broker.reached(self._subscriber)
        if reached is not None and reached != self._reached:
            self._broker.in_turn(lambda: self._keep([]) if self._advance(reached) else None)

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends."""

    # What brokers give each other.

    def _place(self) -> Offset | None:
        return self._broker.reached(self._subscriber)

    def _answer(self, request: Message, reply: Reply) -> None:
        """Another broker asks what is retained: it is told that when all that has come is kept here."""
        reached = self._place()
        self._broker.in_turn(lambda: reply(self.reply(request, reached)))

    def reply(self, request: Message, reached: Offset | None) -> RetainedReply | None:
        """What is retained of some topics, by a broker that has come to a place; None for no question."""
        if not isinstance(request, RetainedRequest):
            return None
        since = request.since
        if since is not None and (reached is None or reached < since):
            return RetainedReply((), None, self.whole, ready=False)
        topics = self._sorted.after(request.after, since, reached, lambda: list(self._events))
        given: list[StoredRetained] = []
        size = spoken = 0
        for topic in topics[:MOST_TOGETHER]:
            spoken += 1
            kept = self._events.get(topic)
            if kept is not None and not _has_expired(kept.event, self._now()):
                given.append(StoredRetained(kept.event, kept.offset))
                size += kept.size
                if size >= MOST_BYTES:
                    break
        more = spoken < len(topics)
        if not more:
            self._sorted.forget()
        return RetainedReply(tuple(given), topics[spoken - 1] if more else None, self.whole)

    def merge(self, reply: RetainedReply) -> None:
        """Keep what another broker retains, but for what is older than what has come here."""
        stores: dict[str, StoredRetained | None] = {}
        for event, offset in reply.messages:
            topic = event.topic
            if topic is None or _has_expired(event, self._now()):
                continue
            if self._stale is not None:
                self._given.add(topic)
            if topic in self._removed and not _is_later(offset, self._removed[topic]):
                continue
            kept = self._events.get(topic)
            if kept is None or _is_later(offset, kept.offset):
                self._replace(topic, event, offset, stores)
        if stores:
            self._keep([Store(name, value) for name, value in stores.items()])

    def _note_removed(self, topic: str, offset: Offset | None) -> None:
        """Know that nothing older is wanted of a topic; if these are too many, ask for everything anew."""
        self._removed[topic] = offset
        if len(self._removed) > self._bounds.messages and self._copy is not None:
            self._removed.clear()
            self._copy.begin()

    def _copied(self, complete: bool) -> None:
        """Others have given all that they retain, or nobody can."""
        stores: list[Store] = []
        if complete and self._stale is not None:
            for topic, kept in list(self._events.items()):
                if topic not in self._given and not _is_later(kept.offset, self._stale):
                    self._remove(topic)
                    stores.append(Store(NAME + topic, None))
        if not complete:
            self._notice(MISSING if self._stale is None else OUT_OF_DATE)
        self.whole, self._stale = True, None
        self._removed.clear()
        self._given.clear()
        self._sorted.forget()
        self._keep(stores)


def _is_later(one: Offset | None, other: Offset | None) -> bool:
    """Whether one stands behind the other in the log; where there is none, what is here counts as later."""
    return one is not None and other is not None and one > other


def _has_expired(event: Event, now: float) -> bool:
    expires = expiry_of(event)
    return expires is not None and expires <= now
