"""Sends a client what its session has: takes items from the mailbox and waits for their acknowledgements.

Rules:

- A message is sent at the lower of the QoS that it was published at and the greatest that a filter which
  asked for it was granted. At QoS 0 it is acknowledged once it is written; at QoS 1 by PUBACK. At QoS 2
  PUBREC takes it out of the mailbox, after it is kept that its identifier is in use until PUBCOMP.
- No more messages of QoS 1 and 2 are under way than the client allows, and nothing is taken while the
  transport has more than `MOST_BUFFERED` bytes to send: the rest waits in the mailbox, which is bounded.
- What has expired, is too long for the client, or is its own while it asked for none of its own, is left out.
- What the mailbox has given up is told to clients of version 5 with the next message, in the user property
  `gap`; version 3.1.1 has no way to say it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from distributary.edge.mailbox import MailboxGap, MailboxItem
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.fields import text_bytes, variable_integer
from distributary.edge.mqtt.filters import FilterOptions
from distributary.edge.mqtt.memory import SessionMemory, packet_id_of
from distributary.edge.mqtt.messages import (
    EXPIRES,
    PROPERTIES,
    RETAIN,
    RETAINED,
    expiry_of,
    properties_of,
    qos_of,
)
from distributary.edge.mqtt.packets import VERSION_5, AckPacket, PacketKind, ReasonCode
from distributary.edge.mqtt.properties import write_properties
from distributary.edge.payloads import payload_of
from distributary.edge.sessions import Session
from distributary.model import Event

MOST_BUFFERED = 1 << 20
MOST_AT_ONCE = 500
"""Items that are taken from a mailbox at a time."""


class MessageBytes:
    """The parts of messages that are the same for all who get them in one turn of the loop."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Event, bytes, bytes]] = {}

    def of(self, event: Event) -> tuple[Event, bytes, bytes]:
        """The topic of an event with its length, and its payload."""
        made = self._made.get(id(event))
        if made is None:
            made = event, text_bytes(event.topic or ""), payload_of(event)
            self._made[id(event)] = made
        return made

    def clear(self) -> None:
        """The turn is over."""
        self._made.clear()


