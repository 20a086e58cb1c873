"""A broker with a log, a disk that crashes lose the end of, clients that come and go, and what is promised.

`SessionWorld(seed).run()` takes steps by chance and checks after each. The broker is the least that keeps the
promises of a network with a log: events in order, given from an offset on, once registered. What waits
(its answers and deliveries, writes of the disk) waits for a step of its own, so that crashes come between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from distributary.edge.mailbox import MailboxBounds, MailboxGap, MailboxItem, MailboxPolicy
from distributary.edge.sessions import Session, Sessions
from distributary.filters.profile import Profile
from distributary.model import Delivery, DeliveryBatch, Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import LogGap, SessionState, ToleranceStart
from distributary.overlay.node import Message, Store

EPOCH = 1.0


class TornDisk:
    """Writes one group after another; a crash keeps a beginning of the one under way."""

    def __init__(self, random: Random) -> None:
        self.stored: dict[str, Message] = {}
        self.waiting: deque[tuple[list[Store], Callable[[], None]]] = deque()
        self._random = random

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        self.waiting.append((list(stores), then))

    def step(self) -> None:
        """Finish a group."""
        if self.waiting:
            stores, then = self.waiting.popleft()
            self._keep(stores)
            then()

    def crash(self) -> None:
        """Keep a beginning of the group under way, and nothing of the others."""
        if self.waiting:
            stores, _ = self.waiting[0]
            self._keep(stores[: self._random.randint(0, len(stores))])
        self.waiting.clear()

    def _keep(self, stores: list[Store]) -> None:
        for name, value in stores:
            if value is None:
                self.stored.pop(name, None)
            else:
                self.stored[name] = value


class LoggedBroker:
    """A broker whose log outlives it; registrations and what is on its way do not."""

    name = "broker"
    congested = False

    def __init__(self, random: Random) -> None:
        self.log: list[Event] = []
        self.kept_from = 0
        """Events before this number are no longer in the log."""
        self._random = random
        self.crash()

    def crash(self) -> None:
        self.clients: dict[str, Session] = {}
        self.registered: dict[SubscriptionKey, Profile] = {}
        self.turns: deque[Callable[[], None]] = deque()
        self.refuses = self._random.random() < 0.2

    def step(self) -> None:
        """Do the next thing that waits."""
        if self.turns:
            self.turns.popleft()()

    def admit(self, subscriber: str, client: Session) -> None:
        self.clients[subscriber] = client

    def dismiss(self, subscriber: str, client: Session) -> None:
        if self.clients.get(subscriber) is client:
            del self.clients[subscriber]

    def register(self, session: SessionState, done: Callable[[str | None], None]) -> None:
        self.turns.append(partial(self._register, session, done))

    def _register(self, session: SessionState, done: Callable[[str | None], None]) -> None:
        if self.refuses:
            self.refuses = False
            done("not now")
            return
        wanted = {each.key: Profile.of(each) for each in session.subscriptions}
        self.registered.update(wanted)
        if session.offset is not None:
            subscriber, number = session.subscriptions[0].subscriber, session.offset.number
            if number < self.kept_from:
                through = Offset(EPOCH, self.kept_from)
                self._tell(
                    subscriber, lambda client: client.miss(LogGap(subscriber, session.offset, through))
                )
                number = self.kept_from
            again = self._random.choice([0, 0, 2])  # what was given before may come again
            self._give(subscriber, range(max(self.kept_from, number - again, 0), len(self.log)), wanted)
        done(None)

    def start_from(self, start: ToleranceStart) -> None:
        """It measures no tolerances."""

    def withdraw(self, key: SubscriptionKey) -> None:
        self.registered.pop(key, None)

    def reached(self, subscriber: str) -> Offset | None:
        return Offset(EPOCH, len(self.log))

    def publish(self, events: Sequence[Event], done: Callable[[str | None], None]) -> None:
        begin = len(self.log)
        self.log += events
        for subscriber in dict.fromkeys(key.subscriber for key in self.registered):
            mine = {key: each for key, each in self.registered.items() if key.subscriber == subscriber}
            self._give(subscriber, range(begin, len(self.log)), mine)
        done(None)

    def _give(self, subscriber: str, numbers: range, wanted: dict[SubscriptionKey, Profile]) -> None:
        found = [
            (number + 1, self.log[number], names)
            for number in numbers
            if (names := tuple(key.id for key, each in wanted.items() if each.matches(self.log[number])))
        ]
        if len(found) > 1 and self._random.random() < 0.5:
            batch = DeliveryBatch(subscriber, EPOCH, *map(tuple, zip(*found, strict=True)))
            self._tell(subscriber, lambda client: client.give(batch))
        else:
            for number, event, names in found:
                delivery = Delivery(event, subscriber, names, Offset(EPOCH, number))
                self._tell(subscriber, lambda client, delivery=delivery: client.give(delivery))

    def _tell(self, subscriber: str, tell: Callable[[Session], None]) -> None:
        def told() -> None:
            client = self.clients.get(subscriber)
            if client is not None:
                tell(client)

        self.turns.append(told)

    def in_turn(self, action: Callable[[], None]) -> None:
        self.turns.append(action)


class Client:
    """A subscriber with connections that come and go, and all that it ever saw."""

    def __init__(self, world: SessionWorld, name: str, bounds: MailboxBounds, slow: bool) -> None:
        self.world, self.name, self.bounds, self.slow = world, name, bounds, slow
        self.session: Session | None = None
        self.readies = 0
        self.ended: list[str] = []
        self.seen: dict[int, str] = {}
        """By place the event's id."""
        self.acknowledged: set[int] = set()
        self.in_time: set[int] = set()
        """Those acknowledged before they were given up."""
        self.kept: set[int] = set()
        """Places of items whose acknowledgement is on the disk."""
        self.kept_gaps: set[int] = set()
        """The same of gaps."""
        self.open: list[int] = []
        """Places that this connection was given and has not acknowledged."""
        self.last = 0
        self.gaps: dict[int, int] = {}
        """By place how many events the gap has that this connection was told."""
        self.told_before: dict[int, int] = {}
        """The same of all connections since the node crashed."""
        self.told = self.unknown = 0
        """Events of the gaps that were acknowledged, and such gaps of which nobody knows how many."""
        self.arrived_anyway = 0
        """Events that were given up on their way, and acknowledged with all before a place."""
        self.tellings = self.told_again = self.unkept_gaps = 0
        """How often a gap was told; events of gaps whose acknowledgement a crash lost, or may yet lose."""
        self.due: dict[str, bool] = {}
        """By id of an event that is wanted, whether it must come: it was published after the answer."""
        self.begun: set[str] = set()
        self.asked: set[str] = set()

    # As a receiver.

    def ready(self) -> None:
        self.readies += 1

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        return False

    def end(self, reason: str) -> None:
        self.ended.append(reason)
        self.lose_connection()

    # What it does.

    def connect(self) -> None:
        self.lose_connection()
        self.last = 0
        self.session, _ = self.world.sessions.attach(self.name, self, self.bounds, None)

    def subscribe(self, topic: str) -> None:
        if self.session is not None:
            self.asked.add(topic)
            subscription = Subscription(topic, self.name, topic=topic)
            self.session.subscribe(subscription, lambda reason: reason or self.begun.add(topic))

    def crash(self) -> None:
        if self.session is not None:
            session = self.session
            self.lose_connection()
            session.detach(self)

    def lose_connection(self) -> None:
        self.session, self.open, self.gaps = None, [], {}

    def take(self, most: int) -> int:
        if self.session is None:
            return 0
        taken = self.session.take(most)
        for entry in taken:
            assert entry.place > self.last, "out of order"
            self.last = entry.place
            if isinstance(entry, MailboxGap):
                self._be_told(entry)
            else:
                self._see(entry)
        return len(taken)

    def _be_told(self, gap: MailboxGap) -> None:
        assert gap.place not in self.kept_gaps, "told after its acknowledgement was kept"
        assert self.told_before.setdefault(gap.place, gap.events) == gap.events, "told otherwise than before"
        self.tellings += 1
        self.gaps[gap.place] = gap.events
        self.open.append(gap.place)

    def _see(self, item: MailboxItem) -> None:
        id = item.delivery.event.id
        assert item.place not in self.kept, "given after its acknowledgement was kept"
        assert self.seen.get(item.place, id) == id, "a place was used again"
        assert id in self.due, "not asked for"
        assert all(place == item.place for place, other in self.seen.items() if other == id), "given twice"
        assert self.world.stored_item(self.name, item.place), "given before it was stored"
        later = [int(other[1:]) for place, other in self.seen.items() if place > item.place]
        assert not later or int(id[1:]) < min(later), "out of order"
        self.seen[item.place] = id
        self.open.append(item.place)

    def acknowledge(self, random: Random) -> None:
        if self.session is None or not self.open:
            return
        if random.random() < 0.3:
            place = random.choice(self.open)
            self.acknowledge_these([each for each in self.open if each <= place], place)
        else:
            self.acknowledge_these(random.sample(self.open, random.randint(1, len(self.open))))

    def acknowledge_these(self, places: list[int], through: int | None = None) -> None:
        assert self.session is not None
        mailbox = self.session.mailbox
        self.open = [each for each in self.open if each not in places]
        in_time = [place for place in places if isinstance(mailbox.get(place), MailboxItem)]
        self.in_time.update(in_time)
        gaps = [place for place in places if place in self.gaps]
        for events in map(self.gaps.pop, gaps):
            self.told += events
            self.unkept_gaps += events
            self.unknown += events == 0
        self.acknowledged.update(place for place in places if place not in gaps)
        if through is not None:
            left = [each for each in mailbox.after(0) if each.place <= through and each.place not in gaps]
            self.arrived_anyway += sum(each.events for each in left if isinstance(each, MailboxGap))
        if through is None:
            self.session.acknowledge_each(places, then=partial(self.note_kept, in_time, gaps))
        else:
            self.session.acknowledge_through(through)

    def note_kept(self, items: list[int], gaps: list[int]) -> None:
        self.kept.update(items)
        self.kept_gaps.update(gaps)

    def node_crashed(self) -> None:
        self.lose_connection()
        self.told_before.clear()
        self.told_again += self.unkept_gaps
        self.unkept_gaps = 0


