"""The events published at a node, until the root says that they are safe.

Rules:

- Events are numbered here, and go to the root in this order: the root takes the next number and no other, so
  the events of a publisher stay in order whatever gets lost on the way.
- What has no receipt is sent again: when none has come for a while, and at once when there is another root,
  which may not have what its predecessor had. The root knows an event by its key, so none counts twice.
- The clients are told (`Acknowledge`) up to which number all is safe when the receipt comes. Who starts again
  without its memory has forgotten what was published here; its clients, who were not told, publish again.
- At most `MOST_WAITING` events wait: `full` says that clients should publish no more for now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from distributary.model import Event
from distributary.overlay.node import Address, SafeEvents
from distributary.overlay.packed_events import frozen, joined
from distributary.overlay.tree.event_log import divided
from distributary.overlay.tree.messages import Publication, PublicationReceipt
from distributary.overlay.tree.state import TreeState

MOST_WAITING = 20_000
"""Events without a receipt at one node, beyond which its clients should wait."""


class EntryOutbox:
    """What was published at one node and is not known to be safe."""

    def __init__(self, state: TreeState) -> None:
        self._node, self._root = state.node, state.root
        self._incarnation = 0.0
        self._numbered = 0
        self._waiting: deque[Sequence[Event]] = deque()
        """In the parts in which they were published."""
        self._waits = 0
        """How many."""
        self._progress = 0.0
        """When a receipt came last, or something was sent while nothing waited."""

    @property
    def full(self) -> bool:
        """Whether clients should publish no more for now."""
        return self._waits >= MOST_WAITING

    @property
    def waits(self) -> bool:
        """Whether something waits for its receipt."""
        return self._waits > 0

    @property
    def lowest(self) -> int:
        """The number of the first event that waits for its receipt."""
        return self._numbered - self._waits + 1

    def begin(self) -> None:
        """Begin an incarnation, unless this node goes on with its memory."""
        if not self._incarnation:
            self._incarnation = self._node.now

    def publish(self, events: Sequence[Event]) -> int:
        """Send events to the root, after those before; returns the number of the last."""
        if not self._waiting:
            self._progress = self._node.now
        first = self._numbered + 1
        self._numbered = last = self._numbered + len(events)
        if events:
            self._waiting.append(frozen(events))
            self._waits += len(events)
        self._send(first, events)
        return last

    def send_again(self, after: float = 0.0) -> None:
        """Send all that waits, unless a receipt came in the last `after` seconds."""
        if not self._waiting or self._node.now - self._progress < after:
            return
        self._progress = self._node.now
        self._send(self.lowest, joined(self._waiting))

    def received(self, message: PublicationReceipt, sender: Address) -> None:
        """The root has made these events safe: tell the clients."""
        if message.incarnation != self._incarnation:
            return
        count = min(message.through - self.lowest + 1, self._waits)
        if count > 0:
            through = self.lowest + count - 1
            safe = SafeEvents(through, joined(self._take(count)))
            self._progress = self._node.now
            self._node.acknowledge(safe)

    def _take(self, count: int) -> list[Sequence[Event]]:
        """Wait no more for so many, the first."""
        self._waits -= count
        taken: list[Sequence[Event]] = []
        while count:
            part = self._waiting.popleft()
            if len(part) > count:
                self._waiting.appendleft(part[count:])
                part = part[:count]
            taken.append(part)
            count -= len(part)
        return taken

    def _send(self, first: int, events: Sequence[Event]) -> None:
        stamps = (self._node.address, self._incarnation)
        lowest = self.lowest
        for start, part in divided(events):
            begun = first + start
            self._root.send(Publication(*stamps, min(lowest, begun), begun, part))
