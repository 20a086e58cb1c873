"""Brokers that leave in good order: clients are sent elsewhere, nobody waits for them, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from distributary.client import connect
from distributary.errors import DistributaryError
from distributary.flow import QueryBuilder
from distributary.live import broker as live_broker
from distributary.live.broker import LiveBroker
from distributary.model import Event
from distributary.overlay.tree.state import TreeSettings
from distributary.systems import table
from live.loops import alone, until
from live.query_network import query_network
from live.test_processes import command
from live.test_queries import TRADES, _functions_as_before, trade  # noqa: F401


async def begin(
    stack: AsyncExitStack, names: list[str], data: Path, system: str = "tree"
) -> list[LiveBroker]:
    """Brokers that have all joined; a tree has a standby then."""
    brokers: list[LiveBroker] = []
    for name in names:
        brokers.append(make(name, data, brokers, system))
        await stack.enter_async_context(brokers[-1])
        await until(lambda: brokers[-1].joined)
    if system == "tree":
        await until(lambda: all_know_the_standby(brokers))
    return brokers


def all_know_the_standby(brokers: list[LiveBroker]) -> bool:
    trees = {broker.address: broker.broker.tree for broker in brokers}  # type: ignore[union-attr]
    root = trees.pop(root_of(brokers).address)
    return root.standby is not None and all(tree.link.standby == root.standby for tree in trees.values())


def make(name: str, data: Path, others: list[LiveBroker], system: str = "tree") -> LiveBroker:
    contacts = [other.endpoint for other in others if other.runs][:2]
    disk = data / name if system == "tree" else None
    return LiveBroker("distributary", system, name=name, contacts=contacts, data=disk)


def root_of(brokers: list[LiveBroker]) -> LiveBroker:
    return next(each for each in brokers if each.runs and each.place["parent"] is None and each.joined)


def event(number: int) -> Event:
    return Event(f"e{number}", "A", {"source": "seller"})


@alone
async def test_a_tree_s_brokers_leave_one_after_the_other_and_nothing_is_lost(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        brokers = await begin(stack, ["a", "b", "c", "d"], tmp_path)
        places = [broker.endpoint for broker in brokers]
        async with connect(*places[1:], places[0]) as seller, connect(*places, name="ann") as ann:  # noqa: SIM117
            async with ann.subscribed(topic="A") as events:
                for number in range(3):
                    leaving = root_of(brokers)
                    await seller.publish(event(2 * number))
                    assert await leaving.leave(), "it has left in good order"
                    await seller.publish(event(2 * number + 1))
                    left = [broker for broker in brokers if broker.runs]
                    assert leaving not in left
                    if number < 2:
                        again = make(leaving.name, tmp_path, left)
                        await stack.enter_async_context(again)
                        brokers.append(again)
                        await until(lambda again=again: again.joined)  # type: ignore[misc]
                        settled = [broker for broker in brokers if broker.runs]
                        await until(lambda s=settled: root_of(s).broker.tree.standby is not None)  # type: ignore[misc,union-attr]
                assert [(await anext(events)).id for _ in range(6)] == [f"e{number}" for number in range(6)]


@alone
async def test_a_root_that_leaves_is_replaced_at_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        brokers = await begin(stack, ["a", "b", "c"], tmp_path)
        root = root_of(brokers)
        standby = root.broker.tree.standby  # type: ignore[union-attr]
        term = root.place["term"]
        assert await root.leave()
        others = [broker for broker in brokers if broker.runs]
        await until(lambda: any(broker.place["parent"] is None and broker.joined for broker in others))
        new = root_of(others)
        assert (new.address, new.place["term"]) == (standby, term + 1), "no election was held"


@pytest.mark.parametrize("lost", ["root", "standby"])
@alone
async def test_a_process_that_is_gone_is_found_by_connections_it_refuses(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = partial(TreeSettings, election=3_600.0, silence=3_600.0)  # nobody finds out by heartbeats
    monkeypatch.setattr(table, "TreeSettings", patient)
    async with AsyncExitStack() as stack:
        brokers = await begin(stack, ["a", "b", "c"], tmp_path)
        root = root_of(brokers)
        standby = next(each for each in brokers if each.address == root.broker.tree.standby)  # type: ignore[union-attr]
        gone = root if lost == "root" else standby
        others = [each for each in brokers if each is not gone]
        await gone.stop()
        async with connect(others[0].endpoint) as seller:
            await seller.publish(event(1))
        assert root_of(others) is (standby if lost == "root" else root)


@pytest.mark.parametrize("system", ["central", "hope-kbpp"])
@alone
async def test_a_broker_of_a_ring_leaves(system: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        brokers = await begin(stack, ["a", "b", "c", "d"], tmp_path, system)
        await until(lambda: all(broker.place["predecessor"] is not None for broker in brokers))
        leaving = brokers[1]
        assert await leaving.leave()
        others = [broker for broker in brokers if broker is not leaving]
        gone = leaving.address
        await until(lambda: all(gone not in (b.place["predecessor"], b.place["successor"]) for b in others))


@alone
async def test_operators_of_a_broker_that_leaves_run_elsewhere() -> None:
    build = QueryBuilder("busy")
    build.filter("large", "trades", where="size > 5")
    async with query_network(3) as brokers, connect(brokers[0].endpoint) as client:
        await client.register(TRADES)
        async with client.query(build.query()) as results:
            leaving = brokers[1]
            brokers[0]._runner.call(lambda: brokers[0].broker.move("busy.large", leaving.address))  # type: ignore[union-attr]
            await until(lambda: leaving.place["operators"] == ["busy.large"])
            await client.publish(trade(1))
            assert await leaving.leave()
            await client.publish(trade(2))
            assert [(await anext(results)).item.id for _ in range(2)] == ["t1", "t2"]


@alone
async def test_clients_are_told_why_and_nobody_is_let_in_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_broker, "LEAVING", 0.5)
    async with LiveBroker("distributary", "tree", name="a") as hall:  # noqa: SIM117
        async with connect(hall.endpoint, lasting=False) as client:
            leaving = asyncio.create_task(hall.leave())
            with pytest.raises(DistributaryError, match="broker 'a' leaves the network"):
                await client.publish(*map(event, range(2_000)))
            with pytest.raises(DistributaryError, match="broker 'a' leaves the network"):
                async with connect(hall.endpoint):
                    pass
            assert await leaving


@alone
async def test_leaving_is_bounded_in_time(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        brokers = await begin(stack, ["a", "b", "c"], tmp_path)
        root = root_of(brokers)
        for broker in brokers:
            if broker is not root:
                broker._runner.stop()  # type: ignore[union-attr]
        assert not await root.leave(patience=0.5), "nobody has taken over"
        assert not root.runs


def test_a_process_leaves_at_sigterm_and_ends_at_once_at_a_second(tmp_path: Path) -> None:
    nodes: list[subprocess.Popen[str]] = []
    contacts: list[str] = []
    try:
        for name in ("a", "b"):
            file, ready = tmp_path / f"{name}.toml", tmp_path / f"{name}.json"
            file.write_text(f'name = "{name}"\ndata = "{name}"\ncontacts = {json.dumps(contacts)}\n')
            started = command("node", str(file), "--ready", str(ready))
            nodes.append(subprocess.Popen(started, stderr=subprocess.PIPE, text=True))
            while not ready.exists():
                assert nodes[-1].poll() is None
                time.sleep(0.05)
            contacts.append(json.loads(ready.read_text())["client"])
        first, second = nodes
        second.send_signal(signal.SIGTERM)
        _, told = second.communicate(timeout=30)
        assert second.returncode == 0
        assert "has left" in told
        os.kill(first.pid, signal.SIGSTOP)
        for _ in range(2):  # both are there when it looks again
            first.send_signal(signal.SIGTERM)
        first.send_signal(signal.SIGINT)
        os.kill(first.pid, signal.SIGCONT)
        first.communicate(timeout=30)
        assert first.returncode == 0
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
