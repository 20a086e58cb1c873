"""Runs nodes in virtual time, in one thread, from one seed: the same seed gives the same trace.

Rules:

- What is due is kept in one heap, ordered by time and then by the order in which it was asked for. Nothing
  else decides what happens next: no set or dictionary is walked in an order that depends on hashing.
- Randomness comes from generators seeded by the simulator's seed and a name (`random_for`), so that one
  more draw here changes nothing there.
- Everything a node does has a *cause*, the operation it goes back to, and a *depth*, the messages
  between. An operation (`call`) starts at depth 0; a message or alarm takes its cause from what its node was
  handling, a message one deeper. What nodes do of themselves since `start` has no cause: it is upkeep.
- A crashed node loses its alarms and whatever arrives. A paused one gets everything late, in order, what its
  clients ask of it included.

Cost: two to three microseconds a message, the node's own entry included, and what observers add.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any, NamedTuple, Protocol

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Deliver, Effect, Message, Node, Send, Token

Cause = Hashable | None


class DeliveredItem(NamedTuple):
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


class Observer:
    """Sees what happens, in order. Metrics and traces are observers.

    An observer says only what it wants to see: what it does not define costs nothing.
    """

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """A node sent a message; whether it arrives is another matter."""

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        """A message reached its node, which handles it next."""

    def missed(self, now: float, sender: Address, to: Address, message: Message) -> None:
        """A message reached a node that is down or gone."""

    def woken(self, now: float, address: Address, token: Token) -> None:
        """An alarm rang, and its node handles it next."""

    def delivered(self, delivered: DeliveredItem) -> None:
        """A node handed an item to its clients."""

    def happened(self, now: float, address: Address | None, what: str) -> None:
        """A node started, crashed, was paused; a fault began or ended."""


ARRIVAL, ALARM, ASKED, ACTION = range(4)
"""Kinds of what is due. Each is one flat tuple, for there are very many:

    time, order, ARRIVAL, to, message, sender, cause, depth
    time, order, ALARM, address, token, life, cause, depth
    time, order, ASKED, address, action, None, cause, 0
    time, order, ACTION, None, action, None, None, 0
