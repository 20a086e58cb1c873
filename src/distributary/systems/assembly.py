"""Puts the layers of a system's node together: ring, courier, upkeep, broker.

Rules:

- Bare nodes send the messages of their system and nothing else: no acknowledgements, no upkeep, no copies, no
  refresh. They need a settled ring without faults; their costs are those of the papers.
- Robust nodes have all of these, and keep their promises whenever faults have healed.
- The founders of a ring are members from the start and are settled before it (`settle_brokers`). Whoever
  comes later, or again without its state, joins through nodes that are up (`contact`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from distributary.model import Event, Subscription
from distributary.overlay.broker import Broker
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Node
from distributary.overlay.replication import Replication
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, Rule
from distributary.overlay.ring.invariants import unsettled
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.ring.upkeep import Upkeep

CIRCLE = Circle(32)
"""Room for millions of nodes whose identifiers differ."""

CONTACTS = 3
"""How many nodes a newcomer is told of."""


@dataclass(frozen=True)
class Settings:
    """What all nodes of a system share."""

    nodes: int
    """About how many there are."""
    circle: Circle = CIRCLE
    rule: Rule = BOTH_WAYS
    successor_count: int = 4
    courier: bool = False
    upkeep: bool = False
    copies: int = 0
    refresh: float | None = None

    @classmethod
    def robust(cls, nodes: int, *, copies: int = 2, refresh: float = 10.0) -> Settings:
        """Everything that it takes to survive faults."""
        return cls(nodes, courier=True, upkeep=True, copies=copies, refresh=refresh)


@dataclass
class RingParts:
    """What a broker is made of: its node's ring, the courier if there is one, and what all share."""

    ring: Ring
    courier: Courier | None
    settings: Settings

    def replication(self) -> Replication | None:
        """For systems that are given theirs; None when no copies are kept."""
        send = self.courier.send if self.courier else None
        return Replication(self.ring, self.settings.copies, send) if self.settings.copies else None


MakeBroker = Callable[[RingParts], tuple[Broker, Replication | None]]
"""Makes the top layer of a node, and says what keeps its contents, to be handed over before leaving."""


Contact = Callable[[Address], Address | None]
"""Names somebody that is up, for a node to join through."""


class SystemAssembly(Protocol):
    """Makes the nodes of one system, on whatever overlay."""

    def __call__(self, address: Address) -> Broker:
        """Make a node: a founder at first, afterwards one that joins."""

    def settle(self, brokers: Sequence[Any]) -> None:
        """Put founders, before they start, into their places in an overlay at rest."""

    def disorder(self, brokers: Sequence[Any]) -> list[str]:
        """What is wrong with the overlay of those that are up, when all should be at rest."""


Assemble = Callable[[Settings, Sequence[Address], Contact], SystemAssembly]
"""Begins a system from its settings and founders."""


class RingBroker:
    """A broker on a ring, with all the layers below it."""

    def __init__(self, parts: RingParts, upkeep: Upkeep | None, make: MakeBroker) -> None:
        self.ring = parts.ring
        self.node = parts.ring.node
        self.courier = parts.courier
        self.upkeep = upkeep
        self.broker, replication = make(parts)
        if upkeep is not None and replication is not None:
            upkeep.on_leave(replication.hand_over)

    def subscribe(self, subscription: Subscription) -> None:
        """Register a client's subscription; FilterError when the system cannot serve it."""
        self.broker.subscribe(subscription)

    def unsubscribe(self, subscription_id: str) -> None:
        """Give up a client's subscription."""
        self.broker.unsubscribe(subscription_id)

    def publish(self, event: Event) -> None:
        """Publish a client's event."""
        self.broker.publish(event)

    def leave(self) -> None:
        """Hand over what is kept here and leave the ring; without upkeep, just stop being a member."""
        if self.upkeep is not None:
            self.upkeep.leave()
        else:
            self.ring.member = False


class RingAssembly:
    """Makes the nodes of one system."""

    def __init__(
        self,
        make: MakeBroker,
        settings: Settings,
        founders: Iterable[Address],
        contact: Contact,
    ) -> None:
        self.settings = settings
        self._make = make
        self._founders = set(founders)
        self._contact = contact

    def __call__(self, address: Address) -> RingBroker:
        """Make a node: a founder at first, afterwards one that joins."""
        settings = self.settings
        node = Node(address)
        ring = Ring(node, settings.circle, rule=settings.rule, successor_count=settings.successor_count)
        courier = Courier(node) if settings.courier else None
        if courier is not None:
            courier.carry(ring)
        upkeep = Upkeep(ring, self._via(address)) if settings.upkeep else None
        self._founders.discard(address)
        return RingBroker(RingParts(ring, courier, settings), upkeep, self._make)

    def settle(self, brokers: Iterable[RingBroker]) -> None:
        """Give founders, before they start, the neighbours and fingers of a ring at rest."""
        settle_brokers(brokers)

    def disorder(self, brokers: Iterable[RingBroker]) -> list[str]:
        """What is wrong with the ring of those that are up; nothing is expected without upkeep."""
        if not self.settings.upkeep:
            return []
        wrong = unsettled([broker.ring for broker in brokers], False)
        return [f"the ring is not in order: {one}" for one in wrong]

    def _via(self, address: Address) -> list[Address] | None:
        if address in self._founders:
            return None
        contacts = [self._contact(address) for _ in range(CONTACTS)]
        return list(dict.fromkeys(contact for contact in contacts if contact is not None))


def settle_brokers(brokers: Iterable[RingBroker]) -> None:
    """Give founders, before they start, the neighbours and fingers of a ring at rest."""
    settle([broker.ring for broker in brokers])
