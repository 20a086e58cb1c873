"""Messages that are sent on directly: nobody can tell, neither clients nor the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.edge.mqtt.direct import MOST_TOGETHER
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    FilterRequest,
    MqttPacket,
    PacketKind,
    PublishPacket,
    SubscribePacket,
    UnsubscribePacket,
)
from edge.mqtt.world import Wire, World, acknowledgement, joined, lasting, payloads

NAMES = ("ann", "bob", "old", "small", "kept")
TOPICS = ("a", "a/b", "c")
FILTERS = ("a", "a/#", "+/b", "c", "$filter/where=price > 8/a", "$share/group/c")
PAYLOADS = (b"x", b"", b'{"price": 9}', b"<a/>", b"<#1#>", b"y" * 200)

Step = tuple[str, str, int, int]
"""What is done, by whom, and two numbers to choose by."""

WORDS = ["publish", "publish", "publish", "publish two", "publish half", "retain", "settle", "acknowledge"]
WORDS += ["subscribe", "unsubscribe", "stall", "ease", "go on", "leave"]
STEPS = st.tuples(st.sampled_from(WORDS), st.sampled_from(NAMES), st.integers(0, 17), st.integers(0, 2))
ANSWERS = {PacketKind.PUBREC: PacketKind.PUBREL, PacketKind.PUBREL: PacketKind.PUBCOMP}


@dataclass
class Client:
    """A client of a world, and all that it has been sent."""

    wire: Wire
    messages: list[PublishPacket] = field(default_factory=list)
    unanswered: list[PublishPacket] = field(default_factory=list)
    acknowledged: list[tuple[PacketKind, int]] = field(default_factory=list)
    number: int = 0

    def send(self, *packets: MqttPacket, settle: bool = True) -> None:
        """Send packets, all in one turn."""
        came = [*self.wire.take(), *self.wire.send(*packets, settle=settle)]
        answers: list[MqttPacket] = []
        for packet in came:
            if isinstance(packet, PublishPacket):
                self.messages.append(packet)
                if packet.qos:
                    self.unanswered.append(packet)
            elif isinstance(packet, AckPacket):
                self.acknowledged.append((packet.kind, packet.packet_id))
                if packet.kind in ANSWERS:
                    answers.append(AckPacket(ANSWERS[packet.kind], packet.packet_id))
        if answers:
            self.send(*answers)


class Played:
    """A plan as it went in one world."""

    def __init__(self, plan: Sequence[Step], alone: bool) -> None:
        self.world = World()
        self.world.broker.alone = alone
        self.clients: dict[str, Client] = {}
        self.ended: list[Client] = []
        for name in NAMES:
            self._connect(name)
        for name in NAMES[:2]:
            self.clients[name].wire.subscribe("a/#", qos=1)
        for step in plan:
            self._do(*step)
        for name in NAMES:
            self._do("go on", name, 0, 0)
            self._do("settle", name, 0, 0)
        self.world.pass_time(1)  # what was sent on is published by then
        self._read()

    def _connect(self, name: str) -> None:
        short = {"properties": {"maximum_packet_size": 100}} if name == "small" else {}
        more = lasting() if name == "kept" else short
        version = VERSION_3 if name == "old" else VERSION_5
        self.clients[name] = Client(joined(self.world, name, version=version, **more))

    def _read(self) -> None:
        for client in self.clients.values():
            client.send()

    def _do(self, what: str, name: str, first: int, second: int) -> None:
        client = self.clients[name]
        if what.startswith("publish") or what == "retain":
            message = self._message(client, first, second)._replace(retain=what == "retain")
            more = [self._message(client, first + 1, second)] if what == "publish two" else []
            client.send(message, *more, settle=what != "publish half")
            return
        self.world.settle()  # who subscribes or leaves amid another's publication is given it or not
        text = FILTERS[first % len(FILTERS)]
        if what == "acknowledge" and client.unanswered:
            client.send(acknowledgement(client.unanswered.pop(0)))
        elif what == "subscribe":
            shared = text.startswith("$share/")
            own = first >= len(FILTERS) and name != "old" and not shared
            client.send(SubscribePacket(9, (FilterRequest(text, second, no_local=own),)))
        elif what == "unsubscribe":
            client.send(UnsubscribePacket(9, (text,)))
        elif what == "stall":
            client.wire.buffered = 2 << 20
        elif what == "ease":  # the transport has not told yet that it has room again
            client.wire.buffered = 0
        elif what == "go on":
            client.wire.buffered = 0
            client.wire.connection.drained()
        elif what == "leave":
            self._read()
            self.ended.append(client)
            client.wire.vanish()
            self._connect(name)
        self._read()

    def _message(self, client: Client, first: int, qos: int) -> PublishPacket:
        client.number += 1
        topic, payload = TOPICS[first % len(TOPICS)], PAYLOADS[first // len(TOPICS) % len(PAYLOADS)]
        return PublishPacket(topic, payload, qos, packet_id=client.number if qos else 0)

    @property
    def seen(self) -> list[tuple[list[PublishPacket], list[tuple[PacketKind, int]]]]:
        """What each client was sent, those that are gone first; answers of a kind keep their order."""
        everybody = [*self.ended, *self.clients.values()]
        return [(each.messages, sorted(each.acknowledged, key=itemgetter(0))) for each in everybody]

    @property
    def logged(self) -> list[tuple[str | None, str, object]]:
        """What the network's log has."""
        return [(event.topic, event.source, event.attributes) for event in self.world.network.log]


