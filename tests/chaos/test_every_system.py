"""Every system between twelve processes, started and used by commands: what brute force says is delivered."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from distributary.client import connect
from distributary.flow.language import function
from distributary.live.local_network import LocalNetwork
from distributary.model import Event
from distributary.systems.table import SYSTEMS, system
from live.query_network import Askers, due, workload
from live.same_workload import Given, LiveReaders, Workload, given_in_simulator
from replay import replayed_by

NODES = 12
SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
PATIENCE = 90.0
REST = 5.0
"""Seconds in which subscriptions are in force on a ring, and in which what must not come would come."""
IN_TURN, FAST = "2", "25"
"""Events a second: where each must have arrived before the next is published, and elsewhere."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "distributary.cli", *arguments]


@contextmanager
def network_of(name: str, directory: Path, *options: str) -> Iterator[list[str]]:
    """A network, brought up and down by commands; gives where its clients connect."""
    where = ("--dir", str(directory))
    asked = command("network", "up", "--system", name, "--nodes", str(NODES), *where, *options)
    ran = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=300)
    try:
        yield json.loads(ran.stdout)
    finally:
        subprocess.run(command("network", "down", *where), check=True, timeout=120)


def hosts(directory: Path) -> dict[str, str]:
    """The operators of a query network, and the nodes that they run at."""
    return dict(LocalNetwork(directory).view()["queries"]["operators"])


def wait_until_at_rest(directory: Path) -> None:
    """Wait until all nodes have their places."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        view = LocalNetwork(directory).view()
        roots = view.get("tree", {}).get("roots", ["one"])
        if not view["missing"] and not view.get("ring", {}).get("broken") and len(roots) == 1:
            return
        time.sleep(0.2)
    raise AssertionError(f"the nodes have not found their places: {view}")


async def publish(endpoint: str, events: list[Event], rate: str) -> None:
    """Publish events by a command, which ends with 0 when all are acknowledged."""
    text = "".join(json.dumps(event.to_record()) + "\n" for event in events)
    asked = command("publish", "--to", endpoint, "--events", "-", "--rate", rate)
    run = partial(subprocess.run, input=text, capture_output=True, text=True, timeout=300)
    ran = await asyncio.to_thread(run, asked)
    assert ran.returncode == 0, ran.stderr


async def wait_for(holds: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        await asyncio.sleep(0.05)


@pytest.mark.chaos
@pytest.mark.parametrize("name", SYSTEMS)
def test_twelve_processes_deliver_what_the_simulator_delivers(
    name: str, tmp_path: Path, record_property: Any
) -> None:
    in_turn = system(name).workload.startswith("quotes")
    work = Workload.of(name, subscriptions=24, events=16 if in_turn else 40, seed=SEED)
    again = f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_every_system.py -k '[{name}]'"
    with replayed_by(again):
        # First, so that kernels are in their cache: a node that compiles them stands still, and is given up.
        simulated = given_in_simulator(work, NODES, SEED)
        with network_of(name, tmp_path) as endpoints:
            wait_until_at_rest(tmp_path)
            given = asyncio.run(use(work, endpoints))
            counted = sum(node["counts"].get("delivered", 0) for node in LocalNetwork(tmp_path).status())
        judge(work, given, counted, simulated)
        record_property("compared", {"events": len(work.data.events), "deliveries": len(given.given)})


async def use(work: Workload, endpoints: list[str]) -> LiveReaders:
    """Subscribe at all brokers, publish by a command, and wait for what is due."""
    readers = LiveReaders()
    async with readers.reading(endpoints, work):
        await asyncio.sleep(REST)
        await publish(endpoints[-1], list(work.data.events), IN_TURN if work.in_turn else FAST)
        if system(work.system).promise == "exact":
            expected = work.due()
            await wait_for(lambda: expected <= readers.pairs)
        await asyncio.sleep(REST)
    return readers


def judge(work: Workload, given: LiveReaders, counted: int, simulated: Given) -> None:
    """Compare with brute force, and with the simulator."""
    assert given.twice == []
    match system(work.system).promise:
        case "once":
            assert counted == len(work.data.events), "every event comes to the owner of its id, once"
        case "within":
            assert given.given
            assert work.drifts(given.given) == []
        case _:
            assert len(given.pairs) > 5, "little was due, which shows little"
            assert given.pairs == work.due() == simulated


@pytest.mark.chaos
def test_twelve_processes_run_stream_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "_permitted", None)
    catalogue, events = workload(queries=8, feeds=4, events=300, seed=SEED)
    options = ("--set", "goal=bandwidth", "--set", "period=3", "--set", "probing=2")

    async def run(endpoints: list[str]) -> None:
        askers = Askers()
        async with connect(endpoints[3]) as one, connect(endpoints[7]) as other:
            await askers.ask([one, other], catalogue)
            before = hosts(tmp_path)
            await publish(endpoints[-1], events, FAST)
            after = hosts(tmp_path)
            elsewhere = {name for name in before.keys() & after.keys() if before[name] != after[name]}
            assert elsewhere | (after.keys() - before.keys()), "no operator was moved, divided or replicated"
            await askers.check(due(catalogue, events))

    with network_of("queries", tmp_path, *options) as endpoints:
        asyncio.run(asyncio.wait_for(run(endpoints), 4 * PATIENCE))
