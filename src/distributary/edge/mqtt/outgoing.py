"""Sends a client what its session has: takes items from the mailbox and waits for their acknowledgements.

Rules:

- A message is sent at the lower of the QoS that it was published at and the greatest that a filter which
  asked for it was granted. At QoS 0 it is acknowledged once it is written; at QoS 1 by PUBACK. At QoS 2
  PUBREC takes it out of the mailbox, after it is kept that its identifier is in use until PUBCOMP.
- No more messages of QoS 1 and 2 are under way than the client allows, and nothing is taken while the
  transport has more than `MOST_BUFFERED` bytes to send: the rest waits in the mailbox, which is bounded.
- What has expired, is too long for the client, or is its own while it asked for none of its own, is left out.
- What the mailbox has given up is told to clients of version 5 with the next message, in the user property
  `gap`; version 3.1.1 has no way to say it. It is acknowledged with that message: if the connection ends
  before, the next one tells it again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from distributary.edge.mailbox import MailboxGap, MailboxItem, MailboxRun
from distributary.edge.mailbox_entries import ranges_of
from distributary.edge.mqtt.aliases import TopicAliases
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.fields import text_bytes, variable_integer
from distributary.edge.mqtt.filters import FilterOptions
from distributary.edge.mqtt.memory import PACKET_IDS, SessionMemory, packet_id_of
from distributary.edge.mqtt.message_run import MessageRun, with_identifiers
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
from distributary.model import DeliveryBatch, Event
from distributary.overlay.packed_events import PackedEvents

if TYPE_CHECKING:
    from distributary.edge.mqtt.room import MqttLine

MOST_BUFFERED = 1 << 20
MOST_AT_ONCE = 500
"""Items that are taken from a mailbox at a time."""


MOST_SHARED = 4 << 20
"""Bytes of messages that are kept for others who get the same."""
PASSED_ON = 0
"""Stands for the place of an item that was never in the mailbox: no place is 0."""


class MessageBytes:
    """The parts of messages that are the same for all who get them at the same time, up to so many bytes."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Event, bytes, bytes]] = {}
        self._runs: dict[Hashable, tuple[MessageRun, list[bytes]]] = {}
        self._written: dict[Hashable, bytes] = {}
        self._size = 0

    def of_run(
        self, run: MessageRun, part: tuple[int, int], version: int, first: int, properties: bytes, number: int
    ) -> bytes:
        """The messages of a part of a run, with packet identifiers from a number on, if they have any."""
        how = (id(run), part, version, first, properties)
        written = self._written.get((how, number))
        if written is None:
            known = self._runs.get(how)
            if known is None:
                known = self._runs[how] = run, run.segments(*part, version, first, properties)
            segments = known[1]
            written = with_identifiers(segments, number) if first & 6 else b"".join(segments)
            self._size += len(written)
            if self._size > MOST_SHARED:
                self.clear()
            else:
                self._written[how, number] = written
        return written

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
        self._runs.clear()
        self._written.clear()
        self._size = 0


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
        aliases: int,
        now: Callable[[], float],
        say: Callable[[bytes], None],
        line: MqttLine,
    ) -> None:
        self._session, self._memory, self._shared, self._line = session, memory, shared, line
        self._version, self._window, self._longest = version, window, longest
        self._aliases = TopicAliases(aliases)
        self._now, self._say = now, say
        self._under_way: dict[int, int] = {}
        """By packet identifier the places of items that wait for PUBACK or PUBREC, or `PASSED_ON`."""
        self._again = memory.sent
        """Items up to this place are sent as duplicates."""
        self._left: list[int] = []
        """Places of items that are done with, to be told to the session together."""
        self._left_ranges: list[tuple[int, int]] = []
        """The same, of those that came together: the first and the last."""
        self._released: list[int] = []
        """Packet identifiers that wait for their place in the marks."""
        self._gaps: list[MailboxGap] = []
        """What is to be told with the next message."""
        self._told: dict[int, list[int]] = {}
        """The places of gaps that were told with an item, by its place."""
        self.answered = False
        """Whether the client has acknowledged something since the last look, so that more may be sent."""

    def begin(self) -> None:
        """A connection begins: go on with what the one before has not completed."""
        for packet_id in self._memory.releasing:
            self._say(self._ack(PacketKind.PUBREL, packet_id))

    # What the client says.

    def acknowledge(self, packet_id: int) -> None:
        """PUBACK has come, or a PUBREC that refuses."""
        self.acknowledge_all((packet_id,))

    def acknowledge_all(self, packet_ids: Iterable[int]) -> None:
        """PUBACK packets have come."""
        done = self._under_way.pop
        self._left += [place for each in packet_ids if (place := done(each, PASSED_ON)) != PASSED_ON]
        if self._left or self._session.waiting:
            self.answered = True

    def receive(self, packet_id: int) -> None:
        """PUBREC has come."""
        self.answered = True
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
        self.answered = True
        if self._memory.releasing.pop(packet_id, None) is not None:
            self._memory.mark_releasing()
            # Kept with the next change: after a crash PUBREL is sent once more, which does no harm.

    # What is sent.

    def held_back(self, buffered: int) -> bool:
        """Whether more could be sent, while the transport has so many bytes to send."""
        room = self._window - len(self._under_way) - len(self._memory.releasing)
        return buffered < MOST_BUFFERED and room > 0 and self._session.takes

    def pump(self, buffered: int) -> list[bytes]:
        """What can be sent now, while the transport has so many bytes to send."""
        self.answered = False
        self._settle()
        out: list[bytes] = []
        while buffered < MOST_BUFFERED:
            room = self._window - len(self._under_way) - len(self._memory.releasing)
            taken = self._session.take_runs(min(room, MOST_AT_ONCE)) if room > 0 else []
            if not taken:
                break
            for entry in taken:
                if isinstance(entry, MailboxGap):
                    self._gaps.append(entry)
                elif isinstance(entry, MailboxRun):
                    buffered += self._send_run(entry, out)
                else:
                    buffered += self._send(entry, out)
            self._memory.sent = max(self._memory.sent, taken[-1].place)
            self._settle()
            if not self._session.waiting:
                break
        return out

    def leaves_unchanged(self, version: int, first: int, names: tuple[str, ...]) -> bool:
        """Whether messages for some filters that come in this version and with this first byte stay so."""
        if self._aliases.most:
            return False
        granted, no_local, _, properties = self._memory.options_together(names)
        plain = version == self._version and not no_local and self._longest is None
        return plain and granted >= first >> 1 & 3 and properties == b"\0"

    def can_send_on(self) -> bool:
        """Whether nothing waits to be sent or settled before a message that comes now."""
        full = self._line.buffered >= MOST_BUFFERED or len(self._under_way) >= self._window
        waits = self._session.mailbox.untaken or self._gaps
        return not (full or waits or self._left or self._memory.releasing)

    def send_on(self, data: bytes, id_place: int) -> None:
        """Send a message as it came, but for its packet identifier, which stands at a place (0: nowhere)."""
        self._memory.sent = place = self._session.count_given()
        if id_place:
            packet_id = place % PACKET_IDS + 1
            self._under_way[packet_id] = PASSED_ON
            data = b"".join((data[:id_place], packet_id.to_bytes(2, "big"), data[id_place + 2 :]))
        self._line.write(data)

    def arrived(self, packet_id: int) -> bool:
        """PUBACK has come for a message after which nothing is to be done; False for any other."""
        under_way = self._under_way
        if under_way.get(packet_id) != PASSED_ON or self._left or self._session.mailbox.untaken:
            return False
        del under_way[packet_id]
        return True

    def pass_on(self, batch: DeliveryBatch, first: int, buffered: int) -> bytes | None:
        """The bytes of deliveries at QoS 0 or 1 that nothing waits before; None if they must be taken.

        They count as sent: at QoS 1 as under way until PUBACK comes.
        """
        count = len(batch.events)
        room = self._window - len(self._under_way) - len(self._memory.releasing)
        if buffered >= MOST_BUFFERED or count > min(room, MOST_AT_ONCE):
            return None
        written = self._written_run(MailboxRun(first, first + count - 1, batch, 0, 0, 0.0))
        if written is None or written[0] & 4:
            return None
        if written[0] & 2:
            self._under_way.update(dict.fromkeys(_packet_ids(first, count), PASSED_ON))
        self._memory.sent = first + count - 1
        return written

    def _send(self, item: MailboxItem, out: list[bytes]) -> int:
        """Write an item, unless it is not to be sent; gives how many bytes it has."""
        written = self._message(item)
        if written is None:
            return 0
        out.append(written)
        return len(written)

    def _send_run(self, entry: MailboxRun, out: list[bytes]) -> int:
        """Write items that came together, at once if they are plain; gives how many bytes they have."""
        written = self._written_run(entry)
        if written is None:
            return sum([self._send(item, out) for item in entry.items()])
        out.append(written)
        if written[0] & 6:
            places = range(entry.first, entry.place + 1)
            self._under_way.update(zip(_packet_ids(entry.first, len(places)), places, strict=True))
        else:
            self._left_ranges.append((entry.first, entry.place))
        return len(written)

    def _written_run(self, entry: MailboxRun) -> bytes | None:
        """The bytes of items that came together; None where they must be looked at one by one.

        That is so for what may be unwanted by its client or was sent before, and for what a client must be
        told with one of them.
        """
        run = _run_of(entry)
        if run is None or self._gaps or self._memory.releasing:
            return None
        if self._longest is not None or self._aliases.most:
            return None
        granted, no_local, as_published, properties = self._memory.options_together(entry.batch.names[0])
        if entry.first <= self._again or no_local:
            return None
        version, qos = self._version, min(run.qos, granted)
        first = 0x30 | qos << 1 | (run.retain and as_published)
        part = entry.start, entry.start + entry.length
        if not qos and run.is_written(part, version, first, properties):
            return run.data
        packet_id = packet_id_of(entry.first) if qos else 0
        return self._shared.of_run(run, part, version, first, properties, packet_id)

    def _settle(self) -> None:
        """Tell the session what is done with; items of QoS 2 after their identifiers are kept."""
        if self._released:
            released, self._released = self._released, []
            self._memory.mark_releasing()
            self._session.keep_marks(partial(self._release, released))
            self._left += [
                self._memory.releasing[each] for each in released if each in self._memory.releasing
            ]
        if self._left or self._left_ranges:
            left, self._left = self._left, []
            if self._told:
                left += [gap for place in left for gap in self._told.pop(place, ())]
            ranges, self._left_ranges = self._left_ranges, []
            self._session.acknowledge_ranges([*ranges, *ranges_of(left)])

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
        qos = min(qos_of(event), _granted(options))
        written = None if self._unwanted(event, options, qos, place) else self._fitting(item, options, qos)
        if written is None:
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

    def _fitting(self, item: MailboxItem, options: list[FilterOptions], qos: int) -> bytes | None:
        """The bytes of an item, with the gaps before it where there is room; None if it is too long."""
        for gaps in (self._gaps, ()) if self._gaps else ((),):
            written = self._written(item.delivery.event, options, qos, item.place, gaps)
            if self._longest is None or len(written) <= self._longest:
                self._aliases.note(self._shared.of(item.delivery.event)[1])
                if gaps:
                    self._told[item.place] = [gap.place for gap in gaps]
                    self._gaps = []
                return written
        return None

    def _written(
        self, event: Event, options: list[FilterOptions], qos: int, place: int, gaps: Sequence[MailboxGap]
    ) -> bytes:
        attributes = event.attributes
        retain = RETAINED in attributes or (
            attributes.get(RETAIN) is True and any(each.retain_as_published for each in options)
        )
        _, topic, payload = self._shared.of(event)
        alias, topic = self._aliases.of(topic)
        first = 0x30 | qos << 1 | retain
        if qos and place <= self._again:
            first |= 8
        head = topic + packet_id_of(place).to_bytes(2, "big") if qos else topic
        if self._version == VERSION_5:
            head += self._properties(event, options, gaps, alias)
        return b"".join((bytes((first,)), variable_integer(len(head) + len(payload)), head, payload))

    def _properties(
        self, event: Event, options: list[FilterOptions], gaps: Sequence[MailboxGap], alias: int
    ) -> bytes:
        attributes = event.attributes
        identifiers = tuple(each.identifier for each in options if each.identifier is not None)
        more = identifiers or gaps or alias
        if not more and PROPERTIES not in attributes and EXPIRES not in attributes:
            return b"\0"
        properties: dict[str, Any] = properties_of(event, self._now())
        if identifiers:
            properties["subscription_identifier"] = identifiers
        if alias:
            properties["topic_alias"] = alias
        if gaps:
            told = ("gap", _missing(gaps))
            properties["user_property"] = (*properties.get("user_property", ()), told)
        return write_properties(properties)


