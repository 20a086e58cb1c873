"""What a node of a tree has of the stream: how far it has come, and what it can send again.

Rules:

- The root numbers events 1, 2, 3, ... A node receives those that its subtree asked for, in this order. Its
  position says that it has had all of them up to there.
- It remembers the latest events. Of a profile it knows since when it has had every event that matches: from
  there on, unless its room ran out, it can answer for the profile, and for every profile that it covers.
- Numbers are those of one epoch. A root that comes back without its state begins another.
"""

from __future__ import annotations

from collections import OrderedDict

from distributary.model import Event
from distributary.overlay.tree.interest import Form, Interest, covers

NumberedEvent = tuple[int, Event]


class EventLog:
    """The stream as one node has it.

    >>> stream = EventLog(room=100)
    >>> stream.ask((everything := Interest(((),))), since=0)
    >>> stream.take(1, Event("e1", topic="A")); stream.take(2, Event("e2", topic="B"))
    >>> only = Interest(((("topic", "B"),),))
    >>> stream.answers(only, 0, 2), [event.id for _, event in stream.between(only, 0, 2)]
    (True, ['e2'])
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.epoch = -1.0
        """None yet."""
        self.position = 0
        """The node has had everything that it asked for up to this number."""
        self.missing = 0
        """How often something asked for had been forgotten everywhere, for want of room or of a root."""
        self._floor = 0
        """Whatever is not above this has been forgotten."""
        self._kept: OrderedDict[int, Event] = OrderedDict()
        self._since: dict[Form, int] = {}

    def begin(self, epoch: float, position: int) -> None:
        """Forget everything: a new epoch, or the first."""
        self.epoch = epoch
        self.position = self._floor = position
        self._kept.clear()
        self._since.clear()

    def fork(self, epoch: float, position: int) -> None:
        """Go on in another epoch, whose log is this one's up to a position; what came after it is dropped."""
        self.epoch, self.position = epoch, position
        self._floor = min(self._floor, position)
        while self._kept and next(reversed(self._kept)) > position:
            self._kept.popitem()
        self._since = {form: since for form, since in self._since.items() if since <= position}

    def take(self, number: int, event: Event) -> None:
        """The next event, which is the one of that number."""
        self.position = number
        self._kept[number] = event
        if len(self._kept) > self.room:
            self._floor, _ = self._kept.popitem(last=False)

    def skip_to(self, number: int) -> None:
        """There is nothing for this node up to that number."""
        self.position = max(self.position, number)

    def ask(self, interest: Interest, since: int) -> None:
        """From a number on, all that matches these profiles comes here."""
        for form in interest.forms:
            self._since[form] = min(since, self._since.get(form, since))

    def retain(self, interest: Interest) -> None:
        """From now on only what matches these profiles is asked for; what they do not cover is incomplete."""
        self._since = {form: since for form, since in self._since.items() if interest.covers(form)}

    def answers(self, interest: Interest, after: int, through: int) -> bool:
        """Whether all that matches, of those numbers, is certainly here."""
        return (
            after >= self._floor
            and through <= self.position
            and all(self._has(form, after) for form in interest.forms)
        )

    def between(self, interest: Interest, after: int, through: int) -> tuple[NumberedEvent, ...]:
        """The events that match, after one number and up to another, as far as they are here."""
        found: list[NumberedEvent] = []
        for number in reversed(self._kept):
            if number <= after:
                break
            if number <= through and interest.matches(self._kept[number]):
                found.append((number, self._kept[number]))
        return tuple(reversed(found))

    @property
    def floor(self) -> int:
        """Whatever is not above this number has been forgotten."""
        return self._floor

    def forgotten(self, after: int) -> bool:
        """Whether something above this number may have been forgotten for want of room."""
        return after < self._floor

    def all_after(self, number: int) -> tuple[NumberedEvent, ...]:
        """Whatever is here above a number."""
        return tuple((one, event) for one, event in self._kept.items() if one > number)

    def _has(self, form: Form, after: int) -> bool:
        since = self._since.get(form)
        if since is not None and since <= after:
            return True
        return any(since <= after and covers(wide, form) for wide, since in self._since.items())
