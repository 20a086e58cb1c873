"""The root of a tree: numbers the events, decides who may be whose child, and hands its role over.

Rules:

- An event is numbered once: its id is remembered.
- Only those who believe in this root are answered; the others are told of it.
- A root that leaves makes a child the root (`RootHandover`) and tells it everything: numbers go on.
- A root that hears of a later one is an ordinary node from then on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from distributary.overlay.node import Address
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.messages import (
    ChildTimeout,
    ParentConfirmation,
    ParentDenial,
    ParentGrant,
    ParentOffers,
    ParentRequest,
    PublishRequest,
    RootAnnouncement,
    RootHandover,
    RootTerm,
    TreeDeparture,
)
from distributary.overlay.tree.registry import ParentRegistry
from distributary.overlay.tree.stream import EventLog

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode

EVERYTHING = Interest(((),))


class Rootship:
    """What a node does if it is the root, and passes on if it is not."""

    def __init__(self, tree: TreeNode, on_crowned: Callable[[Address], None] | None) -> None:
        self.tree = tree
        self.registry: ParentRegistry | None = None
        """At the root only."""
        self.on_taken: Callable[[Address], None] | None = None
        """Called with a node that has changed its parent."""
        self._estranged: set[Address] = set()
        """At the root: children that fell silent, who may have found another root."""
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._on_crowned = on_crowned
        handle = tree.node.handle
        handle(PublishRequest, self._published)
        handle(ParentRequest, self._parent_wanted)
        handle(ParentConfirmation, self._parent_taken)
        handle(ChildTimeout, self._child_missed)
        handle(TreeDeparture, self._left)
        handle(RootHandover, self._crowned)

    def begin(self) -> None:
        """Be the root, with an empty register."""
        self.registry = ParentRegistry(self.tree.address, self.tree.shape.fanout, self.tree.random)

    def announce(self) -> None:
        """Remind those who fell silent that this is the root."""
        for address in sorted(self._estranged):
            if self.tree.reign is not None:
                self.tree.node.send(address, RootAnnouncement(self.tree.reign))

    def miss(self, address: Address) -> None:
        """A child has fallen silent."""
        self._estranged.add(address)

    def forgive(self) -> None:
        """This node is not the root: nobody is estranged from it."""
        self._estranged.clear()

    # What others ask of the root.

    def _published(self, message: PublishRequest, sender: Address) -> None:
        if self.registry is None:
            self.tree.belief.send_on(message)
            return
        event = message.event
        if event.id in self._ids:
            return
        self._ids[event.id] = None
        if len(self._ids) > self.tree.shape.remembered:
            self._ids.popitem(last=False)
        self.tree.events.take(self.tree.stream.position + 1, event)

    def _parent_wanted(self, message: ParentRequest, sender: Address) -> None:
        reign = self.tree.reign
        if self.registry is None or reign is None:
            self.tree.belief.send_on(message)
            return
        node, stamp = message.node, message.stamp
        if node == self.tree.address:
            return
        if message.reign != reign:
            if message.reign is not None:
                self.tree.belief.believe(message.reign)
                reign = self.tree.reign or reign
            self.tree.post(node, RootAnnouncement(reign))
            return
        if message.offers:
            self._offer(message, reign)
            return
        answer = self.registry.request(
            node, stamp, message.current, message.wanted, message.avoid, message.link
        )
        if answer is None:
            return
        if answer.parent is None:
            self.tree.post(node, ParentDenial(stamp, answer.reason, reign))
        else:
            self.tree.post(node, ParentGrant(stamp, answer.parent, reign))

    def _offer(self, message: ParentRequest, reign: RootTerm) -> None:
        if self.registry is None:
            return
        node, stamp, _, current, _, avoid, link, _, most = message
        parents = self.registry.offers(node, stamp, current, avoid, link, most)
        if parents is not None:
            self.tree.post(node, ParentOffers(stamp, parents, reign))

    def _parent_taken(self, message: ParentConfirmation, sender: Address) -> None:
        if self.registry is not None:
            self.registry.taken(message.node, message.stamp)
            self._estranged.discard(message.node)
            if self.on_taken is not None:
                self.on_taken(message.node)

    def _child_missed(self, message: ChildTimeout, sender: Address) -> None:
        if self.registry is not None:
            self.registry.missed(message.node, message.by, message.link)

    def _left(self, message: TreeDeparture, sender: Address) -> None:
        if self.registry is not None:
            self.registry.left(message.node)
            self._estranged.discard(message.node)

    # Handing the role over.

    def abdicate(self) -> None:
        """Make a child the root; without children there is nobody to take over, nor anybody to miss it."""
        tree, reign, heir = self.tree, self.tree.reign, self.tree.downward.heir
        if self.registry is None or reign is None or heir is None:
            return
        later = tree.belief.reign = RootTerm(reign.epoch, reign.number + 1, heir)
        stream, known = tree.stream, self.registry.known
        tree.post(heir, RootHandover(later, stream.position, stream.all_after(0), known, tuple(self._ids)))
        self.registry = None
        tree.belief.proclaim()

    def _crowned(self, message: RootHandover, sender: Address) -> None:
        tree = self.tree
        if tree.is_root or (tree.reign is not None and message.reign < tree.reign):
            return
        tree.belief.reign = message.reign
        tree.upward.abandon()
        if tree.stream.epoch != message.reign.epoch:
            tree.stream.begin(message.reign.epoch, message.position)
            tree.downward.restart()
        tree.upward.unlink()
        tree.events.forget_early()
        before, tree.events.stream = tree.stream, EventLog(tree.shape.room)
        tree.stream.begin(before.epoch, 0)
        tree.stream.ask(EVERYTHING, 0)
        for number, event in message.events:
            if number <= before.position:
                tree.stream.take(number, event)
            else:
                tree.events.take(number, event)
        tree.stream.skip_to(max(message.position, before.position))
        self._ids = OrderedDict.fromkeys(message.ids)
        self._rule(message)

    def ascend(self) -> None:
        """Become the root, in an epoch of one's own."""
        self.tree.stream.begin(self.tree.node.now, 0)
        self.tree.stream.ask(EVERYTHING, 0)
        self.tree.downward.restart()
        self._rule(None)

    def _rule(self, handed_over: RootHandover | None) -> None:
        self.begin()
        if self.registry is not None and handed_over is not None:
            self.registry.learn(handed_over.known)
        self.tree.downward.grant_all()
        self.tree.belief.proclaim()
        if self._on_crowned is not None:
            self._on_crowned(self.tree.address)

    def step_down(self) -> None:
        """There is a later root: be an ordinary node, which needs a parent."""
        self.registry = None
        self.tree.asking.nothing_granted()
        self.tree.asking.reconsider()
        self.tree.upward.seek(None)
