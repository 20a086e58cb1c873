"""What a node delivers of operators' streams: an item once to a subscriber, for all their subscriptions.

Rules:

- An item of a stream is one event, known by the stream's name and its id. Streams of two names are two
  streams, and an item of each is an event of its own, even where their ids agree and one operator computes
  both.
- Each subscription reads by itself, from a position of its own. The first of a subscriber's readers that gets
  an item delivers it, for all of the subscriber's subscriptions here that want it and are still to get it.
  These skip it when their turn comes.
- A subscription that is not granted yet may or may not be given the item: it is not named in the delivery,
  and skips the item if it comes. What it will skip is forgotten when its watermark is later.

Cost: an item is compared once with each subscription of its subscriber to that stream at this node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from distributary.filters.filter import Filter
from distributary.filters.topic import TopicFilter
from distributary.filters.where.expression import attributes_of
from distributary.filters.where.filter import WhereFilter
from distributary.flow import Item
from distributary.flow.catalogue import published_topic
from distributary.flow.language.topics import TopicTemplate, published_item
from distributary.model import Delivery, Event, Subscription
from distributary.systems.queries import messages
from distributary.systems.queries.engine import Engine
from distributary.systems.queries.messages import InputCursor, Selection
from distributary.systems.queries.publications import selects
from distributary.systems.queries.reader_names import subscriber_name
from distributary.systems.queries.retention import discard

OWN = frozenset({"id", "topic"})
"""What a condition sees of an event beside its attributes."""


@dataclass(frozen=True)
class StreamSubscription:
    """A subscription to one stream: what is decided on the way to this node, and what is decided here."""

    id: str
    subscriber: str
    stream: str
    """As its author knows it: `query.operator`."""
    selection: Selection
    filters: tuple[Filter, ...]
    skipped: dict[str, int] = field(default_factory=dict)
    """Ids and times of the items that were delivered before their turn came here."""

    def wants(self, item: Item, event: Event) -> bool:
        """Whether it asks for an item, published as this event."""
        return selects(self.selection, item) and all(each.matches(event) for each in self.filters)

    def skips(self, item: Item, watermark: int) -> bool:
        """Whether an item whose turn has come was delivered before."""
        skipped = self.skipped
        if not skipped:
            return False
        was_delivered = skipped.pop(item.id, None) is not None
        discard(skipped, lambda id: skipped[id] < watermark)
        return was_delivered


class StreamSubscriptions:
    """All subscriptions to streams of the clients of one node."""

    def __init__(self, engine: Engine, deliver: Callable[[Delivery], None]) -> None:
        self._engine = engine
        self._deliver = deliver
        self._sharing: dict[tuple[str, str], dict[str, StreamSubscription]] = {}
        """By subscriber and stream, their subscriptions by the names of the readers."""

    def begin(self, message: messages.SubscriptionStreams) -> None:
        """Have a subscription read streams that it was not told of before."""
        subscription, topics = message.subscription, dict(message.topics)
        where, filters = _divided(subscription)
        for name, stream in message.streams:
            reader = subscriber_name(subscription.key, message.generation, name)
            if reader in self._engine.hosted:
                continue  # the same subscription was made once more
            template = TopicTemplate.parse(topics.get(name, published_topic(name)))
            selection = Selection(where=where)
            one = StreamSubscription(subscription.id, subscription.subscriber, name, selection, filters)
            self._sharing.setdefault((one.subscriber, name), {})[reader] = one
            self._serve(reader, one, InputCursor(stream, selection), template)

    def withdraw(self) -> None:
        """Forget the subscriptions whose readers the engine hosts no more."""
        hosted = self._engine.hosted
        for readers in self._sharing.values():
            discard(readers, lambda reader: reader not in hosted)
        discard(self._sharing, lambda key: not self._sharing[key])

    def _serve(
        self, reader: str, one: StreamSubscription, cursor: InputCursor, template: TopicTemplate
    ) -> None:
        def sink(number: int, item: Item) -> None:
            if not one.skips(item, self._engine.watermark_of(reader)):
                event = published_item(item, template.topic(item.attributes))
                if one.wants(item, event):
                    self._hand_out(one, number, item, event)

        self._engine.serve(reader, cursor, sink)

    def _hand_out(self, one: StreamSubscription, number: int, item: Item, event: Event) -> None:
        """Deliver an item for a subscription whose turn it is, and for the others of its subscriber."""
        names = [one.id]
        for reader, other in self._sharing[one.subscriber, one.stream].items():
            position = self._engine.hosted[reader].cursors[0].position
            to_come = position is None or position < number
            if other is not one and to_come and other.wants(item, event):
                other.skipped[item.id] = item.time
                if position is not None:
                    names.append(other.id)
        self._deliver(Delivery(event, one.subscriber, tuple(sorted(names))))


def _divided(subscription: Subscription) -> tuple[str | None, tuple[Filter, ...]]:
    """The condition that items are compared with on their way, and the filters that are decided here."""
    filters: list[Filter] = []
    if subscription.topic is not None:
        filters.append(TopicFilter.parse(subscription.topic))
    where = subscription.where
    if where is not None and OWN & set(attributes_of((condition := WhereFilter.parse(where)).expression)):
        filters.append(condition)  # of the event, not of the item
        where = None
    return where, tuple(filters)
