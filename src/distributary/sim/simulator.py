"""Runs nodes in virtual time, in one thread, from one seed: the same seed gives the same trace.

Rules:

- Everything scheduled is in one heap, ordered by time and then by the order of scheduling. Nothing else
  decides what happens next: no set or dictionary is iterated in an order that depends on hashing.
- Randomness comes from generators seeded by the simulator's seed and a name (`random_for`), so that one
  more draw in one place changes nothing in another.
- Everything that a node does has a *cause*, the operation it goes back to, and a *depth*, the number of
  messages since then. An operation (`call`) starts at depth 0; a message or alarm inherits the cause that its
  node was handling, and a message is one deeper. What nodes do by themselves has no cause: it is upkeep.
- A crashed node loses its alarms and all messages that arrive. A paused one handles everything later, in
  order, including what its clients ask of it.
- All clocks agree, unless `set_clock` makes one differ. A node is told the time of its own clock, which never
  goes back, and is woken by it; whoever watches (observers, deliveries, the driver) goes by the true time.
  An alarm is due by the rate that the clock had when it was set.

Cost: two to three microseconds a message, the node's own handling included, and what observers add.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any, NamedTuple, Protocol

from distributary.errors import DistributaryError
from distributary.model import EventKey, SubscriptionKey
from distributary.overlay.node import (
    Acknowledge,
    Address,
    Deliver,
    Effect,
    Message,
    Node,
    Send,
    Store,
    Token,
    Wake,
)
from distributary.sim.disks import Disks

Cause = Hashable | None


class DeliveredItem(NamedTuple):
    """An item that a node handed to its clients: when, where, of which cause, and after how many messages."""

    time: float
    address: Address
    item: Any
    cause: Cause
    depth: int


class Clock(NamedTuple):
    """The clock of a node: since a time it has been so many seconds ahead, and it runs at a rate."""

    since: float = 0.0
    ahead: float = 0.0
    rate: float = 1.0

    def reads(self, now: float) -> float:
        """What it shows at a true time.

        >>> Clock(since=10, ahead=5, rate=1.5).reads(12)
        18.0
        """
        return self.since + self.ahead + self.rate * (now - self.since)


class Network(Protocol):
    """Decides whether and when a message arrives."""

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> Iterable[float]:
        """The delay of each copy that arrives; none for a message that is lost."""


class Observer:
    """Is told what happens, in order. Metrics and traces are observers.

    A method that a subclass does not override costs nothing.
    """

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """A node sent a message, which may still be lost."""

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        """A message arrived at its node, which handles it next."""

    def missed(self, now: float, sender: Address, to: Address, message: Message) -> None:
        """A message arrived at a node that is down or removed."""

    def woken(self, now: float, address: Address, token: Token) -> None:
        """An alarm is due, and its node handles it next."""

    def delivered(self, delivered: DeliveredItem) -> None:
        """A node handed an item to its clients."""

    def acknowledged(self, now: float, address: Address, what: EventKey | SubscriptionKey) -> None:
        """A node told its client that what was asked for is done."""

    def happened(self, now: float, address: Address | None, what: str) -> None:
        """Something else happened: a node started, crashed or was paused, or a fault began or ended."""


ARRIVAL, ALARM, CLIENT_CALL, ACTION = range(4)
"""The kinds of scheduled entries. Each is one flat tuple, as there are very many:

    time, order, ARRIVAL, to, message, sender, cause, depth
    time, order, ALARM, address, token, life, cause, depth
    time, order, CLIENT_CALL, address, action, None, cause, 0
    time, order, ACTION, None, action, None, None, 0
