"""HOPE while things go wrong, and after: once all has healed, everybody gets what they asked for."""

from __future__ import annotations

import os
from random import Random
from typing import Any, cast

import pytest

from distributary.filters.path.filter import PathFilter
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.courier import Courier
from distributary.overlay.hypercube import CubeVertex
from distributary.overlay.node import Node, Send
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.prefix import PrefixRing
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.ring.upkeep import Upkeep
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.scenario import SCENARIOS, random_scenario
from distributary.sim.simulator import Simulator
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.history import EventHistory
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp, digest_of
from distributary.systems.hope.messages import AdvertRequest, FilterAdvert
from replay import replayed_by
from systems.hope.world import KINDS, expected, random_document, random_path, settled

CIRCLE = Circle(16)
REFRESH = 6.0
HEALING = 50.0
"""Seconds after the last fault: the ring mends, leases run out, and registrations are made again."""
FEWER = ("messages", "nodes", "everything")
"""The scenarios for KBPP, all of whose parts KBSP has too."""
FIRST = 1000 * int(os.environ.get("DISTRIBUTARY_SEED", "1"))
MANY = [pytest.param(FIRST + number, marks=pytest.mark.chaos) for number in range(50)]
"""Seeds that `make chaos` runs besides, for each kind."""


def kept_up(
    kind: type[HopeBroker],
    nodes: list[int],
    seed: int,
    *,
    copies: int = 2,
    refresh: float | None = REFRESH,
    routing: type[Ring] = Ring,
    **options: Any,
) -> Deployment:
    """A system with all that keeps it going, its ring at rest."""
    simulator = Simulator(seed, ConstantLatency(0.03))
    started: list[bool] = []

    def make(address: int) -> HopeBroker:
        ring = routing(Node(address), CIRCLE, successor_count=max(4, copies))
        courier = Courier(ring.node)
        courier.carry(ring)
        contacts = [other for other in deployment.up() if other != address] if started else None
        upkeep = Upkeep(ring, contacts)
        return kind(
            ring,
            Addressing(5, 64),
            courier=courier,
            copies=copies,
            refresh=refresh,
            upkeep=upkeep,
            **options,
        )

    deployment = Deployment(simulator, make, sizes=False)
    for node in nodes:
        deployment.add(node)
    settle([member.ring for member in deployment.members.values()])  # type: ignore[attr-defined]
    started.append(True)
    return deployment


def got(deployment: Deployment) -> set[tuple[str, str]]:
    return {(delivery.event.id, delivery.subscriber) for _, _, delivery, _ in deployment.deliveries}


def clients(deployment: Deployment, random: Random, count: int, first: int = 0) -> list[Subscription]:
    subscriptions = []
    for number in range(first, first + count):
        subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
        deployment.subscribe(subscription, at=random.choice(deployment.up()))
        subscriptions.append(subscription)
    return subscriptions


def publish(deployment: Deployment, random: Random, names: list[str]) -> list[Event]:
    events = []
    for name in names:
        event = Event(name, document=random_document(random))
        deployment.publish(event, at=random.choice(deployment.up()))
        events.append(event)
    return events


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Kbsp, name) for name in SCENARIOS if name != "calm"] + [(Kbpp, name) for name in FEWER],
)
def test_after_healing_everything_is_delivered_and_nothing_wrong_ever_was(
    kind: type[HopeBroker], name: str
) -> None:
    heal(kind, name, seed=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "calm"])
def test_it_heals_where_keys_belong_to_the_nearest_node(kind: type[HopeBroker], name: str) -> None:
    heal(kind, name, seed=1, routing=PrefixRing)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [3, *MANY])
def test_everything_heals_where_keys_belong_to_the_nearest_node(kind: type[HopeBroker], seed: int) -> None:
    heal(kind, "everything", seed, routing=PrefixRing)


def test_a_host_that_is_gone_is_gone_round() -> None:
    """With this seed, events are passed to hosts that have left; waiting for their answers takes too long."""
    heal(Kbpp, "churn", seed=6)


def test_renewing_may_make_a_vertex_of_the_same_node_known() -> None:
    """With this seed, a node renews an advert to a vertex of its own that has lost its filters."""
    heal(Kbsp, "everything", seed=1019)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", MANY)
