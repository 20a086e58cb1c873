"""Both ways of HOPE on rings at rest: exactly what the filters say, at the cost the hypercube promises."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast
from zlib import crc32

import pytest

from distributary.errors import DistributaryError, DocumentError, UnknownSubscriptionError
from distributary.filters.path import filter as path_module
from distributary.filters.path.filter import PathFilter
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.hypercube import CubeVertex
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.documents import without_document
from distributary.systems.hope.history import EventHistory
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import (
    DirectMessage,
    EventNotice,
    FilterRegistration,
    RegistrationName,
    XmlPublication,
)
from distributary.workloads.xml_folder import XmlFolder
from systems.hope.world import (
    KINDS,
    ROUTINGS,
    Routing,
    delivered,
    expected,
    random_document,
    random_path,
    settled,
)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"length": 0},
    {"dimension": 3},
    {"dimension": 9, "length": 64},
    {"facets": 3},
    {"copies": 2},
    {"budget": None},
    {"budget": 3},
]


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, options) for kind in KINDS for options in OPTIONS if kind is Kbsp or "budget" not in options],
)
@pytest.mark.parametrize("seed", range(2))
def test_everybody_gets_exactly_what_they_asked_for_while_subscriptions_come_and_go(
    kind: type[HopeBroker], options: dict[str, Any], seed: int, routing: Routing
) -> None:
    options = dict(options)
    random = Random(seed)
    addressing = Addressing(options.pop("dimension", 6), options.pop("length", 128))
    deployment = settled(kind, random.sample(range(1 << 12), 15), 12, addressing, **options, routing=routing)
    nodes = list(deployment.members)
    live: dict[str, Subscription] = {}
    wanted: dict[tuple[str, str], tuple[str, ...]] = {}
    for step in range(100):
        chance = random.random()
        if chance < 0.45:
            subscription = Subscription(f"s{step}", f"u{random.randrange(20)}", path=random_path(random))
            # A client of a subscriber is at one node, for deliveries are once a subscriber there.
            deployment.subscribe(subscription, at=nodes[int(subscription.subscriber[1:]) % len(nodes)])
            live[subscription.id] = subscription
        elif chance < 0.65 and live:
            gone = random.choice(sorted(live))
            deployment.unsubscribe(live[gone].key)
            del live[gone]
        else:
            event = Event(f"e{step}", document=random_document(random))
            deployment.publish(event, at=random.choice(nodes))
            wanted |= expected(list(live.values()), [event])
        deployment.simulator.run(until=step + 1)  # not until all is idle: replicas are checked for ever
    assert delivered(deployment) == wanted
    assert len(wanted) > 10


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_subscriptions_without_a_path_and_events_without_a_document_are_served(
    kind: type[HopeBroker], routing: Routing
) -> None:
    deployment = settled(kind, range(0, 64, 5), 6, Addressing(6, 64), routing=routing)
    nodes = list(deployment.members)
    subscriptions = [
        Subscription("s1", "ann", where="price > 5"),
        Subscription("s2", "bob", path="/a", where="price > 5"),
        Subscription("s3", "eve", topic="A", path="/a"),
    ]
    for place, subscription in enumerate(subscriptions):
        deployment.subscribe(subscription, at=nodes[place])
    deployment.simulator.run()
    events = [
        Event("e1", attributes={"price": 7}),
        Event("e2", attributes={"price": 7}, document="<a/>"),
        Event("e3", topic="A/B", document="<a><b/></a>"),
        Event("e4", topic="A"),
    ]
    for event in events:
        deployment.publish(event, at=nodes[-1])
    deployment.simulator.run()
    assert delivered(deployment) == expected(subscriptions, events)


def full(kind: type[HopeBroker], dimension: int, **options: Any) -> Any:
    """A ring on which every vertex is a node."""
    return settled(kind, range(1 << dimension), dimension, Addressing(dimension, 64), **options)


def sent(deployment: Any, message: str, cause: Any) -> int:
    costs = deployment.metrics.costs_by_kind(cause)
    return costs[message].messages if message in costs else 0


@pytest.mark.parametrize("seed", range(5))
def test_a_publication_of_kbpp_costs_a_message_for_each_covered_vertex(seed: int) -> None:
    deployment = full(Kbpp, 6)
    event = Event("e", document=random_document(Random(seed)))
    key, _ = Addressing(6, 64).of_event(event)
    deployment.publish(event, at=key ^ 0b111111)  # mirrored: the node that hosts the event's own vertex
    deployment.simulator.run()
    assert deployment.metrics.total().messages == 2 ** key.bit_count() - 1
    assert deployment.metrics.cost(("publish", event.key)).hops == key.bit_count()


@pytest.mark.parametrize("path", ["/a", "/a/b", "/a/b[c]/d"])
def test_the_first_subscription_of_kbsp_costs_a_message_for_each_covering_vertex(path: str) -> None:
    deployment = full(Kbsp, 6)
    key, _ = Addressing(6, 64).of_filters({"path": PathFilter.parse(path)})
    deployment.subscribe(Subscription("s", "ann", path=path), at=key)
    deployment.simulator.run()
    assert deployment.metrics.total().messages == 2 ** (6 - key.bit_count()) - 1
    deployment.subscribe(Subscription("again", "bob", path=path), at=key)
    deployment.simulator.run()
    assert deployment.metrics.total().messages == 2 ** (6 - key.bit_count()) - 1, "it is covered already"
    deployment.unsubscribe(SubscriptionKey("ann", "s"))
    deployment.unsubscribe(SubscriptionKey("bob", "again"))
    deployment.simulator.run()
    assert deployment.metrics.total().messages == 2 * (2 ** (6 - key.bit_count()) - 1)
    assert not any(member._vertices for member in deployment.members.values()), "nothing is left behind"


def test_vertices_of_one_node_talk_without_messages() -> None:
    for kind in KINDS:
        deployment = settled(kind, [5], 8, Addressing(8, 64))
        deployment.subscribe(Subscription("s", "ann", path="/a//b"), at=5)
        deployment.simulator.run()
        deployment.publish(Event("e", document="<a><b/></a>"), at=5)
        deployment.simulator.run()
        assert delivered(deployment) == {("e", "ann"): ("s",)}
        assert deployment.metrics.total().messages == 0


def test_longer_filters_spare_publications() -> None:
    counts = []
    for length in (0, 16, 1024):
        random = Random(4)
        deployment = settled(Kbsp, range(64), 6, Addressing(6, length))
        for number in range(60):
            subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
            deployment.subscribe(subscription, at=random.randrange(64))
        deployment.simulator.run()
        for number in range(60):
            event = Event(f"e{number}", document=random_document(random))
            deployment.publish(event, at=random.randrange(64))
        deployment.simulator.run()
        counts.append(deployment.costs()["publish"].messages)
    assert counts[0] > counts[1] > counts[2] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_values_spare_homes_and_publications(kind: type[HopeBroker]) -> None:
    """A home is sent no event for a structure that it wants with another value (section 6.2)."""
    sent = {}
    for bits in (0, 256):
        deployment = settled(kind, range(64), 6, Addressing(6, 1024, value_bits=bits))
        subscriptions = [Subscription(f"s{n}", f"u{n}", path=f"/quote[symbol = 'N{n}']") for n in range(40)]
        for number, subscription in enumerate(subscriptions):
            deployment.subscribe(subscription, at=number)
        deployment.simulator.run()
        events = [Event(f"e{n}", document=f"<quote><symbol>N{n}</symbol></quote>") for n in range(0, 60, 3)]
        for event in events:
            deployment.publish(event, at=50)
        deployment.simulator.run()
        assert delivered(deployment) == expected(subscriptions, events)
        sent[bits] = deployment.costs()["publish"].messages
    assert sent[256] < sent[0] / 3


def test_the_routing_table_of_a_vertex_has_a_filter_for_each_neighbour_and_no_more() -> None:
    """Section 4.5: at most as many entries as the key has bits, and log2 N bounds those."""
    random = Random(3)
    deployment = full(Kbsp, 6)
    for number in range(200):
        subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
        deployment.subscribe(subscription, at=random.randrange(64))
    deployment.simulator.run()
    vertices = {
        key: vertex.table
        for member in deployment.members.values()
        for key, vertex in member._vertices.items()
    }
    entries = {key: sum(len(table.of(bit)) for bit in range(6)) for key, table in vertices.items()}
    assert all(entries[key] <= key.bit_count() for key in entries)
    assert sum(entries.values()) > 60


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("facets", [1, 2])
def test_who_comes_late_catches_up_with_what_is_remembered(
    kind: type[HopeBroker], facets: int, routing: Routing
) -> None:
    random = Random(7)
    deployment = settled(
        kind, range(3, 64, 4), 8, Addressing(6, 64), history=100, facets=facets, routing=routing
    )
    nodes = list(deployment.members)
    events = [Event(f"e{number}", document=random_document(random)) for number in range(40)]
    early = Subscription("early", "ann", path="//a")
    deployment.subscribe(early, at=nodes[0])
    for number, event in enumerate(events):
        deployment.publish(event, at=nodes[number % len(nodes)])
        deployment.simulator.run(until=number + 1)
    late = [Subscription("late", "bob", path="//a"), Subscription("other", "ann", path="//b[c]")]
    for subscription in late:
        deployment.subscribe(subscription, at=nodes[0])
        broker = cast(HopeBroker, deployment.members[nodes[0]])
        deployment.simulator.call(nodes[0], partial(broker.catch_up, subscription.key))
        deployment.simulator.run()
    asked = expected([early, *late], events)
    assert delivered(deployment).keys() == asked.keys()
    assert len(asked) > len(expected([early], events)) > 0


def test_only_the_latest_events_are_remembered_and_only_those_since_are_sent() -> None:
    deployment = settled(Kbsp, range(16), 4, Addressing(4, 64), history=3)
    for number in range(6):
        deployment.publish(Event(f"e{number}", document="<a/>"), at=0)
        deployment.simulator.run(until=number + 1)
    deployment.subscribe(Subscription("s", "ann", path="/a"), at=9)
    deployment.simulator.run()
    deployment.simulator.call(
        9, lambda: deployment.members[9].catch_up(SubscriptionKey("ann", "s"), since=4.5)
    )
    deployment.simulator.run()
    assert [delivery.event.id for _, _, delivery, _ in deployment.deliveries] == ["e5"]
    deployment.simulator.call(9, lambda: deployment.members[9].catch_up(SubscriptionKey("ann", "s")))
    deployment.simulator.run()
    assert [delivery.event.id for _, _, delivery, _ in deployment.deliveries] == ["e5", "e3", "e4"]


@pytest.mark.parametrize("kind", KINDS)
def test_of_stored_events_only_those_that_the_subscriber_lacks_are_sent(kind: type[HopeBroker]) -> None:
    deployment = settled(kind, range(16), 4, Addressing(4, 64), history=10)
    document = f"<a>{'long ' * 400}</a>"
    for number in range(8):
        if number == 2:
            deployment.subscribe(Subscription("s", "ann", path="/a"), at=9)
            deployment.simulator.run()
        deployment.publish(Event(f"e{number}", document=document), at=0)
        deployment.simulator.run()
    before = deployment.metrics.total().bytes
    for _ in range(2):
        deployment.simulator.call(9, lambda: deployment.members[9].catch_up(SubscriptionKey("ann", "s")))
        deployment.simulator.run()
    found = [delivery.event.id for _, _, delivery, _ in deployment.deliveries]
    assert found == ["e2", "e3", "e4", "e5", "e6", "e7", "e0", "e1"]
    assert 2 * len(document) < deployment.metrics.total().bytes - before < 3 * len(document)
    assert deployment.metrics.by_kind()["EventRecallReply"].messages == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_home_that_was_cut_off_gets_what_came_meanwhile(
    kind: type[HopeBroker],
) -> None:
    deployment = settled(kind, range(16), 4, Addressing(4, 64), history=10)
    deployment.publish(Event("early", document="<a/>"), at=0)
    deployment.simulator.run(until=20)
    deployment.subscribe(Subscription("s", "ann", path="/a"), at=9)
    deployment.simulator.run(until=30)
    deployment.crash(9)
    deployment.publish(Event("missed", document="<a/>"), at=0)
    deployment.simulator.run(until=40)
    deployment.simulator.restart(9)  # with its memory
    deployment.simulator.run()
    assert [delivery.event.id for _, _, delivery, _ in deployment.deliveries] == ["missed"]


@pytest.mark.parametrize("kind", KINDS)
def test_who_comes_back_gets_what_came_at_once_after_it_left_and_its_absence_is_told_once(
    kind: type[HopeBroker],
) -> None:
    deployment = settled(kind, range(3, 64, 4), 8, Addressing(4, 64), history=10, facets=2)
    subscription = Subscription("s", "ann", path="/a")
    deployment.subscribe(subscription, at=7)
    deployment.simulator.run(until=30)
    deployment.unsubscribe(subscription.key)
    deployment.publish(Event("missed", document="<a/>"), at=7)
    deployment.simulator.run(until=60)
    deployment.subscribe(subscription, at=11)
    deployment.simulator.run()
    assert [delivery.event.id for _, _, delivery, _ in deployment.deliveries] == ["missed"]
    assert deployment.metrics.by_kind()["AbsenceReply"].messages == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_registration_that_is_repeated_asks_for_no_absence(
    kind: type[HopeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = settled(kind, range(16), 4, Addressing(4, 64), history=10)
    came: list[RegistrationName] = []
    monkeypatch.setattr(EventHistory, "comes", lambda history, registration: came.append(registration))
    broker = cast(HopeBroker, deployment.members[9])
    for _ in range(2):
        deployment.simulator.call(9, lambda: broker.subscribe(Subscription("s", "ann", path="/a")))
        deployment.simulator.run()
    assert came == [RegistrationName(SubscriptionKey("ann", "s"), 9)]


@pytest.mark.parametrize("returned", [False, True], ids=["another owns it", "no answer"])
def test_a_node_that_is_wrongly_taken_for_a_host_is_forgotten_as_such(returned: bool) -> None:
    deployment = settled(Kbsp, range(16), 4, Addressing(4, 64))
    sender, key = cast(HopeBroker, deployment.members[0]), SubscriptionKey("ann", "s")
    sender._hosts[5] = 3
    message = FilterRegistration(key, 0, 1)
    if returned:
        deployment.simulator.call(0, lambda: sender.node.dispatch(DirectMessage((5,), message), 0))
    else:
        deployment.simulator.call(0, lambda: sender.send_to_host(3, (5,), message))
    deployment.simulator.run()
    assert deployment.members[5].replication.contents(5) == {RegistrationName(key, 0): 1}
    assert sender._hosts.get(5) != 3


def test_a_holder_that_has_a_document_no_more_is_not_waited_for() -> None:
    deployment = settled(Kbsp, range(16), 4, Addressing(4, 64))
    deployment.subscribe(Subscription("s", "ann", path="/a"), at=9)
    event = Event("e", document="<a/>")
    deployment.members[5].documents.hold(event)
    notice = EventNotice(without_document(event), (3, 5))
    deployment.simulator.call(9, lambda: deployment.members[9].node.dispatch(notice, 1))
    deployment.simulator.run()
    assert [delivery.event for _, _, delivery, _ in deployment.deliveries] == [event]


def test_facets_spread_the_events_of_one_key_over_several_nodes() -> None:
    busiest = []
    for facets in (1, 4):
        deployment = settled(Kbsp, range(0, 256, 4), 8, Addressing(6, 64), facets=facets)
        deployment.subscribe(Subscription("s", "ann", path="/a/b"), at=0)
        deployment.simulator.run()
        for number in range(100):
            deployment.publish(Event(f"e{number}", document="<a><b/></a>"), at=4 * (number % 64))
        deployment.simulator.run()
        assert len(delivered(deployment)) == 100
        received = deployment.metrics.by_receiver()
        busiest.append(max(traffic.messages for node, traffic in received.items() if node))
    assert busiest[1] < busiest[0] / 2


def test_an_unreadable_document_is_refused_and_strangers_are_unknown() -> None:
    deployment = settled(Kbsp, range(4), 4, Addressing(4, 64))
    broker = deployment.members[0]
    with pytest.raises(DocumentError):
        broker.publish(Event("e", document="<a>"))
    with pytest.raises(UnknownSubscriptionError):
        broker.unsubscribe(SubscriptionKey("nobody", "s"))
    with pytest.raises(UnknownSubscriptionError):
        broker.catch_up(SubscriptionKey("nobody", "s"))
    broker.subscribe(Subscription("s", "ann", path="/a", change={"price": 1}))
    with pytest.raises(DistributaryError, match="tolerance"):
        broker.catch_up(SubscriptionKey("ann", "s"))


def test_a_subscription_that_is_changed_moves_to_the_vertex_of_its_new_key() -> None:
    for kind in KINDS:
        deployment = settled(kind, range(16), 4, Addressing(4, 64))
        for path in ("/a", "/b/c"):
            subscription = Subscription("s", "ann", path=path)
            deployment.simulator.call(3, partial(deployment.members[3].subscribe, subscription))
            deployment.simulator.run()
        for name, document in (("e1", "<a/>"), ("e2", "<b><c/></b>")):
            deployment.publish(Event(name, document=document), at=1)
        deployment.simulator.run()
        assert delivered(deployment) == {("e2", "ann"): ("s",)}
        contents = [
            member.replication.contents(position)
            for member in deployment.members.values()
            for position in member.replication.hosted()
        ]
        residents = [name for names in contents for name in names if isinstance(name, RegistrationName)]
        assert len(residents) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_takes_the_same_ways_when_vertices_cannot_see_its_document(kind: type[HopeBroker]) -> None:
    """Matching on the way compares filters and nothing else; homes of an event with a document ask for it."""
    random = Random(6)
    deployment = settled(kind, range(64), 6, Addressing(6, 1024))
    for number in range(60):
        subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
        deployment.subscribe(subscription, at=random.randrange(64))
    deployment.simulator.run()
    for number in range(20):
        event = Event(f"e{number}", document=random_document(random))
        deployment.publish(event, at=0)
        deployment.simulator.run()
        without = Event(f"w{number}")
        key, filter = Addressing(6, 1024).of_event(event)
        broker = cast(HopeBroker, deployment.members[0])
        position = broker.cubes.position(CubeVertex(key))
        routed = partial(broker.ring.route, position, XmlPublication(without, filter))
        deployment.simulator.call(0, routed, ("routed", without.id))
        deployment.simulator.run()
        carried = messages(deployment, ("publish", event.key))
        fetched = carried.pop("DocumentRequest", 0)
        assert carried.pop("DocumentReply", 0) == fetched
        assert messages(deployment, ("routed", without.id)) == carried
    assert deployment.costs()["publish"].messages > 5


def messages(deployment: Any, cause: Any) -> dict[str, int]:
    return {kind: traffic.messages for kind, traffic in deployment.metrics.costs_by_kind(cause).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_is_parsed_once_for_publisher_and_homes_of_one_process(
    kind: type[HopeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    whole = path_module.parse_document

    def counted(text: str) -> Any:
        parsed.append(text)
        return whole(text)

    monkeypatch.setattr(path_module, "parse_document", counted)
    deployment = settled(kind, range(64), 6, Addressing(6, 1024))
    for number in range(12):
        deployment.subscribe(Subscription(f"s{number}", f"u{number}", path="//a"), at=number % 3)
    deployment.simulator.run()
    deployment.publish(Event("e", document=f"<{kind.__name__}><a/><c><d/></c></{kind.__name__}>"), at=40)
    deployment.simulator.run()
    assert len(delivered(deployment)) == 12
    assert len(parsed) == 1


BODY = "<text>" + "x" * 4000 + "</text>"


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [0, 1])
def test_a_document_is_sent_once_to_a_home_however_many_vertices_know_it(
    kind: type[HopeBroker], copies: int, routing: Routing
) -> None:
    """Beside the homes only the vertex of the event's key gets it, where lists are to survive failures."""
    deployment = settled(kind, range(64), 6, Addressing(6, 1024), copies=copies, routing=routing)
    paths = [
        "//a",
        "//b",
        "//c",
        "/r/a",
        "/r/b",
        "/r[a]/b",
        "/r[c]/a",
        "//text",
        "/r[text]/c",
        "//*[a and c]",
    ]
    subscriptions = [
        Subscription(f"s{home}-{number}", f"u{home}", path=path)
        for home in range(3)
        for number, path in enumerate(paths)
    ]
    for number, subscription in enumerate(subscriptions):
        deployment.subscribe(subscription, at=20 * (number // len(paths)))
    deployment.simulator.run(until=10)
    events = [Event(f"e{n}", document=f"<r><a>{n}</a><b/><c/>{BODY}</r>") for n in range(12)]
    for event in events:
        deployment.publish(event, at=50)
    deployment.simulator.run(until=20)
    assert delivered(deployment) == expected(subscriptions, events)
    documents = sum(len(event.document or "") for event in events)
    spent = [deployment.metrics.costs_by_kind(("publish", event.key)) for event in events]
    assert [costs["DocumentReply"].messages for costs in spent] == [3] * 12
    homes, notices, hops = 3, 1.5, 6 * copies
    spent_bytes = sum(traffic.bytes for costs in spent for traffic in costs.values())
    assert spent_bytes < (homes + notices + hops) * documents
    assert sum(costs["EventNotice"].messages for costs in spent) > 2 * 36


@pytest.mark.parametrize("kind", KINDS)
def test_a_home_that_attributes_or_topic_rule_out_is_not_sent_the_document(
    kind: type[HopeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = settled(kind, range(64), 6, Addressing(6, 1024))
    subscriptions = [
        Subscription("s1", "ann", path="//a", where="price > 5"),
        Subscription("s2", "bob", path="//a", topic="B"),
    ]
    for number, subscription in enumerate(subscriptions):
        deployment.subscribe(subscription, at=number)
    deployment.simulator.run()
    events = [
        Event(
            "e1", topic="A", attributes={"price": 3}, document=f"<{kind.__name__}1><a/></{kind.__name__}1>"
        ),
        Event(
            "e2", topic="B", attributes={"price": 3}, document=f"<{kind.__name__}2><a/></{kind.__name__}2>"
        ),
    ]
    for event in events:
        deployment.publish(event, at=40)
    path_module.parsed_document.cache_clear()
    parsed: list[str] = []
    whole = path_module.parse_document
    monkeypatch.setattr(path_module, "parse_document", lambda text: parsed.append(text) or whole(text))
    deployment.simulator.run()
    assert delivered(deployment) == expected(subscriptions, events) == {("e2", "bob"): ("s2",)}
    replies = [messages(deployment, ("publish", event.key)).get("DocumentReply", 0) for event in events]
    assert replies == [0, 1]
    assert parsed[:-1] == [], "only the second event is parsed, by the home and by what is expected"


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_files_of_a_folder_are_carried_like_any_events(
    kind: type[HopeBroker], tmp_path: Path, routing: Routing
) -> None:
    random = Random(8)
    for number in range(12):
        (tmp_path / f"{number}.xml").write_text(random_document(random), encoding="utf-8")
    folder = XmlFolder(tmp_path)
    deployment = settled(kind, range(0, 64, 3), 6, Addressing(6, 256), routing=routing)
    nodes = list(deployment.members)
    subscriptions = list(folder.subscriptions(60, seed=1))
    for subscription in subscriptions:
        deployment.subscribe(subscription, at=nodes[crc32(subscription.subscriber.encode()) % len(nodes)])
    deployment.simulator.run()
    events = list(folder.events(12, seed=1))
    for event in events:
        deployment.publish(event, at=random.choice(nodes))
    deployment.simulator.run()
    assert len(delivered(deployment)) > 10
    assert delivered(deployment) == expected(subscriptions, events)
