"""The messages of a tree, by who sends them to whom.

`link` is the stamp of the request by which a child came to its parent: it tells a link from earlier ones
between the same two nodes.
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event, EventKey
from distributary.overlay.node import Address
from distributary.overlay.tree.event_log import NumberedEvent
from distributary.overlay.tree.interest import Form, Interest


class RootTerm(NamedTuple):
    """One node's time as the root. Terms are ordered, and the latest known counts.

    A root that hands over begins the next term of the same epoch, in which the numbers of events go on. A
    root elected after a failure begins a new epoch, in which numbers start again.
    """

    epoch: float
    """When the epoch began, by its first root's clock, but later than the epoch before by any clock."""
    number: int
    """Counts the terms of an epoch, from 0."""
    root: Address


# To the root.


class PublishRequest(NamedTuple):
    """Number this event and send it to all who asked for it."""

    event: Event
    hops: int = 0


class ParentRequest(NamedTuple):
    """A node asks the root for a change of parent, to the one wanted or to any."""

    node: Address
    stamp: int
    """Later requests of a node have higher stamps; that of the one granted becomes the stamp of the link."""
    term: RootTerm | None
    """The latest term that the node knows: no other root may answer."""
    current: Address | None
    wanted: Address | None
    avoid: tuple[Address, ...] = ()
    """Parents to give only if there are no others."""
    link: int = 0
    hops: int = 0
    offers: int = 0
    """How many parents to offer, to choose among, in place of granting any."""


class ParentConfirmation(NamedTuple):
    """The change of parent that was granted has come about."""

    node: Address
    stamp: int


class ChildTimeout(NamedTuple):
    """A parent has not heard of its child for long."""

    node: Address
    by: Address
    link: int


class TreeDeparture(NamedTuple):
    """A node is about to leave the tree."""

    node: Address


class PlaceWait(NamedTuple):
    """A node has found no parent that will do, and waits: tell it when somebody may have room."""

    node: Address


# From the root.


class RoomNotice(NamedTuple):
    """The tree has changed: somebody may have room for the receiver, which waits."""


class ParentGrant(NamedTuple):
    """The node may take this parent."""

    stamp: int
    parent: Address
    term: RootTerm


class ParentOffers(NamedTuple):
    """These nodes have room for another child; request one of them."""

    stamp: int
    parents: tuple[Address, ...]
    term: RootTerm


class ParentDenial(NamedTuple):
    """The node may not have the parent requested."""

    stamp: int
    reason: str
    term: RootTerm


class RegistryEntry(NamedTuple):
    """A node that has asked: the stamp of its last request, its possible parents, the stamp of its link."""

    node: Address
    stamp: int
    parents: tuple[Address, ...]
    link: int


class RootHandover(NamedTuple):
    """A root that leaves makes the receiver the root, and tells it everything it knows."""

    term: RootTerm
    position: int
    events: tuple[NumberedEvent, ...]
    known: tuple[RegistryEntry, ...]
    published: tuple[EventKey, ...]


# About the root.


class RootAnnouncement(NamedTuple):
    """There is another root: said down the tree, and to whoever sends with an earlier term."""

    term: RootTerm


class RootTimeout(NamedTuple):
    """From one child of the root to another: I have not heard of the root for long."""

    term: RootTerm


# From a child to its parent.


class AttachRequest(NamedTuple):
    """Serve me as a child with this interest; from a child, its whole interest once more."""

    link: int
    version: int
    interest: Interest
    chosen: bool = False
    """Whether I chose you by what you told me: refuse me if that is true no more."""


class InterestChange(NamedTuple):
    """My interest has changed, from the version before to this one."""

    link: int
    version: int
    added: tuple[Form, ...]
    removed: tuple[Form, ...]


class ChildHeartbeat(NamedTuple):
    """I am alive, and take you for my parent."""

    link: int


class DetachNotice(NamedTuple):
    """I am not your child, or not any more."""

    link: int


class EventFetch(NamedTuple):
    """Send me the events after one number up to another; goes up to the first node that has them."""

    node: Address
    version: int
    epoch: float
    after: int
    through: int
    interest: Interest


# From a parent to its child.


class InterestGrant(NamedTuple):
    """All events above the number `since` that match this version of your interest come to you.

    `start` is where this link began: events above it come in an unbroken chain.
    """

    link: int
    version: int
    epoch: float
    start: int
    since: int
    term: RootTerm
    grandparent: Address | None


class ForwardedEvent(NamedTuple):
    """An event; between the number `after` and its own there is none for you."""

    link: int
    epoch: float
    after: int
    number: int
    event: Event


class Heartbeat(NamedTuple):
    """I am alive. The last event I sent you had the number `after`; up to `position` none is for you."""

    link: int
    epoch: float
    after: int
    position: int
    term: RootTerm
    grandparent: Address | None
    root_children: tuple[Address, ...] = ()
    """From the root: all its children."""


class AttachDenial(NamedTuple):
    """I cannot take you for a child: constraints would not be kept."""

    link: int


class UnknownChild(NamedTuple):
    """You are not my child, or not any more."""

    link: int


class ParentRedirect(NamedTuple):
    """I am about to leave the tree, or have no parent myself; request this one, any if none is named."""

    link: int
    successor: Address | None


class EventFetchReply(NamedTuple):
    """The events that were fetched; `missing` when some may have been forgotten everywhere."""

    version: int
    epoch: float
    after: int
    through: int
    events: tuple[NumberedEvent, ...]
    missing: bool


# Between any two nodes.


class TreeProbe(NamedTuple):
    """Answer at once: the round trip tells how far you are."""

    number: int


class TreeProbeReply(NamedTuple):
    """The answer to a probe, with what the node tells of itself."""

    number: int
    told: tuple[float | None, ...]
