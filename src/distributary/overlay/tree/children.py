"""The children of a node: what they ask for, what they are granted and sent, whether they are alive.

Rules:

- A child's interest counts among what the node itself asks for, and is granted when all of that is.
- A child is sent the events it asked for, each with the number of the one it was sent before: so it knows
  what it has missed.
- A child that has been silent for too long is dropped, and the root is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from distributary.overlay.node import Address
from distributary.overlay.tree import messages
from distributary.overlay.tree.event_log import NumberedRun, divided
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.routes import Routes, wanted_together
from distributary.overlay.tree.state import TreeState
from distributary.overlay.tree.upstream import NOT_GRANTED, UpstreamInterest


@dataclass
class Child:
    """A child, as its parent knows it."""

    link: int
    version: int
    interest: Interest
    needs: int
    """The version of the parent's own interest that contains this one."""
    heard: float
    start: int | None = None
    """Where its chain of events began; None until it is granted anything."""
    last: int = 0
    """The number of the event it was sent last, or where the chain began."""
    granted: int = NOT_GRANTED
    overtook: dict[int, messages.InterestChange] = field(default_factory=dict)
    """Changes of its interest that came before an earlier one did."""


class Children:
    """The children of a node, and the links to them."""

    def __init__(self, state: TreeState, upstream: UpstreamInterest, routes: Routes) -> None:
        self.leaving = False
        """Whether this node is about to leave, and redirects whoever attaches to it."""
        self._node, self._post = state.node, state.post
        self._root, self._link, self._log = state.root, state.link, state.log
        self._upstream, self._routes = upstream, routes
        self.admit: Callable[[Address], bool] = lambda child: True
        """Whether a node that chose this one for its parent may have it."""
        self._children: dict[Address, Child] = {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The children, in the order in which they came."""
        return tuple(self._children)

    def successor(self) -> Address | None:
        """The child to which a root that leaves hands its role, or which is to be its standby."""
        able = (address for address, child in self._children.items() if child.start is not None)
        return min(able, default=None)

    def is_served(self, address: Address) -> bool:
        """Whether a node is a child that has been granted anything."""
        child = self._children.get(address)
        return child is not None and child.start is not None

    def place(self, address: Address) -> None:
        """Have this child from the start, without messages."""
        self._children[address] = Child(1, 0, Interest(), 0, 0.0, start=0, granted=0)

    def begin(self) -> None:
        """Count every child as just heard of: the node has started."""
        for child in self._children.values():
            child.heard = self._node.now

    # Liveness.

    def excuse(self, seconds: float) -> None:
        """Do not count a time in which this node itself stood still as the children's silence."""
        for child in self._children.values():
            child.heard += seconds

    def suspect(self, address: Address) -> None:
        """Take a child, if it is one, for silent."""
        child = self._children.get(address)
        if child is not None:
            child.heard = -math.inf

    def send_heartbeats(
        self, silence: float, standby: Address | None, failed: Callable[[Address, int], None]
    ) -> None:
        """Send heartbeats; drop children silent for longer, and call `failed` with each and its link."""
        term, now = self._root.term, self._node.now
        if term is None:
            return
        root_children = tuple(sorted(self._children)) if self._root.is_root else ()
        for address, child in list(self._children.items()):
            if now - child.heard > silence:
                self._drop(address)
                failed(address, child.link)
                continue
            last = position = 0
            if child.start is not None:
                last, position = child.last, max(self._log.position, child.last)
            stamps = (child.link, self._log.epoch, last, position, term)
            self._node.send(address, messages.Heartbeat(*stamps, self._link.parent, root_children, standby))

    def heartbeat(self, message: messages.ChildHeartbeat, sender: Address) -> None:
        """A child, or a node that takes itself for one, is alive."""
        child = self._children.get(sender)
        if child is not None and child.link == message.link:
            child.heard = self._node.now
        elif child is None or child.link < message.link:
            self._node.send(sender, messages.UnknownChild(message.link))

    def detach(self, message: messages.DetachNotice, sender: Address) -> bool:
        """Drop a child that has gone; whether it was one by this link or an earlier one."""
        child = self._children.get(sender)
        gone = child is not None and child.link <= message.link
        if gone:
            self._drop(sender)
        return gone

    def leave(self) -> None:
        """This node is about to leave: name another parent to the children."""
        self.leaving = True
        other = self._other_parent()
        for address, child in self._children.items():
            if address != other:
                self._post(address, messages.ParentRedirect(child.link, other))

    def send_away(self) -> None:
        """This node waits for a parent: its children are to look for others."""
        for address, child in self._children.items():
            self._post(address, messages.ParentRedirect(child.link, None))

    def _other_parent(self) -> Address | None:
        """Where to send children when this node leaves: its parent, or the root if it has none."""
        parent, term = self._link.parent, self._root.term
        return parent if parent is not None or term is None else term.root

    def _drop(self, address: Address) -> None:
        self._count(self._children.pop(address), Interest())
        self._routes.drop(address)
        self._upstream.update()

    # What they ask for.

    def attach(self, message: messages.AttachRequest, sender: Address) -> None:
        """Take a new child, or the whole interest of one that is."""
        child = self._children.get(sender)
        if child is not None and child.link > message.link:
            return
        if child is None and message.chosen and not self.admit(sender):
            self._post(sender, messages.AttachDenial(message.link))
            return
        if child is None or child.link < message.link:
            if child is not None:
                self._count(child, Interest())
            child = self._children[sender] = Child(message.link, -1, Interest(), 0, self._node.now)
            if self.leaving:
                self._post(sender, messages.ParentRedirect(message.link, self._other_parent()))
        if child.version <= message.version:
            self._ask(sender, child, message.version, message.interest)

    def change_interest(self, message: messages.InterestChange, sender: Address) -> None:
        """A child's interest has changed; changes that come out of order wait for their turn."""
        child = self._children.get(sender)
        if child is None or child.link != message.link:
            return
        child.overtook[message.version] = message
        while (change := child.overtook.pop(child.version + 1, None)) is not None:
            interest = child.interest.changed(change.added, change.removed)
            self._ask(sender, child, change.version, interest)

    def _ask(self, address: Address, child: Child, version: int, interest: Interest) -> None:
        """Have a child ask for this version of its interest."""
        child.heard = self._node.now
        child.overtook = {later: each for later, each in child.overtook.items() if later > version}
        if child.version < version:
            self._count(child, interest)
            child.version = version
            self._routes.put(address, interest)
            self._upstream.update()
            child.needs = self._upstream.version
        self._grant(address, child, again=True)

    def _count(self, child: Child, interest: Interest) -> None:
        self._upstream.count(*interest.differs_from(child.interest))
        child.interest = interest

    # What they are granted and sent.

    def restart(self) -> None:
        """A new epoch has come: nothing is granted."""
        for child in self._children.values():
            child.start, child.granted = None, NOT_GRANTED

    def grant_all(self) -> None:
        """Grant every child what it asked for, as far as it can be granted now."""
        for address, child in self._children.items():
            self._grant(address, child)

    def _grant(self, address: Address, child: Child, *, again: bool = False) -> None:
        """Grant a child its interest if everything above does."""
        is_root, term, upstream = self._root.is_root, self._root.term, self._upstream
        if term is None or not (is_root or child.needs <= upstream.granted):
            return
        if child.granted >= child.version and not again:
            return
        position = self._log.position
        since = position if is_root else max(position, upstream.since)
        if child.start is None:
            child.start = child.last = since
        child.granted = child.version
        stamps = (child.link, child.version, self._log.epoch, child.start, since, term)
        self._post(address, messages.InterestGrant(*stamps, self._link.parent))

    def forward(self, events: NumberedRun) -> None:
        """Send events to the children who asked for them: to each all that it wants, together."""
        if not self._children:
            return
        wanted: dict[Address, list[int]] = {}
        for place, addresses in enumerate(wanted_together(self._routes, events.events)):
            for address in addresses:
                wanted.setdefault(address, []).append(place)
        for address, places in wanted.items():
            self._forward(address, self._children[address], events.chosen(places))

    def _forward(self, address: Address, child: Child, wanted: NumberedRun) -> None:
        new = wanted.after(child.last)
        if child.start is None or not new:
            return
        epoch, events = self._log.epoch, new.events
        for start, part in divided(events):
            numbers = tuple(new.numbers[start : start + len(part)])
            stamps = (child.link, epoch, child.last, numbers)
            self._node.send(address, messages.ForwardedEvents(*stamps, part))
            child.last = numbers[-1]

    def warn(self, message: messages.RootTimeout) -> None:
        """Tell the children that the root has not been heard of for long."""
        for address in self._children:
            self._node.send(address, message)

    def announce(self, term: messages.RootTerm) -> None:
        """Tell the children who is the root."""
        for address in self._children:
            self._post(address, messages.RootAnnouncement(term))
