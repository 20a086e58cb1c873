"""Messages that come one at a time, sent on at once and published a little later, many together.

A message that comes alone has nobody to share the cost of publishing with. Where a broker is alone in its
network and keeps nothing on a disk, publishing tells nobody anything but those who are connected here: what
it changes is what the broker remembers. So such a message is sent on as it came, and published with others.

Rules:

- What is sent on directly is a plain message of QoS 0 or 1 that came by itself (no properties, not to be
  retained, no XML, at most 16 KB), to a topic of which the broker knows who is given its messages
  (`EdgeBroker.audience`).
- All of them are clients of MQTT who get it in the bytes that it came in, but for the packet identifier, for
  whom nothing waits, and whose sessions end with their connections. Otherwise nothing is sent on directly.
- Before the broker is asked or told anything else, what was sent on is published: its sessions take that as
  given (`Session.count_given`). So a log, a subscription or another node never see a broker that lacks it.
- What is known of a topic is forgotten then, and whenever a connection begins or ends: it is found out anew.
- At QoS 1 the publisher is answered at once: without a disk, a message is as safe as it ever is.

Cost: some 5 microseconds a message, and 2 to publish it with others; alone that takes some 30.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from distributary.edge.access import Access, Identity
from distributary.edge.broker import EdgeBroker
from distributary.edge.mqtt.frames import MAY_BEGIN_DOCUMENT, PacketStream, may_be_document
from distributary.edge.mqtt.message_run import MessageRun
from distributary.edge.mqtt.messages import RETAIN
from distributary.edge.mqtt.packets import VERSION_5
from distributary.live.codec import READING
from distributary.model import EventKey
from distributary.overlay.packed_events import PackedEvents

if TYPE_CHECKING:
    from distributary.edge.mqtt.connection import MqttConnection
    from distributary.edge.mqtt.outgoing import OutgoingMessages

_new_tuple = tuple.__new__
"""Makes a tuple with names in half the time of calling its class."""

MOST_TOGETHER = 256
"""Messages that are published together."""
MOST_ROUTES = 1_000
"""Topics of which it is known who is given their messages."""
PLAIN = frozenset((0x30, 0x32))
"""The first bytes of messages that are sent on: QoS 0 and 1, not to be retained, no duplicates."""

Form = tuple[int, int]
"""What messages must have in common to be published as one run: the version, and the first byte."""


class DirectRoute(NamedTuple):
    """Who is given the messages of a topic that come in one form."""

    form: Form
    topic: str
    receivers: tuple[OutgoingMessages, ...]


class DirectPublisher(NamedTuple):
    """A connection whose messages may be sent on."""

    source: str
    identity: Identity
    stream: PacketStream


class _Latest(NamedTuple):
    """A message that was sent on: one that begins like it and is as long has all else at the same places."""

    publisher: DirectPublisher
    prefix: bytes
    """Its bytes up to the end of its topic."""
    length: int
    body: int
    """Where its payload begins."""
    route: DirectRoute


class _Sent(NamedTuple):
    """A message that was sent on."""

    source: str
    topic: str
    data: bytes
    body: int
    """Where its payload begins."""
    packet_id: bytes
    """Empty at QoS 0."""


class DirectMessages:
    """Sends on what comes to the connections of a room. `connected` gives the one of a subscriber."""

    def __init__(
        self,
        broker: EdgeBroker,
        access: Access,
        connected: Callable[[str], MqttConnection | None],
        new_ids: Callable[[int], list[str]],
        notice: Callable[[str], None],
    ) -> None:
        self._broker, self._access, self._connected = broker, access, connected
        self._new_ids, self._notice = new_ids, notice
        self._routes: dict[tuple[int, int, bytes], DirectRoute | None] = {}
        """By version, first byte and topic with its length; None where messages go the usual way."""
        self._sent: list[_Sent] = []
        """What is to be published, all of one form."""
        self._form: Form = 0, 0
        self._latest: _Latest | None = None
        broker.before_entry(self.settle)
        access.changed.append(self.forget)

    def forget(self) -> None:
        """Who is connected has changed, or what they want."""
        self._routes.clear()
        self._latest = None

    def settle(self) -> None:
        """Publish what was sent on, and find out anew who is given what."""
        self._routes.clear()
        self._latest = None
        if self._sent:
            sent, self._sent = self._sent, []
            self._broker.publish(_events(self._form, sent, self._new_ids(len(sent))), self._published)

    def _published(self, reason: str | None) -> None:
        if reason is not None:
            self._notice(f"messages that were sent on are not published: {reason}")

    def take(self, publisher: DirectPublisher, data: bytes) -> bytes | None:
        """Send on a message that came by itself; gives its packet identifier, which is empty at QoS 0.

        None, and nothing is done, where it is not such a message or cannot be sent on.
        """
        known, end = self._latest, len(data)
        if (
            known is None
            or end != known.length
            or publisher is not known.publisher
            or not data.startswith(known.prefix)
        ):
            known = self._read(publisher, data)
            if known is None:
                return None
        _, prefix, _, body, (form, topic, receivers) = known
        if form[0] == VERSION_5 and data[body - 1]:
            return None  # it has properties
        if body < end and data[body] in MAY_BEGIN_DOCUMENT and may_be_document(data, body, end):
            return None
        id_place = len(prefix)
        packet_id = data[id_place : id_place + 2] if form[1] & 2 else b""
        if packet_id == b"\0\0":
            return None
        for receiver in receivers:
            if not receiver.can_send_on():
                return None
        if self._sent and form != self._form:
            self.settle()
        for receiver in receivers:
            receiver.send_on(data, id_place if packet_id else 0)
        self._latest, self._form = known, form
        self._sent.append(_new_tuple(_Sent, (publisher.source, topic, data, body, packet_id)))
        if len(self._sent) >= MOST_TOGETHER:
            self.settle()
        return packet_id

    def _read(self, publisher: DirectPublisher, data: bytes) -> _Latest | None:
        """Where all is in a message that came by itself; None where it is not one that can be sent on."""
        stream = publisher.stream
        first, version, end = data[0], stream.version, len(data)
        length, start = data[1], 2
        if length > 127:
            length, start = length & 127 | data[2] << 7, 3
            if not 0 < data[2] < 128:
                return None
        if start + length != end or length > stream.limit:
            return None
        topic_end = start + 2 + (data[start] << 8 | data[start + 1])
        body = topic_end + (first & 2) + (version == VERSION_5)
        if body > end or not self._access.publishes_freely(publisher.identity):
            return None
        key = version, first, data[start:topic_end]
        route = self._routes.get(key) or self._route(key, stream)
        return None if route is None else _Latest(publisher, data[:topic_end], end, body, route)

    def _route(self, key: tuple[int, int, bytes], stream: PacketStream) -> DirectRoute | None:
        """Find out who is given the messages of a topic, unless it is known that they go the usual way."""
        if key in self._routes:
            return None
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        version, first, head = key
        route = self._routes[key] = self._found_route((version, first), stream.topic(head))
        return route

    def _found_route(self, form: Form, topic: str | None) -> DirectRoute | None:
        audience = None if topic is None else self._broker.audience(topic, RETAIN)
        if topic is None or audience is None:
            return None
        receivers: list[OutgoingMessages] = []
        for subscriber, names in audience:
            connection = self._connected(subscriber)
            receiver = None if connection is None else connection.receives(*form, names)
            if receiver is None:
                return None
            receivers.append(receiver)
        return DirectRoute(form, topic, tuple(receivers))


def _events(form: Form, sent: list[_Sent], ids: list[str]) -> PackedEvents:
    """The events of messages, known by these ids."""
    sources, topics, parts, bodies, packet_ids = map(list, zip(*sent, strict=True))
    edges = [0, *accumulate(map(len, parts))]
    places = list(map(add, edges, bodies))
    numbers = [int.from_bytes(each, "big") for each in packet_ids] if form[1] & 2 else []
    run = MessageRun(*form, b"".join(parts), edges[:-1], places, topics, numbers).end(edges[-1])
    identities = [_new_tuple(EventKey, key) for key in zip(sources, ids, strict=True)]
    return PackedEvents(None, identities, topics, False, READING, None, run)