def test_whatever_the_seed_all_kinds_of_faults_happen_and_everything_heals(
    kind: type[HopeBroker], seed: int
) -> None:
    heal(kind, "everything", seed)


@pytest.mark.parametrize("kind", KINDS)
def test_facets_histories_and_lengths_that_adapt_heal_as_well(kind: type[HopeBroker]) -> None:
    heal(kind, "everything", seed=2, facets=2, history=5, dimensions=(3, 5, 7))


def heal(kind: type[HopeBroker], name: str, seed: int, **options: Any) -> None:
    """Publish during a scenario and after it, and compare with what the filters say."""
    random = Random(seed)
    points = random.sample(range(CIRCLE.size), 12)
    nodes, spares = sorted(points[:10]), points[10:]
    deployment = kept_up(kind, nodes, seed, **options)
    simulator = deployment.simulator
    subscriptions = clients(deployment, random, 25)
    simulator.run(until=10)
    scenario = random_scenario(
        seed, nodes, kinds=SCENARIOS[name], spares=spares, start=10, duration=30, gap=1, at_once=2
    )
    with replayed_by(f"heal({kind.__name__}, {name!r}, seed={seed})"):
        injection = scenario.inject(deployment)
        during: list[Event] = []
        for number in range(20):
            simulator.run(until=10 + 1.5 * number)
            during += publish(deployment, random, [f"d{number}"])
        simulator.run(until=scenario.healed + 5)
        for subscription in subscriptions[:5]:
            deployment.unsubscribe(subscription.key)
        simulator.run(until=scenario.healed + HEALING)
        scenario.require_fired(injection)
        after: list[Event] = []
        while len(wanted := set(expected(subscriptions[5:], after))) <= 10:  # fewer would show little
            assert len(after) < 200
            after += publish(deployment, random, [f"a{len(after) + number}" for number in range(20)])
        simulator.run(until=scenario.healed + HEALING + 10)
        assert {pair for pair in got(deployment) if pair[0].startswith("a")} == wanted
        assert {pair for pair in got(deployment) if pair[0].startswith("d")} <= set(
            expected(subscriptions, during)
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("routing", [Ring, PrefixRing])
@pytest.mark.parametrize("seed", [3, *MANY])
def test_nodes_fail_at_once_with_probability_a_quarter_and_nothing_is_lost(
    kind: type[HopeBroker], routing: type[Ring], seed: int
) -> None:
    """Section 5.6.2: failure probability 0.25, r = 8 copies in all; no subscription is made again."""
    random = Random(seed)
    nodes = sorted(random.sample(range(CIRCLE.size), 20))
    deployment = kept_up(kind, nodes, seed, copies=7, refresh=None, routing=routing)
    subscriptions = clients(deployment, random, 40)
    deployment.simulator.run(until=20)
    failed = {node for node in nodes if random.random() < 0.25} or {nodes[0]}
    for node in sorted(failed):
        deployment.crash(node)
    deployment.simulator.run(until=45)
    events = publish(deployment, random, [f"e{number}" for number in range(30)])
    deployment.simulator.run(until=60)
    where = {key: at for key, (_, at) in deployment.subscriptions.items()}
    alive = [each for each in subscriptions if where[each.key] not in failed]
    wanted = set(expected(alive, events))
    assert len(wanted) > 20
    assert got(deployment) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_home_that_was_cut_off_gets_by_itself_what_it_missed_and_nothing_twice(
    kind: type[HopeBroker],
) -> None:
    random = Random(4)
    nodes = sorted(random.sample(range(CIRCLE.size), 10))
    deployment = kept_up(kind, nodes, 4, history=50)
    away = nodes[3]
    subscription = Subscription("s", "ann", path="//a[b or c]")
    deployment.subscribe(subscription, at=away)
    deployment.simulator.run(until=10)
    events = publish(deployment, random, [f"before{number}" for number in range(15)])
    deployment.simulator.run(until=20)
    deployment.crash(away)
    deployment.simulator.run(until=40)
    events += publish(deployment, random, [f"missed{number}" for number in range(25)])
    deployment.simulator.run(until=60)
    wanted = set(expected([subscription], events))
    assert any(event.startswith("missed") for event, _ in wanted - got(deployment))
    deployment.simulator.restart(away)  # with its memory
    deployment.simulator.run(until=90)
    assert got(deployment) == wanted
    assert len(deployment.deliveries) == len(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_who_comes_back_at_another_node_after_its_home_has_vanished_gets_what_it_missed(
    kind: type[HopeBroker],
) -> None:
    random = Random(4)
    nodes = sorted(random.sample(range(CIRCLE.size), 10))
    deployment = kept_up(kind, nodes, 4, history=50)
    subscription = Subscription("s", "ann", path="//a[b or c]")
    deployment.subscribe(subscription, at=nodes[3])
    deployment.simulator.run(until=10)
    deployment.crash(nodes[3])
    deployment.simulator.run(until=40)
    events = publish(deployment, random, [f"missed{number}" for number in range(25)])
    deployment.simulator.run(until=60)
    broker = cast(HopeBroker, deployment.members[nodes[7]])
    deployment.simulator.call(nodes[7], lambda: broker.subscribe(subscription))
    deployment.simulator.run(until=70)
    wanted = set(expected([subscription], events))
    assert len(wanted) > 3
    assert got(deployment) == wanted
    assert len(deployment.deliveries) == len(wanted)


@pytest.mark.parametrize("when", ["before", "away"])
@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_who_comes_back_gets_what_it_missed_though_clocks_differ(
    kind: type[HopeBroker], ahead: int, when: str
) -> None:
    random = Random(4)
    nodes = sorted(random.sample(range(CIRCLE.size), 10))
    deployment = kept_up(kind, nodes, 4, history=50)

    def put_clocks_forward() -> None:
        for node in nodes[ahead::2]:
            deployment.simulator.set_clock(node, forward=500.0)

    if when == "before":
        put_clocks_forward()
    subscription = Subscription("s", "ann", path="//a[b or c]")
    deployment.simulator.run(until=10)
    publish(deployment, random, [f"early{number}" for number in range(10)])
    deployment.simulator.run(until=50)
    deployment.subscribe(subscription, at=nodes[3])
    deployment.simulator.run(until=60)
    deployment.unsubscribe(subscription.key)
    deployment.simulator.run(until=70)
    events = publish(deployment, random, [f"missed{number}" for number in range(25)])
    deployment.simulator.run(until=80)
    if when == "away":
        put_clocks_forward()
    deployment.subscribe(subscription, at=nodes[6])
    deployment.simulator.run(until=100)
    wanted = set(expected([subscription], events))
    assert len(wanted) > 3
    assert got(deployment) >= wanted
    if when == "before":
        assert got(deployment) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_subscription_that_has_another_home_by_now_is_not_away(
    kind: type[HopeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = sorted(Random(4).sample(range(CIRCLE.size), 10))
    deployment = kept_up(kind, nodes, 4, history=50)
    left: list[SubscriptionKey] = []
    monkeypatch.setattr(EventHistory, "leaves", lambda history, key, since: left.append(key))
    subscription = Subscription("s", "ann", path="//a")
    for node in (nodes[3], nodes[6]):
        broker = cast(HopeBroker, deployment.members[node])
        deployment.simulator.call(node, lambda broker=broker: broker.subscribe(subscription))
    deployment.simulator.run(until=10)
    deployment.crash(nodes[3])
    deployment.simulator.run(until=80)
    assert left == []
    deployment.crash(nodes[6])
    deployment.simulator.run(until=160)
    assert set(left) == {subscription.key}


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_is_had_from_the_vertex_of_its_event_when_the_publisher_fails_at_once(
    kind: type[HopeBroker],
) -> None:
    random = Random(6)
    nodes = sorted(random.sample(range(CIRCLE.size), 10))
    deployment = kept_up(kind, nodes, 6)
    subscriptions = [Subscription(f"s{n}", f"u{n}", path="//a") for n in range(3)]
    for subscription, node in zip(subscriptions, nodes, strict=False):
        deployment.subscribe(subscription, at=node)
    deployment.simulator.run(until=10)
    event = Event("e", document="<b><a/></b>")
    deployment.publish(event, at=nodes[8])
    deployment.simulator.run(until=10.05)  # the event is under way, and nobody has asked for its document
    assert not deployment.deliveries
    deployment.crash(nodes[8])
    deployment.simulator.run(until=30)
    assert got(deployment) == set(expected(subscriptions, [event]))


@pytest.mark.parametrize("kind", KINDS)
def test_vertices_move_with_joins_and_leaves_without_being_registered_again(kind: type[HopeBroker]) -> None:
    random = Random(5)
    points = random.sample(range(CIRCLE.size), 16)
    deployment = kept_up(kind, sorted(points[:10]), 5, copies=2, refresh=None)
    subscriptions = clients(deployment, random, 30)
    deployment.simulator.run(until=10)
    for number, point in enumerate(points[10:]):
        deployment.add(point)
        deployment.simulator.run(until=20 + 12 * number)
        deployment.leave(points[number])
        deployment.simulator.run(until=26 + 12 * number)
    deployment.simulator.run(until=110)
    events = publish(deployment, random, [f"e{number}" for number in range(30)])
    deployment.simulator.run(until=125)
    assert got(deployment) == set(expected(subscriptions, events))


def test_a_home_that_is_gone_for_good_is_forgotten() -> None:
    for kind in (Kbpp, Kbsp):
        random = Random(2)
        nodes = sorted(random.sample(range(CIRCLE.size), 8))
        deployment = kept_up(kind, nodes, 2)
        clients(deployment, random, 10)
        deployment.simulator.run(until=20)
        lost = {name for name, (_, at) in deployment.subscriptions.items() if at == nodes[0]}
        assert lost
        deployment.crash(nodes[0])
        deployment.simulator.run(until=60)
        left = {
            name.subscription
            for node in deployment.up()
            for position in deployment.members[node].replication.hosted()  # type: ignore[attr-defined]
            for name in deployment.members[node].replication.contents(position)  # type: ignore[attr-defined]
            if hasattr(name, "subscription")
        }
        assert left == set(deployment.subscriptions) - lost


def test_filters_of_a_neighbour_that_nobody_speaks_for_any_more_are_dropped() -> None:
    """The node of a client and of its subscription's vertex is gone, and nobody has a copy of its list."""
    deployment = kept_up(Kbsp, [3_000 + 8_000 * place for place in range(8)], seed=1, copies=0)
    subscription = Subscription("s", "ann", path="/a")
    key = Addressing(5, 64).of_filters({"path": PathFilter.parse("/a")}).key
    host = next(
        node
        for node, member in deployment.members.items()
        if cast(Kbsp, member).ring.owns(cast(Kbsp, member).cubes.position(CubeVertex(key)))
    )
    deployment.subscribe(subscription, at=host)
    deployment.simulator.run(until=10)
    others = [cast(Kbsp, member) for node, member in deployment.members.items() if node != host]
    assert any(member._vertices for member in others), "vertices above have its filter"
    deployment.crash(host)
    deployment.simulator.run(until=10 + HEALING)
    assert not any(member._vertices for member in others)


def test_what_the_next_speaker_of_a_vertex_says_adds_to_what_is_known_until_it_is_renewed() -> None:
    """It may not have the whole list yet: too many filters cost messages, too few would lose events."""
    deployment = settled(Kbsp, range(16), 4, Addressing(4, 64))
    member = cast(Kbsp, deployment.members[0b0111])
    requests: list[AdvertRequest] = []

    def advert(speaker: int, filter: int, number: int) -> frozenset[int]:
        """What is known from across bit 2 after an advert of this filter and no other."""
        told = FilterAdvert(0b0011, speaker, (filter,), (), digest_of([filter]), True, number)
        effects = member.node.call(lambda: member._apply_advert(0b0111, told), 0.0)
        requests.extend(
            each.message
            for each in effects
            if isinstance(each, Send) and isinstance(each.message, AdvertRequest)
        )
        return member._vertices[0b0111].table.of(2)

    assert advert(3, 0b01, number=1) == {0b01}
    assert advert(3, 0b11, number=2) == {0b11}, "the same speaker's whole set is all there is"
    assert advert(9, 0b100, number=1) == {0b11, 0b100}, "another one's is not"
    assert advert(9, 0b100, number=2) == {0b100}
    assert requests == []
