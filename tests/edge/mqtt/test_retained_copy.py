"""What was retained before a broker joined: given by others, merged with what is published meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.edge.broker import Answer
from distributary.edge.mqtt import retained, retained_copy
from distributary.edge.mqtt.messages import event_of_message
from distributary.edge.mqtt.packets import PublishPacket
from distributary.edge.mqtt.retained import MISSING, RetainedBounds, RetainedMessages
from distributary.edge.mqtt.retained_copy import ROUNDS, RetainedReply
from distributary.edge.mqtt.server import MqttServer
from distributary.edge.payloads import payload_of
from distributary.edge.stored import StoredRetained
from distributary.live.broker import LiveBroker
from distributary.live.codec import decode, encode
from distributary.live.peers import PeerRoom
from distributary.model import Delivery, Event, Offset, Subscription
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Address, Message, Store
from edge.mqtt.serving import served
from live.loops import alone, until
from properties.examples import examples

EVERYTHING = Subscription("s", "s", topic="mqtt:#")


def retained_message(number: int, topic: str, payload: bytes) -> Event:
    return event_of_message(PublishPacket(topic, payload, 1, retain=True), topic, f"e{number}", "bob", 0.0)


class SharedLog:
    """The log of a network, what is under way between brokers, and the time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.kept_from = 0
        self.under_way: deque[tuple[Address, Address, Message]] = deque()
        self.now = 1_000.0

    def publish(self, topic: str, payload: bytes) -> None:
        self.events.append(retained_message(len(self.events), topic, payload))

    def latest(self) -> dict[str, bytes]:
        """The last message of each topic, but for those that an empty one has removed."""
        last = {event.topic or "": payload_of(event) for event in self.events}
        return {topic: payload for topic, payload in last.items() if payload}


class LogBroker:
    """A broker that reads the log at a pace of its own, with the retained messages that it keeps."""

    congested = False

    def __init__(self, log: SharedLog, address: Address, others: Sequence[Address]) -> None:
        self.log, self.address, self.name = log, address, f"b{address}"
        self.others = others
        self.stored: dict[str, Message] = {}
        self.notices: list[str] = []
        self.latest: dict[str, int] = {}
        """By topic the number of the latest message that was kept or removed."""
        self.start()

    def start(self, bounds: RetainedBounds | None = None) -> None:
        """Start, or start again from what was stored."""
        self.read: int | None = None
        self.turns: deque[Callable[[], None]] = deque()
        self.peers = PeerRoom(self.send, lambda: self.others)
        self.latest.clear()
        joins = bool(self.others) and self.address != 1
        self.retained = RetainedMessages(
            self,  # type: ignore[arg-type]
            lambda: self.log.now,
            self,
            self.notices.append,
            bounds or RetainedBounds(),
            self.peers,
            joins,
        )
        self.retained.start(dict(self.stored))

    # As the broker, the links and the disk of the retained messages.

    def admit(self, subscriber: str, client: object) -> None:
        pass

    def register(self, session: SessionState, done: Answer) -> None:
        after = session.offset
        if after is not None and after.number < self.log.kept_from:
            through = Offset(1.0, self.log.kept_from)
            self.turns.append(lambda: self.retained.miss(LogGap("", after, through)))
        begin = len(self.log.events) if after is None else max(after.number, self.log.kept_from)
        self.read = begin
        self.turns.append(lambda: done(None))

    def reached(self, subscriber: str) -> Offset | None:
        return None if self.read is None else Offset(1.0, self.read)

    def in_turn(self, action: Callable[[], None]) -> None:
        self.turns.append(action)

    def send(self, to: Address, message: Message) -> None:
        self.log.under_way.append((self.address, to, decode(encode(message))))

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        for name, value in stores:
            if value is None:
                self.stored.pop(name, None)
            else:
                self.stored[name] = value
        then()

    # What happens.

    def read_on(self) -> None:
        """Read an event of the log: it is on its way to the retained messages."""
        if self.read is not None and self.read < len(self.log.events):
            event, self.read = self.log.events[self.read], self.read + 1
            delivery = Delivery(event, "", ("retained",), Offset(1.0, self.read))
            self.turns.append(lambda: self.give(delivery))

    def give(self, delivery: Delivery) -> None:
        self.retained.give(delivery)
        assert delivery.offset is not None
        topic = delivery.event.topic or ""
        self.latest[topic] = max(self.latest.get(topic, 0), delivery.offset.number)

    def turn(self) -> None:
        if self.turns:
            self.turns.popleft()()
            self.check()

    def check(self) -> None:
        """No message stands in place of a later one, or of one that was removed later."""
        for event in self.retained.matching(EVERYTHING):
            number, topic = int(event.id[1:]) + 1, event.topic or ""
            assert number >= self.latest.get(topic, 0), f"{topic} has gone back to {number}"
            self.latest[topic] = number

    def has(self) -> dict[str, bytes]:
        return {
            event.topic or "": payload_of(self.log.events[int(event.id[1:])])
            for event in self.retained.matching(EVERYTHING)
        }


