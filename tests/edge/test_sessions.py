"""Sessions through crashes of clients and of the node, against what is promised (`session_world`)."""

from __future__ import annotations

import os
from random import Random

import pytest

from distributary.edge.mailbox import MailboxBounds, MailboxGap, MailboxItem, MailboxPolicy
from distributary.edge.sessions import Session, Sessions
from distributary.model import DeliveryBatch, Event, Subscription
from edge.session_world import LoggedBroker, SessionWorld, TornDisk
from properties.examples import examples
from replay import many_seeds, replayed_by

AGAIN = "DISTRIBUTARY_SESSION_SEED={} .venv/bin/pytest -q -n 0 tests/edge/test_sessions.py -k one_seed"


def ran(seed: int, crashes: bool) -> SessionWorld:
    with replayed_by(AGAIN.format(f"{seed}{'' if crashes else 'calm'}")):
        return SessionWorld(seed, crashes).run()


def test_nothing_is_lost_or_given_twice_and_every_gap_is_told_until_it_is_acknowledged() -> None:
    runs = [ran(seed, True) for seed in range(examples(150))]
    assert sum(world.node_crashes for world in runs) > len(runs)
    assert sum(client.told for world in runs for client in world.clients) > len(runs)
    assert sum(client.unknown for world in runs for client in world.clients) > len(runs) // 20
    assert sum(client.told_again for world in runs for client in world.clients) > 0


def test_without_crashes_the_gaps_that_are_acknowledged_are_exactly_what_was_given_up() -> None:
    runs = [ran(seed, False) for seed in range(examples(75))]
    clients = [client for world in runs for client in world.clients]
    assert sum(client.told for client in clients) > len(runs)
    assert sum(client.tellings - len(client.told_before) for client in clients) > 10  # told again


@pytest.mark.chaos
def test_thousands_of_runs() -> None:
    for seed in many_seeds(1_000_000, 20_000):
        ran(seed, bool(seed % 4))


if (repeated := os.environ.get("DISTRIBUTARY_SESSION_SEED")) is not None:  # a run that failed

    def test_one_seed() -> None:
        ran(int(repeated.removesuffix("calm")), not repeated.endswith("calm"))


class Waiting:
    """A receiver that does nothing but remember."""

    def __init__(self) -> None:
        self.readies, self.ends = 0, list[str]()

    def ready(self) -> None:
        self.readies += 1

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        return False

    def end(self, reason: str) -> None:
        self.ends.append(reason)


class Calm:
    """A broker and a disk that do at once what they are asked, and can be started again."""

    def __init__(self, policy: MailboxPolicy = MailboxPolicy.KEEP, events: int = 10) -> None:
        self.time = 0.0
        self.bounds = MailboxBounds(policy, events)
        self.disk, self.broker = TornDisk(Random(1)), LoggedBroker(Random(2))
        self.start()

    def start(self) -> None:
        self.disk.crash()
        self.broker.crash()
        self.broker.refuses = False
        self.sessions = Sessions(self.broker, lambda: self.time, self.disk)
        self.sessions.restore(dict(self.disk.stored))
        self.settle()

    def settle(self) -> None:
        while self.broker.turns or self.disk.waiting:
            self.broker.step()
            self.disk.step()

    def attach(self, expiry: float | None) -> tuple[Session, Waiting]:
        receiver = Waiting()
        session, _ = self.sessions.attach("ann", receiver, self.bounds, expiry)
        session.subscribe(Subscription("s", "ann", topic="A"), lambda reason: None)
        self.settle()
        return session, receiver

    def publish(self, *ids: str) -> None:
        self.broker.publish([Event(id, "A") for id in ids], lambda reason: None)
        self.settle()


def ids_of(session: Session) -> list[str]:
    return [entry.delivery.event.id for entry in session.take() if isinstance(entry, MailboxItem)]


def test_a_session_expires_so_long_after_its_connection_ended_whatever_crashed_meanwhile() -> None:
    calm = Calm()
    session, receiver = calm.attach(10)
    session.detach(receiver)
    calm.settle()
    calm.time = 9.0
    calm.start()
    calm.sessions.expire()
    assert len(calm.sessions) == 1
    calm.time = 10.0
    calm.sessions.expire()
    calm.settle()
    assert len(calm.sessions) == 0
    assert calm.disk.stored == {}
    assert calm.broker.registered == {}


def test_a_session_that_was_connected_when_the_node_crashed_expires_from_its_restart() -> None:
    calm = Calm()
    calm.attach(10)
    calm.time = 100.0
    calm.start()
    calm.time = 109.0
    calm.sessions.expire()
    assert len(calm.sessions) == 1


