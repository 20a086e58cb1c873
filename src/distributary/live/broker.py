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
  whoever subscribes in this process. Clients and other nodes may be refused there (`clients_refused`,
  `nodes_refused`), with the reason that they are told.
- With a directory for its data (`data`) a broker keeps there what its node must not forget (`journal`), and
  where other nodes listen. One that comes back with it goes on as what it was, and tries its contacts until
  one answers: a whole network may be starting again. When the disk is full or fails, the broker says so and
  stops (`failure`).
- Kernels that are not in the cache are compiled by another process (`kernel_process`), and the broker does
  without them until then.
- Every broker is robust: couriers, upkeep, copies, refresh. How many nodes there may be is said once, as some
  systems divide their work by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from distributary.errors import DistributaryError
from distributary.flow import Query, Source
from distributary.live.clients import ClientRoom
from distributary.live.codec import require_all_sendable
from distributary.live.connection import Limits
from distributary.live.greeting import Endpoint
from distributary.live.handing_out import HandingOut, InTurn
from distributary.live.journal import Journal
from distributary.live.kernel_process import KERNEL_PROCESS
from distributary.live.lines import LinkLines
from distributary.live.links import Links
from distributary.live.neighbours import KnownNeighbours
from distributary.live.runner import LoopClock, Runner
from distributary.live.security import TlsFiles
from distributary.model import (
    Delivery,
    Event,
    EventIdentity,
    Offset,
    Subscription,
    SubscriptionKey,
)
from distributary.overlay.broker import Broker, SessionState
from distributary.overlay.node import Address, Message
from distributary.overlay.recording import RecordedBroker, WriteLine
from distributary.systems.membership import Membership, address_of
from distributary.systems.places import place_of

if TYPE_CHECKING:
    from distributary.systems.queries.client_broker import QueryBroker

ABOUT = 16
"""How many nodes a network is taken to have, unless said otherwise."""
MOST_UNACKNOWLEDGED = 20_000
"""Events and subscriptions that clients wait for, beyond which a broker is congested."""
FIRST_UPKEEP, UPKEEP = 1.0, 5.0
"""Seconds after which clients are told how far they are, and new neighbours are written down."""
FAREWELL, LEAVING = 5.0, 0.05
"""Seconds that a broker may take to leave, and between two looks whether it has."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds until contacts are tried again."""
_log = logging.getLogger("distributary")


