"""What the brokers of systems on a ring share: sending, leaving, and registrations that are kept by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from distributary.model import Offset
from distributary.overlay.broker import Broker, SessionState
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Ring
from distributary.overlay.ring.upkeep import Upkeep
from distributary.systems.home import Home


class RingBroker(Broker):
    """The top layer of a node on a ring.

    `courier` carries messages that are sent directly to a node, and `upkeep` maintains the ring; both belong
    to the same ring, and both may be missing.
    """

    def __init__(self, ring: Ring, *, courier: Courier | None = None, upkeep: Upkeep | None = None) -> None:
        self.ring = ring
        self.node = ring.node
        self.courier = courier
        self.upkeep = upkeep
        self.send = courier.send if courier else self.node.send

    @property
    def joined(self) -> bool:
        """Whether the node is a member of the ring."""
        return self.ring.member

    @property
    def acknowledges(self) -> bool:
        """Never: what is under way at a node that fails for good may be lost."""
        return False

    def resume(self, session: SessionState) -> None:
        """Subscribe again: there is no log, so nothing that was missed can be given later."""
        for subscription in session.subscriptions:
            self.subscribe(subscription)

    def reached(self, subscriber: str) -> Offset | None:
        """None: there is no log."""
        return None

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Nothing is stored: clients subscribe again, neighbours have copies of what was registered."""

    def tell(self, to: Address, message: Message) -> None:
        """Send a message directly to a node, or handle it here when it is for this node."""
        if to == self.node.address:
            self.node.dispatch(message, to)
        else:
            self.send(to, message)

    def leave(self) -> None:
        """Leave the ring in good order; without upkeep, just stop being a member."""
        if self.upkeep is not None:
            self.upkeep.leave()
        else:
            self.ring.member = False

    def suspect(self, address: Address) -> None:
        """Nothing: the ring finds out by itself."""

    @property
    def left(self) -> bool:
        """Whether the node has left the ring, and others have said to have what it handed over."""
        return not self.ring.member and (self.courier is None or self.courier.idle)


class RendezvousBroker(RingBroker):
    """A broker that is the home of its clients, and keeps registrations of other homes by key.

    With `copies`, registrations survive the failure of so many neighbours; with `refresh`, homes repeat them
    every so many seconds.
    """

    notice: ClassVar[type[Any] | None] = None
    """The message that offers an event to another home (see `Home`)."""

    def __init__(self, ring: Ring, *, copies: int = 0, refresh: float | None = None, **options: Any) -> None:
        super().__init__(ring, **options)
        self.refresh = refresh
        self.home = Home(self.node, notice=self.notice, send=self.send)
        self.replication = Replication(ring, copies, self.send)

    def leave(self) -> None:
        """Hand over the registrations kept here, and leave the ring."""
        if self.ring.member:
            self.replication.hand_over()
        super().leave()