"""

Due = tuple[float, int, int, Any, Any, Any, Cause, int]


class Simulator:
    """The world of some nodes.

    >>> from distributary.sim.latency import ConstantLatency
    >>> world = Simulator(seed=1, network=ConstantLatency(0.05))
    >>> node = Node(7)
    >>> node.at_alarm("tick", node.deliver)
    >>> world.add(node)
    >>> world.call(7, lambda: node.wake_after(2, "tick", "hello"), cause="greeting")
    >>> world.run()
    >>> world.delivered
    [DeliveredItem(time=2.0, address=7, item='hello', cause='greeting', depth=0)]
    """

    def __init__(self, seed: int, network: Network, observers: Iterable[Observer] = ()) -> None:
        self.seed = seed
        self.network = network
        self.now = 0.0
        self.steps = 0
        self.nodes: dict[Address, Node] = {}
        """Everybody, those that are down included."""
        self.delivered: list[DeliveredItem] = []
        self._due: list[Due] = []
        self._order = count()
        self._early = count(-(1 << 60))
        """Orders for what has waited: before all else that is due at the same time."""
        self._lives: dict[Address, int] = {}
        self._down: set[Address] = set()
        self._held: dict[Address, list[Due]] = {}
        self._ready: dict[Address, Node] = {}
        """Those that are neither down nor paused."""
        self._observers: list[Observer] = []
        self._on_sent: list[Callable[[float, Address, Address, Message, Cause, int], None]] = []
        self._on_received: list[Callable[[float, Address, Address, Message], None]] = []
        self._on_missed: list[Callable[[float, Address, Address, Message], None]] = []
        self._on_woken: list[Callable[[float, Address, Token], None]] = []
        self._on_delivered: list[Callable[[DeliveredItem], None]] = []
        for observer in observers:
            self.observe(observer)

    def observe(self, observer: Observer) -> None:
        """Let somebody see what happens from now on."""
        self._observers.append(observer)
        for name, listeners in (
            ("sent", self._on_sent),
            ("received", self._on_received),
            ("missed", self._on_missed),
            ("woken", self._on_woken),
            ("delivered", self._on_delivered),
        ):
            if getattr(type(observer), name) is not getattr(Observer, name):
                listeners.append(getattr(observer, name))

    def random_for(self, name: str) -> Random:
        """A generator of its own for whoever needs one; texts seed it, so it is the same in every process."""
        return Random(f"{self.seed}/{name}")

    # Nodes and their lives.

    def add(self, node: Node) -> None:
        """Take a node into the world and start it."""
        address = node.address
        if address in self.nodes:
            raise DistributaryError(f"there is a node {address} already")
        self.nodes[address] = self._ready[address] = node
        self._lives[address] = self._lives.get(address, -1) + 1
        self.say(address, "start")
        self._carry_out(address, node.start(self.now), None, 0)

    def is_up(self, address: Address) -> bool:
        """Whether there is such a node and it is not down; it may be paused."""
        return address in self.nodes and address not in self._down

    def is_paused(self, address: Address) -> bool:
        """Whether a node is paused."""
        return address in self._held

    def crash(self, address: Address) -> None:
        """Stop a node: its alarms are forgotten and what arrives from now on is lost."""
        self._require(address)
        self._down.add(address)
        self._ready.pop(address, None)
        for _, _, kind, _, what, sender, _, _ in self._held.pop(address, ()):
            if kind == ARRIVAL:
                self._miss(sender, address, what)
        self._lives[address] += 1
        self.say(address, "crash")

    def restart(self, address: Address, fresh: Node | None = None) -> None:
        """Start a crashed node again, with the state that it had, or as a fresh node in its place."""
        if address not in self._down:
            raise DistributaryError(f"node {address} is not down, so it cannot be restarted")
        self._down.discard(address)
        if fresh is not None:
            self.nodes[address] = fresh
        self._ready[address] = node = self.nodes[address]
        self.say(address, "restart" if fresh is None else "restart afresh")
        self._carry_out(address, node.start(self.now), None, 0)

    def pause(self, address: Address) -> None:
        """Hold a node: what is due for it waits until it is resumed."""
        self._require(address)
        if address not in self._held:
            self._held[address] = []
            del self._ready[address]
            self.say(address, "pause")

    def resume(self, address: Address) -> None:
        """Let a paused node go on: all that waited for it is due now. Any other node is left as it is."""
        held = self._held.pop(address, None)
        if held is None:
            return
        self._ready[address] = self.nodes[address]
        self.say(address, "resume")
        for _, _, kind, to, what, who, cause, depth in held:
            heappush(self._due, (self.now, next(self._early), kind, to, what, who, cause, depth))

    def remove(self, address: Address) -> None:
        """Take a node out of the world for good."""
        if self.is_up(address):
            self.crash(address)
        del self.nodes[address]
        self._down.discard(address)
        self.say(address, "gone")

    # Time.

    def call(self, address: Address, action: Callable[[], None], cause: Cause = None) -> None:
        """Have a client of the node do something now; all that follows has this cause."""
        self._require(address)
        node = self._ready.get(address)
        if node is None:
            self._held[address].append((self.now, 0, ASKED, address, action, None, cause, 0))
        else:
            self._carry_out(address, node.call(action, self.now), cause, 0)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Have the driver do something at a time to come: a call, a fault, a measurement."""
        if time < self.now:
            raise DistributaryError(f"it is {self.now:g} s already, so nothing can be planned for {time:g} s")
        heappush(self._due, (time, next(self._order), ACTION, None, action, None, None, 0))

    def run(self, until: float | None = None, most: int | None = None) -> None:
        """Let time pass until nothing is due, or to `until`, or for `most` steps."""
        left = self._pass(inf if until is None else until, -1 if most is None else most)
        if until is not None and left:
            self.now = max(self.now, until)

    def step(self) -> None:
        """Do what is due next."""
        if not self._due:
            raise DistributaryError("nothing is due")
        self._pass(inf, 1)

    def _pass(self, end: float, most: int) -> int:
        """Do what is due to an end, so many steps at most; returns how many of these are left, if any.

        Every message comes through here, so the usual cases are written out, with names at hand.
        """
        due, ready, on_received, carry_out = self._due, self._ready, self._on_received, self._carry_out
        while due and most:
            entry = heappop(due)
            now, _, kind, address, what, who, cause, depth = entry
            if now > end:
                heappush(due, entry)
                break
            most -= 1
            self.now = now
            self.steps += 1
            if kind == ACTION:
                what()
                continue
            if kind == ALARM and self._lives[address] != who:
                continue
            node = ready.get(address)
            if node is None:
                self._wait_or_miss(entry)
                continue
            if kind == ARRIVAL:
                for received in on_received:
                    received(now, who, address, what)
                effects = node.receive(what, who, now)
            elif kind == ALARM:
                for woken in self._on_woken:
                    woken(now, address, what)
                effects = node.wake(what, now)
            else:
                effects = node.call(what, now)
            if effects:
                carry_out(address, effects, cause, depth)
        return most

    @property
    def idle(self) -> bool:
        """Whether nothing at all is due."""
        return not self._due

    def _wait_or_miss(self, entry: Due) -> None:
        """What is due for a node that is paused waits; for one that is down or gone, it is lost."""
        _, _, kind, address, what, sender, _, _ = entry
        if address in self._held:
            self._held[address].append(entry)
        elif kind == ARRIVAL:
            self._miss(sender, address, what)

    def _carry_out(self, address: Address, effects: list[Effect], cause: Cause, depth: int) -> None:
        now, due, order = self.now, self._due, self._order
        on_sent, delays, deeper = self._on_sent, self.network.delays, depth + 1
        for effect in effects:
            if isinstance(effect, Send):
                to, message = effect
                for sent in on_sent:
                    sent(now, address, to, message, cause, deeper)
                for delay in delays(now, address, to, message):
                    heappush(due, (now + delay, next(order), ARRIVAL, to, message, address, cause, deeper))
            elif isinstance(effect, Deliver):
                delivered = DeliveredItem(now, address, effect.item, cause, depth)
                self.delivered.append(delivered)
                for listener in self._on_delivered:
                    listener(delivered)
            else:
                after, token = effect
                life = self._lives[address]
                heappush(due, (now + after, next(order), ALARM, address, token, life, cause, depth))

    def _miss(self, sender: Address, to: Address, message: Message) -> None:
        for missed in self._on_missed:
            missed(self.now, sender, to, message)

    def say(self, address: Address | None, what: str) -> None:
        """Tell the observers of something that is neither message nor alarm: a fault, a phase of a test."""
        for observer in self._observers:
            observer.happened(self.now, address, what)

    def _require(self, address: Address) -> None:
        if not self.is_up(address):
            raise DistributaryError(f"node {address} is not up")
