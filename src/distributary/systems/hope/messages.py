"""The messages between nodes of a HOPE system, and the names and entries of a vertex's contents."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event, EventKey, SubscriptionKey
from distributary.overlay.hypercube import Key
from distributary.overlay.node import Address, Message


class FilterRegistration(NamedTuple):
    """To the vertex of a subscription's key: send events that cover this filter to the home."""

    subscription: SubscriptionKey
    home: Address
    filter: int


class FilterWithdrawal(NamedTuple):
    """To the same vertex: remove the registration."""

    subscription: SubscriptionKey
    home: Address


class XmlPublication(NamedTuple):
    """An event with its filter, from a neighbouring vertex, or from its publisher (`came_from` is None).

    With `holders` the event lacks its document, which these nodes have; only on its way from the publisher
    to its vertex may it be whole all the same.
    """

    event: Event
    filter: int
    holders: tuple[Address, ...] = ()
    came_from: Key | None = None


class DirectMessage(NamedTuple):
    """A message for some positions, sent directly to the node that presumably owns them."""

    positions: tuple[int, ...]
    message: Message


class OwnershipNotice(NamedTuple):
    """The sender owns these positions: messages for them can be sent to it directly."""

    positions: tuple[int, ...]


class OwnershipDenial(NamedTuple):
    """The sender does not own these positions; it has forwarded the message for them."""

    positions: tuple[int, ...]


class EventNotice(NamedTuple):
    """To a home: an event that may match a subscription of its clients; its document is with the holders."""

    event: Event
    holders: tuple[Address, ...]


class DocumentRequest(NamedTuple):
    """To a holder: send me this event whole."""

    event: EventKey


class DocumentReply(NamedTuple):
    """To whoever asked: the event, or None if it is held no more."""

    key: EventKey
    event: Event | None


class FilterAdvert(NamedTuple):
    """From a vertex, hosted by `speaker`, to the neighbours above it: its filters have changed.

    `number` grows with every advert of a node. `digest` is that of all its filters now; `full` says that
    `added` has all of them.
    """

    vertex: Key
    speaker: Address
    added: tuple[int, ...]
    dropped: tuple[int, ...]
    digest: int
    full: bool
    number: int


class AdvertRenewal(NamedTuple):
    """From a vertex to the neighbours above it: the digest of its filters, unchanged."""

    vertex: Key
    speaker: Address
    digest: int


class AdvertRequest(NamedTuple):
    """To the sender of an advert: send all filters of this vertex to the neighbour across a bit."""

    position: int
    bit: int
    number: int = -1
    """Of the latest advert of the receiver that is known here: the answer has a greater one."""


class EventRecall(NamedTuple):
    """From the vertex of a subscription upwards: send the stored events that cover the filter home, unless
    they were stored more than so many seconds ago."""

    subscription: SubscriptionKey
    home: Address
    filter: int
    seconds: float
    came_from: Key | None = None


class StoredEventPlace(NamedTuple):
    """Where an event is stored: the position of the vertex, and what the event is known by."""

    position: int
    event: EventKey


class StoredEventOffer(NamedTuple):
    """To a home: which stored events may match a subscription."""

    subscription: SubscriptionKey
    stored: tuple[StoredEventPlace, ...]


class StoredEventRequest(NamedTuple):
    """To the vertices of these events: send those home that the subscriber does not have."""

    subscription: SubscriptionKey
    home: Address
    wanted: tuple[StoredEventPlace, ...]


class EventRecallReply(NamedTuple):
    """To a home: stored events that it asked for."""

    subscription: SubscriptionKey
    events: tuple[Event, ...]


class AbsenceNotice(NamedTuple):
    """To the owner of a subscription's own key: nobody gets its events, for so many seconds now."""

    subscription: SubscriptionKey
    seconds: float


class AbsenceQuery(NamedTuple):
    """To the same owner: the subscription is at a home now; how long was it away?"""

    subscription: SubscriptionKey
    home: Address


class AbsenceReply(NamedTuple):
    """To the home: for so many seconds; nothing is told of a subscription that was not there before."""

    subscription: SubscriptionKey
    seconds: float


class RegistrationName(NamedTuple):
    """Names a registration among the contents of a vertex; the entry is its filter."""

    subscription: SubscriptionKey
    home: Address


class NeighbourFilterName(NamedTuple):
    """Names a filter of the neighbour across a bit; the entry is True."""

    bit: int
    filter: int


class EventName(NamedTuple):
    """Names a stored event; the entry is a `StoredEvent`."""

    event: EventKey


class AbsenceName(NamedTuple):
    """Names the absence of a subscription; the entry is an `Absence`."""

    subscription: SubscriptionKey


class Absence(NamedTuple):
    """Since when nobody gets the events of a subscription, by the clock of the node that keeps this."""

    time: float


class StoredEvent(NamedTuple):
    """An event as a vertex stores it: when it arrived, as its keeper counts time, and its filter."""

    time: float
    filter: int
    event: Event
