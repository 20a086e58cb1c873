"""Events that come one at a time, given to clients at once and published a little later, many together.

An event that comes alone has nobody to share the cost of publishing with. Where a broker is alone in its
network and keeps nothing on a disk, publishing tells nobody anything but the clients here: what it changes is
what the broker remembers. So such an event is given to them in the bytes it came in, and published with
others. `edge/mqtt/direct.py` does the same with messages of MQTT.

Rules:

- What is given directly is one event that came by itself, in a request of its own: with a topic, without a
  document, of at most `LONGEST` bytes, never published before as far as the broker remembers, and with a
  topic of which the broker knows who is given its events (`Served.audience`). It is checked as strictly as
  any other.
- All of them are clients of this protocol for whom nothing waits. Otherwise nothing is given directly, and
  the event goes the usual way, which also tells what is wrong with one that cannot be read.
- Before the broker is asked or told anything else, what was given is published (`settle`), in the order in
  which it was given: so it gets the numbers that clients were told, and what comes of that is given to nobody
  again. A log, a session or another node never see a broker that lacks it.
- What is known of a topic is forgotten then: it is found out anew. So it is when a client comes that asks for
  something, and when one goes that did.
- The publisher is answered at once: without a disk an event is as safe as it ever is.

Cost: some 5 microseconds an event, and 1 to publish it with others; alone that takes some 20.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import MsgspecError
from msgspec.msgpack import Encoder

from distributary.live.client_line import ClientLine, Served
from distributary.live.client_messages import ClientAnswer, ClientDelivery, ClientEvents
from distributary.live.codec import READING, array_header, read_plain_event
from distributary.live.frames import HEADER, frame
from distributary.model import MAX_TOPIC_LEVELS, EventIdentity, EventKey, Offset, source_in
from distributary.overlay.kinds import number_of
from distributary.overlay.packed_events import PackedEvents

LONGEST = 16 << 10
"""Bytes of a request beyond which its event goes the usual way."""
MOST_TOGETHER = 256
"""Events that are published together."""
MOST_ROUTES = 1_000
"""Topics of which it is known who is given their events."""

_encoder = Encoder()


def _beginning(kind: type) -> bytes:
    """How a message of a kind begins: an array of so many, and its number."""
    return array_header(1 + len(getattr(kind, "_fields"))) + _encoder.encode(number_of(kind))  # noqa: B009


_REQUEST, _DELIVERY, _ANSWER = map(_beginning, (ClientEvents, ClientDelivery, ClientAnswer))
_NUMBER = HEADER + len(_REQUEST)
"""Where the number of a request stands in its frame."""
_WIDTHS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
"""Of a whole number of several bytes how many follow, by the first."""
_ONE = array_header(1)[0]
_NOBODY_REFUSED = _encoder.encode(())
_OFFSET = number_of(Offset)


class _Route(NamedTuple):
    """Who is given the events of a topic: clients, with the names of their subscriptions, written."""

    receivers: tuple[tuple[ClientLine, bytes], ...]


class _Given(NamedTuple):
    """An event that was given."""

    identity: EventIdentity
    topic: str
    written: bytes


class DirectEvents:
    """Gives what comes to the clients of a broker. `connected` gives the one of a subscriber."""

    def __init__(self, broker: Served, connected: Callable[[str], object]) -> None:
        self._broker, self._connected = broker, connected
        self._routes: dict[str, _Route | None] = {}
        """None where events go the usual way."""
        self._given: list[_Given] = []
        """What is to be published."""
        self._identities: set[EventIdentity] = set()
        self._last = Offset(0.0, 0)
        """The place in the log of what was given last; if nothing waits, it is not known."""

    def settle(self) -> None:
        """Publish what was given, and find out anew who is given what."""
        self._routes.clear()
        if self._given:
            given, self._given = self._given, []
            self._identities.clear()
            identities, topics, pieces = map(list, zip(*given, strict=True))
            whole = b"".join(pieces)
            self._broker.publish_given(PackedEvents((whole,), identities, topics, False, READING, pieces))

    def take(self, publisher: ClientLine, data: bytes) -> bool:
        """Give the event that these bytes publish; False, and nothing is done, if it goes the usual way."""
        end = len(data)
        if not _NUMBER + 2 < end <= LONGEST or not data.startswith(_REQUEST, HEADER):
            return False
        number, place = data[_NUMBER], _NUMBER + 1
        if number > 0x7F:
            start, place = place, place + _WIDTHS.get(number, end)
            number = int.from_bytes(data[start:place], "big")
        if place >= end or data[place] != _ONE or int.from_bytes(data[:HEADER], "big") != end - HEADER:
            return False
        written = data[place + 1 :]
        try:
            _, event_id, topic, attributes, document = read_plain_event(written)
        except (MsgspecError, RecursionError, UnicodeError):
            return False
        if not topic or len(topic) >= MAX_TOPIC_LEVELS or document is not None:
            return False
        source = source_in(attributes) if "source" in attributes else ""
        identity = EventKey(source, event_id) if source else event_id
        return self._give(_Given(identity, topic, written)) and self._answered(publisher, number)

    def _give(self, given: _Given) -> bool:
        identity, topic, written = given
        route = self._routes.get(topic) or self._route(topic)
        if route is None or identity in self._identities or self._broker.remembers(identity):
            return False
        for receiver, _ in route.receivers:
            if not receiver.takes_at_once:
                return False
        if not self._given:
            last = self._broker.last_place()
            if last is None:
                return False
            self._last = last
        epoch, before = self._last
        self._last = offset = Offset(epoch, before + 1)
        place = _encoder.encode((_OFFSET, epoch, before + 1))
        names: bytes | None = None
        for receiver, theirs in route.receivers:
            if theirs is not names:
                names, data = theirs, frame(b"".join((_DELIVERY, written, theirs, place)))
            receiver.give_at_once(data, offset)
        self._identities.add(identity)
        self._given.append(given)
        return True

    def _answered(self, publisher: ClientLine, number: int) -> bool:
        """Answer the request if somebody waits for that; True."""
        if number:
            publisher.write_at_once(frame(_ANSWER + _encoder.encode(number) + _NOBODY_REFUSED))
        if len(self._given) >= MOST_TOGETHER:
            self.settle()
        return True

    def _route(self, topic: str) -> _Route | None:
        """Find out who is given the events of a topic, unless it is known that they go the usual way."""
        if topic in self._routes:
            return None
        if len(self._routes) >= MOST_ROUTES:
            self._routes.clear()
        route = self._routes[topic] = self._found_route(topic)
        return route

    def _found_route(self, topic: str) -> _Route | None:
        audience = self._broker.audience(topic, "")
        if audience is None:
            return None
        lines = [self._connected(subscriber) for subscriber, _ in audience]
        receivers = [line for line in lines if isinstance(line, ClientLine)]
        if len(receivers) < len(lines):
            return None
        written: dict[tuple[str, ...], bytes] = {}
        names = [written.setdefault(each, _encoder.encode(each)) for _, each in audience]
        return _Route(tuple(zip(receivers, names, strict=True)))
