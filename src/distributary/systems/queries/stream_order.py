"""Answers in stream order, for clients who asked for that (`Query.ordered`).

A client reads elements in the order of their numbers, in which an operator has given them out: a union or
the replicas of a divided operator do so as items come. What is certain about times is the watermark, so an
item is held until the watermark is later than the item.

Cost: an item waits for the watermark, which follows the sources' latest items by their lateness, and stands
still behind a source that gives nothing. Memory is what is held, which only the watermark bounds; an item
costs O(log n) of that.
"""

from __future__ import annotations

from heapq import heappop, heappush

from distributary.systems.queries.messages import Element


class StreamOrder:
    """Holds items until none can come any more that is before them in the order of their stream.

    >>> from distributary.flow import Item
    >>> order = StreamOrder()
    >>> order.take(Element(1, Item("late", 7, {}))), order.take(Element(2, Item("early", 5, {})))
    ([], [])
    >>> [element.number for element in order.take(Element(3, watermark=8))]
    [2, 1]
    """

    def __init__(self) -> None:
        self._held: list[tuple[tuple[int, int, str], int, Element]] = []

    def take(self, element: Element) -> list[Element]:
        """The items that this element makes certain, with their numbers, in stream order."""
        if element.item is not None:
            heappush(self._held, (element.item.order, element.number, element))
        certain: list[Element] = []
        if element.watermark is not None:
            # One of the watermark's own time may still come, with a lower rank or id.
            while self._held and self._held[0][0][0] < element.watermark:
                certain.append(heappop(self._held)[2])
        return certain
