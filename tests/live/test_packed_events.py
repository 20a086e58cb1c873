"""Events that stay in the bytes that they came in: delivered, kept and sent as others are."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.live.client_messages import ClientEvents
from distributary.live.codec import CodecError, decode, encode
from distributary.model import Event, Subscription, SubscriptionKey, key_of
from distributary.overlay.node import Acknowledge, Deliver, Effect, Node, SafeEvents, Send, Store, Token
from distributary.overlay.packed_events import PackedEvents, chosen, identities_of, joined, topics_of
from distributary.overlay.trace_text import text_of
from distributary.overlay.tree.event_log import in_parts, total_size
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.messages import AttachRequest, CopyReceipt, ForwardedEvents, LogCopies
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.state import TreeSettings
from distributary.overlay.wire import size_of
from distributary.systems.tree.broker import TreeBroker
from live.random_messages import EVENTS
from properties.examples import examples

plain_values = some.none() | some.booleans() | some.integers(-5, 1 << 63) | some.text(max_size=9)
names = some.sampled_from(["price", "source", "ä"])
PLAIN_EVENTS = some.builds(
    Event,
    some.text(max_size=6),
    some.none() | some.sampled_from(["A/B", "quotes/NYSE/OTE", "/äö/"]),
    some.dictionaries(names, plain_values | some.floats(allow_nan=False), max_size=3),
    some.none() | some.text(max_size=9),
)


def read_again(events: Sequence[Event]) -> Sequence[Event]:
    """Events as a broker has them that came over a wire."""
    written = encode(ClientEvents(1, tuple(Event(*fields(event)) for event in events)))
    message = decode(written)
    assert isinstance(message, ClientEvents)
    assert encode(message) == written
    assert size_of(message) == len(written)
    return message.events


def fields(event: Event) -> tuple[Any, ...]:
    return event.id, event.topic, event.attributes, event.document


@settings(max_examples=examples(200), deadline=None)
@given(some.lists(PLAIN_EVENTS, min_size=1, max_size=20), some.data())
def test_packed_events_are_the_events_that_were_sent(events: list[Event], data: some.DataObject) -> None:
    packed = read_again(events)
    assert type(packed) is PackedEvents
    assert list(packed) == events
    assert packed == tuple(events)
    assert hash(packed) == hash(tuple(events))
    assert text_of(packed) == text_of(tuple(events))
    assert list(identities_of(packed)) == [event.identity for event in events]
    assert [key_of(each) for each in identities_of(packed)] == [event.key for event in events]
    assert list(topics_of(packed)) == [event.topic for event in events]
    assert packed.has_documents == any(event.document is not None for event in events)
    places = data.draw(some.lists(some.sampled_from(range(len(events))), min_size=1, unique=True).map(sorted))
    part = chosen(packed, places)
    assert list(part) == [events[place] for place in places]
    assert list(identities_of(part)) == [events[place].identity for place in places]
    start, stop = sorted(data.draw(some.tuples(some.integers(0, 20), some.integers(0, 20))))
    assert list(packed[start:stop]) == events[start:stop]
    both = joined([packed, part])
    assert type(both) is PackedEvents
    assert list(both) == [*events, *part]
    assert list(topics_of(both)) == [event.topic for event in both]
    assert total_size(both) == sum(len(event.encoded or b"") for event in both)
    assert list(joined([packed, tuple(events)])) == [*events, *events]


@settings(max_examples=examples(200), deadline=None)
@given(some.lists(EVENTS, max_size=6))
def test_unusual_events_are_read_as_single_ones_are(events: list[Event]) -> None:
    assert list(read_again(events)) == events
    assert [event.key for event in read_again(events)] == [event.key for event in events]


@pytest.mark.parametrize("seed", range(examples(40)))
def test_whatever_is_packed_can_be_made(seed: int) -> None:
    random = Random(f"damaged {seed}")
    events = [Event(f"e{number}", "A/B", {"price": number, "source": "ann"}) for number in range(5)]
    written = encode(ClientEvents(1, tuple(events)))
    packed = 0
    for _ in range(200):
        changed = bytearray(written)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        try:
            message = decode(bytes(changed))
        except CodecError:
            continue
        if isinstance(message, ClientEvents) and type(message.events) is PackedEvents:
            packed += 1
            made = list(message.events)
            assert [event.identity for event in made] == list(message.events.identities)
            assert [event.topic for event in made] == list(message.events.topics)
            assert decode(encode(message)) == message
    assert packed


def test_a_topic_that_no_event_can_have_is_refused_among_others() -> None:
    event = Event("e1", "A", {})
    written = encode(ClientEvents(1, (event, event)))
    with pytest.raises(CodecError, match="empty topic"):
        decode(written.replace(b"\xa1A", b"\xa0", 1))
    with pytest.raises(CodecError, match="levels"):
        decode(written.replace(b"\xa1A", b"\xda\x08\x00" + b"/" * 2048, 1))


def test_much_is_divided_by_its_bytes() -> None:
    events = [Event(f"e{number}", attributes={"text": "x" * 300_000}) for number in range(7)]
    packed = read_again(events)
    parts = in_parts(packed)
    assert parts == in_parts(events)
    assert len(parts) > 1
    assert [event for part in parts for event in packed[part]] == events


# A root with its standby, another child and clients.

ROOT, STANDBY, CHILD = 1, 2, 3


class Root:
    """A root, driven by hand; its standby says to have what it is sent some time later."""

    def __init__(self) -> None:
        self.tree = TreeNode(Node(ROOT), TreeSettings(heartbeat=1.0), is_root=True)
        self.broker = TreeBroker(self.tree)
        self.effects: list[Effect] = self.tree.node.start(0.0)
        for child, interest in ((STANDBY, Interest()), (CHILD, Interest(((("topic", "A"),),)))):
            self.did(self.tree.node.receive(AttachRequest(5, 0, interest, False), child, 0.1))
        self.did(self.tree.node.wake(Token("tree heartbeat"), 1.0))

    def did(self, effects: list[Effect]) -> None:
        self.effects += effects

    def do(self, action: Any) -> None:
        self.did(self.tree.node.call(action, 2.0))

    def standby_has(self, left_out: float) -> None:
        """The standby says to have what it was sent last, but for a part of that."""
        copies = [
            each.message
            for each in self.effects
            if isinstance(each, Send) and isinstance(each.message, LogCopies)
        ]
        last = copies[-1]
        through = last.after + len(last.events) - int(left_out * len(last.events))
        receipt = CopyReceipt(last.term, through, last.stamp)
        self.did(self.tree.node.receive(receipt, STANDBY, 2.0))

    def seen(self) -> dict[str, list[Any]]:
        """What others notice: deliveries, acknowledgements, events sent and stored."""
        seen: dict[str, list[Any]] = {}
        for effect in self.effects:
            if isinstance(effect, Deliver):
                for delivery in effect.items:
                    seen.setdefault(f"to {delivery.subscriber}", []).append(delivery)
            elif isinstance(effect, Acknowledge) and isinstance(effect.what, SafeEvents):
                seen.setdefault("safe", []).append((effect.what.through, tuple(effect.what.events)))
            elif isinstance(effect, Send) and isinstance(effect.message, ForwardedEvents | LogCopies):
                seen.setdefault(f"sent {effect.to}", []).append(text_of(effect.message))
            elif isinstance(effect, Store):
                seen.setdefault("stored", []).append((effect.name, text_of(effect.value)))
        return seen


def random_subscription(random: Random, number: int, plain: bool) -> Subscription:
    filters: dict[str, Any] = {"topic": random.choice(["A", "A/B", "B", "C/B"])}
    form = 1.0 if plain else random.random()
    if form < 0.3:
        filters["where"] = f"a > {random.randint(0, 9)}"
    elif form < 0.5:
        filters["change"] = {"a": random.randint(1, 4)}
    return Subscription(f"s{number}", random.choice(["ann", "bob", "cleo"]), **filters)


def random_batch(random: Random, published: list[Event]) -> list[Event]:
    batch = []
    for _ in range(random.choice([1, 2, 5, 20])):
        attributes: dict[str, Any] = {"a": random.randint(0, 9)}
        if random.random() < 0.3:
            attributes["source"] = random.choice(["ann", "bob", "", 7, None])
        event = Event(f"e{len(published)}", random.choice(["A", "A/B", "B", "C/B", "D", None]), attributes)
        if published and random.random() < 0.05:
            event = random.choice(published)
        published.append(event)
        batch.append(event)
    return batch


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", range(examples(30)))
def test_a_root_does_with_packed_events_what_it_does_with_others(seed: int, plain: bool) -> None:
    random = Random(f"packed {seed}")
    made, packed = roots = Root(), Root()
    for root in roots:
        root.do(lambda root=root: root.broker.subscribe(Subscription("all", "dora", topic="mqtt:#")))
    published: list[Event] = []
    keys: list[SubscriptionKey] = []
    for step in range(10):
        for number in range(random.randint(0, 8)):
            subscription = random_subscription(random, 10 * step + number, plain)
            keys.append(subscription.key)
            for root in roots:
                root.do(lambda root=root, one=subscription: root.broker.subscribe(one))
        if keys and random.random() < 0.5:
            gone = keys.pop(random.randrange(len(keys)))
            if gone not in keys:
                for root in roots:
                    root.do(lambda root=root, gone=gone: root.broker.unsubscribe(gone))
        batch = random_batch(random, published)
        made.do(lambda batch=batch: made.broker.publish_all(batch))
        packed.do(lambda batch=batch: packed.broker.publish_all(read_again(batch)))
        if random.random() < 0.6:
            left_out = random.choice([0, 0, random.random()])
            for root in roots:
                root.standby_has(left_out)
    assert packed.seen() == made.seen()
    first_ones = enumerate({event.key: event for event in published}.values(), 1)
    committed = [each for each in first_ones if each[0] <= packed.tree.log.position]
    given = [(each.offset.number, each.event) for each in packed.seen()["to dora"]]
    assert given == [each for each in committed if each[1].topic is not None]
    assert f"sent {CHILD}" in made.seen()
