"""What a layer above asks of key-based routing (001, 5.2): which node owns a key, and messages to that node.

The thesis asks for the common interface of structured overlays and for no overlay in particular. `KeyRouting`
is that interface as the layers here use it; `ring.Ring` (Chord, with fingers one way or both ways) and
`ring.prefix.PrefixRing` (Pastry) provide it. The names of the common interface are in brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from distributary.overlay.node import Address, Message, Node, SendMessage
from distributary.overlay.ring.circle import Circle

if TYPE_CHECKING:
    from distributary.overlay.ring.ring import Arrival

P = TypeVar("P")


class KeyRouting(Protocol):
    """A node's part in key-based routing: keys stand on a circle, and each belongs to one node."""

    node: Node
    circle: Circle
    identifier: Address
    member: bool
    successors: list[Address]
    """The nodes that follow on the circle, the nearest first."""
    successor_count: int
    predecessor: Address | None
    suspected: set[Address]
    forward: SendMessage
    """Hands a message to a node that is known."""
    listeners: dict[type, Callable[[Any, Arrival], None]]

    def route(self, key: int, payload: Message) -> None:
        """Send a payload to the owner of a key (route)."""

    def multicast(self, keys: Iterable[int], payload: Message) -> None:
        """Send a payload once to each owner of these keys."""

    def multicast_all(self, payloads: Iterable[tuple[Iterable[int], Message]]) -> None:
        """Send several payloads, each to the owners of its keys; what goes the same way goes together."""

    def multicast_segment(self, start: int, length: int, payload: Message) -> None:
        """Send a payload to every node of a stretch of the circle."""

    def listen(self, kind: type[P], handler: Callable[[P, Arrival], None]) -> None:
        """Have payloads of a class that are meant for this node given to the handler (deliver)."""

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have this called whenever neighbours have changed (update)."""

    def owns(self, key: int) -> bool:
        """Whether a key is this node's own, as far as it knows (range)."""

    def arc(self) -> tuple[int, int] | None:
        """The stretch (after, last] of keys that are this node's own; None while it cannot tell (range)."""

    def siblings(self, count: int) -> list[Address]:
        """The nodes, so many, that are to hold copies of what this node owns (replica set)."""

    def new_owners(self) -> list[Address]:
        """The neighbours that own what this node has ceased to own."""

    def known(self) -> tuple[Address, ...]:
        """Everybody this node knows and does not suspect, sorted (local lookup)."""