def keeps_log(system_name: str, nodes: int = ABOUT, chosen: Mapping[str, Any] | None = None) -> bool:
    """Whether the nodes of a system have something to keep on disks; DistributaryError for no such system.

    >>> keeps_log("tree"), keeps_log("flooding")
    (True, False)
    """
    return Membership(system_name, nodes, dict(chosen or {})).keeps_log


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
        lines: LinkLines | None = None,
        trace: WriteLine | None = None,
        data: Path | None = None,
        clients_refused: str | None = None,
        nodes_refused: str | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        self.name, self.network, self.system_name = name, network, system_name
        self.address = address_of(network, name)
        self._membership = Membership(system_name, nodes, dict(chosen or {}), network)
        if trace is not None:
            self._require_recordable()
        self._recorders = [trace] if trace is not None else []
        self._contacts = tuple(contacts)
        self._notice = on_notice or _log.warning
        self.links = Links(
            self.address,
            network,
            self._receive,
            system=system_name,
            settings=self._membership.shared,
            tls=tls,
            limits=limits,
            lines=lines,
            on_notice=self._notice,
            on_refused=self._suspect,
            nodes_refused=nodes_refused,
        )
        self.clients = self.links.clients = ClientRoom(network, self, clients_refused)
        self._given = HandingOut(self.clients, on_delivery, self._notice, self._fail)
        self.journal = None if data is None else Journal(data, self._fail)
        self._neighbours = KnownNeighbours(self.links)
        self.failure = asyncio.Event()
        """Set when the broker has stopped by itself: its disk failed, or the others have removed it."""
        self._needs_kernels = False
        self.before_entry: list[Callable[[], None]] = [self.clients.direct.settle]
        """Called before the node is asked or told anything."""
        self.published = 0
        self.broker: Broker | None = None
        self._runner: Runner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> Endpoint:
        """Listen, and found the network or join it; returns where other nodes find this one.

        DistributaryError when it cannot listen, no contact answers, or it was started before: a broker that
        comes back is made anew.
        """
        if self.links.endpoint is not None:
            raise DistributaryError(f"broker {self.name!r} was started before; make another of that name")
        try:
            self._needs_kernels = True
            KERNEL_PROCESS.enter(self._notice)
            stored = await asyncio.to_thread(self.journal.open, self.name) if self.journal is not None else {}
            endpoint = await self.links.listen(host, port)
            await self._take_part(self._neighbours.restore(stored))
        except BaseException:
            await self.stop()
            raise
        return endpoint

    async def _take_part(self, stored: Mapping[str, Message]) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        broker = await self._make(stored, clock)
        self.broker = broker
        self._runner = Runner(
            broker.driven if isinstance(broker, RecordedBroker) else broker.node,
            self.links,
            clock,
            self._given.take,
            self._fault,
            disk=self.journal,
            on_acknowledgement=self.clients.acknowledged,
            before_entry=self.before_entry,
        )
        self._runner.start()
        asyncio.get_running_loop().call_later(FIRST_UPKEEP, self._keep_up)

    async def _make(self, stored: Mapping[str, Message], clock: LoopClock) -> Broker:
        """Make the broker: to found the network, or to join through those that answer.

        One that comes back with a state of its own need not wait for anybody: its node knows whom to ask.
        """
        known = self._neighbours.known
        contacts = [each for each in (*self._contacts, *known.values()) if each != self.endpoint]
        if not contacts:
            return self._assembled((), stored, clock)
        pause = FIRST_PAUSE
        while True:
            met, reasons = await self._meet(contacts)
            if met or (known and stored):
                joins = [*met, *(each for each in known if each not in met)]
                return self._assembled(joins, stored, clock)
            reason = "no contact lets this node in: " + "; ".join(reasons)
            if self.journal is None:
                raise DistributaryError(reason)
            if pause == FIRST_PAUSE:
                self._notice(f"{reason}; they are tried again")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _assembled(
        self, contacts: Sequence[Address], stored: Mapping[str, Message], clock: LoopClock
    ) -> Broker:
        """The broker, with what was stored; without contacts it founds the network."""
        broker = self._membership.broker(self.address, contacts)
        if self._recorders:
            now = clock.now()
            self._write_line(f"{now!r} happened {self.address} {self._membership.told(contacts)}")
            broker = RecordedBroker(broker, self._write_line, now)
        if stored:
            broker.restore(stored)
        return broker

    async def leave(self, patience: float = FAREWELL) -> bool:
        """Leave the network in good order, and stop; whether that was done within so many seconds.

        Clients are told to go elsewhere. What the others need of this node is handed over to them. What is on
        its disk stays there: a broker that is made anew with it comes back as a node that was away.
        """
        self.clients.close(f"broker {self.name!r} leaves the network")
        loop = asyncio.get_running_loop()
        end, done = loop.time() + patience, False
        while self.broker is not None and self.runs and not done and loop.time() < end:
            self._running()[1].call(self.broker.leave)
            await asyncio.sleep(LEAVING)
            done = self.broker.left and self.links.idle
        await self.stop()
        return done

    async def stop(self) -> None:
        """Stop at once, as if the process had ended."""
        if self._needs_kernels:
            self._needs_kernels = False
            KERNEL_PROCESS.leave()
        self.clients.close("the broker stops")
        if self._runner is not None:
            self._runner.stop()
        await self.links.close()
        if self.journal is not None:
            await self.journal.close()

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

    def ask(self, what: Callable[[Broker], None]) -> None:
        """Ask something of the node, in its turn."""
        broker, runner = self._running()
        runner.call(lambda: what(broker))

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription of a client of this broker."""
        self.ask(lambda broker: broker.subscribe(subscription))

    def resume(self, session: SessionState) -> None:
        """Register a client's subscriptions, and deliver what it has missed where the network has a log."""
        self.ask(lambda broker: broker.resume(session))

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription that was registered here."""
        self.ask(lambda broker: broker.unsubscribe(key))

    def reached(self, subscriber: str) -> Offset | None:
        """Up to where a client has been given everything that its subscriptions want; None without a log."""
        broker, runner = self._running()
        runner.prepare()
        return broker.reached(subscriber)

    def in_turn(self, action: Callable[[], None]) -> None:
        """Do something after all that the node has wanted to be delivered so far."""
        broker, runner = self._running()
        runner.call(lambda: broker.node.deliver(InTurn(action)))

    def publish(self, *events: Event) -> int | None:
        """Have events delivered, in this order, once to every subscriber who asked for them, wherever.

        InputError for one that cannot be sent to other nodes: too long, or with values that JSON has not.
        Where the broker acknowledges, an error means that none of them is published, and what is returned
        says by which number the last one is told to be safe.
        """
        return self.publish_all(events)

    def publish_all(self, events: Sequence[Event]) -> int | None:
        """As `publish`; events that came packed stay so."""
        broker, runner = self._running()
        require_all_sendable(events)
        last: int | None = None

        def publish() -> None:
            nonlocal last
            if self.journal is not None or not broker.publish_at_once(events):
                last = broker.publish_all(events)

        if self.keeps_log:
            runner.call(publish)
            self.published += len(events)
            if last is not None:
                self.clients.publications.published(last)
        else:
            for event in events:
                runner.call(partial(broker.publish, event))
                self.published += 1
        return last

    def publish_given(self, events: Sequence[Event]) -> None:
        """As `publish_all`, of events that everybody has been given who wants them.

        Nothing is called before, as this itself is what is done before the node is asked anything.
        """
        broker, runner = self._running()
        mark, deliver = self.clients.mark_given, broker.node.deliver
        runner.call_unprepared(lambda: deliver(InTurn(partial(mark, True))))
        runner.call_unprepared(lambda: broker.publish_at_once(events) or broker.publish_all(events))
        runner.call_unprepared(lambda: deliver(InTurn(partial(mark, False))))
        self.published += len(events)

    def last_place(self) -> Offset | None:
        """The place in the log of what was published last, where this node alone decides; see `Broker`."""
        return None if self.broker is None else self.broker.last_place()

    def remembers(self, identity: EventIdentity) -> bool:
        """Whether an event was published before, as far as the node remembers; see `Broker`."""
        return self.broker is not None and self.broker.remembers(identity)

    def audience(self, topic: str, lacking: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Who would be given an event, where this node alone decides and nothing is kept; see `Broker`."""
        if self.broker is None or self.journal is not None or not self.runs or self.congested:
            return None
        return self.broker.audience(topic, lacking)

    # What clients ask of a network of stream queries; DistributaryError in others.

    def register_source(self, source: Source) -> None:
        """Take events of a source, whoever publishes them."""
        broker, runner = self._query_broker()
        runner.call(lambda: broker.register_source(source))

    def register_query(self, query: Query) -> None:
        """Run a query; its answer goes to the client who asked for it."""
        broker, runner = self._query_broker()
        runner.call(lambda: broker.register_query(query))

    def withdraw_query(self, name: str) -> None:
        """Run a query of this broker no longer."""
        broker, runner = self._query_broker()
        runner.call(lambda: broker.unregister_query(name))

    def _query_broker(self) -> tuple[QueryBroker, Runner]:
        broker, runner = self._running()
        if not self._membership.is_query_network:
            raise DistributaryError(
                f"this network runs {self.system_name!r}, which has no stream queries; `--system queries` has"
            )
        return cast("QueryBroker", broker), runner

    def record(self, write: WriteLine) -> Callable[[], None]:
        """Write down from now on what the node is given and wants, as a trace does; gives what ends that."""
        broker, runner = self._running()
        self._require_recordable()
        runner.prepare()
        self._recorders.append(write)
        if not isinstance(broker, RecordedBroker):
            self.broker = recorded = RecordedBroker(broker, self._write_line)
            runner.node = recorded.driven

        def end() -> None:
            self._recorders.remove(write)
            if not self._recorders and isinstance(self.broker, RecordedBroker):
                self.broker, runner.node = self.broker.recorded, self.broker.node

        return end

    @property
    def joined(self) -> bool:
        """Whether the node has its place in the network."""
        return self.broker is not None and self.broker.joined

    @property
    def place(self) -> dict[str, Any]:
        """Where the node stands in its overlay; nothing before it has started."""
        return place_of(self.broker)

    @property
    def runs(self) -> bool:
        """Whether the node is started, and not stopped since."""
        return self._runner is not None and self._runner.runs

    @property
    def acknowledges(self) -> bool:
        """Whether clients are answered when what they asked for is safe or in force."""
        return self.broker is not None and self.broker.acknowledges

    @property
    def keeps_log(self) -> bool:
        """Whether events are acknowledged by how far all that was published is safe."""
        return self.acknowledges and not self._membership.is_query_network

    @property
    def delivered(self) -> int:
        """How many events and items have been given to clients so far."""
        return self._given.delivered

    @property
    def counts(self) -> Counter[str]:
        """What has happened so far: at the links, and to the clients of this broker."""
        faults = 0 if self._runner is None else self._runner.faults
        own = {"published": self.published, "delivered": self.delivered, "faults": faults}
        fired = self.links.lines.fired
        return self.links.counts + Counter(own | {"slow clients": self.clients.slow} | fired)

    @property
    def congested(self) -> bool:
        """Whether publishers should wait: for a link, for the disk, or for what was not acknowledged."""
        busy = self.journal is not None and self.journal.congested
        waiting = len(self.clients.requests) + len(self.clients.publications)
        return busy or waiting > MOST_UNACKNOWLEDGED or self.links.congested

    # Inside.

    def _write_line(self, line: str) -> None:
        for write in list(self._recorders):
            write(line)

    def _require_recordable(self) -> None:
        if self._membership.is_query_network:
            raise DistributaryError("nodes of query networks are not recorded: they measure their own work")

    def _keep_up(self) -> None:
        """Now and then, look for kernels, tell clients their places, and write down new neighbours."""
        if not self.runs:
            return
        KERNEL_PROCESS.look(self._notice)
        if self.acknowledges:
            self.clients.tell_progress()
        if self.journal is not None and (news := self._neighbours.news()):
            self.journal.write(news, lambda: None)
        asyncio.get_running_loop().call_later(UPKEEP, self._keep_up)

    def _fail(self, error: DistributaryError, reason: str = "its disk has failed") -> None:
        """The disk has failed, or the node is removed: tell it, and stop, so that clients go elsewhere."""
        self._notice(str(error))
        self.clients.close(f"broker {self.name!r} ends: {reason}")
        if self._runner is not None:
            self._runner.stop()
        self.failure.set()

    async def _meet(self, contacts: Sequence[Endpoint]) -> tuple[list[Address], list[str]]:
        """The addresses of the contacts that answer, and why others do not."""
        answers = await asyncio.gather(*map(self.links.meet, contacts), return_exceptions=True)
        met: list[Address] = []
        reasons: list[str] = []
        for answer in answers:
            if isinstance(answer, DistributaryError):
                reasons.append(str(answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                met.append(answer)
        return list(dict.fromkeys(met)), reasons

    def _running(self) -> tuple[Broker, Runner]:
        if self.broker is None or self._runner is None:
            raise DistributaryError(f"broker {self.name!r} has not started")
        if not self._runner.runs:
            raise DistributaryError(f"broker {self.name!r} has stopped")
        return self.broker, self._runner

    def _receive(self, message: Any, sender: Address) -> None:
        if self._runner is not None:
            self._runner.receive(message, sender)

    def _suspect(self, address: Address) -> None:
        if self.runs:
            broker, runner = self._running()
            runner.call(lambda: broker.suspect(address))

    def _fault(self, what: str, error: Exception) -> None:
        self._notice(f"could not bear {what}: {type(error).__name__}: {error}")
