"""How sessions are written to a disk and read again.

A session has a record of its own, one of how far it has come, and one for each entry of its mailbox. Rules
for what is written together, so that whatever beginning of it a crash leaves is right:

- New entries first, then how far the session has come, then what is gone. On reading, an entry beyond the
  place that the session had come to is dropped: it was not safe, so nobody was given it, and the network's
  log gives it again. What is still there though a later gap stands for it is part of that gap.
- When a session ends, its own record goes first. On reading, what belongs to no session is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from distributary.edge.mailbox import MailboxEntry, MailboxGap, MailboxItem, size_of
from distributary.edge.stored import StoredGap, StoredItem, StoredPlace, StoredSession
from distributary.live.runner import Disk
from distributary.model import Delivery
from distributary.overlay.node import Message, Store

SESSION, PLACE, ITEM = "session/", "place/", "item/"
"""Names on the disk begin with these."""

Changes = Iterable[tuple[int, MailboxEntry | None]]
"""Places of a mailbox, and what stands there now."""


class SessionRecords(NamedTuple):
    """What was kept of one session."""

    session: StoredSession
    reached: StoredPlace
    entries: list[MailboxEntry]
    """In the order of places."""


class SessionDisk:
    """Writes sessions to a disk; without one, all is safe at once and gone with the process."""

    def __init__(self, disk: Disk | None) -> None:
        self._disk = disk
        self._unsafe = 0
        """Writes that the disk has been given and not finished."""

    @property
    def is_there(self) -> bool:
        """Whether there is a disk."""
        return self._disk is not None

    def keep(
        self,
        subscriber: str,
        session: StoredSession | None = None,
        changes: Changes = (),
        reached: StoredPlace | None = None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Have what changed kept, and `then` called when it is."""
        stores, gone = list[Store](), list[Store]()
        for place, entry in changes:
            name = _item_name(subscriber, place)
            (gone if entry is None else stores).append(Store(name, entry and _stored(entry)))
        if reached is not None:
            stores.append(Store(PLACE + subscriber, reached))
        if session is not None:
            stores.append(Store(SESSION + subscriber, session))
        self._write([*stores, *gone], then)

    def forget(self, subscriber: str, places: Iterable[int]) -> None:
        """Have a session removed, with the entries at these places."""
        names = [SESSION + subscriber, PLACE + subscriber]
        names += [_item_name(subscriber, place) for place in places]
        self._write([Store(name, None) for name in names], lambda: None)

    def _write(self, stores: list[Store], then: Callable[[], None]) -> None:
        # What changes nothing may stand on a change that is being written, such as the same
        # acknowledgement sent twice: it waits for that.
        if self._disk is None or not (stores or self._unsafe):
            then()
            return

        def safe() -> None:
            self._unsafe -= 1
            then()

        self._unsafe += 1
        self._disk.write(stores, safe)

    def read(self, stored: Mapping[str, Message]) -> dict[str, SessionRecords]:
        """The sessions that were kept, by subscriber. What belongs to none is removed from the disk."""
        found = {
            name.removeprefix(SESSION): value
            for name, value in stored.items()
            if isinstance(value, StoredSession)
        }
        reached: dict[str, StoredPlace] = {}
        entries: dict[str, list[MailboxEntry]] = {subscriber: [] for subscriber in found}
        lost = []
        for name, value in stored.items():
            if name.startswith(PLACE) and isinstance(value, StoredPlace):
                subscriber = name.removeprefix(PLACE)
                reached[subscriber] = value
                if subscriber not in found:
                    lost.append(name)
        for name, value in stored.items():
            if isinstance(value, StoredItem | StoredGap):
                subscriber, place = _item_of(name)
                last = reached[subscriber].place if subscriber in reached else 0
                if subscriber in found and place <= last:
                    entries[subscriber].append(_entry(subscriber, place, value))
                else:
                    lost.append(name)
        self._write([Store(name, None) for name in lost], lambda: None)
        nowhere = StoredPlace(None, (), 0)
        return {
            subscriber: SessionRecords(
                session,
                reached.get(subscriber, nowhere),
                sorted(entries[subscriber], key=lambda entry: entry.place),
            )
            for subscriber, session in found.items()
        }


def _stored(entry: MailboxEntry) -> StoredItem | StoredGap:
    if isinstance(entry, MailboxGap):
        return StoredGap(entry.events, entry.reason, entry.first)
    event, _, names, offset = entry.delivery
    return StoredItem(event, names, offset, entry.kept_at)


def _entry(subscriber: str, place: int, stored: StoredItem | StoredGap) -> MailboxEntry:
    if isinstance(stored, StoredGap):
        return MailboxGap(place, *stored)
    delivery = Delivery(stored.event, subscriber, stored.subscriptions, stored.offset)
    return MailboxItem(place, delivery, size_of(delivery), stored.kept_at)


def _item_name(subscriber: str, place: int) -> str:
    return f"{ITEM}{place}/{subscriber}"


def _item_of(name: str) -> tuple[str, int]:
    place, _, subscriber = name.removeprefix(ITEM).partition("/")
    return subscriber, int(place)
