"""Live nodes are recorded in the simulator's form, and the simulator's nodes do the same again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.local_network import merged
from distributary.model import Event, Subscription
from distributary.sim.replaying import replay_lines
from live.loops import alone, until

NODES = 4


async def recorded(system: str) -> list[str]:
    """What four brokers do that join, serve clients, lose one of them and find each other again."""
    lines: list[list[str]] = [[] for _ in range(NODES)]
    given: list[str] = []
    async with AsyncExitStack() as running:
        brokers: list[LiveBroker] = []
        for number in range(NODES):
            contacts = [brokers[0].endpoint] if brokers else []
            broker = LiveBroker(
                "plant",
                system,
                name=f"hall-{number}",
                contacts=contacts,
                trace=lines[number].append,
                on_delivery=lambda delivery: given.append(delivery.event.id),
            )
            brokers.append(await running.enter_async_context(broker))
        await until(lambda: all(broker.joined for broker in brokers))
        brokers[1].subscribe(Subscription("s1", "ann", topic="A", where="price > 3"))
        withdrawn = Subscription("s2", "bob", topic="A/*", where="price > 2")
        brokers[2].subscribe(withdrawn)
        brokers[2].unsubscribe(withdrawn.key)
        number = 0
        while len(set(given)) < 3:
            number += 1
            brokers[3].publish(Event(f"e{number}", "A/B", {"price": 3 + number % 2}))
            await asyncio.sleep(0.1)
        await brokers[2].stop()
        await asyncio.sleep(1.0)
    return merged(line for each in lines for line in each)


@pytest.mark.parametrize("system", ["tree", "central", "attributes"])
def test_what_live_nodes_did_the_simulator_does_again(system: str) -> None:
    found: list[str] = []

    @alone
    async def run() -> None:
        found.extend(await recorded(system))

    run()
    outcome = replay_lines(found)
    assert outcome.difference is None, str(outcome.difference)
    assert outcome.nodes == NODES
    assert outcome.partial_nodes == ()
    assert outcome.inputs > 100
    assert outcome.outputs > 50
    kinds = {line.split(" ")[1] for line in found}
    assert {"sent", "received", "woken", "called", "delivered", "happened"} <= kinds

    sent = next(place for place, line in enumerate(found) if " sent " in line)
    changed = [*found[:sent], *found[sent + 1 :]]
    assert replay_lines(changed).difference is not None, "a message that is missing is found"
    late = [line for line in found if " happened " not in line]
    assert replay_lines(late).partial_nodes == tuple(
        sorted({int(line.split(" ")[2]) for line in found if " made " in line})
    )


@alone
async def test_a_node_is_recorded_for_a_while() -> None:
    lines: list[str] = []
    async with LiveBroker("plant", "tree", name="hall-1") as broker:
        end = broker.record(lines.append)
        broker.publish(Event("e1"))
        end()
        broker.publish(Event("e2"))
        assert any(f" called {broker.address} publish_all (Event(id='e1'" in line for line in lines)
        assert "e1" in "".join(lines)
        assert "e2" not in "".join(lines)


def test_what_is_no_trace_is_told() -> None:
    with pytest.raises(DistributaryError, match="no line of a trace"):
        replay_lines(["nonsense"])
