"""A network that was cut in two is one network again: nothing acknowledged is lost or comes twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

import pytest

from distributary.client import connect
from distributary.live.broker import LiveBroker
from distributary.live.lines import LinkLines
from distributary.live.link_faults import LinkFaults
from distributary.model import Event
from distributary.systems.membership import address_of
from live.loops import alone

NODES = 5
NETWORK = "distributary"


class Halls:
    """Brokers between which links can be cut."""

    def __init__(self, system: str, chosen: dict[str, float]) -> None:
        self.brokers: dict[str, LiveBroker] = {}
        self._faults: dict[str, LinkFaults] = {}
        self._system, self._chosen = system, chosen

    async def start(self) -> None:
        """Start all, the first before the others, and wait until each has its place."""
        for number in range(NODES):
            name = f"hall-{number}"
            faults = self._faults[name] = LinkFaults(number, partial(address_of, NETWORK))
            self.brokers[name] = broker = LiveBroker(
                NETWORK,
                self._system,
                name=name,
                chosen=self._chosen,
                contacts=[each.endpoint for each in list(self.brokers.values())[:1]],
                lines=LinkLines(faults=faults),
                on_notice=lambda notice: None,
            )
            await broker.start()
        await wait_until(lambda: all(each.joined for each in self.brokers.values()))

    def cut(self, *sides: Sequence[str]) -> None:
        """Let nothing pass between two sides; without any, let everything pass."""
        for name, faults in self._faults.items():
            beyond = [other for side in sides if name not in side for other in side]
            faults.ask(json.dumps({"cut": beyond}).encode())

    @property
    def fired(self) -> int:
        """How much did not get through."""
        return sum(each.fired["cut"] for each in self._faults.values())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            await self.start()
            yield
        finally:
            for broker in self.brokers.values():
                await broker.stop()


async def wait_until(holds: object, seconds: float = 90.0) -> None:
    assert callable(holds)
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


class Readers:
    """A client at one broker of each side, which wants everything."""

    def __init__(self, halls: Halls, *at: str) -> None:
        self._halls, self._at = halls, at
        self.given: dict[str, Counter[str]] = {}

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            tasks = []
            for at in self._at:
                name, where = f"reader at {at}", self._halls.brokers[at].endpoint
                client = await stack.enter_async_context(connect(where, name=name))
                events = await stack.enter_async_context(client.subscribed(topic="A"))
                given = self.given[name] = Counter[str]()
                tasks.append(asyncio.create_task(self._read(events, given)))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _read(self, events: AsyncIterator[Event], given: Counter[str]) -> None:
        async for event in events:
            given[event.id] += 1

    def have(self, ids: Iterable[str]) -> bool:
        """Whether all have been given these."""
        return all(set(ids) <= given.keys() for given in self.given.values())


async def publish(halls: Halls, at: str, ids: Sequence[str]) -> None:
    """Publish at a broker, each event once the one before is acknowledged."""
    async with connect(halls.brokers[at].endpoint) as client:
        for id in ids:
            await client.publish(Event(id, "A", {"source": at}))


def sides_of_tree(halls: Halls) -> tuple[list[str], list[str]]:
    """The root with one other node, and the rest, with most of the root's children."""
    root = next(name for name, each in halls.brokers.items() if each.place["parent"] is None)
    children = halls.brokers[root].place["children"]
    others = [name for name in halls.brokers if name != root]
    other = min(others, key=lambda name: halls.brokers[name].address in children)
    return [root, other], [name for name in others if name != other]


@alone
async def test_a_tree_that_was_cut_in_two_gives_everybody_what_either_side_acknowledged() -> None:
    halls = Halls("tree", {"heartbeat": 0.2})
    async with halls.running():
        await wait_until(lambda: any(each.place["standby"] for each in halls.brokers.values()))
        sides = sides_of_tree(halls)
        one, other = (side[0] for side in sides)
        readers = Readers(halls, *(side[-1] for side in sides))
        async with readers.reading():
            await publish(halls, one, ["whole"])
            halls.cut(*sides)
            ids = {at: [f"{at} {number}" for number in range(10)] for at in (one, other)}
            # The side of the root may need another standby, and the other one another root.
            await asyncio.gather(*(publish(halls, at, each) for at, each in ids.items()))
            assert halls.fired
            assert len([name for name, each in halls.brokers.items() if each.place["parent"] is None]) == 2
            assert not readers.have(ids[one])
            assert not readers.have(ids[other])
            halls.cut()
            await wait_until(lambda: readers.have([*ids[one], *ids[other]]))
            await publish(halls, other, ["again"])
            await wait_until(lambda: readers.have(["again"]))
            for given in readers.given.values():
                assert set(given) == {"whole", *ids[one], *ids[other], "again"}
                assert set(given.values()) == {1}


def successors(halls: Halls, side: Sequence[str]) -> bool:
    """Whether the nodes of a side are a ring by themselves."""
    addresses = sorted(halls.brokers[name].address for name in side)
    after = dict(zip(addresses, [*addresses[1:], addresses[0]], strict=True))
    return all(halls.brokers[name].place["successor"] == after[halls.brokers[name].address] for name in side)


@pytest.mark.parametrize("system", ["central", "flooding"])
def test_a_ring_that_was_cut_in_two_is_one_again(system: str) -> None:
    @alone
    async def check() -> None:
        halls = Halls(system, {})
        sides = ["hall-0", "hall-1"], ["hall-2", "hall-3", "hall-4"]
        readers = Readers(halls, "hall-1", "hall-4")
        async with halls.running(), readers.reading():
            await wait_until(lambda: successors(halls, list(halls.brokers)))
            halls.cut(*sides)
            await wait_until(lambda: all(successors(halls, side) for side in sides))
            halls.cut()
            await wait_until(lambda: successors(halls, list(halls.brokers)))
            assert halls.fired
            for number in count():  # until it has healed: registrations are where they belong again
                probes = [f"probe {number} at {name}" for name in halls.brokers]
                each_at = zip(halls.brokers, probes, strict=True)
                await asyncio.gather(*(publish(halls, at, [id]) for at, id in each_at))
                try:
                    await wait_until(lambda probes=probes: readers.have(probes), seconds=2)
                    break
                except TimeoutError:
                    assert number < 30
            ids = {name: [f"{name} {number}" for number in range(5)] for name in halls.brokers}
            await asyncio.gather(*(publish(halls, at, each) for at, each in ids.items()))
            due = [id for each in ids.values() for id in each]
            await wait_until(lambda: readers.have(due))
            for given in readers.given.values():
                assert {given[id] for id in due} == {1}

    check()
