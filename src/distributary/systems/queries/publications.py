"""A stream as its publisher has it: numbered elements, and what of them is still to be had.

Rules:

- Elements are numbered in the order in which they are given out, without gaps.
- They are kept until every reader has acknowledged them, wherever it is. While nobody reads, nothing is.
- Of a reader's subscriptions the latest counts: what is said of an earlier one is void.

Cost: an element costs the selections it is compared with; memory is what the slowest reader has not had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from zlib import crc32

from distributary.filters.where.filter import WhereFilter
from distributary.flow import BEGINNING, Item
from distributary.flow.language.identifiers import group_of, group_text
from distributary.model import Event
from distributary.systems.queries.messages import Element, Selection, StreamReader

EVERYTHING = Selection()
"""What a reader asks for that can use all items."""


@lru_cache(maxsize=4096)
def _condition(text: str) -> WhereFilter:
    return WhereFilter.parse(text)


def selects(selection: Selection, item: Item) -> bool:
    """Whether a reader can use an item.

    >>> selects(Selection(where="size > 3"), Item("a", 1, {"size": 4}))
    True
    """
    where, block, part, parts, keys = selection
    if parts > 1:
        text = item.id if keys is None else group_text(group_of(item.attributes, keys))
        if crc32(text.encode()) % parts != part:
            return False
    if where is None and block is None:
        return True
    event = Event("", attributes=item.attributes)
    if where is not None:
        return _condition(where).matches(event)
    assert block is not None
    return not _condition(block).matches(event)


def fit(elements: Sequence[Element], selections: Sequence[Selection]) -> tuple[Element, ...]:
    """The elements that one of several readers can use."""
    if any(selection == EVERYTHING for selection in selections):
        return tuple(elements)
    return tuple(
        element
        for element in elements
        if element.item is None or any(selects(selection, element.item) for selection in selections)
    )


class StreamPublication:
    """A stream as its publisher has it."""

    def __init__(self, number: int = 0, watermark: int = BEGINNING, kept: Iterable[Element] = ()) -> None:
        self.number = number
        self.watermark = watermark
        self.kept = deque(kept)
        self.acknowledged: dict[tuple[str, int], int] = {}
        """How far each reader has come, wherever it is; nothing above the least is forgotten."""
        self.turns: dict[tuple[str, int], int] = {}
        """The subscription of each reader that counts."""

    def number_all(self, items: Iterable[Item], watermark: int) -> tuple[Element, ...]:
        """Give new items, and the watermark after them if it is new, their numbers."""
        made = []
        for item in items:
            self.number += 1
            made.append(Element(self.number, item))
        if watermark > self.watermark:
            self.watermark = watermark
            self.number += 1
            made.append(Element(self.number, watermark=watermark))
        if self.acknowledged:
            self.kept.extend(made)
        return tuple(made)

    def since(self, position: int | None, selection: Selection) -> tuple[Element, ...]:
        """What a reader has missed, and how far the stream's time has come."""
        missed = [
            element
            for element in self.kept
            if position is not None
            and element.number > position
            and (element.item is None or selects(selection, element.item))
        ]
        return (*missed, Element(self.number, watermark=self.watermark))

    def welcome(self, reader: StreamReader, position: int | None) -> int | None:
        """Wait for a reader; returns from where it goes on, or None if a later subscription of it counts."""
        key = reader.name, reader.input
        if self.turns.get(key, 0) > reader.turn:
            return None
        start = self.acknowledged.get(key, self.number) if position is None else position
        self.turns[key] = reader.turn
        if key not in self.acknowledged:  # else it may have to go on from where it was known to be
            self.acknowledge(*key, start)
        return start

    def acknowledge(self, name: str, input: int, position: int) -> None:
        self.acknowledged[name, input] = max(position, self.acknowledged.get((name, input), 0))
        self._trim()

    def forget(self, reader: StreamReader) -> None:
        """Wait no more for a reader, unless it has subscribed again."""
        key = reader.name, reader.input
        if self.turns.get(key, 0) <= reader.turn:
            self.acknowledged.pop(key, None)
            self.turns.pop(key, None)
            self._trim()

    def forget_those(self, over: Callable[[str], bool]) -> bool:
        """Wait no more for readers that are over; returns whether there were any, and nobody is left."""
        before = len(self.acknowledged)
        self.acknowledged = {key: at for key, at in self.acknowledged.items() if not over(key[0])}
        self.turns = {key: turn for key, turn in self.turns.items() if not over(key[0])}
        self._trim()
        return before > 0 and not self.acknowledged

    def _trim(self) -> None:
        least = min(self.acknowledged.values(), default=self.number)
        while self.kept and self.kept[0].number <= least:
            self.kept.popleft()
