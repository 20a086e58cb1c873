"""Events that come one at a time are given at once, and are published all the same: nobody can tell."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

import pytest

from distributary.client import Client, connect
from distributary.live import client_line, direct_events
from distributary.live import client_messages as messages
from distributary.live.broker import LiveBroker
from distributary.live.codec import VERSION, decode, encode
from distributary.live.frames import FrameReader, frame
from distributary.model import Event, Offset, Subscription
from live.loops import alone, until
from properties.examples import examples

TOPICS = ("A/1", "A/2", "B")


def hall(**options: Any) -> LiveBroker:
    return LiveBroker("distributary", options.pop("system", "tree"), name="hall", **options)


def watched(broker: LiveBroker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all that the broker is told was given at once, from now on."""
    told: list[str] = []
    publish = broker.publish_given

    def noted(events: Any) -> None:
        told.extend(event.id for event in events)
        publish(events)

    monkeypatch.setattr(broker, "publish_given", noted)
    return told


async def gather(client: Client, given: list[Event], **wish: Any) -> None:
    async with client.subscribed(**wish) as events:
        async for event in events:
            given.append(event)


@pytest.mark.parametrize("seed", range(examples(8)))
def test_each_gets_what_it_asked_for_once_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"direct events {seed}")
    monkeypatch.setattr(direct_events, "MOST_TOGETHER", random.choice([1, 3, 256]))

    @alone
    async def run() -> None:
        broker = hall()
        async with broker, connect(broker.endpoint) as first, connect(broker.endpoint) as second:
            direct = watched(broker, monkeypatch)
            wishes = [{"topic": "A/*"}, {"topic": "B"}, {"topic": "A/1"}]
            wishes += [{"topic": "A", "where": "price > 4"}] * (seed % 4 == 3)
            readers = [connect(broker.endpoint, name=f"reader-{each}") for each in range(len(wishes))]
            given: list[list[Event]] = [[] for _ in wishes]
            tasks = []
            for client, wish, got in zip(readers, wishes, given, strict=True):
                await client.__aenter__()
                tasks.append(asyncio.create_task(gather(client, got, id="s1", **wish)))
                tasks.append(asyncio.create_task(gather(client, [], id="s2", topic="end")))
            await until(lambda: broker.broker is not None and len(broker.broker.home) == 2 * len(wishes))
            due: list[Event] = []
            for number in range(60):
                seller = random.choice([first, second])
                events = [
                    Event(
                        f"e{number}.{place}",
                        random.choice(TOPICS),
                        {"price": random.randrange(10), "source": f"seller {seller is second}"},
                    )
                    for place in range(random.choice([1, 1, 1, 1, 3]))
                ]
                due += events
                await seller.publish(*events)
                if random.random() < 0.1:
                    await seller.publish(random.choice(due))  # known already
                if random.random() < 0.1:
                    broker.clients.tell_progress()
            wanted = [
                [event for event in due if (event.topic or "").startswith(prefix)]
                for prefix in ("A", "B", "A/1")
            ]
            wanted += [
                [event for event in wanted[0] if event.attributes["price"] > 4]  # type: ignore[operator]
            ] * (seed % 4 == 3)
            await until(lambda: [len(got) for got in given] >= [len(each) for each in wanted])
            await asyncio.sleep(0.05)
            for got, each in zip(given, wanted, strict=True):
                assert by_source(got) == by_source(each)
            assert bool(direct) == (seed % 4 != 3), "a condition is evaluated the usual way"
            assert broker.counts["faults"] == 0
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for client in readers:
                await client.__aexit__(None, None, None)

    run()


