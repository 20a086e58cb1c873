"""Brokers on real sockets, of every system: who asked gets the event, once, wherever both are."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from distributary.errors import DistributaryError, FilterError, InputError
from distributary.live.broker import LiveBroker
from distributary.live.codec import MAX_EVENT_BYTES
from distributary.live.connection import Limits
from distributary.live.greeting import Endpoint
from distributary.model import Event, Subscription, SubscriptionKey
from live.loops import alone, until

NODES = 5


class Plant:
    """A network of brokers in one event loop, and what their clients were given."""

    def __init__(self, system: str) -> None:
        self.system = system
        self.brokers: list[LiveBroker] = []
        self.given: list[tuple[int, str, str, tuple[str, ...]]] = []
        self.notices: list[str] = []

    async def add(self, name: str) -> LiveBroker:
        place = len(self.brokers)
        broker = LiveBroker(
            "plant",
            self.system,
            name=name,
            contacts=[each.endpoint for each in self.brokers[:2]],
            nodes=NODES,
            limits=Limits(beat=20.0),
            on_delivery=lambda delivery: self.given.append(
                (place, delivery.event.id, delivery.subscriber, delivery.subscriptions)
            ),
            on_notice=self.notices.append,
        )
        await broker.start()
        self.brokers.append(broker)
        return broker

    async def stop(self) -> None:
        for broker in self.brokers:
            await broker.stop()


async def joined(plant: Plant) -> None:
    """Wait until an event from each broker reaches a subscriber at every other."""
    for place, broker in enumerate(plant.brokers):
        broker.subscribe(Subscription("probe", f"probe{place}", **probe_filters(plant.system)))
    tries = 0
    while True:
        tries += 1
        before = len(plant.given)
        for place, broker in enumerate(plant.brokers):
            broker.publish(event_for(plant.system, f"probe{tries}.{place}", value=tries + place / 10))
        await asyncio.sleep(0.3)
        reached = {(place, id) for place, id, *_ in plant.given[before:]}
        if len(reached) == len(plant.brokers) ** 2:
            break
    for place, broker in enumerate(plant.brokers):
        broker.unsubscribe(SubscriptionKey(f"probe{place}", "probe"))
    await asyncio.sleep(0.3)
    plant.given.clear()


def probe_filters(system: str) -> dict[str, Any]:
    if system.startswith("state-aware"):
        return {"topic": "quotes/NYSE/OTE", "change": {"price": 0.01}}
    if system in ("hope-kbpp", "hope-kbsp"):
        return {"path": "/a/b"}
    return {"where": "price >= 0"}


def event_for(system: str, id: str, value: float) -> Event:
    document = f"<a><b>{value}</b></a>" if system in ("hope-kbpp", "hope-kbsp") else None
    return Event(id, "quotes/NYSE/OTE", {"price": float(value), "source": id}, document)


SYSTEMS = ["tree", "central", "flooding", "attributes", "hope-kbpp", "hope-tags", "state-aware-thresholds"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_whoever_asked_gets_the_event_once_wherever_both_are(system: str) -> None:
    @alone
    async def check() -> None:
        plant = Plant(system)
        for number in range(NODES):
            await plant.add(f"hall-{number}")
        await joined(plant)
        for place, broker in enumerate(plant.brokers):
            broker.subscribe(Subscription("s1", f"client{place}", **probe_filters(system)))
        await asyncio.sleep(1.0)
        plant.given.clear()
        ids = [f"e{number}" for number in range(10)]
        for number, id in enumerate(ids):
            plant.brokers[number % NODES].publish(event_for(system, id, value=100 + number))
            await asyncio.sleep(0.1 if system.startswith("state") else 0)
        due = sorted((place, id, f"client{place}", ("s1",)) for place in range(NODES) for id in ids)
        await until(lambda: len(plant.given) >= len(due))
        await asyncio.sleep(0.5)
        assert sorted(plant.given) == due
        assert plant.notices == []
        await plant.stop()

    check()


@alone
async def test_an_event_carries_all_that_it_was_published_with() -> None:
    given: list[Any] = []
    async with LiveBroker("plant", "tree", name="one") as one:
        two = LiveBroker("plant", "tree", name="two", contacts=[one.endpoint], on_delivery=given.append)
        async with two:
            two.subscribe(Subscription("s1", "ann", topic="A/*", where="price > 3"))
            attributes = {"price": 4, "tags": ("a",), "wide": 1 << 80}
            events: list[Event] = []
            while not given:
                events.append(Event(f"e{len(events)}", "A/B", attributes, "<a>text</a>"))
                one.publish(events[-1])
                await asyncio.sleep(0.1)
            assert given[0].event in events
            assert given[0].event.attributes == attributes
            assert given[0].event.document == "<a>text</a>"
            assert given[0].subscriber == "ann"


@alone
async def test_a_broker_that_stops_and_comes_back_is_served_again() -> None:
    plant = Plant("tree")
    for number in range(3):
        await plant.add(f"hall-{number}")
    await joined(plant)
    lost = plant.brokers.pop()
    await lost.stop()
    again = await plant.add("hall-2")
    assert again.address == lost.address
    await joined(plant)
    await plant.stop()


@alone
async def test_a_network_that_nobody_answers_for_is_told() -> None:
    lonely = LiveBroker("plant", "tree", name="one", contacts=[Endpoint("127.0.0.1", 1)])
    with pytest.raises(
        DistributaryError, match=r"no contact lets this node in: cannot connect to 127\.0\.0\.1:1"
    ):
        await lonely.start()


@alone
async def test_what_a_system_cannot_serve_is_refused_at_the_client() -> None:
    async with LiveBroker("plant", "state-aware-sf", name="one") as one:
        with pytest.raises(FilterError, match="change: missing"):
            one.subscribe(Subscription("s1", "ann", topic="A/*"))


def test_before_it_has_started_a_broker_says_so() -> None:
    with pytest.raises(DistributaryError, match="broker 'one' has not started"):
        LiveBroker("plant", "tree", name="one").publish(Event("e1"))


@alone
async def test_after_it_was_stopped_a_broker_says_so() -> None:
    one = LiveBroker("plant", "tree", name="one")
    async with one:
        with pytest.raises(DistributaryError, match="broker 'one' was started before"):
            await one.start()
        one.publish(Event("e1"))
    with pytest.raises(DistributaryError, match="broker 'one' has stopped"):
        one.publish(Event("e2"))
    with pytest.raises(DistributaryError, match="broker 'one' was started before"):
        await one.start()


@alone
async def test_a_broker_that_cannot_take_part_listens_no_more() -> None:
    wrong = LiveBroker("plant", "tree", name="one", chosen={"fanout": 0})
    with pytest.raises(DistributaryError, match="a fanout of 0"):
        await wrong.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*wrong.endpoint)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"price": 4, "day": date(2026, 1, 1)}, "event 'bad' cannot be sent to other nodes: it holds a date"),
        ({"price": 4, "text": "x" * MAX_EVENT_BYTES}, "event 'bad' takes 15,7.* bytes, above 15,728,640"),
    ],
)
def test_an_event_that_cannot_be_sent_is_refused_and_harms_nobody(
    attributes: dict[str, Any], reason: str
) -> None:
    @alone
    async def check() -> None:
        plant = Plant("tree")
        for number in range(2):
            await plant.add(f"hall-{number}")
        await joined(plant)
        plant.brokers[1].subscribe(Subscription("s1", "ann", where="price > 3"))
        await asyncio.sleep(0.3)
        with pytest.raises(InputError, match=reason):
            plant.brokers[0].publish(Event("bad", attributes=attributes))
        plant.brokers[0].publish(Event("good", attributes={"price": 4}))
        await until(lambda: bool(plant.given))
        assert [id for _, id, *_ in plant.given] == ["good"]
        assert plant.notices == []
        await plant.stop()

    check()


@alone
async def test_a_client_that_fails_does_not_keep_events_from_others(caplog: pytest.LogCaptureFixture) -> None:
    given: list[Any] = []

    def fail(delivery: Any) -> None:
        given.append(delivery)
        raise RuntimeError("mine")

    async with LiveBroker("plant", "tree", name="one", on_delivery=fail) as one:
        for who in ("ann", "bob"):
            one.subscribe(Subscription("s1", who, topic="A"))
        one.publish(Event("e1", "A"))
        await until(lambda: len(given) == 2)
    assert caplog.messages == ["could not bear what the client did with a delivery: RuntimeError: mine"] * 2