class OutgoingMessages:
    """What is on its way to one client."""

    def __init__(
        self,
        session: Session,
        memory: SessionMemory,
        shared: MessageBytes,
        *,
        version: int,
        window: int,
        longest: int | None,
        now: Callable[[], float],
        say: Callable[[bytes], None],
    ) -> None:
        self._session, self._memory, self._shared = session, memory, shared
        self._version, self._window, self._longest = version, window, longest
        self._now, self._say = now, say
        self._under_way: dict[int, int] = {}
        """By packet identifier the places of items that wait for PUBACK or PUBREC."""
        self._again = memory.sent
        """Items up to this place are sent as duplicates."""
        self._left: list[int] = []
        """Places of items that are done with, to be told to the session together."""
        self._released: list[int] = []
        """Packet identifiers that wait for their place in the marks."""
        self._gap: str | None = None

    def begin(self) -> None:
        """A connection begins: go on with what the one before has not completed."""
        for packet_id in self._memory.releasing:
            self._say(self._ack(PacketKind.PUBREL, packet_id))

    # What the client says.

    def acknowledge(self, packet_id: int) -> None:
        """PUBACK has come, or a PUBREC that refuses."""
        place = self._under_way.pop(packet_id, None)
        if place is not None:
            self._left.append(place)

    def receive(self, packet_id: int) -> None:
        """PUBREC has come."""
        place = self._under_way.pop(packet_id, None)
        if place is not None:
            self._memory.releasing[packet_id] = place
            self._released.append(packet_id)
        elif packet_id in self._memory.releasing:
            if packet_id not in self._released:
                self._say(self._ack(PacketKind.PUBREL, packet_id))
        else:
            self._say(self._ack(PacketKind.PUBREL, packet_id, ReasonCode.PACKET_ID_NOT_FOUND))

    def complete(self, packet_id: int) -> None:
        """PUBCOMP has come."""
        if self._memory.releasing.pop(packet_id, None) is not None:
            self._memory.mark_releasing()
            # Kept with the next change: after a crash PUBREL is sent once more, which does no harm.

    # What is sent.

    def pump(self, buffered: int) -> list[bytes]:
        """What can be sent now, while the transport has so many bytes to send."""
        self._settle()
        out: list[bytes] = []
        while buffered < MOST_BUFFERED:
            room = self._window - len(self._under_way) - len(self._memory.releasing)
            taken = self._session.take(min(room, MOST_AT_ONCE)) if room > 0 else []
            if not taken:
                break
            for entry in taken:
                if isinstance(entry, MailboxGap):
                    told = f"{entry.events} events" if entry.events else "some events"
                    self._gap = f"{told} are missing before this one: {entry.reason}"
                else:
                    written = self._message(entry)
                    if written is not None:
                        out.append(written)
                        buffered += len(written)
            self._memory.sent = max(self._memory.sent, taken[-1].place)
            self._settle()
        return out

    def _settle(self) -> None:
        """Tell the session what is done with; items of QoS 2 after their identifiers are kept."""
        if self._released:
            released, self._released = self._released, []
            self._memory.mark_releasing()
            self._session.keep_marks(partial(self._release, released))
            self._left += [
                self._memory.releasing[each] for each in released if each in self._memory.releasing
            ]
        if self._left:
            left, self._left = self._left, []
            self._session.acknowledge_each(left)

    def _release(self, packet_ids: list[int]) -> None:
        for packet_id in packet_ids:
            self._say(self._ack(PacketKind.PUBREL, packet_id))

    def _ack(self, kind: PacketKind, packet_id: int, reason: int = 0) -> bytes:
        return write_packet(AckPacket(kind, packet_id, reason), self._version)

    def _message(self, item: MailboxItem) -> bytes | None:
        """The bytes of an item; None for one that is not sent, and is done with."""
        event, place = item.delivery.event, item.place
        packet_id = packet_id_of(place)
        if self._memory.releasing.get(packet_id) == place:
            self._left.append(place)  # The client had received it when the broker crashed.
            return None
        options = [self._memory.options_of(text) for text in item.delivery.subscriptions]
        granted = max((each.qos for each in options), default=0)
        qos = min(qos_of(event), granted)
        written = (
            None if self._unwanted(event, options, qos, place) else self._written(event, options, qos, place)
        )
        if written is None or (self._longest is not None and len(written) > self._longest):
            self._left.append(place)
            return None
        if qos:
            self._under_way[packet_id] = place
        else:
            self._left.append(place)
        return written

    def _unwanted(self, event: Event, options: list[FilterOptions], qos: int, place: int) -> bool:
        topic = event.topic
        if not topic or "+" in topic or "#" in topic or "\0" in topic:
            return True  # An event of another protocol: no message of MQTT can have this topic.
        sent_before = qos == 2 and place <= self._again
        if not sent_before and (expires := expiry_of(event)) is not None and expires <= self._now():
            return True
        own = event.source == self._session.subscriber and RETAINED not in event.attributes
        return own and all(each.no_local for each in options)

    def _written(self, event: Event, options: list[FilterOptions], qos: int, place: int) -> bytes:
        attributes = event.attributes
        retain = RETAINED in attributes or (
            attributes.get(RETAIN) is True and any(each.retain_as_published for each in options)
        )
        _, topic, payload = self._shared.of(event)
        first = 0x30 | qos << 1 | retain
        if qos and place <= self._again:
            first |= 8
        head = topic + packet_id_of(place).to_bytes(2, "big") if qos else topic
        if self._version == VERSION_5:
            head += self._properties(event, options)
        return b"".join((bytes((first,)), variable_integer(len(head) + len(payload)), head, payload))

    def _properties(self, event: Event, options: list[FilterOptions]) -> bytes:
        attributes = event.attributes
        identifiers = tuple(each.identifier for each in options if each.identifier is not None)
        if (
            not identifiers
            and self._gap is None
            and PROPERTIES not in attributes
            and EXPIRES not in attributes
        ):
            return b"\0"
        properties: dict[str, Any] = properties_of(event, self._now())
        if identifiers:
            properties["subscription_identifier"] = identifiers
        if self._gap is not None:
            told = ("gap", self._gap)
            properties["user_property"] = (*properties.get("user_property", ()), told)
            self._gap = None
        return write_properties(properties)
