"""The messages of a tree, by who sends them to whom.

`link` is the stamp of the request by which a child came to its parent: it tells a link from earlier ones
between the same two nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distributary.model import Event, EventKey
from distributary.overlay.node import Address
from distributary.overlay.tree.event_log import NumberedEvent
from distributary.overlay.tree.interest import Form, Interest

MOST_STARTS = 8
"""How many beginnings of epochs a term tells of."""


class EpochStart(NamedTuple):
    """Where an epoch began: its log is that of an earlier one up to this number, and its own from there."""

    epoch: float
    number: int


class RootTerm(NamedTuple):
    """One node's time as the root. Terms are ordered, and the latest known counts.

    A root that hands over, and a standby that takes over, begin the next term of the same epoch: the log goes
    on. A root that must go on without knowing what became of the log elsewhere begins a new epoch.
    """

    epoch: float
    """When the epoch began, by its first root's clock, but later than the epoch before by any clock."""
    number: int
    """Counts the terms of an epoch, from 0."""
    root: Address
    starts: tuple[EpochStart, ...] = ()
    """Where this epoch and the latest ones before it began, the latest last."""

    def place_of(self, epoch: float, number: int) -> int:
        """How far the log of this term is certainly the same as that of an earlier epoch up to a number.

        >>> RootTerm(3.0, 0, 7, (EpochStart(2.0, 50), EpochStart(3.0, 80))).place_of(1.0, 90)
        50
        """
        return min([number, *(start.number for start in self.starts if start.epoch > epoch)])

    def forked(self, epoch: float, number: int, root: Address) -> RootTerm:
        """The first term of a new epoch, whose log is this one's up to a number."""
        return RootTerm(epoch, 0, root, (*self.starts, EpochStart(epoch, number))[-MOST_STARTS:])

    def continued(self, root: Address) -> RootTerm:
        """The next term of the same epoch, with another root."""
        return RootTerm(self.epoch, self.number + 1, root, self.starts)


# To the root.


class PublishRequest(NamedTuple):
    """Number this event and send it to all who asked for it: in trees in which nothing fails."""

    event: Event
    hops: int = 0


class Publication(NamedTuple):
    """Number these events, in this order, and tell their entry when they are safe."""

    entry: Address
    """The node at which they were published."""
    incarnation: float
    """When the entry started; its numbers are those of one incarnation."""
    lowest: int
    """The lowest of the entry's numbers that it has no receipt for."""
    first: int
    """The entry's number of the first of these events; the others follow."""
    events: Sequence[Event]
    hops: int = 0


class LogRequest(NamedTuple):
    """Send me the part of the log after an offset that matches an interest."""

    node: Address
    number: int
    """The node's number for this request."""
    epoch: float
    after: int
    interest: Interest
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


class PublicationReceipt(NamedTuple):
    """All events of this entry up to this number are on the disks of two nodes, where there are two."""

    incarnation: float
    through: int


class LogReply(NamedTuple):
    """A part of the log: all events that match after one number and up to another."""

    number: int
    epoch: float
    after: int
    through: int
    events: tuple[NumberedEvent, ...]
    floor: int
    """The log begins after this number: what came before has been forgotten, for want of room."""
    more: bool
    """Whether the log goes on beyond `through`."""


class LogCopies(NamedTuple):
    """Keep these events of the log: the one after this number, and those that follow it."""

    term: RootTerm
    after: int
    events: Sequence[Event]
    begin: bool = False
    """Whether another copy begins here: the log begins after `after`."""
    stamp: int = 0
    """Which copy of the log this belongs to: later ones have greater stamps."""
    last: int = 0
    """The highest number of the log, where a copy begins."""


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
    floor: int = 0
    """The events begin after this number."""


class RootDeparture(NamedTuple):
    """To the standby: the root of this term leaves, and is the root no more."""

    term: RootTerm


# From the standby to the root.


class CopyReceipt(NamedTuple):
    """What you sent me of the log is on my disk up to this number."""

    term: RootTerm
    through: int
    stamp: int = 0
    """Of which copy; 0 from a standby that has none."""


# On the disk of a root or a standby.


class RoleRecord(NamedTuple):
    """What a node was: the root of a term, or its standby."""

    term: RootTerm
    is_root: bool
    standby: Address | None
    floor: int
    """The log begins after this number."""
    company: bool = False
    """Of a root: whether there were other nodes in the tree beside the standby."""
    committed: int = 0
    """Of a root: everything up to this number was committed, and perhaps more."""


class LogRecord(NamedTuple):
    """A part of the log: the event after this number, and those that follow it."""

    after: int
    events: Sequence[Event]


# About the root.


class RootAnnouncement(NamedTuple):
    """There is another root: said down the tree, and to whoever sends with an earlier term."""

    term: RootTerm


class RootTimeout(NamedTuple):
    """From one child of the root to another, and down the tree: I have not heard of the root for long."""

    term: RootTerm
    below: bool = False
    """Whether the sender is no child of the root, but below one that says so."""


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


class ForwardedEvents(NamedTuple):
    """Events, in order; after the number `after`, and between these numbers, there is none for you."""

    link: int
    epoch: float
    after: int
    numbers: tuple[int, ...]
    events: Sequence[Event]


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
    standby: Address | None = None
    """From the root: which of them keeps a copy of its log, and takes over if it fails."""


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
