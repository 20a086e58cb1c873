"""A connection of a node, from its greeting to its end: to another node, or to a client.

Its owner (`links`) decides what becomes of it. Here is what every connection has: frames, greeting, beats.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

from distributary.errors import DistributaryError
from distributary.live.client_line import ClientLine
from distributary.live.client_messages import ClientGreeting
from distributary.live.clients import ClientRoom
from distributary.live.codec import MAX_BYTES, VERSION, CodecError, UnknownKindError, decode, encode
from distributary.live.frames import FrameReader, frame
from distributary.live.greeting import (
    MAX_GREETING,
    PATIENCE,
    Endpoint,
    Greeting,
    GreetingRefusal,
    LinkBeat,
    refusal,
)
from distributary.live.lines import Line, LinkLines
from distributary.overlay.node import Address, Message

SILENCE = 3
"""A link is given up when so many beats were missed."""

COPIED = 8 << 10
"""Bytes up to which pieces are put together before they are sent."""


class Limits(NamedTuple):
    """How much links keep, and how long they wait."""

    queued: int = 32 << 20
    """Bytes of a link that could not be written yet."""
    lost: int = 1_000
    """Messages to a node whose place is not known yet."""
    beat: float = 2.0
    """Seconds without a message after which a link carries a beat."""
    first_pause: float = 0.1
    """Seconds until a broken link is made again; doubles with every failure."""
    longest_pause: float = 10.0


class ConnectionOwner(Protocol):
    """The node that a connection belongs to."""

    limits: Limits
    counts: Counter[str]
    clients: ClientRoom | None
    nodes_refused: str | None
    lines: LinkLines

    def own_greeting(self) -> Greeting:
        """What this node says first."""

    def came(self, connection: Connection) -> None:
        """A connection was made, and it is not known yet with whom."""

    def admitted(self, connection: Connection) -> None:
        """A connection is a client's."""

    def greeted(self, connection: Connection, theirs: Greeting) -> None:
        """A connection is another node's."""

    def received(self, message: Message, sender: Address) -> None:
        """A message of a node that was greeted has come."""

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection has ended."""

    def notice(self, notice: str) -> None:
        """Something that whoever runs the node should read."""


class Connection(asyncio.Protocol):
    """One TCP connection, from its greeting on."""

    def __init__(self, owner: ConnectionOwner, connects: bool = False) -> None:
        self.connects = connects
        """Whether this side made it."""
        self.theirs: Greeting | None = None
        """The greeting of the other side, once it was accepted."""
        self.round_trip: float | None = None
        """Seconds that a beat and its answer took, the latest an eighth of it; None before the first."""
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[Greeting] = loop.create_future()
        self.greeted.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._loop = loop
        self._owner = owner
        self._frames = FrameReader(MAX_GREETING)
        self._client: ClientLine | None = None
        self._line: Line | None = None
        self._reason = "the other side closed it"
        self._heard = self._spoke = loop.time()
        self._asked = 0.0
        self._next_beat = math.inf

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a connection: whoever made it greets."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it
        made = transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.came(self)
        self._loop.call_later(PATIENCE, self._check_greeted)
        if self.connects:
            self._say(self._owner.own_greeting())

    def data_received(self, data: bytes) -> None:
        """Take the messages that are complete with these bytes."""
        heard = self._line is None or self.theirs is None or self._owner.lines.hears(self.theirs.address)
        if heard:
            self._heard = self._loop.time()
        try:
            client = self._client
            if client is not None:
                if not (self._frames.empty and client.receive_at_once(data)):
                    self._serve(client, data)
                return
            for each in self._frames.read(data):
                if self._transport.is_closing():
                    return
                if heard:
                    self._take_frame(each)
        except CodecError as error:
            self._owner.counts["refused"] += 1
            self._owner.notice(f"bytes that are no message, from {self._whom()}: {error}")
            self.close(f"bytes that are no message: {error}")

    def _serve(self, client: ClientLine, data: bytes) -> None:
        """Do what a client asks, all that has come; what came before bytes that are no message, too."""
        came: list[Message] = []
        room = self._owner.clients
        assert room is not None
        try:
            for each in self._frames.read(data):
                message = decode(each)
                if type(message) is not LinkBeat:
                    came.append(message)
        finally:
            if came and not self._transport.is_closing():
                room.serve(client, came)

    def connection_lost(self, error: Exception | None) -> None:
        """It has ended."""
        if error is not None:
            self._reason = str(error) or type(error).__name__
        if not self.greeted.done():
            self.greeted.set_exception(DistributaryError(f"{self._whom()}: {self._reason}"))
        if self._client is not None:
            self._client.left()
        self._owner.lost(self, self._reason)

    # What peers and links call.

    @property
    def unwritten(self) -> int:
        """Bytes that the other side has not taken yet."""
        return self._transport.get_write_buffer_size() + (self._line.unsent if self._line is not None else 0)

    def write(self, data: bytes) -> None:
        """Have bytes sent."""
        self._spoke = self._loop.time()
        self._transport.write(data)

    def write_pieces(self, pieces: Sequence[bytes | memoryview], size: int) -> None:
        """Have pieces of so many bytes in all sent, one after the other: long ones without a copy."""
        self._spoke = self._loop.time()
        if size < COPIED:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)

    def write_frames(self, frames: Sequence[bytes]) -> None:
        """Have frames sent, at once or as the line to the other node takes them."""
        if self._line is None:
            self.write(b"".join(frames))
            return
        self._spoke = self._loop.time()
        for each in frames:
            self._line.send(each)

    def close(self, reason: str) -> None:
        """End it after what was written."""
        self._reason = reason
        self._transport.close()

    def pause(self) -> None:
        """Read nothing for now."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if not self._transport.is_closing():
            self._heard = self._loop.time()
            self._transport.resume_reading()

    def abort(self, reason: str) -> None:
        """End it at once."""
        self._reason = reason
        self._transport.abort()

    # Greeting.

    @property
    def version(self) -> int:
        """The version of the protocol that is spoken: the later one that both sides know."""
        return VERSION if self.theirs is None else min(VERSION, self.theirs.newest)

    def _take_frame(self, data: bytes) -> None:
        """Take a message; one of a kind that only later versions have is ignored, if its sender has one."""
        try:
            message = decode(data)
        except UnknownKindError:
            if self.theirs is None or self.theirs.newest <= VERSION:
                raise
            self._owner.counts["of later versions"] += 1
            return
        self._take(message, len(data))

    def _take(self, message: Message, length: int) -> None:
        if self._client is not None:
            if not isinstance(message, LinkBeat):
                self._client.receive([message])
            return
        if self.theirs is None:
            self._greet(message)
            return
        counts = self._owner.counts
        counts["received"] += 1
        counts["bytes received"] += length
        if isinstance(message, LinkBeat):
            self._measure(message)
        else:
            self._owner.received(message, self.theirs.address)

    def _greet(self, message: Message) -> None:
        if isinstance(message, GreetingRefusal):
            self._refused(message.reason)
        elif isinstance(message, ClientGreeting) and (room := self._owner.clients) is not None:
            self._admit(message, room)
        elif not isinstance(message, Greeting):
            raise CodecError(f"a {type(message).__name__} before any greeting")
        elif (reason := self._refusal(message)) is not None:
            self._say(GreetingRefusal(reason))
            self._refused(reason)
        elif self._owner.lines.hears(message.address):
            self._accept(message)

    def _refusal(self, theirs: Greeting) -> str | None:
        """Why a node is refused; None if it is not."""
        return self._owner.nodes_refused or refusal(self._owner.own_greeting(), theirs)

    def _admit(self, message: ClientGreeting, room: ClientRoom) -> None:
        refused = room.refusal(message)
        if refused is not None:
            self._say(refused)
            (self._refused if isinstance(refused, GreetingRefusal) else self.close)(refused.reason)
            return
        self._owner.admitted(self)
        self._frames.most = MAX_BYTES
        self._client = room.enter(message, self)
        self._beat()

    def _accept(self, theirs: Greeting) -> None:
        self._line = self._owner.lines.line(theirs.address, self._write_if_open)
        if not self.connects:
            self._say(self._owner.own_greeting())
        self.theirs = theirs
        self._frames.most = MAX_BYTES
        self.greeted.set_result(theirs)
        self._owner.greeted(self, theirs)
        self._beat()

    def _refused(self, reason: str) -> None:
        self._owner.counts["refused"] += 1
        self._owner.notice(f"refused: {self._whom()}: {reason}")
        if not self.greeted.done():
            self.greeted.set_exception(DistributaryError(f"{self._whom()} refuses: {reason}"))
        self.close(reason)

    def _check_greeted(self) -> None:
        if self.theirs is None and self._client is None and not self._transport.is_closing():
            self.abort("no greeting came")

    # Beats.

    def _beat(self) -> None:
        if self._transport.is_closing():
            return
        now, beat = self._loop.time(), self._owner.limits.beat
        if now - self._next_beat > beat / 2:  # this node itself stood still, and has not read what came
            self._heard += now - self._next_beat
        self._next_beat = now + beat / 2
        if now - self._heard > SILENCE * beat and self._transport.is_reading():
            self.abort("nothing was heard for long")
            return
        if self._client is None and now - self._asked >= beat:
            self._asked = now
            self._say(LinkBeat(asked=now))
        elif now - self._spoke >= beat / 2:
            self._say(LinkBeat())
        self._loop.call_later(beat / 2, self._beat)

    def _measure(self, beat: LinkBeat) -> None:
        """Answer a beat that asks for it, and learn from an answer how long the round trip takes."""
        if beat.asked:
            self._say(LinkBeat(told_back=beat.asked))
        if beat.told_back:
            took = max(0.0, self._loop.time() - beat.told_back)
            before = took if self.round_trip is None else self.round_trip
            self.round_trip = before + (took - before) / 8

    def _say(self, message: Message) -> None:
        self.write_frames([frame(encode(message))])

    def _write_if_open(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _whom(self) -> str:
        if self.theirs is not None:
            return f"node {self.theirs.address}"
        place = self._transport.get_extra_info("peername")
        return str(Endpoint(*place[:2])) if place else "a stranger"
