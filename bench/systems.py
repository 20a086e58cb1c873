"""Brokers: what an event costs at a node of a network with very many subscriptions, beside `Matcher` alone.

The mixed subscriptions of the market, all of them at one node: at the root of a tree, at the home and
rendezvous of the central system, and at a node that is flooded; HOPE's home has paths. Each is its own whole
network, so an event does all that a broker does with it and no message is sent. Deliveries are compared with
`Matcher` event by event, and let go of as a broker does that has sent them; processor time is measured in
turns. HOPE's publisher makes a signature of the document.

Of an inner node of a tree, what it costs to find the children who asked for an event, where each has as many
profiles as it may have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from statistics import median

from bench.report import Result
from distributary import Event, Matcher, Subscription
from distributary.filters.profile import Profile
from distributary.overlay.broker import Broker
from distributary.overlay.node import Deliver, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.tree.interest import Form, Interest, form_of
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.routes import Routes, ScannedRoutes
from distributary.overlay.tree.state import TreeSettings
from distributary.systems.central import CentralBroker
from distributary.systems.flooding import FloodingBroker
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.tree.broker import TreeBroker
from distributary.systems.tree.routes import IndexedRoutes
from distributary.workloads import documents, market

ROUNDS = 5
EVENTS = 200
"""In a round."""
TARGET = "<= 2 times"


def run(quick: bool) -> list[Result]:
    results: list[Result] = []
    for size in (100, 1_000) if quick else (100, 1_000, 10_000, 100_000):
        subscriptions = list(market.subscriptions(size, seed=1))
        makers: dict[str, Callable[[], Broker]] = {"tree": tree, "central": central, "flooding": flooding}
        results += measured(f"{size:,} subscriptions of the market", makers, subscriptions, market.events)
        paths = [
            Subscription(one.id, one.subscriber, path=one.path)
            for one in documents.subscriptions(size, seed=1)
        ]
        results += measured(f"{size:,} paths", {"hope-kbpp": hope}, paths, documents.events)
    return [*results, *routed()]


def tree() -> Broker:
    return TreeBroker(TreeNode(Node(3), is_root=True))


def central() -> Broker:
    return CentralBroker(settled_ring())


def flooding() -> Broker:
    return FloodingBroker(settled_ring())


def hope() -> Broker:
    return Kbpp(settled_ring(), Addressing(dimension=6))


def settled_ring() -> Ring:
    """A ring of one node."""
    ring = Ring(Node(3), Circle(32))
    settle([ring])
    return ring


def routed() -> list[Result]:
    """The time of an event at the routes of a node with as many children, and profiles of each, as can be."""
    shape = TreeSettings()
    asked = (form_of(Profile.of(one)) for one in market.subscriptions(100_000, seed=1))
    ways: dict[str, Routes] = {"each profile": ScannedRoutes(), "index": IndexedRoutes()}
    for child in range(shape.fanout):
        forms: set[Form] = set()
        while len(forms) < shape.most_profiles:
            forms.add(next(asked))
        for routes in ways.values():
            routes.put(child, Interest(tuple(sorted(forms))))
    events = list(market.events(EVENTS * (ROUNDS + 1), seed=2))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        part = events[number * EVENTS : (number + 1) * EVENTS]
        found = []
        for name, routes in ways.items():
            began = time.process_time()
            found.append([list(routes.wanted(event)) for event in part])
            times[name].append((time.process_time() - began) / EVENTS * 1e6)
        assert found[0] == found[1], "the index finds other children"
    workload = f"inner node, {shape.fanout} children with {shape.most_profiles} profiles"
    return [
        Result(workload, name, "event", median(spent[1:]), "µs", "each other")
        for name, spent in times.items()
    ]


def as_it_came(event: Event) -> Event:
    """The event with a document of its own: one that was read just now would not be read again."""
    return event if event.document is None else replace(event, document=event.document.encode().decode())


def measured(
    workload: str,
    makers: dict[str, Callable[[], Broker]],
    subscriptions: Sequence[Subscription],
    generate: Callable[..., Iterator[Event]],
) -> list[Result]:
    """The time of a subscription and of an event at each broker, and as a multiple of the matcher's."""
    matcher = Matcher(subscriptions)
    brokers = {name: make() for name, make in makers.items()}
    results = []
    for name, broker in brokers.items():
        broker.node.start(now=0.0)
        began = time.process_time()
        for one in subscriptions:
            broker.node.call(lambda one=one, broker=broker: broker.subscribe(one), 0.0)  # type: ignore[misc]
        spent = (time.process_time() - began) / len(subscriptions) * 1e6
        results.append(Result(workload, name, "subscribe", spent, "µs", "Matcher"))
    events = generate(EVENTS * (ROUNDS + 1), seed=2)
    times: dict[str, list[float]] = {name: [] for name in ("Matcher", *brokers)}
    for _ in range(ROUNDS + 1):
        part = list(islice(events, EVENTS))
        for each in times.values():
            each.append(0.0)
        for event in part:
            began = time.process_time()
            wanted = matcher.match(event)
            times["Matcher"][-1] += time.process_time() - began
            for name, broker in brokers.items():
                came = as_it_came(event)
                began = time.process_time()
                effects = broker.node.call(lambda e=came, b=broker: b.publish(e), 1.0)  # type: ignore[misc]
                times[name][-1] += time.process_time() - began
                got = [
                    one for each in effects if isinstance(each, Deliver) for one in each.item.subscriptions
                ]
                assert sorted(got) == wanted, (
                    f"{name} delivers something else than Matcher finds, of {workload}"
                )
    alone = median(times["Matcher"][1:])
    results.append(
        Result(workload, "Matcher", "event", alone / EVENTS * 1e6, "µs", "brute force in the tests")
    )
    for name in brokers:
        spent = median(times[name][1:])
        results.append(Result(workload, name, "event", spent / EVENTS * 1e6, "µs", "Matcher"))
        results.append(Result(workload, name, "event / Matcher's", spent / alone, "times", "Matcher", TARGET))
    return results
