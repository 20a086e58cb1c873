"""Messages that are read, published, kept and written together, against the same one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.client.session import ClientSession
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.frames import AckRun, PacketStream
from distributary.edge.mqtt.message_run import MessageRun, with_identifiers
from distributary.edge.mqtt.messages import event_of_message
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    FilterRequest,
    PacketKind,
    PublishPacket,
    SubscribePacket,
)
from distributary.edge.mqtt.properties import write_properties
from distributary.live.codec import READING
from distributary.model import DeliveryBatch, Event, EventKey, Offset, Subscription
from distributary.overlay.packed_events import PackedEvents, joined
from edge.mqtt.packets import versions
from edge.mqtt.world import World
from edge.mqtt.world import joined as connected

topics = st.sampled_from(["a", "a/b", "quotes/é", "x" * 200])
texts = st.sampled_from(
    [
        '{"price": 8.4}',
        '{"a": {"b": 1}, "id": 7}',
        '{"p\\u0072ice": 1}',
        "{no json",
        "plain",
        "é",
        "",
        "<#1#>",
    ]
)
payloads = texts.map(str.encode) | st.binary(max_size=20).filter(lambda data: data[:1].strip() != b"<")


def plain(payload: bytes) -> bool:
    """Whether a payload can be in a run: what may be a document is read by itself."""
    return not payload[:1].isspace()


def messages(qos: int, retain: bool) -> st.SearchStrategy[list[PublishPacket]]:
    ids = st.integers(1, 65_535) if qos else st.just(0)
    one = st.builds(
        PublishPacket,
        topics,
        payloads.filter(plain),
        st.just(qos),
        st.just(retain),
        ids,
        st.just(False),
        st.just({}),
    )
    return st.lists(one, min_size=1, max_size=6)


def run_of(packets: list[PublishPacket], version: int) -> MessageRun:
    stream = PacketStream(10_000)
    stream.version = version
    (run,) = stream.cut(b"".join(write_packet(packet, version) for packet in packets))
    assert isinstance(run, MessageRun)
    return run


def keys(packets: list[PublishPacket], first: int = 0) -> list[EventKey]:
    return [EventKey("ann", f"e{number}") for number in range(first, first + len(packets))]


def events_of(packets: list[PublishPacket], first: int = 0) -> tuple[Event, ...]:
    return tuple(
        event_of_message(packet, packet.topic, key.id, key.source, 0.0)
        for packet, key in zip(packets, keys(packets, first), strict=True)
    )


def packed(packets: list[PublishPacket], version: int, first: int = 0) -> PackedEvents:
    run = run_of(packets, version)
    return PackedEvents(None, keys(packets, first), run.topics, False, READING, None, run)


@given(st.data(), versions, st.integers(0, 2), st.booleans())
def test_the_events_of_a_run_are_those_of_its_messages(
    data: st.DataObject, version: int, qos: int, retain: bool
) -> None:
    first, second = data.draw(messages(qos, retain)), data.draw(messages(qos, retain))
    expected = events_of(first)
    assert packed(first, version).made == expected
    pieces = packed(first, version).pieces
    assert tuple(map(READING.make, pieces)) == expected
    both = joined([packed(first, version), packed(second, version, len(first))])
    assert isinstance(both, PackedEvents)
    assert isinstance(both.origin, MessageRun)
    assert both.made == expected + events_of(second, len(first))
    places = sorted(data.draw(st.sets(st.integers(0, len(both) - 1), min_size=1)))
    assert both.chosen(places).made == tuple(both.made[place] for place in places)
    unlike = joined([packed(first, version), packed(second, 9 - version, len(first))])
    assert tuple(unlike) == both.made


@given(st.data(), versions, st.integers(0, 2), st.booleans())
def test_a_run_may_have_every_attribute_that_one_of_its_events_has(
    data: st.DataObject, version: int, qos: int, retain: bool
) -> None:
    packets = data.draw(messages(qos, retain))
    events = packed(packets, version)
    for name in {name for event in events.made for name in event.attributes}:
        assert events.may_have(name)
        assert events.may_have(name.partition(".")[0])
    assert events.may_have("mqtt.retain") == retain
    if not any(b"{" in packet.payload for packet in packets):
        assert not events.may_have("price")


@given(st.data(), versions, versions, st.integers(0, 2), st.integers(0, 2), st.booleans(), st.booleans())
def test_a_run_is_written_as_its_messages_are(
    data: st.DataObject, came: int, goes: int, qos: int, granted: int, retain: bool, kept: bool
) -> None:
    packets = data.draw(messages(qos, retain))
    run = run_of(packets, came)
    start = data.draw(st.integers(0, len(packets) - 1))
    stop = data.draw(st.integers(start + 1, len(packets)))
    lower = min(qos, granted)
    number = data.draw(st.sampled_from([1, 7, 65_534, 65_535])) if lower else 0
    told: Any = data.draw(st.sampled_from([{}, {"subscription_identifier": (3, 200)}]))
    properties = write_properties(told) if goes == VERSION_5 else b""
    expected = [
        PublishPacket(
            packet.topic,
            packet.payload,
            lower,
            retain and kept,
            ((number - 1 + place) % 65_535 + 1) if lower else 0,
            False,
            told if goes == VERSION_5 else {},
        )
        for place, packet in enumerate(packets[start:stop])
    ]
    first = 0x30 | lower << 1 | (retain and kept)
    segments = run.segments(start, stop, goes, first, properties)
    written = with_identifiers(segments, number) if lower else b"".join(segments)
    assert written == b"".join(write_packet(packet, goes) for packet in expected)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=12))
def test_a_client_that_receives_together_knows_what_it_would_know_one_by_one(
    parts: list[tuple[int, bool, bool]],
) -> None:
    together, alone = ClientSession(), ClientSession()
    for session in (together, alone):
        session.begin(Subscription("s1", "ann", topic="a"))
        session.begin(Subscription("s2", "ann", topic="a", change={"price": 1}))
    number, epoch = 0, 1.0
    for count, jumps, tolerates in parts:
        if jumps:  # another epoch, in which the last events come again
            epoch, number = epoch + 1, max(0, number - 2)
        numbers = tuple(range(number + 1, number + count + 1))
        number += count
        events = tuple(Event(f"e{each}", "a", {"price": each}) for each in numbers)
        batch = DeliveryBatch("ann", epoch, numbers, events, (("s2" if tolerates else "s1",),))
        if not together.receive_run(batch):
            for each in batch.deliveries:
                new, item = together.receive(each.event, each.subscriptions, each.offset)
                for _ in new:
                    together.take(item)
        for each in batch.deliveries:
            new, item = alone.receive(each.event, each.subscriptions, each.offset)
            for _ in new:
                alone.take(item)
        assert together.received == alone.received
        assert together.taken == alone.taken
    again = [(Event(f"e{each}", "a"), Offset(epoch + 1, each + 100)) for each in range(number + 1)]
    for event, offset in again:
        assert together.receive(event, ("s1",), offset)[0] == alone.receive(event, ("s1",), offset)[0]


# Through a room: what many are sent together is what each would be sent alone.

steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 5), st.booleans(), st.sampled_from(["a", "a/b"])), max_size=6
)
asked = st.tuples(
    st.sampled_from(["a", "a/#", "#", "$filter/where=price > 8/#"]),
    st.integers(0, 2),
    st.booleans(),
    versions,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.lists(asked, min_size=1, max_size=4), st.sampled_from([VERSION_3, VERSION_5]))
def test_what_is_published_together_arrives_as_if_it_were_one_by_one(
    steps: list[tuple[int, int, bool, str]], asked: list[tuple[str, int, bool, int]], version: int
) -> None:
    assert given_by(steps, asked, version, together=True) == given_by(steps, asked, version, together=False)


class OneByOne(PacketStream):
    """A stream that makes no runs."""

    def cut(self, data: bytes, most: int | None = None) -> list[Any]:
        packets: list[Any] = []
        for each in super().cut(data, most):
            packets += each.packets() if isinstance(each, MessageRun | AckRun) else [each]
        return packets


def given_by(
    steps: list[tuple[int, int, bool, str]],
    asked: list[tuple[str, int, bool, int]],
    version: int,
    *,
    together: bool,
) -> list[list[tuple[Any, ...]]]:
    """What each subscriber gets, which acknowledges all of it; packets are read in runs, or one by one."""
    world = World()
    subscribers = []
    for number, (text, qos, as_published, theirs) in enumerate(asked):
        wire = connected(world, f"subscriber-{number}", version=theirs)
        options = FilterRequest(text, qos, False, as_published and theirs == VERSION_5)
        wire.send(SubscribePacket(1, (options,)))
        wire.came.clear()
        subscribers.append(wire)
    publisher = connected(world, "publisher", version=version)
    if not together:
        publisher.connection._stream = OneByOne(1_000_000)
        publisher.connection._stream.version = version
    packet_id = 0
    for qos, count, retain, topic in steps:
        packets = []
        for _ in range(count):
            packet_id += 1
            payload = b'{"price": %d}' % (packet_id % 17)
            packets.append(PublishPacket(topic, payload, qos, retain, packet_id if qos else 0))
        publisher.send(*packets)
        if qos == 2:
            publisher.send(*[AckPacket(PacketKind.PUBREL, packet.packet_id) for packet in packets])
    got = []
    for wire in subscribers:
        came = [packet for packet in wire.came if isinstance(packet, PublishPacket)]
        got.append([(each.topic, each.payload, each.qos, each.retain, each.packet_id) for each in came])
        wire.send(*[AckPacket(PacketKind.PUBACK, each.packet_id) for each in came if each.qos == 1])
        wire.send(*[AckPacket(PacketKind.PUBREC, each.packet_id) for each in came if each.qos == 2])
    waiting = [len(session.mailbox) for session in world.sessions if session.subscriber != "publisher"]
    assert not any(waiting), waiting
    return got


@pytest.mark.parametrize("before", [0, 65_530, 65_533])
def test_packet_identifiers_begin_again_after_the_last(before: int) -> None:
    world = World()
    ann, bob = connected(world, version=VERSION_3), connected(world, "bob", version=VERSION_3)
    ann.subscribe("a", qos=1)
    session = world.sessions.get("ann")
    assert session is not None
    bob.publish("a", b"first")  # with it the session is somewhere in the log
    ann.take()
    session.mailbox.last = before
    bob.send(*[PublishPacket("a", b"%d" % number, 1, packet_id=number + 1) for number in range(10)])
    came = [each for each in ann.take() if isinstance(each, PublishPacket)]
    expected = [(before + number + 1) % 65_535 + 1 for number in range(10)]
    assert [each.packet_id for each in came] == expected
    ann.send(*[AckPacket(PacketKind.PUBACK, each.packet_id) for each in came])
    assert len(session.mailbox) == 0
