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

    def put(self, child: Address, interest: Interest) -> None:
        """Note what a child asks for."""
        self._interests[child] = interest

    def drop(self, child: Address) -> None:
        """Forget a child."""
        self._interests.pop(child, None)

    def wanted(self, event: Event) -> list[Address]:
        """The children who asked for the event, in the order in which they came."""
        return [child for child, interest in self._interests.items() if interest.matches(event)]
