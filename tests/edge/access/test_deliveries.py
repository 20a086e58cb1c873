"""Nothing outside a user's grants is ever given: live, from the mailbox after a change, after a restart.

The oracle evaluates the filters of grants and subscriptions one by one.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.edge.access import Access, Identity
from distributary.edge.mailbox import MailboxGap, MailboxItem
from distributary.edge.sessions import Session, Sessions
from distributary.model import DeliveryBatch, Event, Subscription
from edge.access.issuing import FILE, Place, ann_s_hash
from edge.access.test_narrowing import grants, happening
from edge.console.quiet_broker import QuietBroker, absent
from edge.session_world import LoggedBroker, TornDisk
from properties.examples import examples
from properties.oracle import passes

ANN = Identity("ann")
NAME = ANN.subscriber("phone")


class GuardedWorld:
    """A broker whose one user has grants that change, and what the user was given."""

    def __init__(self, directory: Path, granted: list[dict[str, str]]) -> None:
        self.file, self.writes = directory / "access.toml", 0
        self.granted = granted
        self.write(granted)
        self.access = Access(self.file)
        self.disk, self.broker = TornDisk(Random(1)), LoggedBroker(Random(2))
        self.asked: dict[str, Subscription] = {}
        self.allowed: dict[str, bool] = {}
        """By event that was to come and was not taken: whether grants have allowed it all the time."""
        self.events: dict[str, Event] = {}
        self.start()

    def write(self, granted: list[dict[str, str]]) -> None:
        self.writes += 1
        listed = ", ".join(
            "{" + ", ".join(f"{kind} = {json.dumps(text)}" for kind, text in each.items()) + "}"
            for each in granted
        )
        self.file.write_text(f"[users.ann]\nsubscribe = [{listed}]\n" + "#" * self.writes)

    def grants_allow(self, event: Event) -> bool:
        return any(passes(Subscription("g", "g", **each), event) for each in self.granted)  # type: ignore[arg-type]

    def start(self) -> None:
        """Start the node, or start it again from its disk."""
        self.broker.crash()
        self.access.changed.clear()  # the sessions of before have ended with their process
        self.broker.refuses = False
        self.sessions = Sessions(self.broker, lambda: 0.0, self.disk, self.access)
        self.sessions.restore(dict(self.disk.stored))
        self.settle()
        self.session, _ = self.sessions.attach(NAME, self, None, None, identity=ANN)
        self.settle()

    def settle(self) -> None:
        while self.broker.turns or self.disk.waiting:
            self.broker.step()
            self.disk.step()

    def ready(self) -> None:
        """There is something to take."""

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        return False

    def end(self, reason: str) -> None:
        """The node was started again."""

    # Steps.

    def subscribe(self, asked: dict[str, str]) -> None:
        subscription = Subscription(f"s{len(self.asked) % 3}", NAME, **asked)  # type: ignore[arg-type]
        answers: list[str | None] = []
        self.session.subscribe(subscription, answers.append)
        self.settle()
        if answers == [None]:
            self.asked[subscription.id] = subscription
        assert set(self.session.subscriptions) == set(self.asked)

    def publish(self, event: Event) -> None:
        event = Event(f"e{len(self.events)}", event.topic, event.attributes, event.document)
        self.events[event.id] = event
        if any(passes(each, event) for each in self.asked.values()) and self.grants_allow(event):
            self.allowed[event.id] = True
        self.broker.publish([event], lambda reason: None)
        self.settle()

    def change(self, granted: list[dict[str, str]]) -> None:
        self.granted = granted
        self.write(granted)
        assert self.access.refresh()
        self.settle()
        self.asked = dict(self.session.subscriptions)
        for id in self.allowed:
            self.allowed[id] &= self.grants_allow(self.events[id])

    def take(self) -> None:
        gone = 0
        for entry in self.session.take():
            if isinstance(entry, MailboxGap):
                gone += entry.events
                continue
            event = entry.delivery.event
            assert self.grants_allow(event), "given what no grant lets pass"
            assert self.allowed.pop(event.id), "given what was not to come"
            assert set(entry.delivery.subscriptions) <= {f"s{number}" for number in range(3)}
            self.session.acknowledge(entry.place)
        assert gone == list(self.allowed.values()).count(False), "told of another number than was withdrawn"
        assert True not in self.allowed.values(), "withheld what a grant and a subscription let pass"
        self.allowed.clear()
        self.settle()  # an acknowledgement that a crash loses is none: the event would come again

    def look(self, event: Event) -> None:
        assert self.access.may_see(ANN, event) == self.grants_allow(event)


LIKELY = [
    {"topic": "A"},
    {"topic": "mqtt:#"},
    {"topic": "A/B", "where": "a > 1"},
    {"where": "a > 1"},
    {"where": "a < 3"},
    {"path": "//a"},
    {"topic": "B"},
]
"""Filters of which many let the same events pass."""
filters = st.one_of(st.sampled_from(LIKELY), st.sampled_from(LIKELY), grants())
event = st.one_of(
    happening(),
    st.builds(
        Event,
        st.just("e"),
        st.sampled_from(["A", "A/B", "B"]),
        st.fixed_dictionaries({"a": st.sampled_from([1, 2, 3])}),
        st.sampled_from([None, "<a/>"]),
    ),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), filters),
        st.tuples(st.just("publish"), event),
        st.tuples(st.just("publish"), event),
        st.tuples(st.just("publish"), event),
        st.tuples(st.just("change"), st.lists(filters, max_size=3)),
        st.tuples(st.sampled_from(["take", "start"]), st.none()),
        st.tuples(st.just("look"), happening()),
    ),
    max_size=25,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(filters, min_size=1, max_size=3), steps)
def test_what_is_given_is_what_grants_and_subscriptions_let_pass(
    granted: list[dict[str, str]], taken: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = GuardedWorld(Path(directory), granted)
        for what, given_ in [*taken, ("take", None)]:
            getattr(world, what)(*(() if given_ is None else (given_,)))


def test_what_was_taken_before_a_start_is_not_told_as_withdrawn_after_another(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "A"})
    world.subscribe({"topic": "A"})
    world.publish(Event("e", "A"))
    world.start()
    world.take()
    world.change([])
    world.start()
    world.take()


def make_world(directory: Path, *granted: dict[str, str]) -> GuardedWorld:
    return GuardedWorld(directory, list(granted))


def given_ids(session: Session) -> list[str]:
    return [entry.delivery.event.id for entry in session.take() if isinstance(entry, MailboxItem)]


def test_a_wider_grant_widens_what_was_asked_for_at_once(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "A"})
    world.subscribe({"topic": "mqtt:#"})
    world.publish(Event("e", "B"))
    world.change([{"topic": "A"}, {"topic": "B"}])
    world.publish(Event("e", "B"))
    world.publish(Event("e", "A"))
    assert [part.topic for part in world.session.in_force("s0")] == ["A", "B"]
    assert given_ids(world.session) == ["e1", "e2"]


def test_what_waits_in_the_mailbox_is_withdrawn_with_the_grant_and_told_as_a_gap(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "mqtt:#"})
    world.subscribe({"topic": "mqtt:#"})
    for topic in "ABA":
        world.publish(Event("e", topic))
    world.change([{"topic": "B"}])
    first, item, last = world.session.take()
    assert isinstance(item, MailboxItem)
    assert item.delivery.event.topic == "B"
    assert [gap.events for gap in (first, last) if isinstance(gap, MailboxGap)] == [1, 1]


def test_grants_that_changed_while_the_node_was_down_hold_when_it_is_back(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "mqtt:#"})
    world.subscribe({"topic": "mqtt:#"})
    world.publish(Event("e", "A"))
    world.broker.publish([Event("e9", "A")], lambda reason: None)  # is on its way when the node is killed
    world.disk.crash()
    world.write([{"topic": "B"}])
    world.access = Access(world.file)
    world.start()
    assert given_ids(world.session) == []
    assert [part.topic for part in world.session.in_force("s0")] == ["B"]


def test_what_is_on_its_way_when_a_grant_ends_is_not_given(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "mqtt:#"})
    world.subscribe({"topic": "mqtt:#"})
    world.broker.publish([Event("e1", "A"), Event("e2", "B")], lambda reason: None)
    world.write([{"topic": "B"}])
    world.access.refresh()
    world.settle()
    assert given_ids(world.session) == ["e2"]


def test_a_user_who_is_removed_is_gone_with_the_session(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "A"})
    world.subscribe({"topic": "A"})
    world.publish(Event("e", "A"))
    world.file.write_text("[users.bob]")
    world.access.refresh()
    world.settle()
    assert len(world.sessions) == 0
    assert world.broker.registered == {}
    assert world.disk.stored == {}


def test_a_session_whose_token_has_ended_stays_through_changes_of_rules_and_starts(tmp_path: Path) -> None:
    place = Place(tmp_path)
    access, disk = place.access(), TornDisk(Random(1))
    sessions = Sessions(QuietBroker(), lambda: place.time, disk, access)
    identity, receiver = Identity("cleo", ("operators",), expires=place.time + 60), absent()
    session, _ = sessions.attach("cleo/phone", receiver, expiry=86_400, identity=identity)
    session.subscribe(Subscription("s1", "cleo/phone", topic="plants"), lambda reason: None)
    session.detach(receiver)
    while disk.waiting:
        disk.step()
    place.time += 120
    assert not access.known(identity)
    place.write(FILE.format(hashed=ann_s_hash()))
    assert access.refresh()
    assert sessions.get("cleo/phone") is session
    again = Sessions(QuietBroker(), lambda: place.time, disk, place.access())
    again.restore(dict(disk.stored))
    restored = again.get("cleo/phone")
    assert restored is not None
    assert [each.where for each in restored.in_force("s1")] == ["tenant = 'acme'"]


def test_a_session_of_another_user_is_not_taken_over(tmp_path: Path) -> None:
    world = make_world(tmp_path, {"topic": "A"})
    world.subscribe({"topic": "A"})
    world.publish(Event("e", "A"))
    session, present = world.sessions.attach(NAME, world, None, None, identity=Identity("eve"))
    assert not present
    assert given_ids(session) == []
