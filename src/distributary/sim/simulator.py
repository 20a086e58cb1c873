"""Runs nodes in virtual time, in one thread, from one seed: the same seed gives the same trace.

Rules:

- What is due is kept in one heap, ordered by time and then by the order in which it was asked for. Nothing
  else decides what happens next: no set or dictionary is walked in an order that depends on hashing.
- Randomness comes from generators seeded by the simulator's seed and a name (`random_for`), so that one
  more draw here changes nothing there.
- Everything a node does has a *cause*, the operation it goes back to, and a *depth*, the messages
  between. An operation (`call`) starts at depth 0; a message or alarm takes its cause from what its node was
  handling, a message one deeper. What nodes do of themselves since `start` has no cause: it is upkeep.
- A crashed node loses its alarms and whatever arrives; a paused one gets everything late, in order.

Cost: a few microseconds a message beside what the nodes do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from random import Random
from typing import Any, NamedTuple, Protocol

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Deliver, Effect, Message, Node, Send, Token

Cause = Hashable | None


class Delivered(NamedTuple):
    """An item that a node handed to its clients: when, where, and what it had cost to come there."""

    time: float
    address: Address
    item: Any
    cause: Cause
    depth: int


class Network(Protocol):
    """Decides what becomes of a message."""

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> Iterable[float]:
        """How long each copy takes to arrive: none for a message that is lost."""


class Observer(Protocol):
    """Sees all that happens, in order. Metrics and traces are observers."""

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None: ...

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None: ...

    def woken(self, now: float, address: Address, token: Token) -> None: ...

    def delivered(self, delivered: Delivered) -> None: ...

    def happened(self, now: float, address: Address | None, what: str) -> None:
        """A node started, crashed, was paused; a fault began or ended."""


class _Arrival(NamedTuple):
    sender: Address
    to: Address
    message: Message
    cause: Cause
    depth: int


class _Alarm(NamedTuple):
    address: Address
    token: Token
    life: int
    cause: Cause
    depth: int


class Simulator:
    """The world of some nodes.

    >>> from distributary.sim.latency import Constant
    >>> world = Simulator(seed=1, network=Constant(0.05))
    >>> node = Node(7)
    >>> node.at_alarm("tick", node.deliver)
    >>> world.add(node)
    >>> world.call(7, lambda: node.wake_after(2, "tick", "hello"), cause="greeting")
    >>> world.run()
    >>> world.delivered
    [Delivered(time=2.0, address=7, item='hello', cause='greeting', depth=0)]
    """

    def __init__(self, seed: int, network: Network, observers: Iterable[Observer] = ()) -> None:
        self.seed = seed
        self.network = network
        self.observers = list(observers)
        self.now = 0.0
        self.steps = 0
        self.nodes: dict[Address, Node] = {}
        self.delivered: list[Delivered] = []
        self._due: list[tuple[float, int, Any]] = []
        self._order = count()
        self._lives: dict[Address, int] = {}
        self._down: set[Address] = set()
        self._held: dict[Address, list[Any]] = {}

    def random_for(self, name: str) -> Random:
        """A generator of its own for whoever needs one; texts seed it, so it is the same in every process."""
        return Random(f"{self.seed}/{name}")

    # Nodes and their lives.

    def add(self, node: Node) -> None:
        """Take a node into the world and start it."""
        if node.address in self.nodes:
            raise DistributaryError(f"there is a node {node.address} already")
        self.nodes[node.address] = node
        self._lives[node.address] = self._lives.get(node.address, -1) + 1
        self._say(node.address, "start")
        self._carry_out(node.address, node.start(self.now), None, 0)

    def is_up(self, address: Address) -> bool:
        return address in self.nodes and address not in self._down

    def crash(self, address: Address) -> None:
        """Stop a node: its alarms are forgotten and what arrives from now on is lost."""
        self._require(address)
        self._down.add(address)
        self._held.pop(address, None)
        self._lives[address] += 1
        self._say(address, "crash")

    def restart(self, address: Address, fresh: Node | None = None) -> None:
        """Start a crashed node again, with the state that it had, or as a fresh node in its place."""
        if address not in self._down:
            raise DistributaryError(f"node {address} is not down, so it cannot be restarted")
        self._down.discard(address)
        if fresh is not None:
            self.nodes[address] = fresh
        self._say(address, "restart" if fresh is None else "restart afresh")
        self._carry_out(address, self.nodes[address].start(self.now), None, 0)

    def pause(self, address: Address) -> None:
        """Hold a node: what is due for it waits until it is resumed."""
        self._require(address)
        self._held.setdefault(address, [])
        self._say(address, "pause")

    def resume(self, address: Address) -> None:
        held = self._held.pop(address, None)
        if held is None:
            return
        self._say(address, "resume")
        for event in held:
            self._push(self.now, event)

    def remove(self, address: Address) -> None:
        """Take a node out of the world for good."""
        if self.is_up(address):
            self.crash(address)
        del self.nodes[address]
        self._down.discard(address)

    # Time.

    def call(self, address: Address, action: Callable[[], None], cause: Cause = None) -> None:
        """Have a client of the node do something now; all that follows has this cause."""
        self._require(address)
        self._carry_out(address, self.nodes[address].call(action, self.now), cause, 0)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Have the driver do something at a time to come: a call, a fault, a measurement."""
        self._push(time, action)

    def run(self, until: float | None = None, most: int | None = None) -> None:
        """Let time pass until nothing is due, or to `until`, or for `most` steps."""
        left = most
        while self._due and (until is None or self._due[0][0] <= until):
            if left is not None:
                if left == 0:
                    return
                left -= 1
            self.step()
        if until is not None:
            self.now = max(self.now, until)

    def step(self) -> None:
        """Do what is due next."""
        self.now, _, event = heapq.heappop(self._due)
        self.steps += 1
        if type(event) is _Arrival:
            self._arrive(event)
        elif type(event) is _Alarm:
            self._ring(event)
        else:
            event()

    @property
    def idle(self) -> bool:
        """Whether nothing at all is due."""
        return not self._due

    def _arrive(self, event: _Arrival) -> None:
        sender, to, message, cause, depth = event
        if to in self._down or to not in self.nodes:
            return
        if to in self._held:
            self._held[to].append(event)
            return
        for observer in self.observers:
            observer.received(self.now, sender, to, message)
        self._carry_out(to, self.nodes[to].receive(message, sender, self.now), cause, depth)

    def _ring(self, event: _Alarm) -> None:
        address, token, life, cause, depth = event
        if self._lives.get(address) != life or address not in self.nodes:
            return
        if address in self._held:
            self._held[address].append(event)
            return
        for observer in self.observers:
            observer.woken(self.now, address, token)
        self._carry_out(address, self.nodes[address].wake(token, self.now), cause, depth)

    def _carry_out(self, address: Address, effects: list[Effect], cause: Cause, depth: int) -> None:
        now = self.now
        for effect in effects:
            if isinstance(effect, Send):
                to, message = effect
                for observer in self.observers:
                    observer.sent(now, address, to, message, cause, depth + 1)
                for delay in self.network.delays(now, address, to, message):
                    self._push(now + delay, _Arrival(address, to, message, cause, depth + 1))
            elif isinstance(effect, Deliver):
                delivered = Delivered(now, address, effect.item, cause, depth)
                self.delivered.append(delivered)
                for observer in self.observers:
                    observer.delivered(delivered)
            else:
                alarm = _Alarm(address, effect.token, self._lives[address], cause, depth)
                self._push(now + effect.after, alarm)

    def _push(self, time: float, event: Any) -> None:
        heapq.heappush(self._due, (time, next(self._order), event))

    def _say(self, address: Address | None, what: str) -> None:
        for observer in self.observers:
            observer.happened(self.now, address, what)

    def _require(self, address: Address) -> None:
        if not self.is_up(address):
            raise DistributaryError(f"node {address} is not up")
