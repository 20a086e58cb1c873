"""The log of a root or a standby on its disk: records of several events each, which are removed as a whole.

Rules:

- What is taken together is one record, or as many as its bytes need (`in_parts`).
- A record is removed when the last of its events is forgotten. One that goes beyond where the log ends is
  written again without what is not in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from distributary.model import Event
from distributary.overlay.node import Message, Node
from distributary.overlay.tree.event_log import NumberedEvent, divided
from distributary.overlay.tree.messages import LogRecord


class LogRecords:
    """What one node has of the log on its disk."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._kept: deque[tuple[int, int]] = deque()
        """Of each record the numbers of its first and its last event."""

    def keep(self, after: int, events: Sequence[Event]) -> None:
        """Write the events that follow a number."""
        for start, part in divided(events):
            first, last = after + 1 + start, after + start + len(part)
            if first <= last:
                self._node.store(name_of(first), LogRecord(first - 1, part))
                self._kept.append((first, last))

    def forget(self, floor: int) -> None:
        """Remove what is not above a number any more."""
        while self._kept and self._kept[0][1] <= floor:
            self._node.store(name_of(self._kept.popleft()[0]), None)

    def cut(self, last: int, log: Iterable[NumberedEvent]) -> None:
        """Remove what comes after a number; the log has what is left."""
        while self._kept and self._kept[-1][1] > last:
            first, _ = self._kept.pop()
            self._node.store(name_of(first), None)
            left = [each for each in log if first <= each[0] <= last]
            if left:  # the first may be forgotten
                self.keep(left[0][0] - 1, [event for _, event in left])

    def drop(self) -> None:
        """Remove everything."""
        for first, _ in self._kept:
            self._node.store(name_of(first), None)
        self._kept.clear()

    def restore(self, stored: Mapping[str, Message], floor: int) -> tuple[NumberedEvent, ...]:
        """Take up what is on the disk: the events above a number, up to the first that is missing.

        What a crash has torn is left out; see `names` for what was taken up.
        """
        events: list[NumberedEvent] = []
        records = (each for each in stored.values() if isinstance(each, LogRecord))
        for record in sorted(records, key=lambda each: each.after):
            end = record.after + len(record.events)
            if end <= floor or (events and record.after != events[-1][0]):
                continue
            numbered = enumerate(record.events, record.after + 1)
            events.extend((number, event) for number, event in numbered if number > floor)
            self._kept.append((record.after + 1, end))
        return tuple(events)

    @property
    def names(self) -> set[str]:
        """The names of all records."""
        return {name_of(first) for first, _ in self._kept}


def name_of(first: int) -> str:
    """The name of a record on disk, by the number of its first event."""
    return f"events {first}"
