"""Where data items live on a ring: each has a stretch of the circle, and a tolerance a place within it.

The stateless ring-segment mapping of section 4.3.1 of the dynamic-filter paper, h(d, x) = h1(d) + a x: SHA-1
puts the item d somewhere on the circle, and x, a tolerance or the number of a logical node, moves linearly
along a segment of a fixed length L. Anybody finds the place of anything without asking.

What an item is: the first `depth` levels of an event's topic behind a leading slash (all of them, when it has
fewer). A subscription
belongs to one item, so its topic must name one: patterns that reach into several items are refused. Filters
on deeper levels, conditions and paths are evaluated where the subscription is kept.

What the paper leaves open, and how it is decided here:

- The length L. A fixed share of the circle would make costs grow with the number of nodes, and the paper
  reports logarithmic growth, so L is meant to span a fixed *number* of nodes: `Segments.spanning` works it
  out from the expected size of the ring. The default is some more than the 9 logical nodes of three levels;
  MFD then saves as much over SF as the paper says (the lab shows other lengths).
- With a = L / max(x) the largest x falls just behind the segment [k, k + L) that a value is sent to. Places
  are scaled to stay inside: tolerances by (L - 1) / maximum, logical nodes by L / (their number).
- Tolerances from 1 to the maximum have the places of the paper, whose tolerances are whole numbers. Others
  have the place of their product with a power of the maximum that lies in that range: so tolerances of any
  size are spread, and everybody finds their places without asking which are in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from distributary.errors import DistributaryError, FilterError
from distributary.filters.filter import Filter
from distributary.filters.topic import TopicFilter
from distributary.matching.change.decomposition import BASE, LogicalNode
from distributary.model import Event, bare_topic
from distributary.overlay.ring.circle import Circle

NODES = 16
"""How many nodes a segment spans on average, unless told otherwise."""


@dataclass(frozen=True)
class Segments:
    """The mapping that all nodes of a ring share.

    >>> segments = Segments.spanning(Circle(32), nodes=8, of=400)
    >>> segments.item_of(Event("e1", topic="quotes/NYSE/OTE/close"))
    'quotes/NYSE/OTE'
    >>> start = segments.start("quotes/NYSE/OTE")
    >>> [segments.place("quotes/NYSE/OTE", c) - start for c in (0, 32, 64, 0.5, 2048)]
    [0, 42949672, 85899344, 42949672, 42949672]
    """

    circle: Circle
    length: int
    """L: how many identifiers a segment holds."""
    maximum: float = 64.0
    """The largest of the tolerances that are placed by themselves; larger ones are scaled down to it."""
    depth: int = 3
    """How many levels of a topic name an item."""

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.circle.size:
            raise DistributaryError(f"a segment holds 1 to {self.circle.size} identifiers, not {self.length}")
        if self.depth < 1:
            raise DistributaryError(f"an item is named by at least 1 level of a topic, not {self.depth}")
        if not 1 < self.maximum < inf:
            raise DistributaryError(f"the largest tolerance is a number above 1, not {self.maximum:g}")

    @classmethod
    def spanning(cls, circle: Circle, *, nodes: float = NODES, of: int, **settings: Any) -> Segments:
        """Segments that span so many nodes on average, of a ring of so many; `settings` are other fields."""
        length = max(1, min(circle.size, int(circle.size * nodes / of)))
        return cls(circle, length, **settings)

    # Items.

    def item_of(self, event: Event) -> str | None:
        """The item of which this event is a value; None for an event without a topic."""
        if event.topic is None:
            return None
        return "/".join(bare_topic(event.topic).split("/")[: self.depth])

    def item_for(self, filters: Mapping[str, Filter]) -> str:
        """The item that a subscription with these filters is about; FilterError when it is not just one.

        >>> Segments(Circle(8), 16).item_for({"topic": TopicFilter.parse("A/B/C/*/E")})
        'A/B/C'
        >>> Segments(Circle(8), 16).item_for({"topic": TopicFilter.parse("A/B/#")})
        'A/B'
        """
        topic = filters.get("topic")
        if not isinstance(topic, TopicFilter):
            raise FilterError(
                "missing; state-aware dissemination needs a topic that names one data item", field="topic"
            )
        if len(topic.fixed) >= self.depth:
            return "/".join(topic.fixed[: self.depth])
        if not topic.open and topic.fixed == topic.bare:
            return "/".join(topic.bare)
        raise FilterError(
            f"reaches into several data items, which are named by the first {self.depth} levels; name all of "
            f"these, or end a shorter topic with `/#`",
            field="topic",
            text=topic.text,
        )

    # Places.

    def start(self, item: str) -> int:
        """h1: where the segment of an item begins."""
        return self.circle.hash(item)

    def place(self, item: str, tolerance: float, length: int | None = None) -> int:
        """h: where a tolerance on an item is kept, in a segment of the common length or of one of its own."""
        share = self._scaled(tolerance) / self.maximum
        return self.circle.add(self.start(item), int(share * ((length or self.length) - 1)))

    def _scaled(self, tolerance: float) -> float:
        """A tolerance times the power of the maximum that brings it between 1 and the maximum."""
        while 0 < tolerance < 1:
            tolerance *= self.maximum
        while tolerance > self.maximum:
            tolerance /= self.maximum
        return tolerance

    # Logical nodes (section 4.3.3).

    @property
    def levels(self) -> int:
        """How many levels of logical nodes tolerances up to the maximum need.

        >>> [Segments(Circle(8), 16, maximum=c).levels for c in (3, 4, 16, 21, 63, 64)]
        [1, 1, 2, 3, 3, 3]
        """
        levels, ones = 1, 1
        while (ones := ones * BASE + 1) <= self.maximum:
            levels += 1
        return levels

    @property
    def digits(self) -> int:
        """How many digits in base 4 whole tolerances below the maximum have.

        >>> [Segments(Circle(8), 16, maximum=c).digits for c in (3, 16, 17, 64)]
        [1, 2, 3, 3]
        """
        digits = 1
        while BASE**digits < self.maximum:
            digits += 1
        return digits

    def logical_place(self, item: str, logical: LogicalNode, length: int | None = None) -> int:
        """Where a logical node of an item is kept, in a segment of the common length or of one of its own.
        Levels beyond the last share its places."""
        level = min(logical.level, self.levels)
        index = LogicalNode(level, logical.digit).index
        steps = index * (length or self.length) // (self.levels * (BASE - 1))
        return self.circle.add(self.start(item), steps)

    def level_stretch(self, item: str, level: int, length: int | None = None) -> tuple[int, int]:
        """From the place of the first logical node of a level to that of its last: where it starts, and its
        length."""
        first = self.logical_place(item, LogicalNode(level, 1), length)
        return first, self.circle.clockwise(first, self.leader_place(item, level, length)) + 1

    def leader_place(self, item: str, level: int, length: int | None = None) -> int:
        """Where the last logical node of a level is kept, which leads it."""
        return self.logical_place(item, LogicalNode(level, BASE - 1), length)
