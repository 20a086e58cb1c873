"""The messages of a tree."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.interest import Form, Interest
from distributary.overlay.tree.registry import Known
from distributary.overlay.tree.stream import Numbered


class Reign(NamedTuple):
    """Who is the root. A later reign, by epoch and number, is believed."""

    epoch: float
    number: int
    root: Address


# To the root.


class Published(NamedTuple):
    """An event to be numbered by the root."""

    event: Event
    hops: int = 0


class ParentWanted(NamedTuple):
    """A node asks the root to let it change its parent, to the one wanted or to any."""

    node: Address
    stamp: int
    reign: Reign | None
    """The root that the node believes in: no other may answer."""
    current: Address | None
    wanted: Address | None
    avoid: tuple[Address, ...] = ()
    link: int = 0
    hops: int = 0
    offers: int = 0
    """How many parents to offer, to choose among, in place of allowing any."""


class ParentTaken(NamedTuple):
    """The change that was allowed is done."""

    node: Address
    stamp: int


class ChildMissed(NamedTuple):
    """A node has fallen silent, says its parent."""

    node: Address
    by: Address
    link: int


class Left(NamedTuple):
    """A node is about to leave."""

    node: Address


class ParentAllowed(NamedTuple):
    """The root's answer: this parent may be taken."""

    stamp: int
    parent: Address
    reign: Reign


class ParentsOffered(NamedTuple):
    """The root's answer: these have room for you; ask for one of them."""

    stamp: int
    parents: tuple[Address, ...]
    reign: Reign


class ParentRefused(NamedTuple):
    """The root's answer: not that one."""

    stamp: int
    reason: str
    reign: Reign


class Crowned(NamedTuple):
    """A root that leaves makes another node the root, and tells it everything."""

    reign: Reign
    position: int
    events: tuple[Numbered, ...]
    known: tuple[Known, ...]
    ids: tuple[str, ...]


class Reigned(NamedTuple):
    """There is another root; said to everybody, down the tree, and to whoever believes in an earlier one."""

    reign: Reign


class RootMissed(NamedTuple):
    """From one child of the root to another: I have long not heard of it."""

    reign: Reign


# From a child to its parent. `link` is the stamp of the request by which the child came.


class Adopted(NamedTuple):
    """Take me as a child, with this interest; or, when I am: this is what I should have told you."""

    link: int
    version: int
    interest: Interest


class Registered(NamedTuple):
    """My interest has changed, from the version before to this one."""

    link: int
    version: int
    added: tuple[Form, ...]
    removed: tuple[Form, ...]


class Alive(NamedTuple):
    """I am here, and you are my parent."""

    link: int


class Parted(NamedTuple):
    """I am your child no more."""

    link: int


class Fetch(NamedTuple):
    """Whoever has them, a parent or somebody above: send me the events after one number up to another."""

    node: Address
    version: int
    epoch: float
    after: int
    through: int
    interest: Interest


# From a parent to its child.


class Granted(NamedTuple):
    """All that matches this version of your interest comes to you, if its number is above `since`.

    `start` is where this link began: events above it come in an unbroken chain.
    """

    link: int
    version: int
    epoch: float
    start: int
    since: int
    reign: Reign
    above: Address | None


class Forwarded(NamedTuple):
    """An event; between the number `after` and its own there is none for you."""

    link: int
    epoch: float
    after: int
    number: int
    event: Event


class Beat(NamedTuple):
    """I am here; what I sent you last had the number `after`; up to `position` there is nothing more."""

    link: int
    epoch: float
    after: int
    position: int
    reign: Reign
    above: Address | None
    heirs: tuple[Address, ...] = ()
    """From the root: all its children."""


class Stranger(NamedTuple):
    """You are not my child, or not any more."""

    link: int


class Farewell(NamedTuple):
    """I am leaving; try this one."""

    link: int
    successor: Address | None


class Fetched(NamedTuple):
    """The events that were asked for; `missing` when some may have been forgotten everywhere."""

    version: int
    epoch: float
    after: int
    through: int
    events: tuple[Numbered, ...]
    missing: bool


# Between any two nodes.


class Probe(NamedTuple):
    """How far are you?"""

    number: int


class Probed(NamedTuple):
    """So far; and this is to be known of me."""

    number: int
    told: tuple[float, ...]
