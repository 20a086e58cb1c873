"""Sessions and the MQTT server at simulated nodes: virtual clients, faults of the simulator, and a history.

`EdgeTrial(seed).run()` makes a tree network in virtual time. Each node has sessions and an MQTT server on it,
with a disk that crashes tear; devices publish and subscribe by MQTT at QoS 2, readers take what a session has
and acknowledge it by place. All of them lose connections and come back; nodes lose messages, are cut off,
crash and start again from what they stored. What clients did and saw is a `chaos.history.History`.

Rules:

- What the edge asks of its node happens in a step of its own, as a runner of a live broker has it: never in
  the midst of what the node has delivered.
- Bytes of a connection come in order, after a moment; what is under way when it breaks is lost.
- A reader counts an event as given when it acknowledges it: one that it lost before is none.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from chaos.history import Given, History, Publish, Subscribing, Violation, violations_of
from distributary.edge.access import Access
from distributary.edge.broker import Answer, LocalClient
from distributary.edge.mailbox import MailboxGap, MailboxItem
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.connection import MqttConnection
from distributary.edge.mqtt.frames import PacketStream
from distributary.edge.mqtt.packets import (
    VERSION_5,
    AckPacket,
    CodesPacket,
    ConnackPacket,
    ConnectPacket,
    FilterRequest,
    MqttPacket,
    PacketKind,
    PublishPacket,
    SubscribePacket,
)
from distributary.edge.mqtt.room import MqttPeer, MqttRoom
from distributary.edge.sessions import Session, Sessions
from distributary.errors import DistributaryError
from distributary.live.requests import Requests
from distributary.model import (
    Delivery,
    DeliveryBatch,
    Event,
    EventKey,
    Offset,
    Subscription,
    SubscriptionKey,
)
from distributary.overlay.broker import Broker, LogGap, RequestRefusal, SessionState, ToleranceStart
from distributary.overlay.node import Address, Store
from distributary.sim.disks import WRITE_TIME
from distributary.sim.faults import Crash, Duplication, Fault, Injection, Loss, Partition, Reordering
from distributary.sim.latency import ConstantLatency
from distributary.sim.population import Population
from distributary.sim.simulator import DeliveredItem, Observer, Simulator
from distributary.systems.assembly import Settings
from distributary.systems.table import system
from edge.session_world import TornDisk

K = PacketKind
NODES = 5
BEGIN, END, HEALED = 20.0, 80.0, 90.0
"""Seconds at which clients begin and stop to publish, and after which all faults are over."""
LONGEST = 400.0
"""Seconds after which a trial that has not come to rest is over."""
WAY = 0.01
"""Seconds that bytes take between a client and its broker."""
KINDS = ("loss", "duplication", "reordering", "partition", "crash", "restart with state")
CLIENT_FAULTS = ("broken connection", "client crash")


class InTurn:
    """Passes through a node like a delivery."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action


