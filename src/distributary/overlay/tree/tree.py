"""A dissemination tree: events go from the root to whoever asked for them, and nodes change their parents
while they do, without losing or repeating one (003, sections 3.1 and 4.5).

A node is made of parts, each with its rules in a module of its own:

- `tree_upward`: the link to the parent, and how it changes; `tree_asking`: what is asked of the parent, and
  granted by it; `tree_probing`: how far others are, for a node that chooses its parent.
- `tree_downward`: the children, what they ask for and are sent; `tree_events`: the events that come, each
  once and in order, and how missing ones are fetched.
- `tree_belief`: who is the root; `tree_root`: what the root does; `tree_succession`: how it is replaced;
  `tree_registry`: why there are never loops.

Whoever publishes sends the event to the root, which numbers it. A node passes it on to those of its children
whose interest it matches. Without `beat` a node sends nothing of its own accord: it finds no failures and
relies on messages arriving.

Cost: an event costs one message for each child that must have it. A change of parent costs six, two more if
something is fetched, and two for each node above whose interest it changes: 15 in all in a tree of 30 nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.tree.asking import Asking
from distributary.overlay.tree.belief import Belief
from distributary.overlay.tree.downward import Downward
from distributary.overlay.tree.events import Events
from distributary.overlay.tree.interest import Form, Interest
from distributary.overlay.tree.messages import PublishRequest, RootTerm, TreeDeparture
from distributary.overlay.tree.probing import Prober, ProbeResults
from distributary.overlay.tree.registry import ParentRegistry
from distributary.overlay.tree.root import EVERYTHING, Rootship
from distributary.overlay.tree.routes import Routes, ScannedRoutes
from distributary.overlay.tree.stream import EventLog
from distributary.overlay.tree.succession import Succession
from distributary.overlay.tree.upward import Upward


@dataclass(frozen=True)
class TreeSettings:
    """What all nodes of a tree share."""

    fanout: int | None = 8
    """How many children a node may have."""
    most_profiles: int = 64
    """How many profiles tell an interest; more are merged."""
    room: int = 10_000
    """How many events a node keeps, to send them again."""
    remembered: int = 100_000
    """How many ids of events the root remembers, to number none twice."""
    beat: float | None = None
    """Seconds between signs of life; None for a tree in which nothing fails."""
    silence: float = 3.5
    """After so many beats without a sign a node is taken for gone."""
    succession: float = 20.0
    """After so many beats without a sign of the root its children choose another."""
    patience: float = 8.0
    """After so many beats a change of parent that has not come about is tried otherwise."""
    offers: int = 64
    """How many parents a node that chooses its own is offered."""
    probe_wait: float = 2.0
    """Seconds until those who have not answered a probe are left out."""


class TreeNode:
    """A node of a tree.

    tree = TreeNode(Node(7), TreeSettings(beat=1.0), contacts=[3], courier=Courier(node))   # joins by itself
    tree.on_event(home.offer)
    tree.want(form_of(Profile.of(subscription)))
    tree.publish(event)
    tree.change_parent(12)
    """

    def __init__(
        self,
        node: Node,
        shape: TreeSettings | None = None,
        *,
        is_root: bool = False,
        contacts: Iterable[Address] = (),
        courier: Courier | None = None,
        seed: int = 0,
        routes: Routes | None = None,
        on_crowned: Callable[[Address], None] | None = None,
    ) -> None:
        self.node = node
        self.address = node.address
        self.shape = shape or TreeSettings()
        self.contacts = tuple(contacts)
        self.leaving = False
        self.random = Random(f"{seed}/{self.address}")
        self.post: Callable[[Address, Message], None] = courier.send if courier is not None else node.send
        """Sends what must not get lost."""
        self.choose_parent: Callable[[ProbeResults], Address] | None = None
        """The best of some parents on offer, for a node that comes or has lost its own; None for any."""
        self.belief = Belief(self)
        self.rootship = Rootship(self, on_crowned)
        self.succession = Succession(self)
        self.upward = Upward(self)
        self.asking = Asking(self)
        self.downward = Downward(self, ScannedRoutes() if routes is None else routes)
        self.events = Events(self)
        self.probing = Prober(self)
        if courier is not None:
            courier.on_failure(self.belief.given_up)
        if is_root:
            self.rootship.begin()
        node.at_alarm("tree beat", self._tick)
        node.at_start(self._begin)

    # What its clients call.

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Have this called with every event that comes here, each once and in the order of the root."""
        self.events.listen(listener)

    def want(self, form: Form) -> None:
        """A client of this node asks for what matches a profile; equal profiles are counted."""
        self.asking.summary.add(form)
        self.asking.reconsider()

    def unwant(self, form: Form) -> None:
        """A client of this node gives a profile up."""
        self.asking.summary.remove(form)
        self.asking.reconsider()

    def publish(self, event: Event) -> None:
        """Have an event go to all who asked for it."""
        self.belief.to_root(PublishRequest(event))

    def change_parent(self, new: Address) -> None:
        """Go to another parent as soon as the root allows it; events are neither lost nor repeated.

        A change that is on its way is given up for this one. A refusal is counted, and nothing changes.
        """
        if self.is_root:
            raise DistributaryError(f"node {self.address} is the root, which has no parent to change")
        if new == self.address:
            raise DistributaryError(f"node {self.address} cannot be its own parent")
        if not self.leaving and new != self.parent:
            self.upward.seek(new)

    def leave(self) -> None:
        """Send the children elsewhere, a root also its role; stay for what is under way, then part."""
        self.leaving = True
        if self.is_root:
            self.rootship.abdicate()
        else:
            self.belief.to_root(TreeDeparture(self.address))
        self.downward.send_away()

    # What can be seen of it.

    @property
    def is_root(self) -> bool:
        return self.rootship.registry is not None

    @property
    def registry(self) -> ParentRegistry | None:
        """At the root only."""
        return self.rootship.registry

    @property
    def reign(self) -> RootTerm | None:
        return self.belief.reign

    @property
    def parent(self) -> Address | None:
        return self.upward.parent

    @property
    def link(self) -> int:
        """The stamp of the link to the parent."""
        return self.upward.link

    @property
    def children(self) -> tuple[Address, ...]:
        """Who has this node for a parent, or is about to."""
        return self.downward.addresses

    @property
    def interest(self) -> Interest:
        """What this node asks of its parent."""
        return self.asking.interest

    @property
    def version(self) -> int:
        return self.asking.version

    @property
    def stream(self) -> EventLog:
        return self.events.stream

    @property
    def moves(self) -> int:
        """Changes of parent that have come about."""
        return self.upward.moves

    @property
    def refusals(self) -> int:
        return self.upward.refusals

    @property
    def missing(self) -> int:
        """How often something asked for had been forgotten everywhere, for want of room or of a root."""
        return self.events.missing

    @property
    def at_rest(self) -> bool:
        """Whether nothing is on its way: attached, granted, nothing missing."""
        if self.is_root:
            return True
        attached = self.upward.linked and self.upward.move is None and self.asking.granted == self.version
        return attached and self.events.complete

    # Life.

    def attach(self, parent: TreeNode) -> None:
        """Make a child of a node before either starts, without messages; see `tree_shape.settle`."""
        self.upward.place(parent.address, parent.parent)
        parent.downward.place(self.address)

    def settle(self, reign: RootTerm) -> None:
        """Believe in a root from the start, without messages; the parent's grant of nothing included."""
        self.belief.reign = reign
        self.upward.settled(reign)
        self.asking.settled()
        self.stream.begin(reign.epoch, 0)
        if self.is_root:
            self.stream.ask(EVERYTHING, 0)

    def _begin(self) -> None:
        self.upward.heard = self.node.now
        self.downward.begin()
        if self.is_root and self.reign is None:
            self.settle(RootTerm(self.node.now, 0, self.address))
        elif not self.is_root and self.parent is None and not self.leaving:
            self.upward.seek(None)
        if self.shape.beat is not None:
            self.node.wake_after(self.shape.beat * self.random.random(), "tree beat")

    def _tick(self, about: object) -> None:
        beat = self.shape.beat
        if beat is None:
            return
        self.node.wake_after(beat, "tree beat")
        self.downward.beat(self.shape.silence * 2 * beat)
        self.belief.send_unsent()
        if self.reign is not None and self.is_root:
            self.rootship.announce()
        else:
            self.rootship.forgive()
            self.upward.watch(beat)
