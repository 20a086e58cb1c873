"""Whatever is dropped, crashes or comes again: QoS 1 at least once and in order, QoS 2 exactly once."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    ConnackPacket,
    ConnectPacket,
    FilterRequest,
    MqttPacket,
    PacketKind,
    PublishPacket,
    SubscribePacket,
)
from edge.mqtt.world import Wire, World

K = PacketKind


class Device:
    """A client as the specification has it: resends what was not acknowledged, knows what it has received."""

    def __init__(
        self, world: World, name: str, version: int, filters: tuple[FilterRequest, ...], aliases: int = 0
    ) -> None:
        self.world, self.name, self.version, self.filters = world, name, version, filters
        self.aliases = aliases
        self.topics: dict[int, str] = {}
        """By alias what it stands for on this connection."""
        self.wire: Wire | None = None
        self.open = False
        self.unsent: list[PublishPacket] = []
        """Published while away."""
        self.under_way: OrderedDict[int, PublishPacket] = OrderedDict()
        self.released: OrderedDict[int, None] = OrderedDict()
        self.known: set[int] = set()
        """Identifiers of QoS 2 messages that were received and not released."""
        self.got: list[tuple[int, bytes]] = []
        self._number = 0

    def connect(self) -> None:
        self.wire, self.open, self.topics = Wire(self.world, self.version), False, {}
        lasting = {"session_expiry_interval": 10_000, "topic_alias_maximum": self.aliases}
        lasting = lasting if self.version == VERSION_5 else {}
        packet = ConnectPacket(self.version, self.name, False, properties=lasting)
        self.wire.connection.receive(write_packet(packet, self.version))

    def drop(self) -> None:
        if self.wire is not None:
            self.wire.connection.lost()
        self.wire, self.open = None, False

    def publish(self, payload: bytes, qos: int) -> None:
        self._number = self._number % 50 + 1
        while self._number in self.under_way or self._number in self.released:
            self._number = self._number % 50 + 1
        packet = PublishPacket(topic_of(payload), payload, qos, packet_id=self._number)
        self.under_way[self._number] = packet
        self._send(packet)

    def _send(self, packet: MqttPacket) -> None:
        if self.open and self.wire is not None and not self.wire.closed:
            self.wire.connection.receive(write_packet(packet, self.version))

    def read(self, most: int) -> None:
        """Handle some of what has come."""
        if self.wire is not None:
            packets, self.wire.came = self.wire.came[:most], self.wire.came[most:]
            for packet in packets:
                self._handle(packet)

    def _handle(self, packet: MqttPacket) -> None:
        if isinstance(packet, ConnackPacket):
            self.open = True
            if not packet.present:
                assert not self.got, "the session is gone"
                self._send(SubscribePacket(60_000, self.filters))
            for number in self.released:
                self._send(AckPacket(K.PUBREL, number))
            for each in self.under_way.values():
                self._send(each._replace(duplicate=True))
        elif isinstance(packet, PublishPacket):
            self._resolve(packet)
            if packet.qos < 2 or packet.packet_id not in self.known:
                self.got.append((packet.qos, packet.payload))
            if packet.qos == 1:
                self._send(AckPacket(K.PUBACK, packet.packet_id))
            elif packet.qos == 2:
                self.known.add(packet.packet_id)
                self._send(AckPacket(K.PUBREC, packet.packet_id))
        elif isinstance(packet, AckPacket):
            self._acknowledged(packet)

    def _resolve(self, packet: PublishPacket) -> None:
        """Find out the topic, as the specification has it, and see that it is the message's."""
        topic, alias = packet.topic, packet.properties.get("topic_alias")
        if alias is not None:
            assert 0 < alias <= self.aliases
            topic = self.topics[alias] = topic or self.topics[alias]
        assert topic == topic_of(packet.payload)

    def _acknowledged(self, packet: AckPacket) -> None:
        number = packet.packet_id
        if packet.kind == K.PUBACK:
            self.under_way.pop(number, None)
        elif packet.kind == K.PUBREC:
            if self.under_way.pop(number, None) is not None:
                self.released[number] = None
            self._send(AckPacket(K.PUBREL, number))
        elif packet.kind == K.PUBREL:
            self.known.discard(number)
            self._send(AckPacket(K.PUBCOMP, number))
        else:
            self.released.pop(number, None)

    @property
    def done(self) -> bool:
        return not self.under_way and not self.released


def topic_of(payload: bytes) -> str:
    """The topic that a message is published to."""
    return f"t/some-{sum(payload) % 3}"


WORDS = ["publish 1", "publish 1", "publish 2", "publish 2", "read bob", "read ann", "step", "step"]
WORDS += [
    "turn",
    "flush",
    "flush one",
    "answer",
    "drop bob",
    "drop ann",
    "connect bob",
    "connect ann",
    "crash",
]


DELIVERED = ["publish 2", "step", "step", "step", "read ann", "turn"]
"""A message of QoS 2 has come to ann, and her PUBREC to the broker."""


@example(["publish 2", "step", "step", "crash"], VERSION_5, 3, 0)  # Published, and PUBREC lost.
@example([*DELIVERED, "flush one", "crash"], VERSION_5, 3, 0)  # Kept that it was received, not that it left.
@example([*DELIVERED, "read ann", "crash"], VERSION_5, 3, 0)  # Nothing kept, so PUBREL must not be sent.
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=60),
    st.sampled_from([VERSION_3, VERSION_5]),
    st.integers(1, 3),
    st.sampled_from([0, 2, 200]),
)
def test_nothing_is_lost_and_qos_2_comes_once(plan: list[str], version: int, most: int, aliases: int) -> None:
    world = World()
    ann = Device(world, "ann", version, (FilterRequest("t/#", 2),), aliases)
    bob = Device(world, "bob", version, (FilterRequest("nothing", 0),))
    devices = {"ann": ann, "bob": bob}
    quiet(world, ann, bob)
    sent: dict[int, list[bytes]] = {1: [], 2: []}
    for step in plan:
        word, _, what = step.partition(" ")
        if word == "publish":
            if len(bob.under_way) + len(bob.released) < 40:
                payload = b"%s-%d" % (what.encode(), len(sent[int(what)]))
                sent[int(what)].append(payload)
                bob.publish(payload, int(what))
        elif word == "read":
            devices[what].read(most)
        elif word == "drop":
            devices[what].drop()
        elif word == "connect" and devices[what].wire is None:
            devices[what].connect()
        elif word == "step":
            world.step()
        elif word == "turn":
            world.turn()
        elif word == "flush":
            world.disk.flush(1 if what else None)
        elif word == "answer":
            world.broker.run()
        elif word == "crash":
            for device in devices.values():
                device.wire, device.open = None, False
            world.crash()
    quiet(world, ann, bob)
    once = [payload for qos, payload in ann.got if qos == 2]
    assert once == sent[2]
    at_least_once = list(dict.fromkeys(payload for qos, payload in ann.got if qos == 1))
    assert at_least_once == sent[1]
    assert not len(world.sessions.get("ann").mailbox)  # type: ignore[union-attr]


def quiet(world: World, *devices: Device) -> None:
    """Connect everybody, and go on until nothing happens any more."""
    for device in devices:
        if device.wire is None or device.wire.closed:
            device.connect()
    for _ in range(1_000):
        world.settle()
        if not any(device.wire is not None and device.wire.came for device in devices):
            break
        for device in devices:
            device.read(100)
    assert all(device.done and device.open for device in devices)
