"""The messages of a tree."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.event_log import NumberedEvent
from distributary.overlay.tree.interest import Form, Interest
from distributary.overlay.tree.registry import RegistryEntry


class RootTerm(NamedTuple):
    """Who is the root. A later reign, by epoch and number, is believed."""

    epoch: float
    number: int
    root: Address


# To the root.


class PublishRequest(NamedTuple):
    """An event to be numbered by the root."""

    event: Event
    hops: int = 0


class ParentRequest(NamedTuple):
    """A node asks the root to let it change its parent, to the one wanted or to any."""

    node: Address
    stamp: int
    term: RootTerm | None
    """The root that the node believes in: no other may answer."""
    current: Address | None
    wanted: Address | None
    avoid: tuple[Address, ...] = ()
    link: int = 0
    hops: int = 0
    offers: int = 0
    """How many parents to offer, to choose among, in place of allowing any."""


class ParentConfirmation(NamedTuple):
    """The change that was allowed is done."""

    node: Address
    stamp: int


class ChildTimeout(NamedTuple):
    """A node has fallen silent, says its parent."""

    node: Address
    by: Address
    link: int


class TreeDeparture(NamedTuple):
    """A node is about to leave."""

    node: Address


class ParentGrant(NamedTuple):
    """The root's answer: this parent may be taken."""

    stamp: int
    parent: Address
    term: RootTerm


class ParentOffers(NamedTuple):
    """The root's answer: these have room for you; ask for one of them."""

    stamp: int
    parents: tuple[Address, ...]
    term: RootTerm


class ParentDenial(NamedTuple):
    """The root's answer: not that one."""

    stamp: int
    reason: str
    term: RootTerm


class RootHandover(NamedTuple):
    """A root that leaves makes another node the root, and tells it everything."""

    term: RootTerm
    position: int
    events: tuple[NumberedEvent, ...]
    known: tuple[RegistryEntry, ...]
    ids: tuple[str, ...]


class RootAnnouncement(NamedTuple):
    """There is another root; said to everybody, down the tree, and to whoever believes in an earlier one."""

    term: RootTerm


class RootTimeout(NamedTuple):
    """From one child of the root to another: I have long not heard of it."""

    term: RootTerm


# From a child to its parent. `link` is the stamp of the request by which the child came.


class AttachRequest(NamedTuple):
    """Take me as a child, with this interest; or, when I am: this is what I should have told you."""

    link: int
    version: int
    interest: Interest


class InterestChange(NamedTuple):
    """My interest has changed, from the version before to this one."""

    link: int
    version: int
    added: tuple[Form, ...]
    removed: tuple[Form, ...]


class ChildHeartbeat(NamedTuple):
    """I am here, and you are my parent."""

    link: int


class DetachNotice(NamedTuple):
    """I am your child no more."""

    link: int


class EventFetch(NamedTuple):
    """Whoever has them, a parent or somebody above: send me the events after one number up to another."""

    node: Address
    version: int
    epoch: float
    after: int
    through: int
    interest: Interest


# From a parent to its child.


class InterestGrant(NamedTuple):
    """All that matches this version of your interest comes to you, if its number is above `since`.

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
    """I am here; what I sent you last had the number `after`; up to `position` there is nothing more."""

    link: int
    epoch: float
    after: int
    position: int
    term: RootTerm
    grandparent: Address | None
    root_children: tuple[Address, ...] = ()
    """From the root: all its children."""


class UnknownChild(NamedTuple):
    """You are not my child, or not any more."""

    link: int


class ParentRedirect(NamedTuple):
    """I am leaving; try this one."""

    link: int
    successor: Address | None


class EventFetchReply(NamedTuple):
    """The events that were asked for; `missing` when some may have been forgotten everywhere."""

    version: int
    epoch: float
    after: int
    through: int
    events: tuple[NumberedEvent, ...]
    missing: bool


# Between any two nodes.


class Probe(NamedTuple):
    """How far are you?"""

    number: int


class ProbeReply(NamedTuple):
    """So far; and this is to be known of me."""

    number: int
    told: tuple[float, ...]
