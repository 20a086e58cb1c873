"""The nodes of a simulated system and their lives: how they are made, stop, come back and leave.

Rules:

- `make(address)` makes a node's layers afresh: at first, and again when it restarts without its state. What
  it needs of the living (whom to join through) it finds by `contact`.
- A node that leaves is told so, if its member has `leave()`, and is gone some seconds later; one that crashes
  is not asked.
- Whoever is not up is never asked for anything: `up` lists those that a client could talk to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Node
from distributary.sim.simulator import Simulator


class Member(Protocol):
    """Whatever stands for a node: a ring, a broker."""

    @property
    def node(self) -> Node:
        """The node that it stands for."""


M = TypeVar("M", bound=Member)


class Population(Generic[M]):
    """The members of one simulated system.

    >>> from distributary.overlay.ring.ring import Ring, settle
    >>> from distributary.overlay.ring.circle import Circle
    >>> from distributary.sim.latency import ConstantLatency
    >>> world = Simulator(1, ConstantLatency(0.05))
    >>> rings = Population(world, lambda address: Ring(Node(address), Circle(8)))
    >>> rings.add_settled([10, 90, 200], settle)
    >>> rings.crash(90)
    >>> rings.up(), rings.contact(10)
    ([10, 200], 200)
    """

    def __init__(self, simulator: Simulator, make: Callable[[Address], M], *, farewell: float = 5.0) -> None:
        self.simulator = simulator
        self.members: dict[Address, M] = {}
        """Everybody, those that are down included."""
        self._make = make
        self._farewell = farewell
        self._leaving: set[Address] = set()
        self._choice = simulator.random_for("contact")

    def up(self) -> list[Address]:
        """Those that are running and not about to leave, in the order of their addresses."""
        is_up = self.simulator.is_up
        return [address for address in sorted(self.members) if self._stays(address) and is_up(address)]

    def contact(self, address: Address) -> Address | None:
        """Somebody else that is up, chosen by the seed; None when there is nobody."""
        others = [other for other in self.up() if other != address]
        return self._choice.choice(others) if others else None

    def add(self, address: Address) -> M:
        """Make a node and start it."""
        if address in self.members:
            raise DistributaryError(f"there is a node {address} already")
        member = self._make(address)
        self.members[address] = member
        self.simulator.add(member.node)
        return member

    def add_settled(self, addresses: Iterable[Address], settle: Callable[[list[M]], None]) -> None:
        """Make several nodes, put them in order (as a ring at rest, say), and only then start them."""
        made = [(address, self._make(address)) for address in addresses]
        settle([member for _, member in made])
        for address, member in made:
            if address in self.members:
                raise DistributaryError(f"there is a node {address} already")
            self.members[address] = member
            self.simulator.add(member.node)

    def crash(self, address: Address) -> None:
        """Stop a node at once; what it holds in memory is kept for a restart with state."""
        self.simulator.crash(address)

    def restart(self, address: Address, *, keep_state: bool = True) -> None:
        """Start a crashed node again, as it was or made afresh."""
        if keep_state:
            self.simulator.restart(address)
            return
        self.members[address] = member = self._make(address)
        self.simulator.restart(address, member.node)

    def pause(self, address: Address) -> None:
        """Have a node do nothing for a while."""
        self.simulator.pause(address)

    def resume(self, address: Address) -> None:
        """Have a paused node go on, with all that came meanwhile."""
        self.simulator.resume(address)

    def leave(self, address: Address) -> None:
        """Have a node say farewell, and take it out of the world when it has had the time to."""
        if address not in self.up():
            raise DistributaryError(f"node {address} is not up, so it cannot leave")
        self._leaving.add(address)
        farewell = getattr(self.members[address], "leave", None)
        if farewell is None:
            self._take_out(address)
            return
        self.simulator.call(address, farewell, cause=("leave", address))
        self.simulator.at(self.simulator.now + self._farewell, lambda: self._take_out(address))

    def _take_out(self, address: Address) -> None:
        self.simulator.remove(address)
        del self.members[address]
        self._leaving.discard(address)

    def _stays(self, address: Address) -> bool:
        return address not in self._leaving
