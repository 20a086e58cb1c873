"""Nothing outside a user's grants reaches them by any way, and all that is inside does.

Ways: MQTT, live, from a group, and retained; a replay; explanations by the web and on pages of the console.
Events come from clients, and from a query or a pipeline, which publish what they have derived. The oracle
evaluates the filters of grants and subscriptions one by one.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.edge.access import Access, Identity
from distributary.edge.console.recent import RecentEvent
from distributary.edge.console.view import to_explain
from distributary.edge.mailbox import MailboxItem
from distributary.edge.mqtt.codec import VERSION_5
from distributary.edge.mqtt.packets import FilterRequest, MqttPacket, PublishPacket, SubscribePacket
from distributary.edge.mqtt.room import MqttPeer
from distributary.edge.web.explaining import explain
from distributary.edge.web.faults import WebError
from distributary.errors import DistributaryError
from distributary.model import Event, Offset, Subscription
from edge.access.test_narrowing import grants
from edge.mqtt.world import Wire, World, messages
from properties.examples import examples
from properties.oracle import passes
from properties.test_matcher import CONDITIONS, DOCUMENTS, PATHS

ANN = Identity("ann")
TOPICS = ["A", "/A", "A/B", "/A/B", "B", "B/B", "A//B", "A/B/C", "/"]
FILTERS = ["#", "A/#", "+/B", "/#", "+/+/#", "A/B"]
NUMBER = re.compile(rb'"n": ?(\d+)|<!--(\d+)-->')


class Published(NamedTuple):
    """An event, and how it is published."""

    topic: str
    value: float | str
    document: str | None
    """In place of attributes."""
    retain: bool
    derived: bool
    """Whether it comes from a query, or from a client."""


published = st.builds(
    Published,
    st.sampled_from(TOPICS),
    st.sampled_from([1, 2, 3.5, "x"]),
    st.one_of(st.none(), st.sampled_from(DOCUMENTS)),
    st.booleans(),
    st.booleans(),
)


EACH = [Published(topic, value, None, True, topic == "B") for topic in ("A", "B") for value in (1, 2)] * 2
"""Retained and not, allowed and not."""


@st.composite
def plain_filter(draw: st.DrawFn) -> dict[str, str]:
    """What a client asks for by MQTT."""
    asked = {"topic": "mqtt:" + draw(st.sampled_from(FILTERS))}
    for kind, texts in (("where", CONDITIONS), ("path", PATHS)):
        if draw(st.integers(0, 3)) == 0:
            asked[kind] = draw(st.sampled_from(texts))
    return asked


class GuardedPlace:
    """A broker with an access file, at which Bob publishes all and Ann gets what she may."""

    def __init__(self, directory: Path, granted: list[dict[str, str]]) -> None:
        self.granted = [Subscription("g", "g", **each) for each in granted]  # type: ignore[arg-type]
        listed = ", ".join(
            "{" + ", ".join(f"{kind} = {json.dumps(text)}" for kind, text in each.items()) + "}"
            for each in granted
        )
        file = directory / "access.toml"
        file.write_text(
            f"[users.ann]\nsubscribe = [{listed}]\n[certificates]\naccepted = true\n"
            '[users.bob]\npublish = [{topic = "mqtt:#"}]\n'
        )
        self.access = Access(file)
        self.world = World(access=self.access)
        self.bob = self.client("bob", "bob")

    def client(self, user: str, name: str) -> Wire:
        wire = Wire(self.world, VERSION_5, MqttPeer(loopback=False, certificate=user))
        assert wire.connect(name).reason == 0
        return wire

    def publish(self, number: int, said: Published) -> None:
        if said.document is None:
            payload = json.dumps({"a": said.value, "n": number}).encode()
        else:
            payload = f"{said.document}<!--{number}-->".encode()
        if not said.derived:
            self.bob.send(PublishPacket(said.topic, payload, retain=said.retain))
            return
        attributes: dict[str, Any] = {"mqtt.retain": True} if said.retain else {}
        if said.document is None:
            attributes |= {"a": said.value, "n": number}
        event = Event(
            f"d{number}", said.topic, attributes, None if said.document is None else payload.decode()
        )
        self.world.broker.publish([event], lambda reason: None)
        self.world.settle()

    @property
    def log(self) -> list[Event]:
        """All events there were, by their numbers."""
        return self.world.network.log

    def allows(self, event: Event) -> bool:
        return any(passes(grant, event) for grant in self.granted)

    def due(self, asked: Subscription, among: list[Event]) -> list[int]:
        """Which events are to come to Ann."""
        return [self.number(each) for each in among if passes(asked, each) and self.allows(each)]

    def number(self, event: Event) -> int:
        return next(number for number, each in enumerate(self.log) if each is event)


def numbers(came: list[MqttPacket]) -> list[int]:
    """The numbers of the events that a client was sent."""
    found = [NUMBER.search(each.payload) for each in messages(came)]
    return [int(each[1] or each[2]) for each in found if each is not None]


def subscribe_packet(asked: dict[str, str], group: str = "") -> SubscribePacket:
    more = tuple((kind, text) for kind, text in asked.items() if kind != "topic")
    text = group + asked["topic"].removeprefix("mqtt:")
    return SubscribePacket(9, (FilterRequest(text, 0),), {"user_property": more} if more else {})


@settings(max_examples=examples(15), deadline=None)
@example([{"topic": "mqtt:A/#", "where": "a > 1"}], {"topic": "mqtt:#"}, EACH, 4)
@given(
    st.lists(grants(), min_size=1, max_size=3),
    plain_filter(),
    st.lists(published, min_size=1, max_size=8),
    st.integers(0, 8),
)
def test_by_no_way_comes_what_no_grant_lets_pass_and_all_else_comes(
    granted: list[dict[str, str]], asked: dict[str, str], said: list[Published], before: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = GuardedPlace(Path(directory), granted)
        subscription = Subscription("s", "ann/x", **asked)  # type: ignore[arg-type]
        for number, each in enumerate(said[:before]):
            place.publish(number, each)
        latest = {each.topic: each for each, how in zip(place.log, said, strict=False) if how.retain}
        ann, member = place.client("ann", "phone"), place.client("ann", "worker")
        suback, *first = ann.send(subscribe_packet(asked))
        refused = suback.reasons[0] >= 0x80  # type: ignore[union-attr]
        member.send(subscribe_packet(asked, "$share/g/"))
        expected = [] if refused else sorted(place.due(subscription, list(latest.values())))
        if refused:
            assert not place.due(subscription, place.log)
        assert sorted(numbers(first)) == expected
        for number, each in enumerate(said[before:], len(place.log)):
            place.publish(number, each)
        now = [] if refused else place.due(subscription, place.log[before:])
        assert numbers(ann.take()) == now
        assert numbers(member.take()) == now
        assert replayed(place, subscription) == ([] if refused else place.due(subscription, place.log))
        assert explained(place, subscription) == [
            None if refused or not place.allows(each) else passes(subscription, each) for each in place.log
        ]
        assert shown(place) == [place.allows(each) for each in place.log]


def replayed(place: GuardedPlace, asked: Subscription) -> list[int]:
    """What a subscription gets that begins with the first event."""

    class Client:
        def ready(self) -> None:
            """There is something to take."""

        def pass_on(self, batch: object, first: int) -> bool:
            return False

        def end(self, reason: str) -> None:
            raise AssertionError(reason)

    session, _ = place.world.sessions.attach("ann/x", Client(), None, None, identity=ANN)
    session.subscribe(asked, lambda reason: None, Offset(1.0, 0))
    place.world.settle()
    taken = [each.delivery.event for each in session.take() if isinstance(each, MailboxItem)]
    return [place.number(event) for event in taken]


def explained(place: GuardedPlace, asked: Subscription) -> list[bool | None]:
    """Whether each event is said to match; None where nothing is told."""
    service: Any = SimpleNamespace(access=place.access, sessions=place.world.sessions)

    async def told(event: Event) -> bool | None:
        record = {"event": event.to_record(), "subscription": asked.filters()}
        try:
            return bool((await explain(service, ANN, record))["matches"])
        except WebError as error:
            return None if error.status == 403 else not passes(asked, event)

    async def all_of_them() -> list[bool | None]:
        return [await told(event) for event in place.log]

    return asyncio.run(all_of_them())


def shown(place: GuardedPlace) -> list[bool]:
    """Whether the console explains each event."""
    recent = [RecentEvent(number, 0.0, event) for number, event in enumerate(place.log)]

    def told(event: Event) -> bool:
        try:
            return to_explain(place.world.sessions, ANN, place.access, recent, event.id).event is event
        except DistributaryError:
            return False

    return [told(event) for event in place.log]
