"""What the three topic algorithms of the paper share: the table of slots, and the weighing of structures.

They are plain Python structures that hold *destinations*: for us the slots. Only the canonical text of each
slot's filter is kept beside the structure; from it the filter is read again when somebody asks.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.index import Index
from distributary.model import Event, bare_topic

APART = "/"
"""What the first label of a filter in MQTT's syntax begins with, and no level does."""


class TopicIndex(Index[TopicFilter]):
    """Slots and texts; a subclass organises the destinations."""

    kind: ClassVar[str] = "topic"
    filter_class: ClassVar[type[Any]] = TopicFilter

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    @abstractmethod
    def insert(self, slot: int, filter: TopicFilter) -> None:
        """Make `slot` a destination of `filter`."""

    @abstractmethod
    def discard(self, slot: int, filter: TopicFilter) -> None:
        """Undo `insert` and prune what no destination needs any more."""

    @abstractmethod
    def destinations(self, topic: str) -> list[int]:
        """The slots whose filters match, each once, in any order."""

    @abstractmethod
    def structure(self) -> object:
        """The structure itself, for `memory` to weigh."""

    def add(self, slot: int, filter: TopicFilter) -> None:
        """Hold the filter's text, and make the slot a destination."""
        if slot in self._texts:
            raise ValueError(f"slot {slot} is taken")
        self._texts[slot] = filter.text
        self.insert(slot, filter)

    def remove(self, slot: int) -> None:
        """Forget the text and the destination; KeyError when there is none."""
        filter = self.filter(slot)
        del self._texts[slot]
        self.discard(slot, filter)

    def filter(self, slot: int) -> TopicFilter:
        """The filter, read from its text; KeyError when there is none."""
        return TopicFilter.parse(self._texts[slot])

    def __len__(self) -> int:
        return len(self._texts)

    def slots(self) -> Iterable[int]:
        """The slots that hold a filter."""
        return list(self._texts)

    def match(self, event: Event) -> list[int]:
        """The slots whose filters match the event's topic, ascending."""
        return [] if event.topic is None else sorted(self.destinations(event.topic))

    def memory(self) -> int:
        """The bytes of texts and structure, each object once."""
        return weight([self._texts, self.structure()])


def labels_of(filter: TopicFilter) -> tuple[str, ...]:
    """The levels of a filter, the first of them marked in MQTT's syntax: it sees other levels than ours.

    >>> labels_of(TopicFilter.parse("A/B")), labels_of(TopicFilter.parse("mqtt:A/B"))
    (('A', 'B'), ('/A', 'B'))
    """
    return (APART + filter.levels[0], *filter.levels[1:]) if filter.mqtt else filter.levels


def labels_seen(topic: str) -> list[tuple[tuple[str, ...], list[str]]]:
    """How filters of our syntax, and of MQTT's, see a topic: the first labels that match, and its levels.

    >>> labels_seen("/A/B")
    [(('A',), ['A', 'B']), (('/', '/\\udc00'), ['', 'A', 'B'])]
    """
    ours, mqtts = bare_topic(topic).split("/"), topic.split("/")
    first = APART + mqtts[0]
    return [((ours[0],), ours), ((first,) if mqtts[0].startswith("$") else (first, APART + WILDCARD), mqtts)]


def weight(root: object) -> int:
    """The bytes of an object and all it leads to through containers and slots, each object once.

    >>> weight(["level", "level"]) == sys.getsizeof(["level", "level"]) + sys.getsizeof("level")
    True
    """
    seen: set[int] = set()
    total = 0
    waiting: list[Any] = [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        if isinstance(thing, dict):
            waiting.extend(thing.keys())
            waiting.extend(thing.values())
        elif isinstance(thing, (list, tuple, set)):
            waiting.extend(thing)
        else:
            waiting.extend(getattr(thing, name) for name in getattr(thing, "__slots__", ()))
    return total
