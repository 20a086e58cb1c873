"""Where streams are, as far as a node knows, and the next node on the way to each.

Rules:

- The way up a tree of sources leads from parent to parent to its root broker, and from there to the proxy of
  the source, which publishes it.
- The way to an operator's stream leads to the operator's host, or to the parent that this has named.
"""

from __future__ import annotations

from distributary.overlay.node import Address
from distributary.systems.queries import messages
from distributary.systems.queries.messages import StreamLocation
from distributary.systems.queries.registry_failover import RegistryLink


class StreamWays:
    """The part of a router that knows the ways to streams."""

    def __init__(self, registry: RegistryLink) -> None:
        self.node = registry.connections.node
        self.tell_registry = registry.send
        self.locations: dict[str, StreamLocation] = {}
        """Where streams are, as far as this node knows."""
        self.parents: dict[int, Address] = {}
        """The parent in each tree of sources that this node has joined."""
        self.stream_parents: dict[str, Address] = {}
        """The parent in each operator's stream's tree, where that is not the operator's host."""
        self._proxies: dict[str, Address] = {}
        """Of the sources whose root broker this is."""
        self._joining: set[int] = set()
        """Trees that this node has asked the registry for a parent in."""

    def _on_tree(self, stream: str, tree: int) -> bool:
        return stream in self.locations and self.locations[stream].tree == tree

    def _next_hop(self, stream: str) -> Address | None:
        """The next node on the way to the publisher; where a tree leads there, this one joins it."""
        location = self.locations.get(stream)
        if location is None or location.tree is None or location.host == self.node.address:
            return self._known_hop(stream)
        if location.tree not in self.parents and location.tree not in self._joining:
            self._joining.add(location.tree)
            self.tell_registry(messages.JoinTree(location.tree))  # answered at once if the registry is here
        return self._known_hop(stream)

    def _known_hop(self, stream: str) -> Address | None:
        """The next node on the way to the publisher; None while it is not known, or if that is this node."""
        location = self.locations.get(stream)
        if location is None:
            return None
        if location.host == self.node.address:
            return None if location.tree is None else self._proxies.get(stream)
        if location.tree is None:
            return self.stream_parents.get(stream, location.host)
        return self.parents.get(location.tree)

    def _has_left(self, stream: str, believed: StreamLocation) -> bool:
        """Whether the stream has moved since, or is not here though the sender believes it is.

        Who knows where it is asks here because this node is above it in the stream's tree.
        """
        location, here = self.locations[stream], self.node.address
        if believed.version < location.version:
            return True
        return location.tree is None and believed.host == here != location.host
