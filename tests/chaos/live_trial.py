"""Broker processes with clients, whose nodes are killed, stopped, cut off and lost, one at a time.

    trial = LiveTrial(directory, seed=7)
    trial.run()
    trial.history, trial.fired

From the seed come the faults, their order, whom they hit and how long they last, what is published and who
subscribes to what where. Processes and networks have clocks of their own, so two runs of a seed are alike and
not the same.

- `kill`: SIGKILL, and a start again with the node's files a little later.
- `lose`: the same, with its data directory gone.
- `gone`: SIGKILL and its data directory gone, for good. At most once a trial, as the last fault.
- `pause`: SIGSTOP, and SIGCONT a little later.
- `cut`, `cut one way`: the node hears nothing of others, is not heard by them, or both; its clients stay.
- `part`: the network is cut in two, between the node with some others and all the rest; clients stay.
- `disturb`: some of its frames to other nodes are dropped, come twice, or are late.
- `fill`: there is no room left on the disk of the root or its standby (`disks`). The node stops, does not
  start while the disk is full, and starts again when there is room.

The root and its standby are hit more often than others. Each fault is counted when it is seen to have
happened, and one that did not happen fails the trial. After each the trial waits until all nodes have their
places again, a ring is one, and a tree has its log on two disks.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from chaos.disks import TrialDisks
from chaos.history import Given, History, Publish, Subscribing, violations_of
from distributary.client import Client, connect
from distributary.errors import DistributaryError
from distributary.live.local_network import LocalNetwork, node_names
from distributary.model import Event, Subscription

PATIENCE = 120.0
"""Seconds in which nodes must have their places again, and everything due must have come."""
TOPICS = ("A/1", "A/2", "B/1")
WISHES = (
    {"topic": "A"},
    {"topic": "A/*", "where": "price > 4"},
    {"topic": "B"},
    {"where": "price between 2 and 6"},
)
FAULTS = ("kill", "lose", "pause", "cut", "cut one way", "disturb")
LASTING = (0.5, 3.0, 12.0)
"""Seconds for which a fault may last."""
PAUSE = 0.05
"""Seconds between two events of a publisher."""
ROUND = 5
"""Events of each publisher in a round that tells whether the network has healed."""
LONGEST_ROUND = 10.0
"""Seconds after which another round is looked at."""


class LiveTrial:
    """One run."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        nodes: int = 8,
        faults: tuple[str, ...] = FAULTS,
        system: str = "tree",
        publishers: int = 3,
        lasting: tuple[float, ...] = LASTING,
        patience: float = PATIENCE,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.seed = seed
        self.patience = patience
        self._durations = lasting
        self.faults = faults
        self.fired: Counter[str] = Counter()
        self.history = History()
        self.healed = 0.0
        """When a round of events had reached everybody who wants them, after the last fault."""
        self.problems: list[str] = []
        """What is wrong, beside what clients saw."""
        self.told: list[str] = []
        """What was done when, for whoever reads about a violation."""
        self._names = node_names(nodes)
        self._system, self._settings = system, dict(settings or {})
        self._publishers = [f"publisher-{number}" for number in range(publishers)]
        self._random = Random(f"{seed}/live trial")
        self._directory = directory
        self._network = LocalNetwork(directory)
        self._disks = TrialDisks(directory)
        self._entries: dict[str, dict[str, Any]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._gone: set[str] = set()
        self._connecting: dict[str, Any] = {}
        """What clients need to connect, beside endpoints and a name."""
        self._stop = False

    def run(self) -> None:
        """Start the network and its clients, let all faults happen, and wait until everything due came."""
        try:
            for name in self._names if "fill" in self.faults else ():
                self._disks.mount(name)
            self._bring_up()
            asyncio.run(self._live())
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait(10)
            self._disks.release()

    def _bring_up(self) -> None:
        tables = {name: {"faults": {"seed": self.seed}} for name in self._names}
        described = self._network.up(len(self._names), self._system, settings=self._settings, tables=tables)
        self._entries = {entry["name"]: entry for entry in described["nodes"]}
        self._processes = dict(self._network._started)

    @property
    def since(self) -> float:
        """From when on all must be delivered: from the beginning where nodes keep a log, else once healed."""
        return -inf if self._keeps_log else self.healed

    @property
    def _keeps_log(self) -> bool:
        return any("\ndata = " in Path(entry["config"]).read_text() for entry in self._entries.values())

    # The clients.

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = []
            confirmed = []
            for number, wish in enumerate(WISHES):
                subscribed = asyncio.Event()
                confirmed.append(subscribed)
                running.append(tasks.create_task(self._subscribe(f"reader-{number}", wish, subscribed)))
            for each in confirmed:
                await each.wait()
            for name in self._publishers:
                running.append(tasks.create_task(self._publish(name)))
            for kind in self._plan():
                await asyncio.sleep(self._random.uniform(0.5, 2.0))
                await self._happen(kind)
            await self._wait_until_healed()
            self._stop = True
            await asyncio.wait(running[len(WISHES) :], timeout=self.patience / 4)
            await self._wait_for_the_rest()
            for task in running:
                task.cancel()

    def _client(self, name: str) -> Client:
        """A client that knows all brokers, in an order of its own."""
        endpoints = [entry["client"] for entry in self._entries.values()]
        Random(f"{self.seed}/{name}").shuffle(endpoints)
        return connect(*endpoints, name=name, **self._connecting)

    async def _publish(self, name: str) -> None:
        random = Random(f"{self.seed}/{name}/events")
        number = 0
        async with self._client(name) as client:
            while not self._stop:
                number += 1
                attributes = {"source": name, "price": random.randrange(10)}
                event = Event(f"e{number}", random.choice(TOPICS), attributes)
                place = len(self.history.publishes)
                self.history.publishes.append(Publish(event, time.monotonic(), None))
                with suppress(DistributaryError):
                    await client.publish(event)
                    sent = self.history.publishes[place]
                    self.history.publishes[place] = sent._replace(acknowledged=time.monotonic())
                await asyncio.sleep(PAUSE)

    async def _subscribe(self, name: str, wish: dict[str, Any], confirmed: asyncio.Event) -> None:
        wanted = Subscribing(Subscription("s1", name, **wish))
        self.history.subscriptions.append(wanted)
        async with self._client(name) as client, client.subscribed(id="s1", **wish) as events:
            wanted.confirmed = time.monotonic()
            confirmed.set()
            async for event in events:
                self.history.given.append(Given(wanted.subscription.key, event, time.monotonic()))

    # The faults.

    def _plan(self) -> list[str]:
        planned = [kind for kind in self.faults if kind != "gone"]
        self._random.shuffle(planned)
        return planned + ["gone"] * ("gone" in self.faults)

    async def _happen(self, kind: str) -> None:
        victim = await asyncio.to_thread(self._victim, kind)
        seconds = self._random.choice(self._durations)
        self._tell(f"{kind} {victim} for {seconds} s")
        happen: dict[str, Callable[[str, float], Awaitable[bool]]] = {
            "kill": self._kill,
            "lose": self._lose,
            "gone": self._lose_for_good,
            "pause": self._pause,
            "cut": self._cut,
            "cut one way": self._cut_one_way,
            "part": self._part,
            "disturb": self._disturb,
            "fill": self._fill,
        }
        if await happen[kind](victim, seconds):
            self.fired[kind] += 1
        self._tell(f"{kind} {victim} is over")
        await self._wait_until(self._at_rest, f"all nodes have their places again after {kind} {victim}")
        self._tell("all nodes have their places")

    def _victim(self, kind: str) -> str:
        """A node; one that keeps the log where the fault is about that, and else in two of five cases."""
        up = [name for name in self._names if name not in self._gone]
        keepers = [name for name in self._keepers(self._places()) if name in up]
        of_keepers = kind == "fill" or self._random.random() < 0.4
        return self._random.choice(keepers if of_keepers and keepers else up)

    async def _kill(self, victim: str, seconds: float, lost: bool = False, again: bool = True) -> bool:
        process = self._processes[victim]
        process.kill()
        died = await asyncio.to_thread(process.wait, 10)
        if lost:
            shutil.rmtree(self._directory / f"{victim}.data", ignore_errors=True)
        if again:
            await asyncio.sleep(seconds)
            self._start(victim)
        return died == -signal.SIGKILL

    async def _lose(self, victim: str, seconds: float) -> bool:
        return await self._kill(victim, seconds, lost=True)

    async def _lose_for_good(self, victim: str, seconds: float) -> bool:
        self._gone.add(victim)
        return await self._kill(victim, seconds, lost=True, again=False)

    async def _pause(self, victim: str, seconds: float) -> bool:
        pid = self._processes[victim].pid
        os.kill(pid, signal.SIGSTOP)
        await self._wait_until(lambda: _state(pid) == "T", "the process has stopped")
        await asyncio.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        return True

    async def _fill(self, victim: str, seconds: float) -> bool:
        self._disks.fill(victim, self._processes[victim].pid)
        codes = [await asyncio.to_thread(self._processes[victim].wait, self.patience)]
        if self._disks.stays_full(victim):
            self._disks.fill(victim, 0)  # the journal has removed its write-ahead log
            self._start(victim)
            codes.append(await asyncio.to_thread(self._processes[victim].wait, self.patience))
        await asyncio.sleep(seconds)
        self._disks.make_room(victim)
        self._start(victim)
        return set(codes) == {1}

    async def _cut(self, victim: str, seconds: float) -> bool:
        return await self._fault(victim, {"cut": ["*"]}, seconds, "cut")

    async def _cut_one_way(self, victim: str, seconds: float) -> bool:
        way = self._random.choice(["cut_to", "cut_from"])
        return await self._fault(victim, {way: ["*"]}, seconds, "cut")

    async def _part(self, victim: str, seconds: float) -> bool:
        side = self._side_of(victim)
        rest = [name for name in self._names if name not in side]
        await self._ask_all({name: {"cut": rest if name in side else side} for name in self._names})
        await asyncio.sleep(seconds)
        fired = await self._ask_all({name: {} for name in self._names})
        return any(each.get("cut", 0) > 0 for each in fired)

    def _side_of(self, victim: str) -> list[str]:
        """A node and others, by the seed: one to all but one of the network."""
        others = [name for name in self._names if name != victim]
        side = [victim, *self._random.sample(others, self._random.randrange(len(others)))]
        self._tell(f"cut in two: {', '.join(sorted(side))} and the rest")
        return side

    async def _ask_all(self, asked: Mapping[str, dict[str, Any]]) -> list[dict[str, int]]:
        """Have faults at several nodes at once; how often each had fired there."""
        told = await asyncio.gather(*(asyncio.to_thread(self._ask, *each) for each in asked.items()))
        return [each["fired"] for each in told]

    async def _disturb(self, victim: str, seconds: float) -> bool:
        asked = {"drop": 0.1, "duplicate": 0.1, "delay": 0.2, "delay_ms": 400}
        return await self._fault(victim, asked, seconds, "drop")

    async def _fault(self, victim: str, asked: dict[str, Any], seconds: float, kind: str) -> bool:
        end = time.monotonic() + PATIENCE
        fired = (await asyncio.to_thread(self._ask, victim, asked))["fired"]
        await asyncio.sleep(seconds)
        while not fired.get(kind, 0) and time.monotonic() < end:  # an idle link has nothing to lose
            await asyncio.sleep(0.1)
            fired = (await asyncio.to_thread(self._ask, victim, asked))["fired"]
        await asyncio.to_thread(self._ask, victim, {})
        return bool(fired.get(kind, 0) > 0)

    def _ask(self, victim: str, asked: dict[str, Any]) -> dict[str, Any]:
        host, _, port = self._entries[victim]["status"].rpartition(":")
        connection = HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("POST", "/faults", json.dumps(asked))
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()

    def _start(self, name: str) -> None:
        entry = self._entries[name]
        command = [sys.executable, "-m", "distributary.cli", "node", entry["config"]]
        with open(entry["log"], "ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    # Healing.

    def _view(self) -> dict[str, Any]:
        """The network as it is now."""
        return self._network.view()

    def _places(self) -> dict[str, dict[str, Any]]:
        """What each node that answers says of itself."""
        return _there(self._view())

    def _keepers(self, places: dict[str, dict[str, Any]]) -> list[str]:
        """The root of the latest term and those that stand by for it, by what nodes say of themselves."""
        trees = {name: node for name, node in places.items() if node.get("overlay") == "tree"}
        epoch = max((node["epoch"] or 0.0 for node in trees.values()), default=0.0)
        return [
            name
            for name, node in trees.items()
            if node["epoch"] == epoch and (node["standby"] or (node["joined"] and node["parent"] is None))
        ]

    def _at_rest(self) -> bool:
        """Whether all nodes have their places, a ring is one, and a log is on two disks.

        A ring that was cut is two for some seconds, while which all its nodes say that they have joined.
        """
        view = self._view()
        places = _there(view)
        joined = all(places.get(name, {}).get("joined") for name in self._names if name not in self._gone)
        in_order = joined and not view.get("ring", {}).get("broken")
        return in_order and (not self._keeps_log or len(self._keepers(places)) > 1)

    async def _wait_until_healed(self) -> None:
        """Wait until a round of events has reached everybody who wants them; the next events must, too."""
        end = time.monotonic() + self.patience
        began = time.monotonic()
        while time.monotonic() < end:
            if not self._published_since(began):
                await asyncio.sleep(0.05)
            elif not self.missing(began):
                self.healed = time.monotonic()
                self._tell("healed")
                await self._wait_until(lambda: self._published_since(self.healed), "more is acknowledged")
                return
            elif time.monotonic() - began > LONGEST_ROUND:
                began = time.monotonic()
            else:
                await asyncio.sleep(0.05)
        self.problems.append(f"not healed after {self.patience:g} s")
        shown = ("joined", "parent", "children", "root", "epoch", "term", "standby", "clients")
        for name, place in (await asyncio.to_thread(self._places)).items():
            self._tell(f"{name}: {', '.join(f'{key} {place.get(key)}' for key in shown)}")

    def _published_since(self, began: float) -> bool:
        since = Counter(
            each.event.source
            for each in self.history.publishes
            if each.sent >= began and each.acknowledged is not None
        )
        return all(since[name] >= ROUND for name in self._publishers)

    def missing(self, since: float) -> int:
        """How many deliveries of acknowledged events that were sent since some time have not come."""
        found = violations_of(self.history, since)
        return sum(violation.kind == "lost" for violation in found)

    async def _wait_for_the_rest(self) -> None:
        end = time.monotonic() + self.patience / 4
        while self.missing(self.since) and time.monotonic() < end:
            await asyncio.sleep(0.2)

    async def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + self.patience
        while not await asyncio.to_thread(holds):
            if time.monotonic() > end:
                raise AssertionError(f"not within {self.patience:g} s: {what}")
            await asyncio.sleep(0.1)

    def _tell(self, what: str) -> None:
        self.told.append(f"{time.monotonic():.3f} {what}")


def _there(view: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the nodes that answered say of themselves, by name."""
    return {node["name"]: node for node in view["nodes"] if not node.get("missing")}


def _state(pid: int) -> str:
    """What a process does, as Linux tells it: T for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
