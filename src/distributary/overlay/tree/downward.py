"""The children of a node of a tree: what they ask for, what they are granted and sent, whether they live.

Rules:

- A child's interest counts among what the node itself asks for, and is granted when all of that is.
- A child is sent the events it asked for, each with the number of the one it was sent before: so it knows
  what it has missed.
- A child that is not heard of is dropped, and the root told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.messages import (
    AttachRequest,
    ChildHeartbeat,
    ChildTimeout,
    DetachNotice,
    ForwardedEvent,
    Heartbeat,
    InterestChange,
    InterestGrant,
    ParentRedirect,
    UnknownChild,
)
from distributary.overlay.tree.routes import Routes

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode


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
    granted: int = -1
    overtook: dict[int, InterestChange] = field(default_factory=dict)
    """Changes of its interest that came before an earlier one did."""


class Downward:
    """The links to the children."""

    def __init__(self, tree: TreeNode, routes: Routes) -> None:
        self.tree = tree
        self._children: dict[Address, Child] = {}
        self._routes = routes
        handle = tree.node.handle
        handle(AttachRequest, self._adopted)
        handle(InterestChange, self._registered)
        handle(ChildHeartbeat, self._alive)
        handle(DetachNotice, self._parted)

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(self._children)

    @property
    def heir(self) -> Address | None:
        """The child that a root which leaves makes the root."""
        able = (address for address, child in self._children.items() if child.start is not None)
        return min(able, default=None)

    def place(self, address: Address) -> None:
        """Have this child from the start, without messages."""
        self._children[address] = Child(1, 0, Interest(), 0, 0.0, start=0, granted=0)

    def begin(self) -> None:
        for child in self._children.values():
            child.heard = self.tree.node.now

    def beat(self, silence: float) -> None:
        """Give a sign of life to the children, and drop those that have long given none."""
        tree, reign = self.tree, self.tree.reign
        if reign is None:
            return
        heirs = tuple(sorted(self._children)) if tree.is_root else ()
        for address, child in list(self._children.items()):
            if tree.node.now - child.heard > silence:
                self._drop(address)
                tree.rootship.miss(address)
                tree.belief.to_root(ChildTimeout(address, tree.address, child.link))
            else:
                last = 0 if child.start is None else child.last
                position = 0 if child.start is None else max(tree.stream.position, last)
                epoch = tree.stream.epoch
                beat = Heartbeat(child.link, epoch, last, position, reign, tree.parent, heirs)
                tree.node.send(address, beat)

    def send_away(self) -> None:
        """This node leaves: name another parent to the children."""
        tree = self.tree
        successor = tree.reign.root if tree.parent is None and tree.reign is not None else tree.parent
        for address, child in self._children.items():
            if address != successor:
                tree.post(address, ParentRedirect(child.link, successor))
        self.part_when_alone()

    def part_when_alone(self) -> None:
        if self.tree.leaving and not self._children:
            self.tree.upward.part()

    # What they ask for.

    def _adopted(self, message: AttachRequest, sender: Address) -> None:
        tree = self.tree
        child = self._children.get(sender)
        if child is not None and child.link > message.link:
            return
        if child is None or child.link < message.link:
            if child is not None:
                self._count(child, Interest())
            self._children[sender] = Child(message.link, -1, Interest(), 0, tree.node.now)
            if tree.leaving:
                successor = tree.parent if tree.parent is not None or tree.reign is None else tree.reign.root
                tree.post(sender, ParentRedirect(message.link, successor))
        child = self._children[sender]
        if child.version <= message.version:
            self._asks_for(sender, child, message.version, message.interest)

    def _registered(self, message: InterestChange, sender: Address) -> None:
        child = self._children.get(sender)
        if child is None or child.link != message.link:
            return
        child.overtook[message.version] = message
        while (change := child.overtook.pop(child.version + 1, None)) is not None:
            interest = child.interest.changed(change.added, change.removed)
            self._asks_for(sender, child, change.version, interest)

    def _asks_for(self, address: Address, child: Child, version: int, interest: Interest) -> None:
        """A child asks for this now."""
        child.heard = self.tree.node.now
        child.overtook = {later: each for later, each in child.overtook.items() if later > version}
        if child.version < version:
            self._count(child, interest)
            child.version = version
            self._routes.put(address, interest)
            self.tree.asking.reconsider()
            child.needs = self.tree.asking.version
        self._grant(address, child, again=True)

    def _count(self, child: Child, interest: Interest) -> None:
        summary = self.tree.asking.summary
        added, removed = interest.differs_from(child.interest)
        for form in added:
            summary.add(form)
        for form in removed:
            summary.remove(form)
        child.interest = interest

    def _alive(self, message: ChildHeartbeat, sender: Address) -> None:
        child = self._children.get(sender)
        if child is not None and child.link == message.link:
            child.heard = self.tree.node.now
        elif child is None or child.link < message.link:
            self.tree.node.send(sender, UnknownChild(message.link))

    def _parted(self, message: DetachNotice, sender: Address) -> None:
        child = self._children.get(sender)
        if child is not None and child.link <= message.link:
            self._drop(sender)

    def _drop(self, address: Address) -> None:
        self._count(self._children.pop(address), Interest())
        self._routes.drop(address)
        self.tree.asking.reconsider()
        self.part_when_alone()

    # What they are granted.

    def restart(self) -> None:
        """A new epoch has come: nothing is granted."""
        for child in self._children.values():
            child.start, child.granted = None, -1

    def grant_all(self) -> None:
        for address, child in self._children.items():
            self._grant(address, child)

    def _grant(self, address: Address, child: Child, *, again: bool = False) -> None:
        """Grant a child its interest if everything above does."""
        tree, reign = self.tree, self.tree.reign
        if reign is None or not (tree.is_root or child.needs <= tree.asking.granted):
            return
        if child.granted >= child.version and not again:
            return
        position = tree.stream.position
        since = position if tree.is_root else max(position, tree.asking.since)
        if child.start is None:
            child.start = child.last = since
        child.granted = child.version
        epoch = tree.stream.epoch
        tree.post(
            address, InterestGrant(child.link, child.version, epoch, child.start, since, reign, tree.parent)
        )

    # What they are sent.

    def forward(self, number: int, event: Event) -> None:
        """Send an event to those who asked for it."""
        epoch = self.tree.stream.epoch
        for address in self._routes.wanted(event):
            child = self._children[address]
            if child.start is not None and number > child.last:
                self.tree.node.send(address, ForwardedEvent(child.link, epoch, child.last, number, event))
                child.last = number
