"""Two versions of the protocol in one network: nodes are upgraded one by one, while events flow."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distributary.client import Client, connect
from distributary.errors import DistributaryError
from distributary.live import codec
from distributary.live.broker import LiveBroker
from distributary.live.codec import UnknownKindError, decode
from distributary.live.greeting import Greeting, refusal
from distributary.live.local_network import LocalNetwork
from distributary.model import Event
from live.loops import alone
from live.test_processes import until

NODES = 4


@pytest.mark.parametrize(
    ("ours", "theirs", "understood"),
    [((1, 1), (1, 1), True), ((1, 2), (1, 1), True), ((1, 1), (1, 2), True), ((2, 3), (1, 1), False)],
)
def test_nodes_that_share_a_version_understand_each_other(
    ours: tuple[int, int], theirs: tuple[int, int], understood: bool
) -> None:
    one, other = Greeting(*ours, "plant", 1, None), Greeting(*theirs, "plant", 2, None)
    assert (refusal(one, other) is None) == (refusal(other, one) is None) == understood


def test_a_kind_that_only_a_later_version_has_is_told_from_other_bytes() -> None:
    with pytest.raises(UnknownKindError):
        decode(b"\x92\xcd\xea\x60\x00")


@alone
async def test_a_client_of_no_common_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributary.client import connection

    async with LiveBroker("distributary", "tree", name="hall") as hall:
        monkeypatch.setattr(connection, "OLDEST", codec.VERSION + 1)
        monkeypatch.setattr(connection, "VERSION", codec.VERSION + 2)
        with pytest.raises(DistributaryError, match="the client speaks versions 2 to 3 of the protocol"):
            async with connect(hall.endpoint):
                pass
        monkeypatch.setattr(connection, "OLDEST", codec.OLDEST)
        async with connect(hall.endpoint):
            pass


def start_next(entry: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a node of the next version with the files of one of this."""
    tests = str(Path(__file__).parent.parent)
    command = [sys.executable, "-m", "live.next_version", "node", entry["config"]]
    with open(entry["log"], "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": tests})


@pytest.mark.chaos
def test_nodes_are_upgraded_one_by_one_while_events_flow_and_nothing_is_lost(tmp_path: Path) -> None:
    network = LocalNetwork(tmp_path)
    described = network.up(NODES, "tree")
    upgraded: dict[str, subprocess.Popen[bytes]] = {}
    try:
        published, got = asyncio.run(upgrade_all(network, described["nodes"], upgraded))
        assert got == [f"e{number}" for number in range(published)]
        assert published > NODES * 2
    finally:
        for process in upgraded.values():
            process.kill()
            process.wait(10)
        network.down()


async def upgrade_all(
    network: LocalNetwork, entries: list[dict[str, Any]], upgraded: dict[str, subprocess.Popen[bytes]]
) -> tuple[int, list[str]]:
    """Replace all nodes by those of the next version, while a client publishes and another reads."""
    places = [entry["client"] for entry in entries]
    counts: list[dict[str, Any]] = []
    async with connect(*places) as seller, connect(*reversed(places), name="ann") as ann:  # noqa: SIM117
        async with ann.subscribed(topic="A") as events:
            upgrading = asyncio.create_task(
                asyncio.to_thread(upgrade_each, network, entries, upgraded, counts)
            )
            published = 0
            while not upgrading.done():
                await publish(seller, published)
                published += 1
                await asyncio.sleep(0.02)
            await upgrading
            await publish(seller, published)
            got = [(await anext(events)).id for _ in range(published + 1)]
    assert any(each.get("of later versions") for each in counts), "nodes of this version ignore what is new"
    return published + 1, got


async def publish(seller: Client, number: int) -> None:
    await seller.publish(Event(f"e{number}", "A", {"source": "seller"}))


def upgrade_each(
    network: LocalNetwork,
    entries: list[dict[str, Any]],
    upgraded: dict[str, subprocess.Popen[bytes]],
    counts: list[dict[str, Any]],
) -> None:
    """One node after the other leaves, and comes back as one of the next version."""
    versions: list[set[int]] = []
    for entry in entries:
        name = entry["name"]
        network._started[name].send_signal(signal.SIGTERM)
        assert network._started[name].wait(60) == 0
        upgraded[name] = start_next(entry)
        assert until(lambda: all(node.get("joined") for node in network.status()))
        if len(upgraded) == NODES // 2:
            assert until(lambda: any(ignored(node) for node in network.status()))
        nodes = network.status()
        counts += [node["counts"] for node in nodes]
        spoken = {link["version"] for node in nodes for link in node["links"] if link["linked"]}
        versions.append(spoken)
    assert versions[NODES // 2 - 1] >= {1}
    assert until(lambda: spoken_in(network) <= {None, 2})


def spoken_in(network: LocalNetwork) -> set[int | None]:
    """The versions that are spoken over links."""
    return {link["version"] for node in network.status() for link in node["links"]}


def ignored(node: dict[str, Any]) -> int:
    """How many messages of kinds that it does not know a node has ignored."""
    count: int = node.get("counts", {}).get("of later versions", 0)
    return count