class SimulatedEdge:
    """A simulated node, as the edge sees it."""

    congested = False

    def __init__(self, host: EdgeHost, broker: Broker) -> None:
        self.name = f"n{host.address}"
        self._host, self._broker = host, broker
        self.clients: dict[str, LocalClient] = {}
        self.requests = Requests()

    def admit(self, subscriber: str, client: LocalClient) -> None:
        self.clients[subscriber] = client

    def dismiss(self, subscriber: str, client: LocalClient) -> None:
        if self.clients.get(subscriber) is client:
            del self.clients[subscriber]

    def register(self, session: SessionState, done: Answer) -> None:
        def settled() -> None:
            reasons = list(request.refusals.values())
            self.in_turn(partial(done, reasons[0] if reasons else None))

        def ask() -> None:
            if session.offset is not None:
                self._broker.resume(session)
            else:
                for subscription in session.subscriptions:
                    self._broker.subscribe(subscription)

        request = self.requests.open([each.key for each in session.subscriptions], settled)
        request.close()
        self._call(ask, done)

    def start_from(self, start: ToleranceStart) -> None:
        self._call(lambda: self._broker.start_from(start), lambda reason: None)

    def withdraw(self, key: SubscriptionKey) -> None:
        self._call(lambda: self._broker.unsubscribe(key), lambda reason: None)

    def reached(self, subscriber: str) -> Offset | None:
        return self._broker.reached(subscriber)

    def publish(self, events: Sequence[Event], done: Answer) -> None:
        request = self.requests.open([event.key for event in events], lambda: done(None))
        request.close()
        self._call(lambda: self._broker.publish_all(events), done)

    def audience(self, topic: str, lacking: str) -> None:
        return None

    def before_entry(self, prepare: Callable[[], None]) -> None:
        pass

    def in_turn(self, action: Callable[[], None]) -> None:
        self._call(lambda: self._broker.node.deliver(InTurn(action)), lambda reason: None)

    def _call(self, action: Callable[[], object], failed: Answer) -> None:
        """Ask the node, after all that is being done now."""

        def call() -> None:
            try:
                self._host.world.call(self._host.address, lambda: (action(), None)[1])
            except DistributaryError as error:
                failed(str(error))

        self._host.later(0.0, call)

    def hand_out(self, item: object) -> None:
        """The node has delivered something."""
        if isinstance(item, InTurn):
            item.action()
        elif isinstance(item, RequestRefusal):
            self.requests.refused(item.what, item.reason)
        elif isinstance(item, Delivery | LogGap) and item.subscriber in self.clients:
            client = self.clients[item.subscriber]
            client.give(item) if isinstance(item, Delivery) else client.miss(item)


class SlowTornDisk(TornDisk):
    """A torn disk on which a group of writes takes a moment."""

    def __init__(self, host: EdgeHost, random: Random) -> None:
        super().__init__(random)
        self._host = host

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        super().write(stores, then)
        self._host.later(WRITE_TIME, self.step)


