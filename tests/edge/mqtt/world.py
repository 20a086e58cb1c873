"""A broker, a disk, a clock and clients in memory: everything happens when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distributary.edge.access import Access
from distributary.edge.broker import Answer, LocalClient
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.connection import MqttConnection
from distributary.edge.mqtt.frames import PacketStream
from distributary.edge.mqtt.packets import (
    VERSION_5,
    AckPacket,
    CodesPacket,
    ConnackPacket,
    ConnectPacket,
    DisconnectPacket,
    FilterRequest,
    MqttPacket,
    PacketKind,
    PublishPacket,
    SubscribePacket,
)
from distributary.edge.mqtt.room import MqttPeer, MqttRoom, MqttSettings
from distributary.edge.sessions import Sessions
from distributary.filters.profile import Profile
from distributary.live.peers import PeerRoom
from distributary.model import Delivery, DeliveryBatch, Event, EventKey, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import SessionState, ToleranceStart
from distributary.overlay.node import Message, Store
from distributary.overlay.packed_events import PackedEvents, chosen

K = PacketKind


class MemoryNetwork:
    """What a network keeps: the log of events, each of its key once."""

    def __init__(self) -> None:
        self.log: list[Event] = []
        self.keys: set[EventKey] = set()


class MemoryBroker:
    """A broker of a network in memory. Answers wait until `run`."""

    name = "hall"

    def __init__(self, network: MemoryNetwork, alone: bool = True) -> None:
        self.network = network
        self.alone = alone
        """Whether nobody but its clients here is told of what is published."""
        self.prepare: list[Callable[[], None]] = []
        self.congested = False
        self.refuses: str | None = None
        """Why it publishes nothing."""
        self.clients: dict[str, LocalClient] = {}
        self.registered: dict[SubscriptionKey, tuple[Subscription, Profile]] = {}
        self.waiting: list[Callable[[], None]] = []
        self.batches: list[int] = []
        """How many events each call of `publish` had."""

    def admit(self, subscriber: str, client: LocalClient) -> None:
        self.clients[subscriber] = client

    def dismiss(self, subscriber: str, client: LocalClient) -> None:
        if self.clients.get(subscriber) is client:
            del self.clients[subscriber]

    def before_entry(self, prepare: Callable[[], None]) -> None:
        self.prepare.append(prepare)

    def enter(self) -> None:
        for prepare in self.prepare:
            prepare()

    def audience(self, topic: str, lacking: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        found: dict[str, tuple[str, ...]] = {}
        for key, (subscription, profile) in sorted(self.registered.items()):
            if subscription.filters().keys() != {"topic"}:
                if lacking not in (subscription.where or ""):
                    return None
            elif profile.matches(Event("", topic)):
                found[key.subscriber] = (*found.get(key.subscriber, ()), key.id)
        usual = self.refuses is not None or self.congested or not self.alone
        return None if usual else tuple(found.items())

    def register(self, session: SessionState, done: Answer) -> None:
        self.enter()
        for subscription in session.subscriptions:
            self.registered[subscription.key] = subscription, Profile.of(subscription)
        if session.offset is not None:
            keys = {each.key for each in session.subscriptions}
            for number in range(session.offset.number + 1, len(self.network.log) + 1):
                self._deliver(number, keys)
        self.waiting.append(lambda: done(None))

    def start_from(self, start: ToleranceStart) -> None:
        """It measures no tolerances."""

    def withdraw(self, key: SubscriptionKey) -> None:
        self.enter()
        self.registered.pop(key, None)

    def reached(self, subscriber: str) -> Offset | None:
        return Offset(1.0, len(self.network.log))

    def publish(self, events: Sequence[Event], done: Answer) -> None:
        self.enter()
        self.batches.append(len(events))
        if self.refuses is not None:
            reason = self.refuses
            self.waiting.append(lambda: done(reason))
            return
        if isinstance(events, PackedEvents) and self.network.keys.isdisjoint(event.key for event in events):
            self._deliver_together(events)
            events = ()
        for event in events:
            if event.key not in self.network.keys:
                self.network.keys.add(event.key)
                self.network.log.append(event)
                self._deliver(len(self.network.log), set(self.registered))
        self.waiting.append(lambda: done(None))

    def _deliver_together(self, events: PackedEvents) -> None:
        """Give events that came together to each subscriber together, as live brokers do."""
        first = len(self.network.log) + 1
        self.network.log += events
        self.network.keys.update(event.key for event in events)
        given: dict[str, dict[int, tuple[str, ...]]] = {}
        for place, event in enumerate(events):
            for key, (_, profile) in sorted(self.registered.items()):
                if profile.matches(event) and key.subscriber in self.clients:
                    names = given.setdefault(key.subscriber, {})
                    names[place] = (*names.get(place, ()), key.id)
        for subscriber, names in given.items():
            told = tuple(names.values())
            batch = DeliveryBatch(
                subscriber,
                1.0,
                tuple(first + place for place in names),
                chosen(events, list(names)),
                told[:1] if len(set(told)) == 1 else told,
            )
            self.clients[subscriber].give(batch)

    def _deliver(self, number: int, keys: set[SubscriptionKey]) -> None:
        event = self.network.log[number - 1]
        asked: dict[str, list[str]] = {}
        for key in keys:
            if key in self.registered and self.registered[key][1].matches(event):
                asked.setdefault(key.subscriber, []).append(key.id)
        for subscriber, ids in asked.items():
            if subscriber in self.clients:
                delivery = Delivery(event, subscriber, tuple(sorted(ids)), Offset(1.0, number))
                self.clients[subscriber].give(delivery)

    def in_turn(self, action: Callable[[], None]) -> None:
        action()

    def run(self) -> bool:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer()
        return bool(waiting)


class MemoryDisk:
    """Values by name; what was not flushed is gone with a crash."""

    def __init__(self) -> None:
        self.stored: dict[str, Message] = {}
        self.waiting: list[tuple[Sequence[Store], Callable[[], None]]] = []

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        self.waiting.append((list(stores), then))

    def flush(self, most: int | None = None) -> bool:
        """Write what was given first, at most so many."""
        most = len(self.waiting) if most is None else most
        waiting, self.waiting = self.waiting[:most], self.waiting[most:]
        for stores, then in waiting:
            for name, value in stores:
                if value is None:
                    self.stored.pop(name, None)
                else:
                    self.stored[name] = value
            then()
        return bool(waiting)


class World:
    """An MQTT server that can crash and start again."""

    def __init__(self, settings: MqttSettings | None = None, access: Access | None = None) -> None:
        self.now = 1000.0
        self.network, self.disk = MemoryNetwork(), MemoryDisk()
        self.settings, self.access = settings, access or Access.open()
        self.notices: list[str] = []
        self.linked: list[int] = []
        """The other brokers that it is linked with."""
        self._runs = 0
        self.start()

    def start(self) -> None:
        self._runs += 1
        self.later: list[Callable[[], None]] = []
        self.broker = MemoryBroker(self.network)
        self.sessions = Sessions(self.broker, lambda: self.now, self.disk, self.access)
        stored = dict(self.disk.stored)
        self.sessions.restore(stored)
        self.room = MqttRoom(
            self.broker,
            self.sessions,
            self.access,
            now=lambda: self.now,
            soon=self.later.append,
            disk=self.disk,
            settings=self.settings,
            notice=self.notices.append,
            run=f"run{self._runs}",
            peers=PeerRoom(lambda to, message: None, lambda: self.linked),
        )
        self.room.start(stored)

    def crash(self) -> None:
        """The process ends at once, and comes back; connections of before are dead."""
        self.disk.waiting.clear()
        self.start()

    def step(self) -> bool:
        """Do what waits now; whether there was anything."""
        return self.turn() | self.broker.run() | self.disk.flush()

    def turn(self) -> bool:
        """End the turn of the loop."""
        later, self.later[:] = list(self.later), []
        for action in later:
            action()
        return bool(later)

    def settle(self) -> None:
        """Do all that waits."""
        while self.step():
            pass

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.room.tick()
        self.settle()


class Wire:
    """A client's end of a connection: sends packets, and has those that came."""

    def __init__(self, world: World, version: int = VERSION_5, peer: MqttPeer | None = None) -> None:
        self.world, self.version = world, version
        self.came: list[MqttPacket] = []
        self.closed = self.paused = False
        self.buffered = 0
        self._stream = PacketStream(10_000_000)
        self._stream.version = version
        self.connection: MqttConnection = world.room.connect(self, peer or MqttPeer(loopback=True))

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.came += self._stream.feed(data)
        assert self._stream.error is None

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    # What the client does.

    def send(self, *packets: MqttPacket, settle: bool = True) -> list[MqttPacket]:
        """Send packets, all in one turn; gives what has come since the last call."""
        return self.send_bytes(b"".join(write_packet(each, self.version) for each in packets), settle=settle)

    def send_bytes(self, data: bytes, *, settle: bool = True) -> list[MqttPacket]:
        self.connection.receive(data)
        if settle:
            self.world.settle()
        return self.take()

    def take(self) -> list[MqttPacket]:
        came, self.came = self.came, []
        return came

    def vanish(self) -> None:
        self.connection.lost()
        self.world.settle()

    def connect(self, client: str = "ann", clean: bool = True, **more: Any) -> ConnackPacket:
        came = self.send(ConnectPacket(self.version, client, clean, **more))
        assert isinstance(came[0], ConnackPacket), came
        self.came = came[1:]
        return came[0]

    def subscribe(self, *texts: str, qos: int = 2, properties: Any = None, **options: Any) -> tuple[int, ...]:
        requests = tuple(FilterRequest(text, qos, **options) for text in texts)
        came = self.send(SubscribePacket(9, requests, properties or {}))
        answer = next(each for each in came if isinstance(each, CodesPacket))
        self.came = [each for each in came if each is not answer]
        return answer.reasons

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, **more: Any) -> list[MqttPacket]:
        number = more.pop("packet_id", 5 if qos else 0)
        return self.send(PublishPacket(topic, payload, qos, packet_id=number, **more))

    def leave(self, reason: int = 0, **properties: Any) -> None:
        self.send(DisconnectPacket(reason, properties))


def joined(
    world: World, client: str = "ann", clean: bool = True, version: int = VERSION_5, **more: Any
) -> Wire:
    """A client that is connected."""
    wire = Wire(world, version)
    wire.connect(client, clean, **more)
    return wire


def lasting(seconds: int = 100, **more: Any) -> dict[str, Any]:
    """What to connect with for a session that outlives its connection."""
    return {"clean": False, "properties": {"session_expiry_interval": seconds, **more}}


def messages(packets: list[MqttPacket]) -> list[PublishPacket]:
    return [each for each in packets if isinstance(each, PublishPacket)]


def payloads(packets: list[MqttPacket]) -> list[bytes]:
    return [each.payload for each in messages(packets)]


def acknowledgement(packet: PublishPacket) -> AckPacket:
    return AckPacket(K.PUBACK if packet.qos == 1 else K.PUBREC, packet.packet_id)
