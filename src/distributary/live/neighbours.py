"""Where other nodes listen, as far as a node remembers on its disk: contacts for when it comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from distributary.live.greeting import Endpoint, EndpointReply
from distributary.overlay.node import Address, Message, Store

PREFIX = "neighbour/"
MOST = 8
"""So many are remembered."""


class NeighbourLinks(Protocol):
    """The links of a node, as far as they are needed here."""

    @property
    def endpoints(self) -> dict[Address, Endpoint]:
        """Where the nodes listen to which there is a link now."""

    def introduce(self, address: Address, endpoint: Endpoint) -> None:
        """Say where a node listens."""


class KnownNeighbours:
    """The nodes that a node was linked to.

    They are stored beside what the node itself stores, under names of their own.
    """

    def __init__(self, links: NeighbourLinks) -> None:
        self._links = links
        self._stored: dict[Address, Endpoint] = {}

    def restore(self, stored: Mapping[str, Message]) -> dict[str, Message]:
        """Take what is stored of neighbours, and tell the links; returns the rest, which is the node's."""
        rest: dict[str, Message] = {}
        for name, value in stored.items():
            if name.startswith(PREFIX) and isinstance(value, EndpointReply):
                self._stored[value.address] = value.endpoint
                self._links.introduce(value.address, value.endpoint)
            else:
                rest[name] = value
        return rest

    @property
    def known(self) -> dict[Address, Endpoint]:
        """Those that are stored, and where they listen."""
        return dict(self._stored)

    def news(self) -> list[Store]:
        """What is to be stored now: links that are new take the places of nodes that are linked no more."""
        linked = self._links.endpoints
        stores: list[Store] = []
        for address, endpoint in linked.items():
            if self._stored.get(address) == endpoint:
                continue
            gone = [each for each in self._stored if each not in linked]
            if address not in self._stored and len(self._stored) >= MOST:
                if not gone:
                    break
                del self._stored[gone[0]]
                stores.append(Store(f"{PREFIX}{gone[0]}", None))
            self._stored[address] = endpoint
            stores.append(Store(f"{PREFIX}{address}", EndpointReply(address, endpoint)))
        return stores
