"""The routing entries of a node of a tree: which child asked for what, and so who must have an event.

`ScannedRoutes` looks at every child's profiles one after the other. An application whose filters can be
indexed gives `TreeNode` routes of its own, with the same three methods (003, section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.packed_events import topics_of
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
        if self._by_topic is not None:
            return self.wanted_topics((event.topic,))[0]
        return self._matching(event)

    @property
    def topics_decide(self) -> bool:
        """Whether nobody asks for more than topics."""
        return self._by_topic is not None

    def wanted_topics(self, topics: Sequence[str | None]) -> list[list[Address]]:
        """The children who asked for events of some topics, where topics decide."""
        known = self._by_topic
        assert known is not None
        asked = set(topics)
        if len(known) + len(asked) > MOST_TOPICS:
            known.clear()
        for topic in asked.difference(known):
            known[topic] = self._matching(Event("", topic))
        return [known[topic] for topic in topics]

    def _matching(self, event: Event) -> list[Address]:
        return [child for child, interest in self._interests.items() if interest.matches(event)]


def wanted_together(routes: Routes, events: Sequence[Event]) -> list[Sequence[Address]]:
    """Of each of some events, the children who asked for it; where topics decide, no event is looked at."""
    if isinstance(routes, ScannedRoutes) and routes.topics_decide:
        return list(routes.wanted_topics(topics_of(events)))
    return [routes.wanted(event) for event in events]
