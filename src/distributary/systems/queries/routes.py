"""Routes of streams to their readers, as the router of a node keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from distributary.overlay.node import Address
from distributary.systems.queries import messages
from distributary.systems.queries.messages import Element, Selection, StreamReader

Upward = messages.Subscribe | messages.Unsubscribe | messages.ReadAcknowledgement
"""Messages that go up, hop by hop, to the publisher of a stream."""


class ReaderRoute(NamedTuple):
    """The next hop to a reader, which may be this node, and what the reader can use."""

    hop: Address
    selection: Selection


class PendingSubscription(NamedTuple):
    """A subscription that is not granted yet, and who it came from."""

    hop: Address
    message: messages.Subscribe


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
