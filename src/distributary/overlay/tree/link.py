"""The link to the parent as data, and a change of parent as a table of states.

Rules:

- A link has the stamp of the request by which it came about. A message that carries another stamp belongs to
  an older link and is ignored.
- A node that is *attached* is known to its parent as a child. One that is not keeps the address of the parent
  it had, to tell the root, until it has another.
- At most one change of parent is under way. It moves through the states of `TRANSITIONS`; a message that the
  table does not list for the present state changes nothing.

Theory of operation. A change begins with a `ParentRequest` to the root. The root grants a parent, denies the
one requested, or offers several; after offers the node probes them and begins a new change for the best. A
granted parent is asked to serve the node (`AttachRequest`), and answers with an `InterestGrant` that says
from which event number on it does. When the old parent's events have come that far, the node switches over,
tells the root (`ParentConfirmation`) and leaves the old parent. A change that stays in one state for too long
is replaced by a new one (`ParentProtocol.check`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree import messages


class EarlyEvent(NamedTuple):
    """An event that came before its turn."""

    epoch: float
    after: int
    """The number of the one before it on this link."""
    event: Event


class ChangeState(Enum):
    """How far a change of parent has come."""

    REQUESTED = "the root has been asked for a parent"
    CHOOSING = "the parents that the root offered are being probed"
    ATTACHING = "the new parent has been asked to serve this node's interest"
    READY = "the new parent serves; the old one's events must still come to where the new one's begin"
    ENDED = "switched over, denied, or replaced by another change"


TRANSITIONS: Mapping[ChangeState, Mapping[type, ChangeState]] = {
    # Received: an answer of the root.
    ChangeState.REQUESTED: {
        messages.ParentGrant: ChangeState.ATTACHING,
        messages.ParentOffers: ChangeState.CHOOSING,
        messages.ParentDenial: ChangeState.ENDED,
    },
    # Sent: the request for the parent chosen, which begins a new change.
    ChangeState.CHOOSING: {messages.ParentRequest: ChangeState.ENDED},
    # Received: a grant of the present interest. Sent: a change of that interest, which needs another grant.
    # Received: a denial, after which another parent is looked for.
    ChangeState.ATTACHING: {
        messages.InterestGrant: ChangeState.READY,
        messages.InterestChange: ChangeState.ATTACHING,
        messages.AttachDenial: ChangeState.ENDED,
    },
    # Sent: the confirmation of the switch.
    ChangeState.READY: {
        messages.InterestGrant: ChangeState.READY,
        messages.InterestChange: ChangeState.ATTACHING,
        messages.ParentConfirmation: ChangeState.ENDED,
    },
    ChangeState.ENDED: {},
}
"""The states of a change of parent, the messages that move it on, and the states that follow."""


@dataclass
class ParentTransition:
    """A change of parent under way."""

    stamp: int
    wanted: Address | None
    """The parent requested; None for any."""
    since: float
    must: bool
    """Whether the old parent is gone, or about to go: then a denial is followed by a request for any."""
    new_parent: Address | None = None
    """Set when the root has granted it."""
    chosen: bool = False
    """Whether the node chose the parent requested among those offered."""
    grant: messages.InterestGrant | None = None
    """The new parent's grant of the present interest, in state READY."""
    early: dict[int, EarlyEvent] = field(default_factory=dict)
    """Events that the new parent has sent already."""
    state: ChangeState = ChangeState.REQUESTED

    def advance(self, step: type) -> bool:
        """Take the step of a message of this class; False, and nothing changes, if the table has none.

        >>> change = ParentTransition(stamp=1, wanted=None, since=0.0, must=False)
        >>> change.advance(messages.InterestGrant), change.advance(messages.ParentGrant), change.state.name
        (False, True, 'ATTACHING')
        """
        following = TRANSITIONS[self.state].get(step)
        self.state = following or self.state
        return following is not None


@dataclass
class ParentLink:
    """The link to the parent, and the change of it under way; the parts of a tree node share it."""

    parent: Address | None = None
    stamp: int = 0
    attached: bool = False
    grandparent: Address | None = None
    """The parent's parent, as last heard; tried first when the parent fails."""
    heard: float = 0.0
    """When the parent was last heard of."""
    root_children: tuple[Address, ...] = ()
    """All children of the root, if the parent is the root: they elect another when it fails."""
    standby: Address | None = None
    """Which of them has a copy of the root's log."""
    standby_in: messages.RootTerm | None = None
    """In which term that was so."""
    change: ParentTransition | None = None
    moves: int = 0
    """Changes of parent that have come about."""

    def hears(self, sender: Address, stamp: int) -> bool:
        """Whether a message belongs to the link to the parent."""
        return sender == self.parent and stamp == self.stamp

    def awaited(self, sender: Address, stamp: int) -> ParentTransition | None:
        """The change of parent under way, if a message belongs to its new link."""
        change = self.change
        return change if change is not None and (sender, stamp) == (change.new_parent, change.stamp) else None

    def place(self, parent: Address | None, stamp: int) -> None:
        """Have this parent from now on; none with None."""
        self.parent, self.stamp, self.attached = parent, stamp, parent is not None