def test_a_session_whose_expiry_becomes_nothing_leaves_nothing_on_the_disk() -> None:
    calm = Calm()
    session, receiver = calm.attach(None)
    calm.publish("e1", "e2")
    assert any(name.startswith("item/") for name in calm.disk.stored)
    session.expiry = 0
    calm.publish("e3")
    assert calm.disk.stored == {}
    assert ids_of(session) == ["e1", "e2", "e3"]
    session.detach(receiver)
    assert len(calm.sessions) == 0


def test_a_session_whose_expiry_grows_is_on_the_disk_with_all_that_it_has() -> None:
    calm = Calm()
    session, _ = calm.attach(0)
    calm.publish("e1", "e2")
    session.acknowledge(1)
    session.expiry = None
    calm.settle()
    calm.start()
    calm.publish("e3")
    found = calm.sessions.get("ann")
    assert found is not None
    assert [(entry.place, entry.delivery.event.id) for entry in found.take()] == [(2, "e2"), (3, "e3")]


def test_a_connection_that_is_too_slow_is_let_go_and_finds_what_fitted_with_the_gap() -> None:
    calm = Calm(MailboxPolicy.DISCONNECT, events=2)
    session, receiver = calm.attach(None)
    calm.publish("e1", "e2", "e3")
    assert len(receiver.ends) == 1
    assert not session.connected
    calm.publish("e4")
    again = Waiting()
    session, present = calm.sessions.attach("ann", again, calm.bounds, None)
    assert (present, again.ends, again.readies) == (True, [], 1)
    told = [
        entry.events if isinstance(entry, MailboxGap) else entry.delivery.event.id for entry in session.take()
    ]
    assert told == ["e1", "e2", 2]


def test_another_connection_takes_over_and_is_given_all_that_is_not_acknowledged() -> None:
    calm = Calm()
    session, first = calm.attach(None)
    calm.publish("e1", "e2")
    assert ids_of(session) == ["e1", "e2"]
    session.acknowledge(1)
    second = Waiting()
    calm.sessions.attach("ann", second, calm.bounds, None)
    session.detach(first)
    assert "took over" in first.ends[0]
    assert session.connected
    assert ids_of(session) == ["e2"]


def test_items_that_are_too_old_are_told_as_a_gap_after_a_restart_too() -> None:
    calm = Calm()
    calm.bounds = MailboxBounds(seconds=5)
    calm.attach(None)
    calm.publish("e1")
    calm.time = 4.0
    calm.publish("e2")
    calm.start()
    calm.time = 6.0
    calm.sessions.expire()
    found = calm.sessions.get("ann")
    assert found is not None
    gap, item = found.take()
    assert isinstance(gap, MailboxGap)
    assert (gap.events, gap.reason, item.place) == (1, "too old", 2)


def test_a_gap_that_was_told_and_not_acknowledged_is_told_again_after_a_restart_and_then_no_more() -> None:
    calm = Calm(MailboxPolicy.DROP_OLDEST, events=1)
    session, _ = calm.attach(None)
    calm.publish("e1", "e2", "e3")
    told = session.take()
    calm.settle()
    calm.start()
    session, _ = calm.attach(None)
    assert session.take() == told
    assert [entry.place for entry in told] == [2, 3]
    session.acknowledge_through(2)
    calm.settle()
    calm.start()
    session, _ = calm.attach(None)
    assert session.take() == told[1:]


def test_a_subscription_that_is_refused_is_answered_with_the_reason_and_changes_nothing() -> None:
    calm = Calm()
    session, _ = calm.attach(None)
    answers: list[str | None] = []
    calm.broker.refuses = True
    session.subscribe(Subscription("s", "ann", topic="B"), answers.append)
    session.subscribe(Subscription("t", "bob", topic="B"), answers.append)
    session.subscribe(Subscription("s\x1f2", "ann", topic="B"), answers.append)
    calm.settle()
    assert ["not now" in answers, len(answers), None in answers] == [True, 3, False]
    assert session.subscriptions["s"].topic == "A"
    session.unsubscribe("s", answers.append)
    session.unsubscribe("s", answers.append)
    calm.settle()
    assert answers[3:] == ["there is no subscription 's'", None]
    calm.publish("e1")
    assert ids_of(session) == []


def test_a_client_of_the_network_that_takes_the_name_is_displaced_by_the_next_connection() -> None:
    calm = Calm()
    session, receiver = calm.attach(None)
    calm.publish("e1")
    calm.broker.clients["ann"] = None  # type: ignore[assignment]
    session.let_go("taken", final=True)
    calm.publish("e2")
    assert receiver.ends == ["taken"]
    session, _ = calm.attach(None)
    calm.publish("e3")
    assert ids_of(session) == ["e1", "e2", "e3"]