def _missing(gaps: Sequence[MailboxGap]) -> str:
    """What a client is told of gaps.

    >>> _missing([MailboxGap(3, 2, "too old"), MailboxGap(4, 0, "the log has it no longer")])
    '2 or more events are missing before this one: the log has it no longer'
    """
    count, exact = sum(gap.events for gap in gaps), all(gap.events for gap in gaps)
    told = f"{count} events" if exact else f"{count} or more events" if count else "some events"
    return f"{told} are missing before this one: {gaps[-1].reason}"


def _granted(options: list[FilterOptions]) -> int:
    """The greatest QoS that one of these filters was granted."""
    return max((each.qos for each in options), default=0)


def _packet_ids(first: int, count: int) -> Iterable[int]:
    """The packet identifiers of items in successive places."""
    begin = packet_id_of(first)
    if begin + count <= PACKET_IDS + 1:  # they follow each other, as they do unless 1 comes after the last
        return range(begin, begin + count)
    return map(packet_id_of, range(first, first + count))


def _run_of(entry: MailboxRun) -> MessageRun | None:
    """The messages that came together; None for what did not come by MQTT."""
    events = entry.batch.events
    origin = events.origin if isinstance(events, PackedEvents) else None
    return origin if isinstance(origin, MessageRun) else None