class EdgeHost:
    """What a node has for clients: sessions, an MQTT server and a disk, which crash and start with it."""

    def __init__(self, world: Simulator, address: Address) -> None:
        self.world, self.address = world, address
        self.life, self.up = 0, False
        self.disk = SlowTornDisk(self, world.random_for(f"edge/{address}"))
        self.lines: list[Line] = []

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after so many seconds, unless the node crashes before."""
        life = self.life
        self.world.at(self.world.now + seconds, lambda: action() if self.up and life == self.life else None)

    def start(self, broker: Broker) -> None:
        self.life, self.up = self.life + 1, True
        self.edge = SimulatedEdge(self, broker)
        stored = dict(self.disk.stored)
        self.sessions = Sessions(self.edge, self.now, self.disk)
        self.sessions.restore(stored)
        self.room = MqttRoom(
            self.edge,
            self.sessions,
            Access.open(),
            now=self.now,
            soon=lambda action: self.later(0.0, action),
            disk=self.disk,
            run=f"{self.address}-{self.life}",
        )
        self.room.start(stored)
        self.later(1.0, self.tick)

    def crash(self) -> None:
        self.up = False
        self.disk.crash()
        lines, self.lines = self.lines, []
        for line in lines:
            line.lose()

    def tick(self) -> None:
        self.room.tick()
        for client in list(self.edge.clients.values()):
            client.tell_progress()
        self.later(1.0, self.tick)

    def now(self) -> float:
        return self.world.now


class HostedNodes(Population[Broker]):
    """The nodes of the network, each with what it has for clients."""

    def __init__(self, world: Simulator, make: Callable[[Address], Broker]) -> None:
        super().__init__(world, make)
        self.hosts: dict[Address, EdgeHost] = {}

    def begin(self) -> None:
        for address, broker in self.members.items():
            self.hosts[address] = EdgeHost(self.simulator, address)
            self.hosts[address].start(broker)

    def crash(self, address: Address) -> None:
        super().crash(address)
        self.hosts[address].crash()

    def restart(self, address: Address, *, keep_state: bool = True) -> None:
        super().restart(address, keep_state=keep_state)
        self.hosts[address].start(self.members[address])


class HandOut(Observer):
    """Brings what nodes deliver and acknowledge to the edge."""

    def __init__(self, nodes: HostedNodes) -> None:
        self._hosts = nodes.hosts

    def delivered(self, delivered: DeliveredItem) -> None:
        host = self._hosts.get(delivered.address)
        if host is not None and host.up:
            host.edge.hand_out(delivered.item)

    def acknowledged(self, now: float, address: Address, what: EventKey | SubscriptionKey) -> None:
        host = self._hosts.get(address)
        if host is not None and host.up:
            host.edge.requests.acknowledged(what)


class Line:
    """A connection between a device and its host."""

    buffered = 0

    def __init__(self, device: Device, host: EdgeHost) -> None:
        self.device, self.host = device, host
        self.open = True
        self._stream = PacketStream(10_000_000)
        self._stream.version = VERSION_5
        host.lines.append(self)
        self.connection: MqttConnection = host.room.connect(self, MqttPeer(loopback=True))

    def _later(self, action: Callable[[], None]) -> None:
        world = self.host.world
        world.at(world.now + WAY, lambda: action() if self.open else None)

    def write(self, data: bytes) -> None:
        self._later(lambda: self.device.hear(self._stream.feed(data)))

    def send(self, packet: MqttPacket) -> None:
        data = write_packet(packet, VERSION_5)
        self._later(lambda: self.connection.receive(data))

    def close(self) -> None:
        self._later(self.lose)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def lose(self) -> None:
        """The connection is gone for both sides."""
        if self.open:
            self.open = False
            if self in self.host.lines:
                self.host.lines.remove(self)
                self.connection.lost()
            self.device.lost()


class Wanderer:
    """A client whose connections break now and then, and who comes back."""

    def __init__(self, trial: EdgeTrial, name: str, host: EdgeHost) -> None:
        self.trial, self.name, self.host = trial, name, host
        self.random = trial.world.random_for(f"client/{name}")
        self.connected = False
        self.away_until = 0.0
        self.wanted: Subscribing | None = None

    def want(self, topic: str) -> None:
        """Subscribe with the first connection."""
        self.wanted = Subscribing(Subscription("s", self.name, topic=f"mqtt:{topic}"))
        self.trial.history.subscriptions.append(self.wanted)

    def confirm(self) -> None:
        if self.wanted is not None:
            self.wanted.confirmed = min(self.wanted.confirmed, self.trial.world.now)

    def wander(self) -> None:
        """About once a second: break the connection by chance, or connect."""
        world = self.trial.world
        if not self.connected and self.host.up and world.now >= self.away_until:
            self.connect()
        elif self.connected and world.now < HEALED and self.random.random() < 0.08:
            kind = self.random.choice(CLIENT_FAULTS)
            self.trial.fired[kind] += 1
            if kind == "client crash":  # it takes longer to come back
                self.away_until = world.now + self.random.uniform(2.0, 8.0)
            self.break_off()
        world.at(world.now + self.random.uniform(0.5, 1.5), self.wander)

    def connect(self) -> None:
        raise NotImplementedError

    def break_off(self) -> None:
        raise NotImplementedError


class Device(Wanderer):
    """A client of MQTT at QoS 2 as the specification has it: what it must remember outlives its crashes."""

    def __init__(self, trial: EdgeTrial, name: str, host: EdgeHost) -> None:
        super().__init__(trial, name, host)
        self.line: Line | None = None
        self.sent: OrderedDict[int, PublishPacket] = OrderedDict()
        self.released: OrderedDict[int, None] = OrderedDict()
        self.received: set[int] = set()
        self.published = 0
        self.welcome = False
        """Whether the server has said so: before that, what is new would overtake what is sent again."""

    def connect(self) -> None:
        self.line = Line(self, self.host)
        self.connected = True
        lasting = {"session_expiry_interval": 100_000}
        self.line.send(ConnectPacket(VERSION_5, self.name, False, keep_alive=600, properties=lasting))

    def break_off(self) -> None:
        assert self.line is not None
        self.line.lose()

    def lost(self) -> None:
        self.line, self.connected, self.welcome = None, False, False

    def say(self, packet: MqttPacket) -> None:
        if self.line is not None:
            self.line.send(packet)

    def publish(self) -> None:
        """Publish the next message, and another one later."""
        world, self.published = self.trial.world, self.published + 1
        topic = self.random.choice(["a/1", "a/2", "b"])
        event = Event(f"{self.name}:{self.published}", topic, {"source": self.name})
        self.trial.sent[event.id] = event, world.now
        self.sent[self.published] = PublishPacket(topic, event.id.encode(), 2, packet_id=self.published)
        if self.welcome:
            self.say(self.sent[self.published])
        pause = self.random.uniform(0.2, 0.8)
        if world.now + pause < END:
            world.at(world.now + pause, self.publish)

    def hear(self, packets: list[MqttPacket]) -> None:
        for packet in packets:
            if isinstance(packet, ConnackPacket):
                self._connected(packet)
            elif isinstance(packet, CodesPacket):
                self.confirm()
            elif isinstance(packet, PublishPacket):
                if packet.packet_id not in self.received:
                    self.trial.give(self.name, packet.payload.decode())
                self.received.add(packet.packet_id)
                self.say(AckPacket(K.PUBREC, packet.packet_id))
            elif isinstance(packet, AckPacket):
                self._acknowledged(packet)

    def _connected(self, packet: ConnackPacket) -> None:
        self.welcome = True
        if not packet.present and self.wanted is not None:
            self.received.clear()
            self.say(SubscribePacket(60_000, (FilterRequest(self.wanted.subscription.topic[5:], 2),)))  # type: ignore[index]
        for number in self.released:
            self.say(AckPacket(K.PUBREL, number))
        for each in self.sent.values():
            self.say(each._replace(duplicate=True))

    def _acknowledged(self, packet: AckPacket) -> None:
        number = packet.packet_id
        if packet.kind == K.PUBREC:
            if (message := self.sent.pop(number, None)) is not None:
                self.trial.acknowledge(message.payload.decode())
                self.released[number] = None
            self.say(AckPacket(K.PUBREL, number))
        elif packet.kind == K.PUBCOMP:
            self.released.pop(number, None)
        elif packet.kind == K.PUBREL:
            self.received.discard(number)
            self.say(AckPacket(K.PUBCOMP, number))

    @property
    def idle(self) -> bool:
        return not (self.sent or self.released or self.received)


class Reader(Wanderer):
    """A client that takes what its session has, and acknowledges it by place a little later."""

    def __init__(self, trial: EdgeTrial, name: str, host: EdgeHost) -> None:
        super().__init__(trial, name, host)
        self.session: Session | None = None
        self.settled = 0
        """The last place that it has acknowledged, which it does not forget."""
        self.gaps = 0
        self._connection = 0
        self._reading = False

    def connect(self) -> None:
        self._connection += 1
        self.session, present = self.host.sessions.attach(self.name, self, None, None)
        self.connected = True
        self.host.lines.append(self)  # type: ignore[arg-type]
        if present:
            self.session.acknowledge_through(self.settled)
        if self.wanted is not None and not self.session.subscriptions:
            self.session.subscribe(self.wanted.subscription, lambda reason: reason or self.confirm())
        self.ready()

    def break_off(self) -> None:
        session = self.session
        self.lose()
        if session is not None:
            session.detach(self)

    def lose(self) -> None:
        """The connection is gone: what was taken and not acknowledged is forgotten."""
        if self in self.host.lines:
            self.host.lines.remove(self)  # type: ignore[arg-type]
        self.session, self.connected, self._reading = None, False, False
        self._connection += 1

    # As a receiver.

    def ready(self) -> None:
        if not self._reading:
            self._reading = True
            self._later(WAY, self._take)

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        return False

    def end(self, reason: str) -> None:
        self.lose()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        world, connection = self.trial.world, self._connection
        world.at(world.now + seconds, lambda: action() if connection == self._connection else None)

    def _take(self) -> None:
        self._reading = False
        if self.session is not None and (entries := self.session.take(self.random.randint(1, 20))):
            self._reading = True
            self._later(self.random.uniform(0.01, 0.4), partial(self._settle, entries))

    def _settle(self, entries: list[MailboxItem | MailboxGap]) -> None:
        for entry in entries:
            if entry.place <= self.settled:
                continue
            if isinstance(entry, MailboxGap):
                self.gaps += 1
            else:
                self.trial.give(self.name, self.trial.payload_of(entry.delivery.event))
        self.settled = max(self.settled, entries[-1].place)
        if self.session is not None:
            self.session.acknowledge_through(self.settled)
            self._take()


class EdgeTrial:
    """One trial."""

    def __init__(self, seed: int, *, faulty: bool = True) -> None:
        self.world = Simulator(seed, ConstantLatency(0.02))
        self.random = random = Random(f"{seed}/edge trial")
        self.history = History()
        self.sent: dict[str, tuple[Event, float]] = {}
        self.acknowledged: dict[str, float] = {}
        self.fired: Counter[str] = Counter()
        settings = Settings.robust(NODES)
        founders = sorted(random.sample(range(settings.circle.size), NODES))
        assembly = system("tree").assemble(settings, founders, lambda one: self.nodes.contact(one))
        self.nodes = HostedNodes(self.world, assembly)
        self.world.observe(HandOut(self.nodes))
        self.nodes.add_settled(founders, assembly.settle)
        self.nodes.begin()
        self.injection = Injection(self.nodes, self._faults(founders) if faulty else ())
        self.clients: list[Wanderer] = []
        for number, address in enumerate(founders):
            self._add_clients(number, self.nodes.hosts[address])

    def _faults(self, nodes: list[Address]) -> list[Fault]:
        """Some of each kind; nodes crash one after the other, and are cut off at other times."""
        random = self.random
        times = {"start": 22.0, "end": 45.0}
        faults: list[Fault] = [
            Loss(probability=0.05, **times),
            Duplication(probability=0.05, **times),
            Reordering(probability=0.1, by=0.5, **times),
            Partition(start=26.0, end=34.0, side=(random.choice(nodes),)),
        ]
        for start, node in zip((38.0, 50.0, 62.0, 74.0), random.sample(nodes, 4), strict=True):
            begin = start + random.uniform(0.0, 3.0)
            faults.append(Crash(start=begin, end=begin + random.uniform(0.5, 5.0), node=node))
        return faults

    def _add_clients(self, number: int, host: EdgeHost) -> None:
        publisher, device = Device(self, f"p{number}", host), Device(self, f"d{number}", host)
        reader = Reader(self, f"r{number}", host)
        device.want(self.random.choice(["a/#", "#", "b"]))
        reader.want(self.random.choice(["a/+", "#"]))
        self.clients += [publisher, device, reader]
        for client in (publisher, device, reader):
            self.world.at(5.0 + self.random.random(), client.wander)
        self.world.at(BEGIN + self.random.random(), publisher.publish)

    # What clients tell.

    def give(self, subscriber: str, id: str) -> None:
        event = self.sent[id][0] if id in self.sent else Event(id)
        self.history.given.append(Given(SubscriptionKey(subscriber, "s"), event, self.world.now))

    def acknowledge(self, id: str) -> None:
        self.acknowledged.setdefault(id, self.world.now)

    def payload_of(self, event: Event) -> str:
        return str(event.attributes["payload.text"])

    # The run.

    def run(self) -> EdgeTrial:
        """Run until nobody waits for anything, some time after the faults are over."""
        self.world.run(until=HEALED + 20.0)
        while not self._rests() and self.world.now < LONGEST:
            self.world.run(until=self.world.now + 5.0)
        for id, (event, sent) in self.sent.items():
            self.history.publishes.append(Publish(event, sent, self.acknowledged.get(id)))
        self.fired.update(self.injection.fired)
        return self

    def _rests(self) -> bool:
        idle = all(client.idle for client in self.clients if isinstance(client, Device))
        empty = all(
            not len(session.mailbox) for host in self.nodes.hosts.values() for session in host.sessions
        )
        return idle and empty

    def violations(self) -> list[Violation]:
        """Promises that were not kept."""
        return violations_of(self.history)
