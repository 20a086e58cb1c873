"""What a client publishes in one turn is published together, however its requests are cut, and answered."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from distributary.client import connect
from distributary.live import client_messages as messages
from distributary.live.broker import LiveBroker
from distributary.live.codec import VERSION, decode, encode
from distributary.live.frames import FrameReader, frame
from distributary.model import Event
from live.loops import alone
from properties.examples import examples


async def answers(reader: asyncio.StreamReader, frames: FrameReader, count: int) -> list[Any]:
    """The next answers to a client that speaks in bytes."""
    found: list[Any] = []
    while len(found) < count:
        data = await asyncio.wait_for(reader.read(1 << 16), 30)
        assert data, "the broker closed the connection"
        found += [each for each in map(decode, frames.read(data)) if isinstance(each, messages.ClientAnswer)]
    return found


def requests_of(random: Random) -> tuple[list[messages.ClientEvents], list[str]]:
    """Requests, some that nobody waits for and some with events that no broker takes; and the good ones."""
    requests, good = [], []
    for number in range(1, random.randint(3, 12)):
        events = []
        for place in range(random.randint(0, 5)):
            event = Event(f"e{number}.{place}", "quotes", document="<a/>" if random.random() < 0.8 else None)
            if random.random() < 0.15:
                event = Event(f"e{number}.{place}", "quotes", document="<a>")
            else:
                good.append(event.id)
            events.append(event)
        requests.append(messages.ClientEvents(number if random.random() < 0.7 else 0, tuple(events)))
    return requests, good


@pytest.mark.parametrize("system", ["tree", "flooding"])
@pytest.mark.parametrize("seed", range(examples(6)))
def test_requests_that_come_together_are_answered_each_by_itself(seed: int, system: str) -> None:
    random = Random(f"published together {seed}")
    requests, good = requests_of(random)
    data = b"".join(frame(encode(request)) for request in requests)

    @alone
    async def run() -> None:
        hall = LiveBroker("distributary", system, name="hall")
        async with hall, connect(hall.endpoint) as buyer, buyer.subscribed(topic="quotes") as events:
            reader, writer = await asyncio.open_connection(*hall.endpoint)
            frames = FrameReader()
            writer.write(frame(encode(messages.ClientGreeting(VERSION, VERSION, "distributary", "seller"))))
            cut = random.randint(0, len(data))
            writer.write(data[:cut])
            await asyncio.sleep(0)
            writer.write(data[cut:])
            last = Event("last", "quotes")
            writer.write(frame(encode(messages.ClientEvents(99, (last,)))))
            bad = [
                tuple(place for place, event in enumerate(each.events) if event.document == "<a>")
                for each in requests
            ]
            expected = [
                (each.number, wrong)
                for each, wrong in zip(requests, bad, strict=True)
                if each.number or wrong
            ]
            found = await answers(reader, frames, len(expected) + 1)
            told = [(each.number, tuple(place for place, _ in each.refused)) for each in found]
            assert sorted(told) == sorted([*expected, (99, ())])
            assert [(await anext(events)).id for _ in range(len(good) + 1)] == [*good, "last"]
            writer.close()
            await writer.wait_closed()

    run()
