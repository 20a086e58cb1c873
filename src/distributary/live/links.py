"""The links of a node: one TCP connection to each node that it talks to, over which all messages go.

Rules:

- `send` never waits. What is sent in one turn of the event loop to one node is written at once. A link keeps
  at most `Limits.queued` bytes that could not be written yet; what comes on top is dropped and counted, as a
  network may drop it: what must not get lost travels with a courier. `congested` says that a queue is half
  full, so that whoever feeds the node can wait until it is not.
- A link is made when there is something to send, and made again when it broke, after a pause that doubles
  with every failure and has some chance in it. If two nodes connect to each other at the same time, both send
  on the connection that the lower address made, and the other one ends a little later.
- Where a node listens is learned from its greeting, from `introduce`, or by asking those that are linked;
  what is sent to a node that is nowhere yet is kept for a while. A node tells a new neighbour where
  its others listen, and those where the new one does: so nodes that have one in common find each other when
  that is gone.
- A link on which nothing was sent for `Limits.beat` seconds carries a beat; one on which nothing came for
  `connection.SILENCE` of these is closed.
- Beyond loopback nothing listens and nothing is connected to without TLS 1.3, certificates on both sides
  (`TlsFiles`).
- Bytes that are no message end the link, with a reason, and nothing else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.live.clients import ClientRoom
from distributary.live.codec import encode
from distributary.live.connection import Connection, Limits
from distributary.live.frames import frame
from distributary.live.greeting import (
    PATIENCE,
    Endpoint,
    EndpointReply,
    EndpointRequest,
    Greeting,
    greeting,
    reason_of,
)
from distributary.live.lines import LinkLines
from distributary.live.peers import PeerAnswer, PeerQuestion, PeerRoom
from distributary.live.security import TlsFiles, is_loopback
from distributary.overlay.node import Address, Message

OVERLAP = 1.0
"""Seconds until a connection ends in whose place there is another: what was sent on it arrives meanwhile."""

MOST_TOLD = 256
"""So many of its neighbours a node tells of a new one, and the new one of them."""

OnMessage = Callable[[Message, Address], None]


class LinkState(NamedTuple):
    """How a link stands."""

    address: Address
    linked: bool
    round_trip: float | None
    """Seconds, as beats measure it; None before the first beat came back."""
    unsent: int
    """Bytes that wait to be written, and that the other side has not taken yet."""
    version: int | None = None
    """The version of the protocol that is spoken; None while there is no connection."""


class Links:
    """All links of one node."""

    def __init__(
        self,
        address: Address,
        network: str,
        on_message: OnMessage,
        *,
        tls: TlsFiles | None = None,
        limits: Limits | None = None,
        lines: LinkLines | None = None,
        on_notice: Callable[[str], None] | None = None,
        on_refused: Callable[[Address], None] | None = None,
        system: str = "",
        settings: tuple[tuple[str, str], ...] = (),
        seed: int = 0,
        nodes_refused: str | None = None,
    ) -> None:
        self.address = address
        self.endpoint: Endpoint | None = None
        """Where this node listens."""
        self.counts: Counter[str] = Counter()
        """Messages and bytes sent and received, messages dropped, links made, broken and refused."""
        self.limits = limits or Limits()
        self.lines = lines or LinkLines()
        """How quick the links are made to be, and the faults on them."""
        self._network = network
        self._system, self._settings = system, settings
        self._tls = tls
        self._on_message = on_message
        self.notice = on_notice or (lambda notice: None)
        self.refused = on_refused or (lambda address: None)
        """Called when there is no process where a node was."""
        self.clients: ClientRoom | None = None
        """Where clients are let in; None where only nodes are."""
        self.peers = PeerRoom(self.send, lambda: self.linked)
        """What brokers ask each other beside what their nodes say."""
        self.nodes_refused = nodes_refused
        """Why no node is let in; None where they are."""
        self._random = Random(f"{seed}:{address}")
        self._server: asyncio.Server | None = None
        self._peers: dict[Address, _Peer] = {}
        self._strangers: set[Connection] = set()
        """Connections that are nobody's yet, or in whose place there is another."""
        self._lines: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> Endpoint:
        """Listen for other nodes; DistributaryError when the port is taken, or for want of certificates."""
        self._require_safe(host, "listen at")
        context = self._tls.context(ssl.Purpose.CLIENT_AUTH) if self._tls else None
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(partial(Connection, self), host, port, ssl=context)
        except OSError as error:
            raise DistributaryError(f"cannot listen at {Endpoint(host, port)}: {reason_of(error)}") from error
        self.endpoint = Endpoint(host, self._server.sockets[0].getsockname()[1])
        return self.endpoint

    async def meet(self, endpoint: Endpoint) -> Address:
        """Link to whoever listens there; returns its address. DistributaryError when it refuses."""
        connection = await self._connect(endpoint)
        theirs = await connection.greeted
        return theirs.address

    def introduce(self, address: Address, endpoint: Endpoint) -> None:
        """Say where a node listens."""
        if address != self.address:
            self._peer(address).learn(endpoint)

    def send(self, to: Address, message: Message) -> None:
        """Have a message brought to a node; to this one too. It may get lost."""
        if self._closed:
            return
        if to == self.address:
            asyncio.get_running_loop().call_soon(self._to_self, message)
        else:
            self._peer(to).send(frame(encode(message)))

    @property
    def congested(self) -> bool:
        """Whether the queue of a link is half full."""
        return any(peer.unsent > self.limits.queued // 2 for peer in self._peers.values())

    @property
    def idle(self) -> bool:
        """Whether all that was sent over links has been taken."""
        return not any(peer.unsent for peer in self._peers.values() if peer.connection is not None)

    @property
    def linked(self) -> list[Address]:
        """The nodes to which there is a link now, sorted."""
        return sorted(address for address, peer in self._peers.items() if peer.connection is not None)

    @property
    def states(self) -> list[LinkState]:
        """How the link to each node that is known stands, sorted by address."""
        return [peer.state for _, peer in sorted(self._peers.items())]

    @property
    def endpoints(self) -> dict[Address, Endpoint]:
        """Where the nodes listen to which there is a link now."""
        return {
            address: peer.endpoint
            for address, peer in self._peers.items()
            if peer.connection is not None and peer.endpoint is not None
        }

    def cut(self, address: Address) -> None:
        """Break the link to a node, if there is one; it is made again when there is something to send."""
        peer = self._peers.get(address)
        if peer is not None and peer.connection is not None:
            peer.connection.abort("cut")

    async def close(self) -> None:
        """Close all links and listen no more."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for connection in [
            *self._strangers,
            *self._lines,
            *(peer.connection for peer in self._peers.values()),
        ]:
            if connection is not None:
                connection.close("this node stops")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    # What connections call.

    def own_greeting(self) -> Greeting:
        """What this node says first."""
        return greeting(self._network, self.address, self.endpoint, self._system, self._settings)

    def came(self, connection: Connection) -> None:
        """A connection was made, and it is not known yet with whom."""
        self._strangers.add(connection)
        if self._closed:  # it was under way when the links were closed
            connection.close("this node stops")

    def admitted(self, connection: Connection) -> None:
        """A connection is a client's."""
        self._strangers.discard(connection)
        self._lines.add(connection)

    def _peer(self, address: Address) -> _Peer:
        found = self._peers.get(address)
        if found is None:
            found = self._peers[address] = _Peer(self, address)
        return found

    def _to_self(self, message: Message) -> None:
        if not self._closed:
            self._on_message(message, self.address)

    def _require_safe(self, host: str, what: str) -> None:
        if self._tls is None and not is_loopback(host):
            raise DistributaryError(
                f"cannot {what} {host} without TLS: give certificate, key and authority, or use 127.0.0.1"
            )

    async def _connect(self, endpoint: Endpoint) -> Connection:
        self._require_safe(endpoint.host, "connect to")
        context = self._tls.context(ssl.Purpose.SERVER_AUTH) if self._tls else None
        loop = asyncio.get_running_loop()
        made = partial(Connection, self, connects=True)
        try:
            async with asyncio.timeout(PATIENCE):  # unlike wait_for, it never swallows a cancellation
                _, connection = await loop.create_connection(made, endpoint.host, endpoint.port, ssl=context)
        except OverflowError as error:
            raise DistributaryError(f"cannot connect to {endpoint}: no port has such a number") from error
        except (TimeoutError, OSError) as error:
            closed = "it closed the connection; does it speak TLS?"
            reason = "it did not answer" if isinstance(error, TimeoutError) else reason_of(error) or closed
            raise DistributaryError(f"cannot connect to {endpoint}: {reason}") from error
        return connection

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def greeted(self, connection: Connection, theirs: Greeting) -> None:
        """Take a connection whose other side is known now."""
        self._strangers.discard(connection)
        peer = self._peer(theirs.address)
        if theirs.endpoint is not None:
            peer.learn(theirs.endpoint)
        self.counts["made"] += 1
        peer.take(connection)
        self._introduce_to_others(peer)

    def _introduce_to_others(self, peer: _Peer) -> None:
        """Tell a new neighbour where the others listen, and the others where it does."""
        others = [each for each in self._peers.values() if each is not peer and each.connection is not None]
        for other in self._random.sample(others, min(len(others), MOST_TOLD)):
            for told, about in ((peer, other), (other, peer)):
                if about.endpoint is not None:
                    told.send(frame(encode(EndpointReply(about.address, about.endpoint))))

    def retire(self, connection: Connection) -> None:
        """End a connection a little later: there is another in its place."""
        self._strangers.add(connection)
        asyncio.get_running_loop().call_later(OVERLAP, connection.close, "another took its place")

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection has ended."""
        self._strangers.discard(connection)
        self._lines.discard(connection)
        theirs = connection.theirs
        if theirs is not None and (peer := self._peers.get(theirs.address)) is not None:
            in_use = peer.connection is connection
            peer.lose(connection)
            if in_use and not self._closed:
                self.counts["broken"] += 1
                self.notice(f"the link to node {theirs.address} broke: {reason}")

    def received(self, message: Message, sender: Address) -> None:
        """A message of a node that was greeted has come."""
        if isinstance(message, EndpointRequest):
            known = self._peers.get(message.address)
            if known is not None and known.endpoint is not None:
                self.send(sender, EndpointReply(message.address, known.endpoint))
        elif isinstance(message, EndpointReply):
            self.introduce(message.address, message.endpoint)
        elif isinstance(message, PeerQuestion | PeerAnswer):
            self.peers.hear(message, sender)
        else:
            self._on_message(message, sender)

    def _ask_for(self, address: Address) -> None:
        """Ask those that are linked where a node is."""
        asked = frame(encode(EndpointRequest(address)))
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.send(asked)


@dataclass(eq=False)
class _Peer:
    """Another node: where it listens, the connection to it, and what waits for one."""

    links: Links
    address: Address
    endpoint: Endpoint | None = None
    connection: Connection | None = None
    queued: int = 0
    """Bytes that wait to be written."""
    _waiting: list[bytes] = field(default_factory=list)
    _reaching: bool = False

    def learn(self, endpoint: Endpoint) -> None:
        """Know where it listens."""
        self.endpoint = endpoint

    @property
    def unsent(self) -> int:
        """Bytes that wait to be written, and that the other side has not taken yet."""
        return self.queued + (self.connection.unwritten if self.connection is not None else 0)

    @property
    def state(self) -> LinkState:
        """How the link to it stands."""
        connection = self.connection
        round_trip = None if connection is None else connection.round_trip
        version = None if connection is None else connection.version
        return LinkState(self.address, connection is not None, round_trip, self.unsent, version)

    def send(self, framed: bytes) -> None:
        """Have a frame written at the end of this turn of the loop, or as soon as there is a connection."""
        connection = self.connection
        limits = self.links.limits
        full = self.unsent + len(framed) > limits.queued
        if full or (connection is None and self.endpoint is None and len(self._waiting) >= limits.lost):
            self.links.counts["dropped"] += 1
            return
        self._waiting.append(framed)
        self.queued += len(framed)
        if connection is not None:
            if len(self._waiting) == 1:
                asyncio.get_running_loop().call_soon(self.flush)
        else:
            self._reach_soon()

    def _reach_soon(self) -> None:
        if not self._reaching and not self.links._closed:
            self._reaching = True
            self.links._begin(self._reach())

    def flush(self) -> None:
        """Write what waits, at once."""
        connection = self.connection
        if connection is None or not self._waiting:
            return
        self.links.counts["sent"] += len(self._waiting)
        self.links.counts["bytes sent"] += self.queued
        connection.write_frames(self._waiting)
        self._waiting.clear()
        self.queued = 0

    def take(self, connection: Connection) -> None:
        """Send on this connection from now on, unless there is one that both sides prefer."""
        before = self.connection
        if before is not None and before.connects != connection.connects and self._prefers(before):
            before, connection = connection, before
        if before is not None:
            self.links.retire(before)
        self.connection = connection
        self.flush()

    def _prefers(self, connection: Connection) -> bool:
        """Whether the lower address made it."""
        return connection.connects == (self.links.address < self.address)

    def lose(self, connection: Connection) -> None:
        """Send on this connection no more."""
        if self.connection is connection:
            self.connection = None
            if self._waiting:
                self._reach_soon()

    async def _reach(self) -> None:
        """Find out where the node is, and connect to it, until that is done or nothing waits any more."""
        links, pause = self.links, self.links.limits.first_pause
        try:
            while self.connection is None and self._waiting:
                if self.endpoint is None:
                    links._ask_for(self.address)
                    reason = "nobody knows where it is"
                elif not links.lines.reaches(self.address):
                    reason = "this node was cut off from it on purpose"
                else:
                    try:
                        connection = await links._connect(self.endpoint)
                        await connection.greeted
                        continue
                    except DistributaryError as error:
                        reason = str(error)
                        if isinstance(error.__cause__, ConnectionRefusedError):
                            links.refused(self.address)
                await asyncio.sleep(pause * (0.5 + links._random.random()))
                pause = min(2 * pause, links.limits.longest_pause)
                if pause >= links.limits.longest_pause and self.connection is None:
                    self._give_up(reason)
        finally:
            self._reaching = False

    def _give_up(self, reason: str) -> None:
        """Drop what waits: the node has been out of reach for long."""
        if self._waiting:
            self.links.counts["dropped"] += len(self._waiting)
            self.links.notice(f"node {self.address} is out of reach: {reason}")
        self._waiting.clear()
        self.queued = 0
