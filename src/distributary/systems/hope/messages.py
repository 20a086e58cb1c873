"""What the nodes of a HOPE system say to each other."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.hypercube import Key
from distributary.overlay.node import Address, Message


class FilterRegistration(NamedTuple):
    """To the vertex of a subscription's key: what covers this filter is wanted at a home."""

    subscription: str
    home: Address
    filter: int


class FilterWithdrawal(NamedTuple):
    """To the same vertex: it is wanted there no longer."""

    subscription: str
    home: Address


class XmlPublication(NamedTuple):
    """An event with its filter, from a vertex to a neighbour; from a publisher it comes from no vertex."""

    event: Event
    filter: int
    came_from: Key | None = None


class DirectMessage(NamedTuple):
    """A message for some positions, handed straight to the node that is thought to own them."""

    positions: tuple[int, ...]
    message: Message


class OwnershipNotice(NamedTuple):
    """The sender owns these positions: what is for them can be passed straight to it."""

    positions: tuple[int, ...]


class OwnershipDenial(NamedTuple):
    """The sender does not own these positions, and has sent on what was passed to it for them."""

    positions: tuple[int, ...]


class EventNotice(NamedTuple):
    """To a home: an event that a subscription of its clients may want."""

    event: Event


class FilterAdvert(NamedTuple):
    """From a vertex to the neighbours above it: what it wants has changed. The node that hosts it speaks.

    `number` grows with every one that a node sends. `digest` is that of all it wants now; `full` says that
    `added` is all of that.
    """

    vertex: Key
    speaker: Address
    added: tuple[int, ...]
    dropped: tuple[int, ...]
    digest: int
    full: bool
    number: int


class AdvertRenewal(NamedTuple):
    """From a vertex to the neighbours above it: what it wants has still this digest."""

    vertex: Key
    speaker: Address
    digest: int


class AdvertRequest(NamedTuple):
    """To the node behind an advert: tell the neighbour across a bit of this vertex all that is wanted."""

    position: int
    bit: int


class EventRecall(NamedTuple):
    """From the vertex of a subscription upwards: send home the remembered events that cover the filter."""

    subscription: str
    home: Address
    filter: int
    since: float
    came_from: Key | None = None


class EventRecallReply(NamedTuple):
    """To a home: remembered events that a subscription may want."""

    subscription: str
    events: tuple[Event, ...]


class RegistrationName(NamedTuple):
    """Names a registration among the contents of a vertex; the entry is its filter."""

    subscription: str
    home: Address


class NeighbourFilterName(NamedTuple):
    """Names a filter that the neighbour across a bit wants; the entry is True."""

    bit: int
    filter: int


class EventName(NamedTuple):
    """Names an event that a vertex remembers; the entry is a `StoredEvent`."""

    event: str


class StoredEvent(NamedTuple):
    """An event as a vertex remembers it: when it came, and with which filter."""

    time: float
    filter: int
    event: Event
