"""A stream as its publisher has it: numbered elements, kept until every reader has acknowledged them.

Rules:

- Elements are numbered in the order in which they are published, without gaps.
- An element is kept until every reader has acknowledged it, wherever the reader is. While nobody reads the
  stream, nothing is kept.
- Of a reader's subscriptions the one with the highest epoch counts: messages about earlier ones are ignored.

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
from distributary.systems.queries.retention import discard

EVERYTHING = Selection()
"""The selection of a reader that can use all items."""
_condition = lru_cache(maxsize=4096)(WhereFilter.parse)


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


def usable(elements: Sequence[Element], selections: Sequence[Selection]) -> tuple[Element, ...]:
    """The elements that at least one of several readers can use."""
    if EVERYTHING in selections:
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
        """Of the last element."""
        self.watermark = watermark
        self.kept = deque(kept)
        self.acknowledged: dict[tuple[str, int], int] = {}
        """How far each reader has come, wherever it is; elements after the least are kept."""
        self.epochs: dict[tuple[str, int], int] = {}
        """The epoch of each reader's subscription that counts."""

    def append(self, items: Iterable[Item], watermark: int) -> tuple[Element, ...]:
        """The new items, and the watermark after them if it is new, as numbered elements."""
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
        """The elements that a reader has missed, and the current watermark."""
        missed = () if position is None else [one for one in self.kept if one.number > position]
        return (*usable(missed, [selection]), Element(self.number, watermark=self.watermark))

    def add_reader(self, reader: StreamReader, position: int | None) -> int | None:
        """Keep elements for a reader from now on.

        Returns the position from which it continues, or None if a later subscription of it counts.
        """
        key = reader.key
        if self.epochs.get(key, 0) > reader.epoch:
            return None
        start = self.acknowledged.get(key, self.number) if position is None else position
        self.epochs[key] = reader.epoch
        if key not in self.acknowledged:  # else it may have to continue from where it was known to be
            self.acknowledge(key, start)
        return start

    def acknowledge(self, key: tuple[str, int], position: int) -> None:
        """A reader needs nothing up to a position any more."""
        self.acknowledged[key] = max(position, self.acknowledged.get(key, 0))
        self._trim()

    def forget(self, reader: StreamReader) -> None:
        """Keep nothing for a reader any more, unless it has subscribed again."""
        if self.epochs.get(reader.key, 0) <= reader.epoch:
            self.acknowledged.pop(reader.key, None)
            self.epochs.pop(reader.key, None)
            self._trim()

    def forget_all(self, withdrawn: Callable[[str], bool]) -> bool:
        """Keep nothing for readers that are withdrawn; returns whether there were any, and none is left."""
        before = len(self.acknowledged)
        for known in (self.acknowledged, self.epochs):
            discard(known, lambda key: withdrawn(key[0]))
        self._trim()
        return before > 0 and not self.acknowledged

    def _trim(self) -> None:
        least = min(self.acknowledged.values(), default=self.number)
        while self.kept and self.kept[0].number <= least:
            self.kept.popleft()
