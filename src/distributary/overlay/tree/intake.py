"""How the root numbers what is published: each event once, those of an entry in order, and tells the entry.

Rules:

- An event is numbered once: its key is remembered, with its number.
- Of an entry the next number is taken and no other; one that comes too early is sent again by the entry. A
  root that does not know an entry begins with the lowest number that the entry still waits for.
- An entry is sent a receipt when its events are committed (`standby`), and again when it sends them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from distributary.model import Event, EventIdentity, EventKey, key_of
from distributary.overlay.node import Address
from distributary.overlay.packed_events import frozen, identities_of
from distributary.overlay.recent import RecentKeys
from distributary.overlay.tree.event_log import NumberedEvent, NumberedRun
from distributary.overlay.tree.events import LowerParts
from distributary.overlay.tree.messages import Publication, PublicationReceipt, PublishRequest
from distributary.overlay.tree.standby import ReplicatedLog


@dataclass
class _Entry:
    """A node that publishes, as the root knows it."""

    incarnation: float
    expected: int
    """The entry's number that is taken next."""
    uncommitted: deque[tuple[int, int]] = field(default_factory=deque)
    """Numbers of the log with those of the entry, in the entry's order, that it has no receipt for.

    Of events that were numbered together only the last."""
    safe: int = 0
    """Everything up to this number of the entry's is committed."""


class Intake:
    """What the root does with publications; any other node forwards them."""

    def __init__(self, parts: LowerParts, log: ReplicatedLog) -> None:
        state, _, _, self._events = parts
        self._node, self._root, self._remembered = state.node, state.root, state.settings.remembered
        self._position = state.log
        self._log = log
        self._numbers: RecentKeys[EventIdentity, int] = RecentKeys(self._remembered)
        self._entries: dict[Address, _Entry] = {}
        log.committed_listeners.append(self._send_receipts)

    @property
    def published(self) -> tuple[EventKey, ...]:
        """The events that are remembered, the latest last."""
        return tuple(map(key_of, tuple(self._numbers)[-self._remembered :]))

    def has_numbered(self, identity: EventIdentity) -> bool:
        """Whether an event has been numbered, as far as is remembered."""
        return identity in self._numbers

    def begin_term(self, published: Iterable[EventKey], events: Iterable[NumberedEvent]) -> None:
        """Begin a term as the root with what is known to have been published; every entry is new."""
        self._numbers = RecentKeys(self._remembered)
        for key in published:
            self._numbers.put(key.identity, 0)
        for number, event in events:
            self._numbers.put(event.identity, number)
        self._entries.clear()

    def publish(self, message: PublishRequest, sender: Address) -> None:
        """Number an event in a tree in which nothing fails, unless it has been numbered."""
        if not self._root.is_root:
            self._root.forward(message)
        elif message.event.identity not in self._numbers:
            number = self._position.position + 1
            self._numbers.put(message.event.identity, number)
            self._events.take([(number, message.event)])

    def take_at_once(self, events: Sequence[Event]) -> bool:
        """Number and commit events that were published at a root which is alone; False if one was before.

        They are written to no disk and need no receipt, so the outbox never knows of them.
        """
        keys = identities_of(events)
        fresh = self._numbers.has_none_of(keys) and (len(keys) == 1 or len(set(keys)) == len(keys))
        if not fresh or not keys:
            return False
        first = self._position.position + 1
        numbers = (first,) if len(keys) == 1 else range(first, first + len(keys))
        self._numbers.put_all(keys, numbers)
        self._events.take(NumberedRun(numbers, frozen(events)))
        return True

    def take(self, message: Publication, sender: Address) -> None:
        """Number the events of an entry that are next."""
        if not self._root.is_root:
            self._root.forward(message)
            return
        entry = self._entries.get(message.entry)
        if entry is None or message.incarnation > entry.incarnation:
            entry = self._entries[message.entry] = _Entry(message.incarnation, message.lowest)
        if message.incarnation < entry.incarnation or self._log.full:
            return
        entry.expected = max(entry.expected, message.lowest)
        known = entry.expected - message.first
        new = self._number(entry, message.events[known:] if known else message.events) if known >= 0 else ()
        self._log.append(new)
        if not self._settle(message.entry, entry) and not new:
            self._send_receipt(message.entry, entry)

    def _number(self, entry: _Entry, events: Sequence[Event]) -> Sequence[Event]:
        """Number what has no number yet; returns that."""
        if not events:
            return ()
        keys = identities_of(events)
        last = self._log.last
        if self._numbers.has_none_of(keys) and (len(keys) == 1 or len(set(keys)) == len(keys)):
            self._numbers.put_all(keys, range(last + 1, last + 1 + len(keys)))
            entry.expected += len(keys)
            entry.uncommitted.append((last + len(keys), entry.expected - 1))
            return events
        new: list[Event] = []
        for key, event in zip(keys, events, strict=True):
            number = self._numbers.get(key)
            if number is None:
                new.append(event)
                number = last + len(new)
                self._numbers.put(key, number)
            entry.uncommitted.append((number, entry.expected))
            entry.expected += 1
        return new

    def _send_receipts(self) -> None:
        for address, entry in self._entries.items():
            self._settle(address, entry)

    def _settle(self, address: Address, entry: _Entry) -> bool:
        """Send a receipt for what has been committed since the last one; whether there was anything."""
        committed, waiting = self._position.position, entry.uncommitted
        before = entry.safe
        while waiting and waiting[0][0] <= committed:
            entry.safe = waiting.popleft()[1]
        if entry.safe > before:
            self._send_receipt(address, entry)
        return entry.safe > before

    def _send_receipt(self, address: Address, entry: _Entry) -> None:
        receipt = PublicationReceipt(entry.incarnation, entry.safe)
        if address == self._node.address:
            self._node.dispatch(receipt, address)
        else:
            self._node.send(address, receipt)