class SessionWorld:
    """Everything, driven by one seed."""

    def __init__(self, seed: int, crashes: bool = True) -> None:
        self.random = random = Random(seed)
        self.crashes = crashes
        self.time = 1_000.0
        self.disk, self.broker = TornDisk(random), LoggedBroker(random)
        if not crashes:
            self.broker.refuses = False
        self.sessions = Sessions(self.broker, lambda: self.time, self.disk)
        policies = [
            MailboxPolicy.KEEP,
            MailboxPolicy.LATEST,
            MailboxPolicy.DROP_OLDEST,
            MailboxPolicy.DISCONNECT,
        ]
        tight = [
            MailboxBounds(policy, events=random.randint(1, 6), bytes=random.choice([500, 1_000, 10_000]))
            for policy in policies
        ]
        self.clients = [Client(self, f"c{number}/x", bounds, True) for number, bounds in enumerate(tight)]
        self.clients.append(Client(self, "quick", MailboxBounds(), False))
        self.published = 0
        self.node_crashes = 0

    def stored_item(self, subscriber: str, place: int) -> bool:
        return f"item/{place}/{subscriber}" in self.disk.stored

    def run(self, steps: int = 120) -> SessionWorld:
        """Take steps by chance, then bring everything to an end and check the account."""
        for client in self.clients:
            client.connect()
        for _ in range(steps):
            self.step()
            self.check_bounds()
        self.settle()
        for client in self.clients:
            self.finish(client)
        return self

    def step(self) -> None:
        random, client = self.random, self.random.choice(self.clients)
        self.time += random.random()
        what = random.choices(
            (
                "publish",
                "turn",
                "disk",
                "take",
                "acknowledge",
                "connect",
                "leave",
                "subscribe",
                "upkeep",
                "crash",
                "forget",
            ),
            (25, 30, 30, 20, 20, 6, 3, 6, 4, 3 * self.crashes, 4),
        )[0]
        if what == "publish":
            self.publish(random.randint(1, 4))
        elif what == "turn":
            for _ in range(random.randint(1, 6)):
                self.broker.step()
        elif what == "disk":
            for _ in range(random.randint(1, 6)):
                self.disk.step()
                self.note_idle()
        elif what == "take":
            client.take(random.randint(1, 5) if client.slow else 1_000)
        elif what == "acknowledge":
            client.acknowledge(random)
        elif what == "connect":
            client.connect()
        elif what == "leave":
            client.crash()
        elif what == "subscribe":
            client.subscribe(random.choice(["A", "A/*/#", "B", "A/1"]))
        elif what == "upkeep":
            self.sessions.expire()
            for session in self.sessions:
                session.tell_progress()
        elif what == "crash":
            client.take(1_000)
            client.acknowledge(random)  # which the disk may not have yet
            self.crash()
        elif what == "forget" and self.crashes:
            self.broker.kept_from = random.randint(self.broker.kept_from, len(self.broker.log))

    def note_idle(self) -> None:
        if not self.disk.waiting:
            for client in self.clients:
                client.unkept_gaps = 0

    def publish(self, count: int) -> None:
        events = []
        for _ in range(count):
            self.published += 1
            topic = self.random.choice(["A", "A/1", "A/2", "B", "C"])
            size = self.random.choice([0, 0, 300])
            events.append(Event(f"e{self.published}", topic, {"note": "x" * size}))
        for client in self.clients:
            for event in events:
                if any(_wants(topic, event) for topic in client.asked):
                    client.due[event.id] = any(_wants(topic, event) for topic in client.begun)
        self.broker.publish(events, lambda reason: None)

    def crash(self) -> None:
        """Kill the node and start it again from its disk."""
        self.node_crashes += 1
        self.disk.crash()
        self.broker.crash()
        for client in self.clients:
            client.node_crashed()
        self.sessions = Sessions(self.broker, lambda: self.time, self.disk)
        self.sessions.restore(dict(self.disk.stored))

    def settle(self) -> None:
        """Until nothing waits any more."""
        for _ in range(100_000):
            if not self.broker.turns and not self.disk.waiting:
                self.sessions.expire()
                if not self.broker.turns and not self.disk.waiting:
                    return
            self.broker.step()
            self.disk.step()
        raise AssertionError("it never ends")

    def check_bounds(self) -> None:
        for session in self.sessions:
            mailbox, bounds = session.mailbox, session.mailbox.bounds
            assert len(mailbox) <= bounds.events, "more events than the bounds allow"
            assert mailbox.bytes <= bounds.bytes, "more bytes than the bounds allow"
            entries = list(mailbox.after(0))
            assert len(mailbox) == sum(isinstance(entry, MailboxItem) for entry in entries)

    def finish(self, client: Client) -> None:
        """Take all that is left, and check that everything due was given or told."""
        client.connect()
        for _ in range(10_000):
            self.settle()
            if client.session is None:
                client.connect()
            if not client.take(1_000):
                break
            client.acknowledge_these(client.open)
        self.settle()
        arrived = {client.seen[place] for place in client.acknowledged}
        missing = {id for id, must in client.due.items() if must} - arrived
        assert client.unknown or len(missing) <= client.told, f"{len(missing)} lost, {client.told} told"
        if not self.node_crashes:
            possible = set(client.due) - {client.seen[place] for place in client.in_time}
            assert len(missing) <= client.told <= len(possible), "told more than was given up"
            assert client.unknown == 0
            session = self.sessions.get(client.name)
            assert session is not None
            given_up = session.mailbox.dropped
            assert client.told + client.arrived_anyway == given_up, "told another number than was given up"
        kept = {client.seen[place] for place in client.kept}
        most = len(set(client.due) - kept) + client.told_again
        assert client.told <= most, f"told {client.told} where at most {most} were given up"
        if not client.slow:
            assert client.told == 0, "a slow subscriber cost another one events"
        left = [
            name for name in self.disk.stored if name.startswith("item/") and name.endswith("/" + client.name)
        ]
        assert left == [], "the disk keeps what is gone"


def _wants(topic: str, event: Event) -> bool:
    return Profile.of(Subscription("s", "s", topic=topic)).matches(event)
