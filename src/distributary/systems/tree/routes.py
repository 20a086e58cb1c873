"""`IndexedRoutes`: the routing entries of a tree's node in an index (003, section 4.1).

The profiles of all children are in one `InterestIndex`, by child and form, so an event costs what it matches
and not a look at every profile: eight children with 64 profiles each have 512. Where nobody asks for more
than topics, the answer for each topic is remembered, as in `ScannedRoutes`, whose answers these are.
"""

from __future__ import annotations

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.interest import Form, Interest, profile_of
from distributary.overlay.tree.routes import ScannedRoutes
from distributary.systems.interests import InterestIndex

NOTHING = Interest()


class IndexedRoutes(ScannedRoutes):
    """Routing entries with an index.

    >>> routes = IndexedRoutes()
    >>> routes.put(7, Interest(((("where", "a > 3"),),)))
    >>> routes.wanted(Event("e1", attributes={"a": 4})), routes.wanted(Event("e2", attributes={"a": 2}))
    ([7], [])
    """

    def __init__(self) -> None:
        super().__init__()
        self._index: InterestIndex[tuple[Address, Form], Address] = InterestIndex()

    def put(self, child: Address, interest: Interest) -> None:
        """Note what a child asks for; only what differs from before is changed in the index."""
        self._change(child, interest)
        super().put(child, interest)

    def drop(self, child: Address) -> None:
        """Forget a child."""
        self._change(child, NOTHING)
        super().drop(child)

    def _change(self, child: Address, interest: Interest) -> None:
        added, removed = interest.differs_from(self._interests.get(child, NOTHING))
        for form in removed:
            self._index.remove((child, form))
        for form in added:
            self._index.put((child, form), child, profile_of(form).filters)

    def _matching(self, event: Event) -> list[Address]:
        wanting = self._index.wanting(event)
        return [child for child in self._interests if child in wanting] if wanting else []