def by_source(events: list[Event]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for event in events:
        found[event.source].append(event.id)
    return found


@alone
async def test_a_client_goes_on_after_what_it_was_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hall() as broker, connect(broker.endpoint) as seller:
        direct = watched(broker, monkeypatch)
        ann = connect(broker.endpoint, name="ann")
        async with ann, ann.subscribed(id="s1", topic="quotes") as events:
            for number in range(6):
                await seller.publish(Event(f"e{number}", "quotes"))
            assert [(await anext(events)).id for _ in range(3)] == ["e0", "e1", "e2"]
            session = ann.session
            ann._writer.transport.abort()  # type: ignore[union-attr]
            await seller.publish(Event("e6", "quotes"))
            assert [(await anext(events)).id for _ in range(4)] == ["e3", "e4", "e5", "e6"]
        again = connect(broker.endpoint, session=session)
        async with again, again.subscribed(id="s1", topic="quotes") as events:
            assert [(await anext(events)).id for _ in range(4)] == ["e3", "e4", "e5", "e6"]
        assert again.gaps == ann.gaps == 0
        assert set(direct) >= {"e0", "e5"}


@alone
async def test_another_node_has_what_was_given_at_once_before_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hall() as broker, connect(broker.endpoint) as seller:
        direct = watched(broker, monkeypatch)
        async with connect(broker.endpoint, name="ann") as ann, ann.subscribed(id="s1", topic="q") as events:
            for number in range(5):
                await seller.publish(Event(f"e{number}", "q"))
            assert (await anext(events)).id == "e0"
            session = ann.session
        second = LiveBroker("distributary", "tree", name="second", contacts=[broker.endpoint])
        async with second, connect(second.endpoint, session=session) as ann:
            await until(lambda: second.joined)
            async with ann.subscribed(id="s1", topic="q") as events:
                assert [(await anext(events)).id for _ in range(4)] == ["e1", "e2", "e3", "e4"]
                await seller.publish(Event("e5", "q"))
                assert (await anext(events)).id == "e5"
        assert direct == [f"e{number}" for number in range(5)]


async def greeted(broker: LiveBroker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, FrameReader]:
    reader, writer = await asyncio.open_connection(*broker.endpoint)
    writer.write(frame(encode(messages.ClientGreeting(VERSION, VERSION, "distributary", "seller"))))
    frames = FrameReader()
    await answer(reader, frames, messages.ClientWelcome)
    return reader, writer, frames


async def answer(reader: asyncio.StreamReader, frames: FrameReader, kind: type) -> Any:
    """The next message of a kind; the others are passed over."""
    while True:
        data = await reader.read(1 << 16)
        if not data:
            raise ConnectionError("the broker closed the connection")
        for each in map(decode, frames.read(data)):
            if isinstance(each, kind):
                return each


@alone
async def test_what_was_given_at_once_is_written_once_and_has_its_number_in_the_log() -> None:
    async with hall() as broker:
        reader, writer, frames = await greeted(broker)
        wish = Subscription("s1", "seller", topic="q")
        writer.write(frame(encode(messages.ClientSubscribe(1, wish))))
        await answer(reader, frames, messages.ClientAnswer)
        numbers = []
        for number in range(3):
            writer.write(frame(encode(messages.ClientEvents(0, (Event(f"e{number}", "q"),)))))
            delivery = await answer(reader, frames, messages.ClientDelivery)
            assert (delivery.event.id, delivery.subscriptions) == (f"e{number}", ("s1",))
            numbers.append(delivery.offset.number)
        assert broker.reached("seller") == delivery.offset
        writer.write(frame(encode(messages.ClientEvents(0, (Event("e3", "q"), Event("e4", "q"))))))
        data = await reader.read(1 << 16)  # what was published just now would have been written first
        (batch,) = map(decode, frames.read(data))
        assert [*numbers, *batch.numbers] == list(range(numbers[0], numbers[0] + 5))
        writer.close()


@alone
async def test_a_client_that_takes_nothing_is_let_go_whether_events_come_alone_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hall() as broker, connect(broker.endpoint) as seller:
        reader, writer, frames = await greeted(broker)
        wish = Subscription("s1", "seller", topic="q")
        writer.write(frame(encode(messages.ClientSubscribe(1, wish))))
        await answer(reader, frames, messages.ClientAnswer)
        monkeypatch.setattr(client_line, "MOST_QUEUED", -1)
        await seller.publish(Event("e1", "q"))
        assert "not taken" in (await answer(reader, frames, messages.ClientFarewell)).reason
        assert broker.clients.slow == 1
        writer.close()


@alone
async def test_what_waits_for_a_client_is_written_before_what_comes() -> None:
    async with hall() as broker:
        reader, writer, frames = await greeted(broker)
        wish = Subscription("s1", "seller", topic="q")
        writer.write(frame(encode(messages.ClientSubscribe(1, wish))))
        await answer(reader, frames, messages.ClientAnswer)
        line = broker.clients._clients["seller"]
        assert isinstance(line, client_line.ClientLine)
        line.say(messages.ClientGap(Offset(1.0, 1), Offset(1.0, 2)))
        data = frame(encode(messages.ClientEvents(0, (Event("e1", "q"),))))
        assert not line.receive_at_once(data)
        broker.clients.flush()
        assert line.receive_at_once(data)
        data = await reader.read(1 << 16)
        assert [type(each) for each in map(decode, frames.read(data))] == [
            messages.ClientGap,
            messages.ClientDelivery,
        ]
        writer.close()


@pytest.mark.parametrize("number", [1, 127, 128, 255, 256, 65_535, 65_536, (1 << 32) + 5])
@alone
async def test_every_number_of_a_request_is_answered(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hall() as broker:
        direct = watched(broker, monkeypatch)
        reader, writer, frames = await greeted(broker)
        writer.write(frame(encode(messages.ClientEvents(number, (Event("e1", "q", {"a": 1}),)))))
        assert await answer(reader, frames, messages.ClientAnswer) == messages.ClientAnswer(number)
        broker.reached("seller")
        assert (direct, broker.published) == (["e1"], 1)
        writer.close()


@pytest.mark.parametrize(
    ("events", "refused"),
    [
        ((Event("e1"),), False),
        ((Event("e1", "q", document="<a/>"),), False),
        ((Event("e1", "q", document="<a>"),), True),
        ((Event("e1", "q", {"x": "y" * direct_events.LONGEST}),), False),
        ((Event("e1", "q", {"x": (1, 2)}),), False),
        ((Event("e1", "q"), Event("e2", "q")), False),
        ((), False),
    ],
)
@alone
async def test_what_cannot_be_given_at_once_goes_the_usual_way(
    events: tuple[Event, ...], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hall() as broker:
        direct = watched(broker, monkeypatch)
        reader, writer, frames = await greeted(broker)
        writer.write(frame(encode(messages.ClientEvents(7, events))))
        told = await answer(reader, frames, messages.ClientAnswer)
        assert (told.number, bool(told.refused)) == (7, refused)
        broker.reached("seller")
        assert (direct, broker.published) == ([], 0 if refused else len(events))
        writer.close()


@alone
async def test_hostile_bytes_in_place_of_an_event_end_the_connection() -> None:
    good = encode(messages.ClientEvents(7, (Event("e1", "q", {"a": 1}),)))
    for bad in (
        good[:-1],
        good + b"\0",
        good.replace(b"\xa1q", b"\xa1\xff"),
        good.replace(b"\xa1a", b"\xc0\xc0"),
    ):
        async with hall(on_notice=lambda _: None) as broker:
            reader, writer, frames = await greeted(broker)
            writer.write(frame(bad))
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await answer(reader, frames, messages.ClientAnswer)
            assert broker.published == 0
            writer.close()


@alone
async def test_nothing_is_given_at_once_where_others_must_have_it_first(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_disk = hall(data=tmp_path_factory.mktemp("hall"))
    async with hall() as first, with_disk, hall(system="flooding") as unsafe:
        second = LiveBroker("distributary", "tree", name="second", contacts=[first.endpoint])
        async with second:
            await until(lambda: second.joined)
            for number, broker in enumerate((first, second, with_disk, unsafe)):
                direct = watched(broker, monkeypatch)
                async with connect(broker.endpoint) as client, client.subscribed(topic="q") as events:
                    await client.publish(Event(f"e{number}", "q"))
                    assert (await anext(events)).id == f"e{number}"
                assert direct == []
