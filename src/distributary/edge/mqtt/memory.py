"""What MQTT keeps with a session, beside its subscriptions and its mailbox.

The packet identifier of an item that is sent at QoS 1 or 2 is made from its place in the mailbox, so none is
stored. What must survive a crash stands in the session's marks:

- the options of each filter;
- for each message of QoS 2 that a client has sent and not released, the id of its event, written before the
  event is published: if the message comes again it is the same event, and the network delivers it once;
- the places of the items of QoS 2 that the client has received and not completed. They have left the mailbox,
  after this was written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from distributary.edge.mqtt.filters import FILTER_MARK, FilterOptions
from distributary.edge.mqtt.properties import write_properties
from distributary.edge.sessions import Session

RECEIVED_MARK, RELEASING_MARK = "mqtt.received", "mqtt.releasing"
PACKET_IDS = 65_535
ENDED_OPTIONS = FilterOptions(1)
"""Of a filter that was ended before the broker crashed."""


def packet_id_of(place: int) -> int:
    """The packet identifier of an item.

    >>> packet_id_of(1), packet_id_of(65_534), packet_id_of(65_535)
    (2, 65535, 1)
    """
    return place % PACKET_IDS + 1


class SendOptions(NamedTuple):
    """How what came for some filters is sent to their client."""

    qos: int
    """The greatest that one of them was granted."""
    no_local: bool
    """Whether one of them leaves out what its client has published."""
    retain_as_published: bool
    properties: bytes
    """In version 5: the identifiers of the subscriptions."""

    @staticmethod
    def of(options: Sequence[FilterOptions]) -> SendOptions:
        """The options of some filters together."""
        identifiers = tuple(each.identifier for each in options if each.identifier is not None)
        return SendOptions(
            max((each.qos for each in options), default=0),
            any(each.no_local for each in options),
            any(each.retain_as_published for each in options),
            write_properties({"subscription_identifier": identifiers} if identifiers else {}),
        )


class SessionMemory:
    """What MQTT knows of one session."""

    def __init__(self, session: Session) -> None:
        marks = session.marks
        self._marks = marks
        self.options: dict[str, FilterOptions] = {
            mark.removeprefix(FILTER_MARK): FilterOptions.read(value)
            for mark, value in marks.items()
            if mark.startswith(FILTER_MARK)
        }
        """By filter how it is to be sent."""
        self.former: dict[str, FilterOptions] = {}
        """Those of filters that were ended: what was begun for them is completed as it began."""
        self.received: dict[int, str] = {
            int(packet_id): id for packet_id, id in json.loads(marks.get(RECEIVED_MARK, "{}")).items()
        }
        """By packet identifier the ids of events that came at QoS 2 and are not released."""
        self.published: set[int] = set()
        """Those of them that are known to be safe in the network."""
        self.releasing: dict[int, int] = {
            packet_id_of(place): place for place in json.loads(marks.get(RELEASING_MARK, "[]"))
        }
        """By packet identifier the places of items that the client has received and not completed."""
        self.sent = 0
        """Up to which place items may have been sent by an earlier connection."""
        self._together: dict[tuple[str, ...], SendOptions] = {}

    def set_options(self, text: str, options: FilterOptions | None) -> None:
        """Have other options of a filter, or none."""
        self._together.clear()
        if options is None:
            if text in self.options:
                self.former[text] = self.options.pop(text)
            self._marks.pop(FILTER_MARK + text, None)
        else:
            self.options[text] = options
            self._marks[FILTER_MARK + text] = options.mark()

    def options_of(self, text: str) -> FilterOptions:
        """How what came for a filter is to be sent."""
        return self.options.get(text) or self.former.get(text, ENDED_OPTIONS)

    def options_together(self, texts: tuple[str, ...]) -> SendOptions:
        """How what came for some filters at once is to be sent."""
        known = self._together.get(texts)
        if known is None:
            known = self._together[texts] = SendOptions.of([self.options_of(text) for text in texts])
        return known

    def mark_received(self) -> None:
        """Write `received` into the marks."""
        self._marks[RECEIVED_MARK] = json.dumps(self.received)

    def mark_releasing(self) -> None:
        """Write `releasing` into the marks."""
        self._marks[RELEASING_MARK] = json.dumps(list(self.releasing.values()))


class SessionMemories:
    """What MQTT knows of all sessions, as long as they are there."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Session, SessionMemory] = WeakKeyDictionary()

    def of(self, session: Session) -> SessionMemory:
        """What is known of a session."""
        memory = self._known.get(session)
        if memory is None:
            memory = self._known[session] = SessionMemory(session)
        return memory
