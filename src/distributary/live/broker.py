"""A broker of a live network: a node of any system on links, with a clock and a runner.

    async with LiveBroker("plant", "tree", name="hall-1") as first:
        async with LiveBroker("plant", "tree", name="hall-2", contacts=[first.endpoint]) as second:
            second.subscribe(Subscription("s1", "ann", where="temperature > 80"))
            first.publish(Event("e1", attributes={"temperature": 81}))

Rules:

- The first broker of a network has no contacts: it founds the network. All others name endpoints of some that
  are up, and join through whoever answers first.
- A node's address is made from its name, so a broker that comes back is known as the one that it was.
- Clients connect where other nodes do (`clients`). What is for none of them goes to `on_delivery`, for
  whoever subscribes in this process.
- Every broker is robust: couriers, upkeep, copies, refresh. How many nodes there may be is said once, as some
  systems divide their work by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from distributary.errors import DistributaryError
from distributary.live.clients import ClientRoom
from distributary.live.codec import require_sendable
from distributary.live.connection import Limits
from distributary.live.greeting import Endpoint
from distributary.live.links import Links
from distributary.live.runner import LoopClock, Runner
from distributary.live.security import TlsFiles
from distributary.model import Delivery, Event, Subscription, SubscriptionKey
from distributary.overlay.broker import Broker
from distributary.overlay.node import Address
from distributary.systems.assembly import CIRCLE, Settings
from distributary.systems.options import read_options
from distributary.systems.table import system

ABOUT = 16
"""How many nodes a network is taken to have, unless said otherwise."""
_log = logging.getLogger("distributary")


def address_of(network: str, name: str) -> Address:
    """The address of a node, from the names of its network and its own.

    >>> address_of("plant", "hall-1")
    722281284
    """
    return int.from_bytes(sha256(f"{network}/{name}".encode()).digest()[: CIRCLE.bits // 8], "big")


class LiveBroker:
    """A broker on real sockets. What it has to tell goes to `on_notice`, or to the log."""

    def __init__(
        self,
        network: str,
        system_name: str,
        *,
        name: str,
        contacts: Sequence[Endpoint] = (),
        nodes: int = ABOUT,
        chosen: Mapping[str, Any] | None = None,
        tls: TlsFiles | None = None,
        limits: Limits | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        self.name, self.network, self.system_name = name, network, system_name
        self.address = address_of(network, name)
        self._system = system(system_name)
        given = read_options(system_name, self._system.options, chosen or {})
        keeping: dict[str, Any] = {"refresh": self._system.refresh}
        keeping |= {key: given.pop(key) for key in ("copies", "refresh") if key in given}
        self._settings = Settings.robust(nodes, **keeping, chosen=given)
        self._contacts = tuple(contacts)
        self._on_delivery = on_delivery
        self._notice = on_notice or _log.warning
        self.links = Links(
            self.address,
            network,
            self._receive,
            system=system_name,
            tls=tls,
            limits=limits,
            on_notice=self._notice,
        )
        self.clients = self.links.clients = ClientRoom(network, self)
        self.published = self.delivered = 0
        self.broker: Broker | None = None
        self._runner: Runner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> Endpoint:
        """Listen, and found the network or join it; returns where other nodes find this one.

        DistributaryError when it cannot listen, no contact answers, or it was started before: a broker that
        comes back is made anew.
        """
        if self.links.endpoint is not None:
            raise DistributaryError(f"broker {self.name!r} was started before; make another of that name")
        endpoint = await self.links.listen(host, port)
        try:
            await self._take_part()
        except BaseException:
            await self.stop()
            raise
        return endpoint

    async def _take_part(self) -> None:
        contacts = await self._meet()
        founders = contacts[:1] or [self.address]
        ways = iter(contacts)
        assembly = self._system.assemble(self._settings, founders, lambda address: next(ways, None))
        broker = assembly(self.address)
        if not contacts:
            assembly.settle([broker])
        self.broker = broker
        clock = LoopClock(asyncio.get_running_loop())
        self._runner = Runner(broker.node, self.links, clock, self._deliver, self._fault)
        self._runner.start()

    async def stop(self) -> None:
        """Stop at once, as if the process had ended."""
        self.clients.close("the broker stops")
        if self._runner is not None:
            self._runner.stop()
        await self.links.close()

    async def __aenter__(self) -> LiveBroker:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def endpoint(self) -> Endpoint:
        """Where other nodes find this one; DistributaryError before it has started."""
        if self.links.endpoint is None:
            raise DistributaryError(f"broker {self.name!r} has not started")
        return self.links.endpoint

    # What clients ask.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription of a client of this broker."""
        broker, runner = self._running()
        runner.call(lambda: broker.subscribe(subscription))

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription that was registered here."""
        broker, runner = self._running()
        runner.call(lambda: broker.unsubscribe(key))

    def publish(self, event: Event) -> None:
        """Have the event delivered once to every subscriber who asked for it, wherever they are.

        InputError for one that cannot be sent to other nodes: too long, or with values that JSON has not.
        """
        broker, runner = self._running()
        require_sendable(event)
        runner.call(lambda: broker.publish(event))
        self.published += 1

    @property
    def joined(self) -> bool:
        """Whether the node has its place in the network."""
        return self.broker is not None and self.broker.joined

    @property
    def counts(self) -> Counter[str]:
        """What has happened so far: at the links, and to the clients of this broker."""
        faults = 0 if self._runner is None else self._runner.faults
        own = {"published": self.published, "delivered": self.delivered, "faults": faults}
        return self.links.counts + Counter(own | {"slow clients": self.clients.slow})

    @property
    def congested(self) -> bool:
        """Whether publishers should wait: a link cannot take more."""
        return self.links.congested

    # Inside.

    def _deliver(self, delivery: Delivery) -> None:
        self.delivered += 1
        if not self.clients.deliver(delivery) and self._on_delivery is not None:
            self._on_delivery(delivery)

    async def _meet(self) -> list[Address]:
        """The addresses of the contacts that answer."""
        met: list[Address] = []
        reasons: list[str] = []
        for contact in self._contacts:
            try:
                met.append(await self.links.meet(contact))
            except DistributaryError as error:
                reasons.append(str(error))
        if self._contacts and not met:
            raise DistributaryError("no contact lets this node in: " + "; ".join(reasons))
        return met

    def _running(self) -> tuple[Broker, Runner]:
        if self.broker is None or self._runner is None:
            raise DistributaryError(f"broker {self.name!r} has not started")
        if not self._runner.runs:
            raise DistributaryError(f"broker {self.name!r} has stopped")
        return self.broker, self._runner

    def _receive(self, message: Any, sender: Address) -> None:
        if self._runner is not None:
            self._runner.receive(message, sender)

    def _fault(self, what: str, error: Exception) -> None:
        self._notice(f"could not bear {what}: {type(error).__name__}: {error}")
