"""The nodes of a simulated system over time: how they are made, stop, restart and leave.

Rules:

- `make(address)` makes the layers of a node: the first time, and again whenever it restarts; with its disk,
  it is given what was stored (`restore`). To find a node to join through, they call `contact`.
- A node that leaves is told so, if its member has `leave()`, and is removed some seconds later; one that
  crashes is not told.
- `up` lists the nodes that a client could talk to: no other node is ever asked for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Node
from distributary.sim.simulator import Simulator

FAREWELL = 5.0
"""Seconds between telling a node to leave and removing it."""


class Member(Protocol):
    """An object that stands for a node, such as a ring or a broker."""

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

    def __init__(self, simulator: Simulator, make: Callable[[Address], M]) -> None:
        self.simulator = simulator
        self.members: dict[Address, M] = {}
        """All members, including those that are down."""
        self._make = make
        self._leaving: set[Address] = set()
        self._choice = simulator.random_for("contact")

    def up(self) -> list[Address]:
        """The addresses of the nodes that are running and not about to leave, sorted."""
        is_up = self.simulator.is_up
        return [
            address for address in sorted(self.members) if address not in self._leaving and is_up(address)
        ]

    def contact(self, address: Address) -> Address | None:
        """A random other node that is up; None when there is none."""
        others = [other for other in self.up() if other != address]
        return self._choice.choice(others) if others else None

    def add(self, address: Address) -> M:
        """Make a node and start it; DistributaryError when its address is taken."""
        return self._start(address, self._make(address))

    def _start(self, address: Address, member: M) -> M:
        if address in self.members:
            raise DistributaryError(f"there is a node {address} already")
        self.members[address] = member
        self.simulator.add(member.node)
        return member

    def add_settled(self, addresses: Iterable[Address], settle: Callable[[list[M]], None]) -> None:
        """Make several nodes, apply `settle` to them (to form a stable ring, say), and then start them."""
        made = [(address, self._make(address)) for address in addresses]
        settle([member for _, member in made])
        for address, member in made:
            self._start(address, member)

    def crash(self, address: Address) -> None:
        """Stop a node at once: what it had stored stays on its disk, all else is gone."""
        self.simulator.crash(address)

    def lose(self, address: Address) -> None:
        """Stop a node for good."""
        self.crash(address)

    def restart(self, address: Address, *, keep_state: bool = True) -> None:
        """Start a crashed node again, made anew: with what was on its disk, or with an empty one.

        A member that cannot be restored from a disk goes on with its memory, as if it had been cut off.
        """
        if not keep_state:
            self.simulator.disks.wipe(address)
        elif not hasattr(self.members[address], "restore"):
            self.simulator.restart(address)
            return
        self.members[address] = member = self._make(address)
        if keep_state:
            member.restore(self.simulator.disks.of(address))  # type: ignore[attr-defined]
        self.simulator.restart(address, member.node)

    def pause(self, address: Address) -> None:
        """Pause a node until it is resumed."""
        self.simulator.pause(address)

    def resume(self, address: Address) -> None:
        """Resume a paused node, which then handles all that arrived meanwhile."""
        self.simulator.resume(address)

    def leave(self, address: Address) -> None:
        """Tell a node to leave, and remove it a few seconds later; DistributaryError when it is not up."""
        if address not in self.up():
            raise DistributaryError(f"node {address} is not up, so it cannot leave")
        self._leaving.add(address)
        farewell = getattr(self.members[address], "leave", None)
        if farewell is None:
            self._remove(address)
            return
        self.simulator.call(address, farewell, cause=("leave", address))
        self.simulator.at(self.simulator.now + FAREWELL, lambda: self._remove(address))

    def _remove(self, address: Address) -> None:
        self.simulator.remove(address)
        del self.members[address]
        self._leaving.discard(address)