def carried(log: SharedLog, brokers: dict[Address, LogBroker]) -> None:
    """Bring the first message that is under way to its broker."""
    if log.under_way:
        sender, to, message = log.under_way.popleft()
        if to in brokers:
            brokers[to].peers.hear(message, sender)
            brokers[to].check()


def settled(log: SharedLog, brokers: dict[Address, LogBroker]) -> None:
    """Let time pass until nothing is to be done any more."""
    for _ in range(60):
        for broker in brokers.values():
            while broker.turns or (broker.read is not None and broker.read < len(log.events)):
                broker.read_on()
                broker.turn()
            broker.retained.tick()
        while log.under_way:
            carried(log, brokers)
        if all(broker.retained.whole and not broker.turns for broker in brokers.values()):
            return
        log.now += 1.0


@contextmanager
def small_batches(most: int = 2) -> Iterator[None]:
    with patch.object(retained, "MOST_TOGETHER", most), patch.object(retained_copy, "MOST_TOGETHER", most):
        yield


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from("abcdefg"), st.sampled_from([b"", b"1", b"2"])),
        st.tuples(st.sampled_from(["read", "turn", "tick"]), st.sampled_from([1, 2, 3]), st.none()),
        st.tuples(st.sampled_from(["carry", "carry", "drop", "twice", "later"]), st.none(), st.none()),
        st.tuples(st.just("crash"), st.sampled_from([1, 2]), st.none()),
    ),
    max_size=60,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.sampled_from("abcdefg"), max_size=8), steps)
def test_a_newer_message_is_never_replaced_by_an_older_one_and_none_that_was_removed_comes_back(
    before: list[str], taken: list[tuple[str, object, object]]
) -> None:
    log = SharedLog()
    brokers = {1: LogBroker(log, 1, [2, 3])}
    settled(log, brokers)
    for number, topic in enumerate(before):
        log.publish(topic, b"%d" % number)
        brokers[1].read_on()
    brokers |= {
        number: LogBroker(log, number, [each for each in (1, 2, 3) if each != number]) for number in (2, 3)
    }
    with small_batches():
        for what, one, other in taken:
            log.now += 0.3
            if what == "publish":
                log.publish(str(one), bytes(other))  # type: ignore[arg-type]
            elif what in ("read", "turn", "tick", "crash"):
                broker = brokers[int(one)]  # type: ignore[call-overload]
                {
                    "read": broker.read_on,
                    "turn": broker.turn,
                    "tick": broker.retained.tick,
                    "crash": broker.start,
                }[what]()
            elif what == "carry":
                carried(log, brokers)
            elif log.under_way:
                first = log.under_way.popleft()
                if what == "twice":
                    log.under_way.extendleft([first, first])
                elif what == "later":
                    log.under_way.append(first)
        settled(log, brokers)
    for broker in brokers.values():
        assert broker.retained.whole
        assert broker.has() == log.latest()
        assert broker.notices == []
        kept = {name.removeprefix(retained.NAME) for name in broker.stored if name.startswith(retained.NAME)}
        assert kept == set(broker.has())


def joined_later(log: SharedLog, bounds: RetainedBounds | None = None) -> LogBroker:
    """A broker that joins the one that has read all of the log, and is given what that retains."""
    first = LogBroker(log, 1, [2])
    first.read = 0
    second = LogBroker(log, 2, [1])
    second.start(bounds)
    settled(log, {1: first, 2: second})
    return second


def given_by_another(log: SharedLog, number: int) -> RetainedReply:
    """What a broker gives that retains the message of this number."""
    return RetainedReply((StoredRetained(log.events[number - 1], Offset(1.0, number)),), None, whole=True)


def test_what_was_removed_while_an_answer_was_under_way_does_not_come_back() -> None:
    log = SharedLog()
    log.publish("a", b"1")
    second = LogBroker(log, 2, [1])
    while second.turns:
        second.turn()
    log.publish("a", b"")
    second.read_on()
    second.turn()
    second.retained.merge(given_by_another(log, 1))
    assert second.has() == {}
    log.publish("a", b"2")
    second.retained.merge(given_by_another(log, 3))
    assert second.has() == {"a": b"2"}


def test_what_is_still_on_its_way_does_not_replace_a_later_message_that_another_broker_gave() -> None:
    log = SharedLog()
    second = LogBroker(log, 2, [1])
    while second.turns:
        second.turn()
    for payload in (b"1", b"", b"3"):
        log.publish("a", payload)
        second.read_on()
    second.retained.merge(given_by_another(log, 3))
    while second.turns:
        second.turn()
        assert second.has() == {"a": b"3"}


