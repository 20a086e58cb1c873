"""A node's link to its parent in a tree, and how it changes.

Rules:

- A node that changes its parent asks the root, which forbids loops and too many children, then its new
  parent, and stays with the old one until the new one has granted its interest and the old one's events have
  reached to where the new one's begin. Then it parts from the old one.
- A node whose parent has fallen silent does the same, first with its grandparent, and fetches the difference.
- A node that needs a parent, whichever, takes the one that the root gives it by chance, or one it chooses
  itself (`TreeNode.choose_parent`): the root offers some that have room, the node probes them, and
  asks for one.
- Each link has the stamp of the request by which it came about. What belongs to another link is not heard.
- Only the root that a node believes in may allow it anything. A new root is told of the place one has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from distributary.overlay.node import Address
from distributary.overlay.tree.messages import (
    ChildHeartbeat,
    DetachNotice,
    ForwardedEvent,
    InterestGrant,
    ParentConfirmation,
    ParentDenial,
    ParentGrant,
    ParentOffers,
    ParentRedirect,
    ParentRequest,
    RootTerm,
    UnknownChild,
)
from distributary.overlay.tree.probing import ProbeResults

if TYPE_CHECKING:
    from distributary.overlay.tree.tree import TreeNode

MOST_TRIES = 4
"""How often a node asks a new root to let it stay where it is; then it asks for any place."""


@dataclass
class Move:
    """A change of parent on its way."""

    stamp: int
    wanted: Address | None
    since: float
    must: bool
    """Whether the old parent is gone, or about to go."""
    to: Address | None = None
    """The new parent, once the root has allowed it."""
    chosen: bool = False
    """Whether the node chose it among those on offer."""
    granted: InterestGrant | None = None
    early: dict[int, ForwardedEvent] = field(default_factory=dict)


class Upward:
    """The link to the parent."""

    def __init__(self, tree: TreeNode) -> None:
        self.tree = tree
        self.parent: Address | None = None
        self.link = 0
        """The stamp of the link to the parent."""
        self.above: Address | None = None
        """The parent's parent, as last heard."""
        self.linked = False
        """Whether the parent is known to have this node as a child."""
        self.heard = 0.0
        self.move: Move | None = None
        self.moves = 0
        """Changes of parent that have come about."""
        self.refusals = 0
        self._stamp = 0
        self._allowed_by: RootTerm | None = None
        """The root that has allowed this node its place: a new one must be told of it."""
        self._tries = 0
        self._choosing = True
        """Whether to ask for offers: not when the one chosen from the last ones was refused."""
        handle = tree.node.handle
        handle(ParentGrant, self._parent_allowed)
        handle(ParentDenial, self._parent_refused)
        handle(ParentOffers, self._parents_offered)
        handle(UnknownChild, self._stranger)
        handle(ParentRedirect, self._farewell)

    def place(self, parent: Address, above: Address | None) -> None:
        """Have this parent from the start, without messages."""
        self.parent, self.link, self.linked = parent, 1, True
        self._stamp = 1
        self.above = above

    def settled(self, reign: RootTerm) -> None:
        self._allowed_by = reign

    def unlink(self) -> None:
        """Have no parent any more: this node is the root."""
        self.parent, self.link, self.linked = None, 0, False

    def part(self) -> None:
        """Go, if there is a parent to go from."""
        if self.parent is not None:
            self.abandon()
            self.tree.post(self.parent, DetachNotice(self.link))
            self.parent, self.linked = None, False

    def hears(self, sender: Address, link: int) -> bool:
        """Whether a message belongs to the link to the parent."""
        return sender == self.parent and link == self.link

    def awaits(self, sender: Address, link: int) -> bool:
        """Whether a message belongs to the link that is to come."""
        return self.move is not None and (sender, link) == (self.move.to, self.move.stamp)

    # With every beat.

    def watch(self, beat: float) -> None:
        """Give a sign of life, and see whether the parent does."""
        tree, now = self.tree, self.tree.node.now
        if self.parent is not None:
            tree.node.send(self.parent, ChildHeartbeat(self.link))
        tree.events.fetch_again(2 * beat)
        if tree.leaving:
            return
        silent = not self.linked or now - self.heard > tree.shape.silence * beat
        tree.succession.watch(beat)
        if tree.is_root:  # since a moment ago
            return
        if self.move is not None:
            self._hurry(self.move, beat, silent)
        elif silent:
            self.linked = False
            self.seek(self.above if tree.choose_parent is None else None)
        elif tree.asking.is_late(2 * beat):
            tree.asking.tell_again()
        elif self._allowed_by != tree.reign:
            self.seek(self.parent if self._tries < MOST_TRIES else None)

    def _hurry(self, move: Move, beat: float, silent: bool) -> None:
        """See to it that a change of parent comes about, or something else does."""
        waited = self.tree.node.now - move.since
        if move.granted is not None and waited > beat:
            self._switch(move)
        elif waited > self.tree.shape.patience * beat:
            self.seek(None if silent else self.parent)
        elif move.to is not None and waited > 2 * beat:
            self.tree.post(move.to, self.tree.asking.adopted(move.stamp))

    # Changing.

    def seek(self, wanted: Address | None, *, must: bool = False) -> None:
        """Ask the root for a parent; for any, if that is refused and the old one goes or is gone."""
        tree = self.tree
        avoid = () if self.linked or self.parent is None else (self.parent,)
        self.abandon()
        self._stamp = max(self._stamp + 1, int(tree.node.now * 1_000_000))
        if wanted == tree.address:
            wanted = None
        self.move = Move(self._stamp, wanted, tree.node.now, must or not self.linked)
        link = self.link if self.linked else 0
        choosing = wanted is None and self._choosing and tree.choose_parent is not None
        offers = tree.shape.offers if choosing else 0
        message = ParentRequest(
            tree.address, self._stamp, tree.reign, self.parent, wanted, avoid, link, offers=offers
        )
        root = tree.belief.root
        others = (*(() if root is None else (root,)), *tree.succession.heirs, *tree.contacts)
        helpers = [one for one in dict.fromkeys(others) if one != tree.address]
        if helpers:
            to = helpers[0 if self.linked else self._tries % len(helpers)]
            self._tries += 1
            tree.post(to, message)

    def ask_again(self) -> None:
        """There is another root: ask that one for what was asked for."""
        if self.move is not None:
            self.seek(self.move.wanted, must=self.move.must)

    def abandon(self) -> None:
        """Give up a change of parent that is on its way."""
        move, self.move = self.move, None
        if move is not None and move.to is not None:
            self.tree.post(move.to, DetachNotice(move.stamp))

    def _parent_refused(self, message: ParentDenial, sender: Address) -> None:
        self.tree.belief.believe(message.reign)
        move = self.move
        if move is None or move.stamp != message.stamp:
            return
        self.refusals += 1
        self.move = None
        if move.must and move.wanted is not None:
            self._choosing = not move.chosen
            self.seek(None, must=True)
            self._choosing = True

    def _parents_offered(self, message: ParentOffers, sender: Address) -> None:
        """Probe those on offer, and ask for the best; for any, when none of them answers."""
        self.tree.belief.hear_of(message.reign, sender)
        move = self.move
        if move is None or move.stamp != message.stamp or message.reign != self.tree.reign:
            return
        self.tree.probing.probe(
            message.parents, lambda answers: self._choose(message.stamp, answers), self.tree.shape.probe_wait
        )

    def _choose(self, stamp: int, answers: ProbeResults) -> None:
        choose, move = self.tree.choose_parent, self.move
        if choose is None or move is None or move.stamp != stamp:
            return
        best = choose(answers) if answers else None
        self._choosing = best is not None
        self.seek(best, must=True)
        self._choosing = True
        if self.move is not None:
            self.move.chosen = True

    def _parent_allowed(self, message: ParentGrant, sender: Address) -> None:
        self.tree.belief.hear_of(message.reign, sender)
        move = self.move
        if move is None or move.stamp != message.stamp or message.reign != self.tree.reign:
            return
        self._allowed_by, self._tries = message.reign, 0
        if message.parent == self.parent and self.linked:
            self.move = None
            return
        move.to = message.parent
        self.tree.post(move.to, self.tree.asking.adopted(move.stamp))

    def granted(self, message: InterestGrant) -> None:
        """The parent to come has granted the interest."""
        if self.move is not None:
            self.move.granted = message
            self.switch_when_reached()

    def switch_when_reached(self) -> None:
        """Change to the new parent once the old one's events have come to where the new one's begin."""
        move = self.move
        if move is None or move.granted is None:
            return
        stream, granted = self.tree.stream, move.granted
        reached = stream.position >= granted.since and stream.epoch == granted.epoch
        if reached or not self.linked or self.tree.shape.beat is None:
            self._switch(move)

    def _switch(self, move: Move) -> None:
        """The new parent serves from now on; what lies between is fetched."""
        tree, granted = self.tree, move.granted
        if granted is None:
            return
        old, old_link = self.parent, self.link
        self.move = None
        self.parent, self.link, self.above = move.to, move.stamp, granted.above
        self.linked, self.heard = True, tree.node.now
        tree.succession.heirs = ()
        tree.events.begin_link({n: each for n, each in move.early.items() if each.epoch == granted.epoch})
        tree.asking.nothing_granted()
        self.moves += 1
        if old is not None and old != self.parent:
            tree.post(old, DetachNotice(old_link))
        tree.belief.to_root(ParentConfirmation(tree.address, move.stamp))
        tree.asking.grant_holds(granted)
        tree.events.fetch_up_to(granted.since)
        tree.events.drain()

    def _stranger(self, message: UnknownChild, sender: Address) -> None:
        if self.hears(sender, message.link) and self.linked:
            self.linked = False
            self.seek(self.parent)

    def _farewell(self, message: ParentRedirect, sender: Address) -> None:
        if self.hears(sender, message.link) and not self.tree.is_root:
            self.seek(message.successor if self.tree.choose_parent is None else None, must=True)
