"""One connection of a client, as a state machine without I/O: bytes in, bytes out, and calls to the room.

States, and what may come in each:

    new         CONNECT, and nothing else; then `admitting` while who it is is found out
    admitting   what comes is kept and handled later; nothing more is read
    open        everything but CONNECT
    ended       nothing: whatever comes is ignored

A transport calls `receive` with what came, `lost` when the connection has ended, and `drained` when most of
what was written has been sent. Time passes in `tick`. What is answered to bytes that came is written when all
of them are handled, what waits in the mailbox once a turn of the loop (`flush`), and deliveries that nothing
waits before at once (`pass_on`). Whatever a client does wrong ends its own connection with a reason
(`MqttError`), nothing else.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

from distributary.edge.access import AccessError, Identity
from distributary.edge.mqtt.codec import CONNACK_CODES_3, write_packet, write_told
from distributary.edge.mqtt.direct import PLAIN, DirectPublisher
from distributary.edge.mqtt.frames import AckRun, CutPacket, PacketStream
from distributary.edge.mqtt.incoming import IncomingMessages
from distributary.edge.mqtt.message_run import MessageRun
from distributary.edge.mqtt.outgoing import OutgoingMessages
from distributary.edge.mqtt.packets import (
    VERSION_3,
    VERSION_5,
    AckPacket,
    ConnackPacket,
    ConnectPacket,
    DisconnectPacket,
    MqttError,
    PacketKind,
    PingPacket,
    PublishPacket,
    ReasonCode,
    SubscribePacket,
    UnsubscribePacket,
    WillMessage,
    protocol_error,
)
from distributary.edge.mqtt.room import MqttLine, MqttPeer, MqttRoom, at_once
from distributary.edge.mqtt.subscribing import Subscribing
from distributary.edge.mqtt.wills import WILL_MARK, written_will
from distributary.edge.sessions import Session
from distributary.model import DeliveryBatch

LONGEST_CONNECT = 256 << 10
"""Bytes of the first packet, from somebody who has not said who they are."""
FOR_GOOD = 0xFFFFFFFF
"""A session expiry interval that says that the session never expires."""
SHORTEST = 4
"""Bytes of a PUBACK without a reason, and of the shortest PUBLISH."""
PUBACK = PacketKind.PUBACK << 4
PLAIN_PUBACK = bytes((PUBACK, SHORTEST - 2))
"""What stands before the packet identifier."""
_PING = write_packet(PingPacket(PacketKind.PINGRESP), VERSION_5)


class ConnectionState(Enum):
    """Where a connection stands."""

    NEW = "new"
    ADMITTING = "admitting"
    OPEN = "open"
    ENDED = "ended"


class MqttConnection:
    """One connection. Made by `MqttRoom.connect`."""

    def __init__(self, room: MqttRoom, line: MqttLine, peer: MqttPeer) -> None:
        self.state = ConnectionState.NEW
        self.subscriber: str | None = None
        self.identity: Identity | None = None
        self._room, self._line, self._peer = room, line, peer
        self._stream = PacketStream(LONGEST_CONNECT)
        self._out: list[bytes] = []
        self._kept: list[bytes] = []
        """What came while the client was being admitted."""
        self._heard = room.now()
        """When it was made, or, once it is open, bytes came last: CONNECT must not come in drops."""
        self._patience = room.settings.connect_patience
        """Seconds of silence after which the connection ends; 0 for none."""
        self._version = VERSION_5
        self._longest: int | None = None
        self._will: WillMessage | None = None
        self._session: Session | None = None
        self._incoming: IncomingMessages | None = None
        self._outgoing: OutgoingMessages | None = None
        self._subscribing: Subscribing | None = None
        self._publisher: DirectPublisher | None = None
        self._paused = self._reading = False

    # What the transport says.

    def receive(self, data: bytes) -> None:
        """Bytes have come."""
        if self.state is ConnectionState.OPEN:
            self._heard = self._room.now()
            if not self._pass_through(data):
                self._read(data)
        elif self.state is ConnectionState.ADMITTING:
            self._kept.append(data)
        elif self.state is not ConnectionState.ENDED:
            self._read(data)

    def _pass_through(self, data: bytes) -> bool:
        """Do all there is to do with a packet that came alone, where that is little; False elsewhere."""
        publisher, outgoing, room = self._publisher, self._outgoing, self._room
        if publisher is None or outgoing is None or room.turning or len(data) < SHORTEST:
            return False
        if self._stream.rest or self._out:
            return False
        if data[0] == PUBACK:
            return data[1] == SHORTEST - 2 == len(data) - 2 and outgoing.arrived(data[2] << 8 | data[3])
        incoming = self._incoming
        if data[0] not in PLAIN or incoming is None or incoming.waits or incoming.unanswered:
            return False
        packet_id = room.direct.take(publisher, data)
        if packet_id:
            self._line.write(PLAIN_PUBACK + packet_id)
        return packet_id is not None

    def _read(self, data: bytes) -> None:
        """Handle what has come, and write what is answered at once."""
        self._reading = True
        try:
            self._read_packets(data)
        finally:
            self._reading = False
        if self._outgoing is not None and self._outgoing.answered:
            self._room.write_soon(self)
        elif self._out:
            self.flush()

    def _read_packets(self, data: bytes) -> None:
        most = 1 if self.state is ConnectionState.NEW else None
        packets = self._stream.cut(data, most)
        try:
            for packet in packets:
                self._handle(packet)
                if self.state is ConnectionState.ENDED:
                    return
            if self._stream.error is not None:
                raise self._stream.error
        except MqttError as error:
            if self._incoming is not None:
                self._incoming.finish()
            self._fail(error)
            return
        if self._incoming is not None:
            self._incoming.finish()
            if self._room.pause(self):
                self._paused = True
                self._line.pause()

    def lost(self) -> None:
        """The transport has ended."""
        if self.state is not ConnectionState.ENDED:
            self._leave(with_will=True)

    def drained(self) -> None:
        """Most of what was written has been sent."""
        if self._outgoing is not None:
            self._room.write_soon(self)

    def go_on(self) -> None:
        """The broker is no longer congested."""
        if self._paused:
            self._paused = False
            self._line.resume()

    def tick(self) -> None:
        """Time has passed."""
        if self.state is ConnectionState.ENDED or not self._patience:
            return
        if self._room.now() - self._heard > self._patience and not self._paused:
            if self.state is ConnectionState.OPEN:
                self._fail(MqttError(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing came within the keep-alive"))
            else:
                self._end()

    def flush(self) -> None:
        """Write what is to be written."""
        if self._outgoing is not None and self.state is ConnectionState.OPEN:
            self._out += self._outgoing.pump(self._line.buffered)
        if self._out:
            out, self._out = self._out, []
            self._line.write(out[0] if len(out) == 1 else b"".join(out))
            if self._outgoing is not None and self._outgoing.held_back(self._line.buffered):
                self._room.write_soon(self)  # All was sent at once: nobody says that it is.

    # What the session says.

    def ready(self) -> None:
        """There is something to take."""
        self._room.write_soon(self)

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        """Send deliveries at once, if nothing is to be written before them."""
        if self._out or self._outgoing is None or self.state is not ConnectionState.OPEN:
            return False
        written = self._outgoing.pass_on(batch, first, self._line.buffered)
        if written is not None:
            self._line.write(written)
        return written is not None

    # What other connections say.

    def receives(self, version: int, first: int, names: tuple[str, ...]) -> OutgoingMessages | None:
        """Who sends on messages for some filters, if they stay as they came; None if they do not.

        They come in this version, with this first byte. What is sent on is not kept for a later connection.
        """
        session, outgoing = self._session, self._outgoing
        if session is None or outgoing is None or session.lasts or not session.sees_all:
            return None
        return outgoing if outgoing.leaves_unchanged(version, first, names) else None

    def end(self, reason: str) -> None:
        """The session is not this connection's any more."""
        if self.state is not ConnectionState.ENDED:
            self._fail(MqttError(ReasonCode.ADMINISTRATIVE_ACTION, reason))

    # What the room says.

    def shut_down(self) -> None:
        """The broker ends. Wills are not published: the client is not gone, the broker is."""
        self._will = None
        self._fail(MqttError(ReasonCode.SERVER_SHUTTING_DOWN, "the broker ends"))

    def take_over(self) -> None:
        """Another connection of the same client has come."""
        self._fail(MqttError(ReasonCode.SESSION_TAKEN_OVER, "another connection took over the session"))

    # Packets.

    def _handle(self, packet: CutPacket) -> None:
        if self.state is ConnectionState.NEW:
            if not isinstance(packet, ConnectPacket):
                raise protocol_error("the first packet is not CONNECT")
            self._connect(packet)
            return
        assert self._incoming is not None
        assert self._outgoing is not None
        assert self._subscribing is not None
        kind = type(packet)
        if kind is MessageRun:
            self._incoming.take_run(packet)  # type: ignore[arg-type]
        elif kind is AckRun:
            self._acknowledge_all(packet)  # type: ignore[arg-type]
        elif kind is PublishPacket:
            self._incoming.take(packet)  # type: ignore[arg-type]
        elif kind is AckPacket:
            self._acknowledge(packet)  # type: ignore[arg-type]
        elif isinstance(packet, SubscribePacket):
            self._subscribing.subscribe(packet)
        elif isinstance(packet, UnsubscribePacket):
            self._subscribing.unsubscribe(packet)
        elif isinstance(packet, PingPacket) and packet.kind == PacketKind.PINGREQ:
            self._say(_PING)
        elif isinstance(packet, DisconnectPacket):
            self._disconnect(packet)
        else:
            raise protocol_error(f"a client sends no {kind.__name__} here")

    def _acknowledge_all(self, run: AckRun) -> None:
        assert self._outgoing is not None
        if run.kind == PacketKind.PUBACK:
            self._outgoing.acknowledge_all(run.packet_ids)
        else:
            for packet in run.packets():
                self._acknowledge(packet)

    def _acknowledge(self, packet: AckPacket) -> None:
        assert self._incoming is not None
        assert self._outgoing is not None
        kind = packet.kind
        if kind == PacketKind.PUBACK or (kind == PacketKind.PUBREC and packet.reason >= 0x80):
            self._outgoing.acknowledge(packet.packet_id)
        elif kind == PacketKind.PUBREC:
            self._outgoing.receive(packet.packet_id)
        elif kind == PacketKind.PUBREL:
            self._incoming.release(packet.packet_id)
        else:
            self._outgoing.complete(packet.packet_id)

    def _disconnect(self, packet: DisconnectPacket) -> None:
        assert self._session is not None
        expiry = packet.properties.get("session_expiry_interval")
        if expiry is not None:
            if expiry and not self._session.lasts:
                raise protocol_error("a session that ends with its connection cannot be prolonged")
            self._session.expiry = self._bounded_expiry(expiry)
            self._session.keep_marks(lambda: None)
        assert self._incoming is not None
        self._incoming.finish()
        self._leave(with_will=packet.reason != 0)
        self._end()

    # Letting a client in.

    def _connect(self, packet: ConnectPacket) -> None:
        self._version = packet.version
        self._longest = packet.properties.get("maximum_packet_size")
        if "authentication_method" in packet.properties:
            self._refuse(ReasonCode.BAD_AUTHENTICATION_METHOD, "only user names, passwords and tokens")
            return
        self.state = ConnectionState.ADMITTING
        log_in = partial(
            self._room.access.log_in,
            user=packet.user,
            password=packet.password,
            token=None,
            certificate=self._peer.certificate,
            loopback=self._peer.loopback,
        )
        if packet.user is None and packet.password is None:
            at_once(
                log_in, partial(self._admit, packet)
            )  # Nothing slow is computed where there is no password.
        else:
            self._line.pause()
            self._paused = True
            self._room.offload(log_in, partial(self._admit, packet))

    def _admit(self, packet: ConnectPacket, identity: Identity | Exception) -> None:
        if self.state is not ConnectionState.ADMITTING:
            return
        try:
            if isinstance(identity, AccessError):
                given = packet.user is not None or packet.password is not None
                code = ReasonCode.BAD_USER_OR_PASSWORD if given else ReasonCode.NOT_AUTHORIZED
                raise MqttError(code, str(identity))
            if isinstance(identity, Exception):
                raise MqttError(ReasonCode.UNSPECIFIED, "the log-in failed")
            self._enter(packet, identity)
        except MqttError as error:
            self._refuse(error.reason, str(error))
            return
        if self._paused:
            self.go_on()
        kept, self._kept = self._kept, []
        self._read(b"".join(kept))

    def _enter(self, packet: ConnectPacket, identity: Identity) -> None:
        """Give the client its session."""
        room = self._room
        client = packet.client or self._assigned(packet)
        expiry, bounds = self._asked_expiry(packet), room.settings.bounds_for(packet)
        try:
            subscriber = identity.subscriber(client)
        except AccessError as error:
            raise MqttError(ReasonCode.CLIENT_ID_NOT_VALID, str(error)) from error
        try:
            room.access.connect(identity)
        except AccessError as error:
            raise MqttError(ReasonCode.QUOTA_EXCEEDED, str(error)) from error
        before = room.connected(subscriber)
        if before is not None:
            before.take_over()
        room.wills.come_back(subscriber, fresh=packet.clean)
        try:
            session, present = room.sessions.attach(
                subscriber, self, bounds, expiry, fresh=packet.clean, identity=identity
            )
        except AccessError as error:
            room.access.release(identity)
            raise MqttError(ReasonCode.QUOTA_EXCEEDED, str(error)) from error
        self.state, self.identity, self.subscriber = ConnectionState.OPEN, identity, subscriber
        self._session, self._will = session, packet.will
        room.entered(self, subscriber)
        if packet.will is not None:
            session.marks[WILL_MARK] = written_will(packet.will)
            session.keep_marks(lambda: None)
        self._open(packet, session, identity)
        self._say(self._welcome(packet, client, present, expiry))
        assert self._outgoing is not None
        self._outgoing.begin()
        room.shared.wake(subscriber)

    def _assigned(self, packet: ConnectPacket) -> str:
        if packet.version != VERSION_5 and not packet.clean:
            raise MqttError(ReasonCode.CLIENT_ID_NOT_VALID, "a session to come back to needs a client id")
        return self._room.new_client()

    def _asked_expiry(self, packet: ConnectPacket) -> float | None:
        if packet.version == VERSION_5:
            return self._bounded_expiry(packet.properties.get("session_expiry_interval", 0))
        return 0 if packet.clean else self._bounded_expiry(FOR_GOOD)

    def _bounded_expiry(self, seconds: int) -> float | None:
        longest = self._room.settings.longest_expiry
        asked = None if seconds == FOR_GOOD else float(seconds)
        if longest is None:
            return asked
        return longest if asked is None else min(asked, longest)

    def _open(self, packet: ConnectPacket, session: Session, identity: Identity) -> None:
        room, properties = self._room, packet.properties
        memory = room.memories.of(session)
        self._stream.limit = room.settings.longest_packet
        self._publisher = DirectPublisher(session.subscriber, identity, self._stream)
        self._incoming = IncomingMessages(room, session, memory, identity, packet, self._say, self._fail)
        self._outgoing = OutgoingMessages(
            session,
            memory,
            room.message_bytes,
            version=self._version,
            window=min(properties.get("receive_maximum", 65_535), room.settings.send_maximum),
            longest=self._longest,
            aliases=min(properties.get("topic_alias_maximum", 0), room.settings.topic_aliases),
            now=room.now,
            say=self._say,
            line=self._line,
        )
        self._subscribing = Subscribing(room, session, memory, identity, packet, self._say)
        self._patience, self._heard = 1.5 * self._keep_alive(packet), room.now()

    def _keep_alive(self, packet: ConnectPacket) -> int:
        longest = self._room.settings.longest_keep_alive
        if self._version == VERSION_5 and (not packet.keep_alive or packet.keep_alive > longest):
            return longest
        return packet.keep_alive

    def _welcome(self, packet: ConnectPacket, client: str, present: bool, expiry: float | None) -> bytes:
        if self._version != VERSION_5:
            return write_packet(ConnackPacket(present, ReasonCode.SUCCESS), self._version)
        settings = self._room.settings
        properties: dict[str, Any] = {
            "receive_maximum": settings.receive_maximum,
            "maximum_packet_size": settings.longest_packet,
            "topic_alias_maximum": settings.topic_aliases,
        }
        if not packet.client:
            properties["assigned_client_identifier"] = client
        given = FOR_GOOD if expiry is None else int(expiry)
        if given != packet.properties.get("session_expiry_interval", 0):
            properties["session_expiry_interval"] = given
        if self._keep_alive(packet) != packet.keep_alive:
            properties["server_keep_alive"] = self._keep_alive(packet)
        return write_packet(ConnackPacket(present, ReasonCode.SUCCESS, properties), VERSION_5)

    # The end.

    def _refuse(self, reason: ReasonCode, text: str) -> None:
        """Answer CONNECT by a refusal."""
        if self._version == VERSION_5 or reason in CONNACK_CODES_3:
            self._say(write_told(ConnackPacket(False, reason), self._version, text, self._longest))
        self._end()

    def _fail(self, error: MqttError) -> None:
        """End the connection with a reason."""
        if self.state is ConnectionState.ENDED:
            return
        if self.state is not ConnectionState.OPEN:
            if error.reason == ReasonCode.UNSUPPORTED_VERSION:
                self._say(write_packet(ConnackPacket(False, error.reason), VERSION_3))
            self._end()
            return
        if self._version == VERSION_5:
            self._say(write_told(DisconnectPacket(error.reason), VERSION_5, str(error), self._longest))
        self._leave(with_will=True)
        self._end()

    def _leave(self, *, with_will: bool) -> None:
        """Let the session go, with or without publishing the will."""
        session, identity = self._session, self.identity
        was_open = self.state is ConnectionState.OPEN
        self.state = ConnectionState.ENDED
        if session is not None and identity is not None and was_open:
            will, self._will = self._will, None
            session.marks.pop(WILL_MARK, None)
            if session.lasts:
                session.keep_marks(lambda: None)
            self._room.access.release(identity)
            if will is not None and with_will:
                self._room.leave_will(identity, session, will)
            session.detach(self)
        self._room.forget(self)

    def _end(self) -> None:
        """Write what is left, and close."""
        if self.state is not ConnectionState.ENDED:
            self._leave(with_will=False)
        self.flush()
        self._line.close()

    def _say(self, data: bytes) -> None:
        self._out.append(data)
        if self.state is ConnectionState.OPEN and not self._reading:
            self._room.write_soon(self)
