"""Routes of streams to their readers, as the router of a node keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from distributary.overlay.node import Address
from distributary.systems.queries import messages
from distributary.systems.queries.messages import Element, Selection, StreamReader

Upward = messages.Subscribe | messages.Unsubscribe | messages.ReadAcknowledgement
"""Messages that go up, hop by hop, to the publisher of a stream."""


class ReaderRoute(NamedTuple):
    """The next hops to a reader, one of which may be this node, and what the reader can use.

    They are several when its subscription came by several ways: see `Router`.
    """

    hops: tuple[Address, ...]
    selection: Selection
    at: Address
    """The reader's node; of one that nodes of an earlier version told of, the next hop."""


class PendingSubscription(NamedTuple):
    """A subscription that is not granted yet, and all from whom it came."""

    hops: tuple[Address, ...]
    message: messages.Subscribe


K = TypeVar("K")
R = TypeVar("R", ReaderRoute, PendingSubscription)


def with_hops(before: R | None, hops: Iterable[Address]) -> tuple[Address, ...]:
    """Those from whom a subscription came before, and others."""
    return tuple(dict.fromkeys((*(() if before is None else before.hops), *hops)))


def remove_hop(table: dict[K, R], hop: Address) -> None:
    """Remove a hop from all routes or subscriptions, and with it those that have no other."""
    for key, route in list(table.items()):
        left = tuple(one for one in route.hops if one != hop)
        if not left:
            del table[key]
        elif left != route.hops:
            table[key] = route._replace(hops=left)


class LocalReaders(Protocol):
    """The readers of streams at this node: what the router needs of the operator engine."""

    def take(self, stream: str, reader: StreamReader, elements: Sequence[Element]) -> None:
        """Elements have come for a reader; the first after a subscription say that it is granted."""

    def resubscribe(self, stream: str) -> None:
        """The routes of a stream are void: its readers here subscribe again."""

    def wake(self, stream: str) -> None:
        """A stream that is published here has a reader."""

    def give_up(self, stream: str) -> None:
        """Another node continues a stream that was published here, from a checkpoint."""