def test_nodes_that_retain_nothing_name_others() -> None:
    log = SharedLog()
    log.publish("a", b"1")
    first, second = LogBroker(log, 1, []), LogBroker(log, 2, [9])
    first.read = 0
    plain = PeerRoom(
        lambda to, message: log.under_way.append((9, to, message)),
        lambda: [2, 1],
    )
    for _ in range(20):
        for broker in (first, second):
            broker.read_on()
            broker.turn()
        while log.under_way:
            sender, to, message = log.under_way.popleft()
            (plain if to == 9 else {1: first, 2: second}[to].peers).hear(message, sender)
    assert second.retained.whole
    assert second.has() == {"a": b"1"}


def test_what_is_given_is_within_the_bounds_and_what_does_not_fit_is_told() -> None:
    log = SharedLog()
    for number in range(10):
        log.publish(f"t{number}", b"x")
    second = joined_later(log, RetainedBounds(messages=4))
    assert len(second.retained) == 4
    assert len(second.notices) == 1
    assert "no room" in second.notices[0]


def test_batches_are_bounded_in_messages_and_bytes() -> None:
    log = SharedLog()
    for number in range(30):
        log.publish(f"t{number:02}", b"x" * (200_000 if number < 10 else 1))
    first = LogBroker(log, 1, [2])
    first.read = 0
    settled(log, {1: first})
    asked, sizes = retained_copy.RetainedRequest("", None), []
    while True:
        reply = first.retained.reply(asked, Offset(1.0, 30))
        assert reply is not None
        sizes.append(len(reply.messages))
        if reply.through is None:
            break
        asked = asked._replace(after=reply.through)
    assert sizes == [6, 24]
    assert joined_later(log).has() == log.latest()


def test_a_broker_that_nobody_answers_goes_on_and_says_what_may_be_missing() -> None:
    log = SharedLog()
    second = LogBroker(log, 2, [1])
    for _ in range(40 * ROUNDS):
        second.turn()
        second.retained.tick()
        log.under_way.clear()
        log.now += 1.0
    assert second.retained.whole
    assert second.notices == [MISSING]


def test_a_broker_that_was_away_for_longer_than_the_log_has_what_is_retained_and_not_what_was_removed() -> (
    None
):
    log = SharedLog()
    brokers = {1: LogBroker(log, 1, [2]), 2: LogBroker(log, 2, [1])}
    for topic in "abc":
        log.publish(topic, b"1")
    settled(log, brokers)
    log.publish("a", b"")
    log.publish("b", b"2")
    settled(log, {1: brokers[1]})
    log.kept_from = len(log.events)
    log.publish("d", b"3")
    brokers[2].start()
    settled(log, brokers)
    assert brokers[2].has() == log.latest() == {"b": b"2", "c": b"1", "d": b"3"}
    assert brokers[2].notices == []


async def publish(server: MqttServer, *events: Event) -> None:
    answers: list[str | None] = []
    server.room.broker.publish(events, answers.append)
    await until(lambda: bool(answers))
    assert answers == [None]


def topics(server: MqttServer) -> list[str]:
    return sorted(event.topic or "" for event in server.room.retained.matching(EVERYTHING))


@alone
async def test_a_broker_that_joins_later_has_what_was_retained_before_it_listens(tmp_path: Path) -> None:
    async with served(name="first") as first:
        await publish(first, *(retained_message(number, f"t/{number:04}", b"x") for number in range(1_200)))
        await publish(first, retained_message(2_000, "t/0007", b""))
        await until(lambda: len(first.room.retained) == 1_199)
        endpoint = first.room.broker.broker.endpoint  # type: ignore[attr-defined]
        async with served(name="second", contacts=[endpoint], data=tmp_path) as second:
            assert len(second.room.retained) == 1_199
            await publish(second, retained_message(2_001, "t/0008", b""), retained_message(2_002, "u", b"y"))
            await until(lambda: topics(first) == topics(second))
            assert "u" in topics(first)
        await publish(first, retained_message(2_003, "while away", b"z"))
        async with served(name="second", contacts=[endpoint], data=tmp_path) as second:
            await until(lambda: topics(first) == topics(second))


@alone
async def test_a_broker_finds_those_that_retain_behind_nodes_that_do_not() -> None:
    async with served(name="first") as first:
        await publish(first, retained_message(1, "t", b"x"))
        endpoint = first.room.broker.broker.endpoint  # type: ignore[attr-defined]
        async with LiveBroker("plant", "tree", name="plain", contacts=[endpoint]) as plain:
            await until(lambda: plain.joined)
            async with served(name="second", contacts=[plain.endpoint]) as second:
                assert topics(second) == ["t"]