@example([("publish", "bob", 0, 1), ("publish", "bob", 0, 1), ("acknowledge", "ann", 0, 0)])
@example([("publish", "bob", 0, 0), ("stall", "ann", 0, 0), ("publish", "bob", 0, 0)])
@example([("publish", "bob", 0, 0), ("subscribe", "kept", 1, 1), ("publish", "bob", 0, 1)])
@example([("publish", "bob", 0, 0), ("subscribe", "ann", 4, 1), ("publish", "bob", 6, 0)])
@example([("stall", "ann", 0, 0), ("publish", "bob", 0, 0), ("ease", "ann", 0, 0), ("publish", "bob", 3, 0)])
@example([("subscribe", "ann", 7, 1), ("publish", "ann", 0, 0), ("publish", "bob", 0, 0)])
@example([("subscribe", "small", 3, 1), ("publish", "bob", 2, 0), ("publish", "bob", 17, 0)])
@example([("publish half", "bob", 0, 0), ("publish", "ann", 0, 0)])
@example([("publish half", "kept", 11, 1), ("publish", "kept", 0, 1)])
@example([("publish", "ann", 0, 1), ("leave", "ann", 0, 0), ("publish", "bob", 0, 1)])
@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_it_is_as_if_each_message_were_published(plan: list[Step]) -> None:
    directly, usually = Played(plan, alone=True), Played(plan, alone=False)
    assert directly.seen == usually.seen
    assert directly.logged == usually.logged


def taken_directly(world: World, ann: Wire, bob: Wire) -> bool:
    """Whether a message of Bob's reaches Ann without being published."""
    logged = len(world.network.log)
    assert payloads(ann.take()) == []
    bob.send_bytes(bytes.fromhex("30040001 6178"), settle=False)
    return payloads(ann.take()) == [b"x"] and len(world.network.log) == logged


@pytest.fixture
def world() -> World:
    return World()


def test_a_plain_message_is_sent_on_at_once(world: World) -> None:
    ann, bob = joined(world, version=VERSION_3), joined(world, "bob", version=VERSION_3)
    ann.subscribe("a", qos=1)
    assert taken_directly(world, ann, bob)


def test_what_was_sent_on_is_published_when_so_many_are(world: World) -> None:
    ann, bob = joined(world, version=VERSION_3), joined(world, "bob", version=VERSION_3)
    ann.subscribe("a", qos=1)
    for _ in range(MOST_TOGETHER):
        assert not world.network.log
        assert len(bob.publish("a", b"x", 1)) == 1
    assert len(world.network.log) == MOST_TOGETHER
    assert len(payloads(ann.take())) == MOST_TOGETHER


def test_what_was_sent_on_is_in_the_log_of_whoever_asks(world: World) -> None:
    ann, bob = joined(world, version=VERSION_3), joined(world, "bob", version=VERSION_3)
    ann.subscribe("a")
    assert taken_directly(world, ann, bob)
    joined(world, "eve").subscribe("b")
    assert len(world.network.log) == 1


def test_a_session_that_lasts_is_given_nothing_directly(world: World) -> None:
    ann, bob = joined(world, **lasting()), joined(world, "bob", version=VERSION_3)
    ann.subscribe("a")
    assert not taken_directly(world, ann, bob)
    world.settle()
    assert payloads(ann.take()) == [b"x"]


def test_nothing_is_sent_on_to_a_client_that_does_not_read(world: World) -> None:
    ann, bob = joined(world, version=VERSION_3), joined(world, "bob", version=VERSION_3)
    ann.subscribe("a")
    assert taken_directly(world, ann, bob)
    ann.buffered = 2 << 20
    bob.publish("a", b"y")
    assert ann.take() == []
    ann.buffered = 0
    ann.connection.drained()
    world.settle()
    assert payloads(ann.take()) == [b"y"]


def test_no_more_messages_are_sent_on_than_a_client_takes_at_a_time(world: World) -> None:
    ann = joined(world, properties={"receive_maximum": 2})
    bob = joined(world, "bob")
    ann.subscribe("a", qos=1)
    for number in range(4):
        bob.publish("a", b"%d" % number, 1)
    came = [each for each in ann.take() if isinstance(each, PublishPacket)]
    assert [each.payload for each in came] == [b"0", b"1"]
    assert payloads(ann.send(acknowledgement(came[0]))) == [b"2"]
    assert payloads(ann.send(acknowledgement(came[1]))) == [b"3"]
