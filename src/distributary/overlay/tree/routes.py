"""The routing entries of a node of a tree: which child asked for what, and so who must have an event.

`ScannedRoutes` looks at every child's profiles one after the other. An application whose filters can be
indexed gives `TreeNode` routes of its own, with the same three methods (003, section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.interest import Interest

MOST_TOPICS = 10_000
"""Topics of which it is remembered who wants them; then the memory starts anew."""


class Routes(Protocol):
    """Which children an event is forwarded to."""

    def put(self, child: Address, interest: Interest) -> None:
        """A child asks for this, and for nothing else any more."""

    def drop(self, child: Address) -> None:
        """A child asks for nothing any more; one that never asked is ignored."""

    def wanted(self, event: Event) -> Sequence[Address]:
        """The children who asked for the event, in an order that does not depend on chance."""


class ScannedRoutes:
    """Routing entries without an index: an event costs a match for each profile until one lets it pass.

    >>> routes = ScannedRoutes()
    >>> routes.put(7, Interest(((("topic", "A"),),)))
    >>> routes.wanted(Event("e1", topic="A/B")), routes.wanted(Event("e2", topic="B"))
    ([7], [])
    """

    def __init__(self) -> None:
        self._interests: dict[Address, Interest] = {}
        self._by_topic: dict[str | None, list[Address]] | None = {}
        """Who asked for a topic, as far as was asked; None where something else counts too."""

    def put(self, child: Address, interest: Interest) -> None:
        """Note what a child asks for."""
        self._interests[child] = interest
        self._begin()

    def drop(self, child: Address) -> None:
        """Forget a child."""
        self._interests.pop(child, None)
        self._begin()

    def _begin(self) -> None:
        forms = [form for interest in self._interests.values() for form in interest.forms]
        self._by_topic = {} if all(kind == "topic" for form in forms for kind, _ in form) else None

    def wanted(self, event: Event) -> list[Address]:
        """The children who asked for the event, in the order in which they came."""
        known = self._by_topic
        found = None if known is None else known.get(event.topic)
        if found is None:
            found = [child for child, interest in self._interests.items() if interest.matches(event)]
            if known is not None:
                if len(known) >= MOST_TOPICS:
                    known.clear()
                known[event.topic] = found
        return found
