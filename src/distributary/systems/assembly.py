"""Assembles the layers of a system's node: ring, courier, upkeep, broker.

Rules:

- Bare nodes send the messages of their system and nothing else: no acknowledgements, no upkeep, no copies, no
  refresh. They need a settled ring without faults; their costs are those of the papers.
- Robust nodes have all of these, and deliver correctly again once faults have ended.
- The founders of a ring are members from the start and are settled beforehand (`settle`). Nodes that
  come later, or restart without their state, join through nodes that are up (`contact`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from distributary.overlay.broker import Broker
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.invariants import unsettled
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.ring.upkeep import Upkeep
from distributary.systems.ring_broker import RingBroker

CIRCLE = Circle(32)
"""The identifiers of a ring: enough for millions of nodes."""

CONTACTS = 3
"""How many contacts a joining node gets."""


@dataclass(frozen=True)
class Settings:
    """The settings that all nodes of a system share."""

    nodes: int
    """About how many nodes there are."""
    circle: Circle = CIRCLE
    courier: bool = False
    upkeep: bool = False
    copies: int = 0
    refresh: float | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What a user set of the system's own (`systems.options`), by name."""

    @classmethod
    def robust(
        cls,
        nodes: int,
        *,
        copies: int = 2,
        refresh: float = 10.0,
        chosen: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Settings with everything that is needed to survive faults."""
        return cls(
            nodes, courier=True, upkeep=True, copies=copies, refresh=refresh, chosen=dict(chosen or {})
        )

    def among(self, *names: str) -> dict[str, Any]:
        """What a user set of these."""
        return {name: self.chosen[name] for name in names if name in self.chosen}


@dataclass
class RingParts:
    """What a broker is made from: the layers of its node, and the shared settings."""

    ring: Ring
    courier: Courier | None
    upkeep: Upkeep | None
    settings: Settings

    @property
    def layers(self) -> dict[str, Any]:
        """The keyword arguments `courier` and `upkeep`, which every broker takes."""
        return {"courier": self.courier, "upkeep": self.upkeep}

    @property
    def options(self) -> dict[str, Any]:
        """These and `copies` and `refresh`, for brokers that keep registrations."""
        return {**self.layers, "copies": self.settings.copies, "refresh": self.settings.refresh}


MakeBroker = Callable[[RingParts], RingBroker]
"""Makes the top layer of a node."""

Contact = Callable[[Address], Address | None]
"""Gives the address of a node that is up, for another to join through; None when there is none."""


class SystemAssembly(Protocol):
    """Makes the nodes of one system, on any overlay."""

    def __call__(self, address: Address) -> Broker:
        """Make a node: the first time a founder starts as a member, any other node joins."""

    def settle(self, brokers: Sequence[Any]) -> None:
        """Give founders, before they start, their places in a stable overlay."""

    def disorder(self, brokers: Sequence[Any]) -> list[str]:
        """The problems of the overlay of these nodes, which should be stable by now."""


Assemble = Callable[[Settings, Sequence[Address], Contact], SystemAssembly]
"""Makes the assembly of a system from its settings, founders and contacts."""


class RingAssembly:
    """Makes the nodes of one system on a ring."""

    def __init__(
        self, make: MakeBroker, settings: Settings, founders: Iterable[Address], contact: Contact
    ) -> None:
        self.settings = settings
        self._make = make
        self._founders = set(founders)
        self._contact = contact

    def __call__(self, address: Address) -> RingBroker:
        """Make a node: the first time a founder starts as a member, any other node joins."""
        settings = self.settings
        node = Node(address)
        ring = Ring(node, settings.circle)
        courier = Courier(node) if settings.courier else None
        if courier is not None:
            courier.carry(ring)
        upkeep = Upkeep(ring, self._via(address)) if settings.upkeep else None
        self._founders.discard(address)
        return self._make(RingParts(ring, courier, upkeep, settings))

    def settle(self, brokers: Iterable[RingBroker]) -> None:
        """Give founders, before they start, the neighbours and fingers of a stable ring."""
        settle([broker.ring for broker in brokers])

    def disorder(self, brokers: Iterable[RingBroker]) -> list[str]:
        """The problems of the ring of these nodes; none are reported without upkeep."""
        if not self.settings.upkeep:
            return []
        wrong = unsettled([broker.ring for broker in brokers])
        return [f"the ring is not in order: {one}" for one in wrong]

    def _via(self, address: Address) -> list[Address] | None:
        if address in self._founders:
            return None
        contacts = [self._contact(address) for _ in range(CONTACTS)]
        return list(dict.fromkeys(contact for contact in contacts if contact is not None))