"""

Due = tuple[float, int, int, Any, Any, Any, Cause, int]


class Simulator:
    """A set of nodes in virtual time.

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
        """All nodes, including those that are down."""
        self.delivered: list[DeliveredItem] = []
        self._due: list[Due] = []
        self._order = count()
        self._early = count(-(1 << 60))
        """Order numbers for entries that waited at a paused node: before all others of the same time."""
        self._lives: dict[Address, int] = {}
        self._down: set[Address] = set()
        self._held: dict[Address, list[Due]] = {}
        self._ready: dict[Address, Node] = {}
        """The nodes that are neither down nor paused."""
        self._clocks: dict[Address, Clock] = {}
        self.disks = Disks(self.random_for("disks"))
        """What nodes have stored; it outlives them."""
        """The clocks that do not show the true time."""
        self._observers: list[Observer] = []
        self._listeners: dict[str, list[Callable[..., None]]]
        names = ("sent", "received", "missed", "woken", "delivered", "acknowledged")
        self._listeners = {name: [] for name in names}
        """The observers' methods by name, without those that do nothing."""
        self._on_sent = self._listeners["sent"]
        for observer in observers:
            self.observe(observer)

    def observe(self, observer: Observer) -> None:
        """Add an observer, which is told what happens from now on."""
        self._observers.append(observer)
        for name, listeners in self._listeners.items():
            if getattr(type(observer), name) is not getattr(Observer, name):
                listeners.append(getattr(observer, name))

    def random_for(self, name: str) -> Random:
        """A random generator of its own for a name; the same in every process."""
        return Random(f"{self.seed}/{name}")

    # Nodes and their lives.

    def add(self, node: Node) -> None:
        """Add a node and start it; DistributaryError when its address is taken."""
        address = node.address
        if address in self.nodes:
            raise DistributaryError(f"there is a node {address} already")
        self.nodes[address] = self._ready[address] = node
        self._lives[address] = self._lives.get(address, -1) + 1
        self.say(address, "start")
        self._carry_out(address, node.start(self.local_time(address)), None, 0)

    def is_up(self, address: Address) -> bool:
        """Whether there is such a node and it is not down; a paused node is up."""
        return address in self.nodes and address not in self._down

    def is_paused(self, address: Address) -> bool:
        """Whether a node is paused."""
        return address in self._held

    def crash(self, address: Address) -> None:
        """Stop a node: its alarms are dropped and messages that arrive from now on are lost."""
        self._require(address)
        self._down.add(address)
        self._ready.pop(address, None)
        for _, _, kind, _, what, sender, _, _ in self._held.pop(address, ()):
            if kind == ARRIVAL:
                self._miss(sender, address, what)
        self._lives[address] += 1
        self.say(address, "crash")
        lost = self.disks.crash(address)
        if lost:
            self.say(address, f"lost {lost} writes")

    def restart(self, address: Address, fresh: Node | None = None) -> None:
        """Start a crashed node again with its memory, as if it had been cut off, or `fresh` in its place."""
        if address not in self._down:
            raise DistributaryError(f"node {address} is not down, so it cannot be restarted")
        self._down.discard(address)
        if fresh is not None:
            self.nodes[address] = fresh
        self._ready[address] = node = self.nodes[address]
        self.say(address, "restart" if fresh is None else "restart afresh")
        self._carry_out(address, node.start(self.local_time(address)), None, 0)

    def pause(self, address: Address) -> None:
        """Pause a node: what is due for it waits until it is resumed."""
        self._require(address)
        if address not in self._held:
            self._held[address] = []
            del self._ready[address]
            self.say(address, "pause")

    def resume(self, address: Address) -> None:
        """Resume a paused node: all that waited for it is due now. Does nothing for any other node."""
        held = self._held.pop(address, None)
        if held is None:
            return
        self._ready[address] = self.nodes[address]
        self.say(address, "resume")
        for _, _, kind, to, what, who, cause, depth in held:
            heappush(self._due, (self.now, next(self._early), kind, to, what, who, cause, depth))

    def remove(self, address: Address) -> None:
        """Remove a node for good."""
        if self.is_up(address):
            self.crash(address)
        del self.nodes[address]
        self._down.discard(address)
        self.say(address, "gone")

    # Clocks.

    def local_time(self, address: Address) -> float:
        """What the clock of a node shows now."""
        clock = self._clocks.get(address)
        return self.now if clock is None else clock.reads(self.now)

    def set_clock(self, address: Address, *, forward: float = 0.0, rate: float | None = None) -> None:
        """Put the clock of a node forward by some seconds, or have it run at another rate.

        A clock keeps going through crashes and restarts of its node. DistributaryError when it would go back.
        """
        before = self._clocks.get(address, Clock())
        if forward < 0 or (rate is not None and rate <= 0):
            raise DistributaryError(f"a clock never goes back: not by {forward:g} s, nor at a rate of {rate}")
        ahead = before.reads(self.now) - self.now + forward
        self._clocks[address] = Clock(self.now, ahead, before.rate if rate is None else rate)

    # Time.

    def call(self, address: Address, action: Callable[[], None], cause: Cause = None) -> None:
        """Run an action of a client at a node now; everything that follows from it has this cause."""
        self._require(address)
        node = self._ready.get(address)
        if node is None:
            self._held[address].append((self.now, 0, CLIENT_CALL, address, action, None, cause, 0))
        else:
            self._carry_out(address, node.call(action, self.local_time(address)), cause, 0)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Schedule an action of the driver: a call, a fault, a measurement."""
        if time < self.now:
            raise DistributaryError(f"it is {self.now:g} s already, so nothing can be planned for {time:g} s")
        heappush(self._due, (time, next(self._order), ACTION, None, action, None, None, 0))

    def run(self, until: float | None = None, most: int | None = None) -> None:
        """Run until nothing is scheduled, or to the time `until`, or for `most` steps."""
        left = self._run_due(inf if until is None else until, -1 if most is None else most)
        if until is not None and left:
            self.now = max(self.now, until)

    def _run_due(self, end: float, most: int) -> int:
        """Run entries up to the time `end`, `most` at most; returns how many of these are left.

        Every message passes here, so the common cases are written out with local names, for speed.
        """
        due, ready, carry_out, clocks = self._due, self._ready, self._carry_out, self._clocks
        on_received, on_woken = self._listeners["received"], self._listeners["woken"]
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
            local = self.local_time(address) if clocks else now
            if kind == ARRIVAL:
                for received in on_received:
                    received(now, who, address, what)
                effects = node.receive(what, who, local)
            elif kind == ALARM:
                for woken in on_woken:
                    woken(now, address, what)
                effects = node.wake(what, local)
            else:
                effects = node.call(what, local)
            if effects:
                carry_out(address, effects, cause, depth)
        return most

    @property
    def idle(self) -> bool:
        """Whether nothing is scheduled."""
        return not self._due

    def _wait_or_miss(self, entry: Due) -> None:
        """Keep an entry for a paused node; drop it for one that is down or removed."""
        _, _, kind, address, what, sender, _, _ = entry
        if address in self._held:
            self._held[address].append(entry)
        elif kind == ARRIVAL:
            self._miss(sender, address, what)

    def _carry_out(self, address: Address, effects: list[Effect], cause: Cause, depth: int) -> None:
        now, due, order = self.now, self._due, self._order
        on_sent, delays, deeper = self._on_sent, self.network.delays, depth + 1
        if address in self.disks.busy:
            self.disks.hold(address, (effects, cause, depth))
            return
        left = iter(effects)
        for effect in left:
            if isinstance(effect, Send):
                to, message = effect
                for sent in on_sent:
                    sent(now, address, to, message, cause, deeper)
                for delay in delays(now, address, to, message):
                    heappush(due, (now + delay, next(order), ARRIVAL, to, message, address, cause, deeper))
            elif isinstance(effect, Deliver):
                for item in effect.items:
                    delivered = DeliveredItem(now, address, item, cause, depth)
                    self.delivered.append(delivered)
                    for listener in self._listeners["delivered"]:
                        listener(delivered)
            elif isinstance(effect, Wake):
                after, token = effect
                if address in self._clocks:
                    after /= self._clocks[address].rate
                life = self._lives[address]
                heappush(due, (now + after, next(order), ALARM, address, token, life, cause, depth))
            elif isinstance(effect, Acknowledge):
                for key in effect.keys:
                    for acknowledged in self._listeners["acknowledged"]:
                        acknowledged(now, address, key)
            else:
                self._write(address, [effect, *left], cause, depth)

    def _write(self, address: Address, effects: list[Effect], cause: Cause, depth: int) -> None:
        """Begin to write what these effects begin with; the others wait until that is on the disk."""
        first = next(
            (place for place, each in enumerate(effects) if not isinstance(each, Store)), len(effects)
        )
        life = self._lives[address]
        took = self.disks.begin(address, [each for each in effects[:first] if isinstance(each, Store)])
        self.disks.hold(address, (effects[first:], cause, depth))
        self.at(self.now + took, lambda: self._written(address, life))

    def _written(self, address: Address, life: int) -> None:
        if self._lives[address] == life:
            for waited in self.disks.end(address):
                self._carry_out(address, *waited)

    def _miss(self, sender: Address, to: Address, message: Message) -> None:
        for missed in self._listeners["missed"]:
            missed(self.now, sender, to, message)

    def say(self, address: Address | None, what: str) -> None:
        """Tell the observers of something that is neither a message nor an alarm, such as a fault."""
        for observer in self._observers:
            observer.happened(self.now, address, what)

    def _require(self, address: Address) -> None:
        if not self.is_up(address):
            raise DistributaryError(f"node {address} is not up")
