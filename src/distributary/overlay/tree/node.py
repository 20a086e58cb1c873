"""A node of a dissemination tree: the parts put together, and which part handles which message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from distributary.errors import DistributaryError
from distributary.model import Event, EventIdentity, Offset
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.tree import messages
from distributary.overlay.tree.children import Children
from distributary.overlay.tree.event_log import EventLog, NumberedRun
from distributary.overlay.tree.events import EventReception, LowerParts
from distributary.overlay.tree.interest import Form, Interest
from distributary.overlay.tree.link import ParentLink
from distributary.overlay.tree.outbox import EntryOutbox
from distributary.overlay.tree.parent import ParentProtocol
from distributary.overlay.tree.probing import ProbeResults, TreeProber
from distributary.overlay.tree.replay import LogReader
from distributary.overlay.tree.root import RootRole
from distributary.overlay.tree.root_contact import RootContact
from distributary.overlay.tree.routes import Routes, ScannedRoutes
from distributary.overlay.tree.standby import ROLE
from distributary.overlay.tree.state import TreeSettings, TreeState
from distributary.overlay.tree.succession import EVERYTHING, RootSuccession
from distributary.overlay.tree.upstream import UpstreamInterest

Handler = Callable[[Any, Address], None]


class TreeNode:
    """A node of a tree.

    tree = TreeNode(node, TreeSettings(heartbeat=1.0), contacts=[3], courier=Courier(node))  # joins by itself
    tree.on_events(home.offer_all)
    tree.want(form_of(Profile.of(subscription)))
    tree.publish(event)
    tree.change_parent(12)
    """

    def __init__(
        self,
        node: Node,
        settings: TreeSettings | None = None,
        *,
        is_root: bool = False,
        contacts: Iterable[Address] = (),
        courier: Courier | None = None,
        seed: int = 0,
        routes: Routes | None = None,
        on_elected: Callable[[Address], None] | None = None,
    ) -> None:
        self.node = node
        self.address = node.address
        self.settings = settings or TreeSettings()
        self.random = Random(f"{seed}/{self.address}")
        self.post = node.send if courier is None else courier.send
        """Sends what must not get lost."""
        self.link = ParentLink()
        self.log = EventLog(self.settings.room, self.settings.room_bytes)
        self.root = RootContact(node, self.post)
        self.prober = TreeProber(node)
        state = TreeState(node, self.post, self.settings, self.random, self.root, self.link, self.log)
        self.upstream = UpstreamInterest(state)
        self._children = Children(state, self.upstream, routes or ScannedRoutes())
        self._events = EventReception(state, self.upstream, self._children)
        parts = LowerParts(state, self.upstream, self._children, self._events)
        self._parent = ParentProtocol(parts, self.prober, contacts)
        self.outbox = EntryOutbox(state)
        self.reader = LogReader(state)
        self._succession = RootSuccession(parts, self._parent, self.outbox, on_elected)
        self._role = RootRole(state, self._succession.learn)
        self._leftovers: tuple[str, ...] = ()
        self._last_heartbeat = 0.0
        if courier is not None:
            courier.on_failure(self.root.undeliverable)
        if is_root:
            self._succession.begin()
        self._register()

    def _register(self) -> None:
        """Say which part handles which message, and what is done first with the term that it carries."""
        parent, children, role, succession = self._parent, self._children, self._role, self._succession
        compare = succession.compare
        handlers: dict[type, Handler] = {
            # To the root.
            messages.PublishRequest: succession.intake.publish,
            messages.Publication: succession.intake.take,
            messages.LogRequest: self.reader.serve,
            messages.CopyReceipt: succession.log_received,
            messages.ParentRequest: role.request_parent,
            messages.ParentConfirmation: role.parent_confirmed,
            messages.ChildTimeout: role.child_timed_out,
            messages.TreeDeparture: role.departed,
            messages.PlaceWait: role.place_awaited,
            # From the root.
            messages.PublicationReceipt: self.outbox.received,
            messages.LogReply: self.reader.take,
            messages.LogCopies: self._after(compare, succession.standby_log.receive),
            messages.ParentGrant: self._after(compare, parent.granted),
            messages.ParentOffers: self._after(compare, parent.offered),
            messages.ParentDenial: self._after(succession.learn, parent.denied),
            messages.RoomNotice: parent.room_noticed,
            messages.RootHandover: succession.take_over,
            messages.RootDeparture: succession.root_departed,
            # About the root.
            messages.RootAnnouncement: lambda message, sender: compare(message.term, sender),
            messages.RootTimeout: self._after(compare, succession.root_timed_out),
            # From a child.
            messages.AttachRequest: children.attach,
            messages.InterestChange: children.change_interest,
            messages.ChildHeartbeat: children.heartbeat,
            messages.DetachNotice: self._child_detached,
            # From a parent.
            messages.InterestGrant: self._after(succession.learn, parent.interest_granted),
            messages.ForwardedEvents: parent.forwarded,
            messages.Heartbeat: self._after(compare, self._parent_heartbeat),
            messages.AttachDenial: parent.attach_denied,
            messages.UnknownChild: parent.unknown,
            messages.ParentRedirect: parent.redirected,
            # Fetching missing events.
            messages.EventFetch: self._events.serve_fetch,
            messages.EventFetchReply: parent.fetched,
        }
        for kind, handler in handlers.items():
            self.node.handle(kind, handler)
        self.node.at_alarm("tree heartbeat", self._each_heartbeat)
        self.node.at_start(self._begin)

    @staticmethod
    def _after(first: Callable[[messages.RootTerm, Address], None], handler: Handler) -> Handler:
        """A handler before which the term of the message is learnt, or compared."""

        def handle(message: Any, sender: Address) -> None:
            first(message.term, sender)
            handler(message, sender)

        return handle

    # What its clients call.

    def on_events(self, listener: Callable[[NumberedRun], None]) -> None:
        """Have this called with all events that come here, each once and in the order of the root.

        Events that come together are given together, with their numbers.
        """
        self._events.listeners.append(listener)

    def on_move(self, listener: Callable[[Address], None]) -> None:
        """Have this called, while this node is the root, with every node that has changed its parent."""
        self._role.move_listeners.append(listener)

    def choose_parent_by(
        self, choose: Callable[[ProbeResults], Address | None], *, strict: bool = False
    ) -> None:
        """Have this choose among the parents on offer, when this node comes or has lost its own.

        If `strict`, it takes no other, and waits while `choose` finds none that will do.
        """
        self._parent.choose_by(choose, strict=strict)

    def admit_children_by(self, admit: Callable[[Address], bool]) -> None:
        """Have this decide whether a node that chose this one for its parent may have it."""
        self._children.admit = admit

    def want(self, form: Form) -> None:
        """A client of this node asks for what matches a profile; equal profiles are counted."""
        self.upstream.count((form,), ())
        self.upstream.update()

    def unwant(self, form: Form) -> None:
        """A client of this node gives a profile up."""
        self.upstream.count((), (form,))
        self.upstream.update()

    def publish(self, *events: Event) -> int | None:
        """Have events go to all who asked for them, in this order.

        Where nodes may fail, they are acknowledged when they are on the disks of two nodes, or of the only
        one: the number that is returned says up to where.
        """
        return self.publish_all(events)

    def publish_all(self, events: Sequence[Event]) -> int | None:
        """As `publish`; events that came packed stay so."""
        if self.settings.heartbeat is not None:
            return self.outbox.publish(events)
        for event in events:
            self.root.send(messages.PublishRequest(event))
        return None

    def publish_at_once(self, events: Sequence[Event]) -> bool:
        """Publish events at a root that is alone, and whose driver has no disk; whether that was done."""
        return self.is_alone and self._succession.intake.take_at_once(events)

    def has_numbered(self, identity: EventIdentity) -> bool:
        """Whether this node, as the root, has numbered an event, as far as it remembers."""
        return self._succession.intake.has_numbered(identity)

    @property
    def is_alone(self) -> bool:
        """Whether this node is the root, has no other node to tell, and waits for nothing."""
        alone = self._succession.replicated.is_alone and self.root.is_root
        return alone and self.settings.heartbeat is not None and not self.outbox.waits

    def read_log(self, interest: Interest, place: Offset, take: Callable[[messages.LogReply], None]) -> None:
        """Have `take` called with the parts of the root's log after a place that match an interest."""
        self.reader.read(interest, place, take)

    def change_parent(self, new: Address | None) -> None:
        """Go to another parent, to any with None, as soon as the root allows it.

        Events are neither lost nor repeated. A change that is under way is given up for this one. If the
        root denies it, nothing changes.
        """
        if self.is_root:
            raise DistributaryError(f"node {self.address} is the root, which has no parent to change")
        if new == self.address:
            raise DistributaryError(f"node {self.address} cannot be its own parent")
        if not self.leaving and (new is None or new != self.parent):
            self._parent.seek(new)

    def suspect(self, address: Address) -> None:
        """Take a neighbour for silent that no message can reach, as its process is gone.

        What follows is decided as after any silence: children of the root that has gone elect another as soon
        as more than half of them say so.
        """
        if self.settings.heartbeat is None:
            return
        # Not so long that others would not wait for the standby (`RootSuccession.check_root`).
        silent = self.node.now - 1.25 * self.settings.election * self.settings.heartbeat
        if address == self.parent and not self.leaving:
            self.link.heard = min(self.link.heard, silent)
            self._succession.suspect_root(address, silent)
        self._children.suspect(address)

    def leave(self) -> None:
        """Send the children elsewhere, a root also its role; stay for what is under way, then go (`left`).

        A root that has children and no standby stays: ask again later.
        """
        if self.leaving:  # it may have come to a parent that it had asked for
            self._detach_when_alone()
            return
        if not self.is_root:
            self.root.send(messages.TreeDeparture(self.address))
        elif self.settings.heartbeat is None:
            self._succession.hand_over()
        elif self.children and not self._succession.depart():
            return
        self._children.leave()
        self._detach_when_alone()

    @property
    def left(self) -> bool:
        """Whether this node has left the tree: nobody is below it, or above it."""
        return self.leaving and not self.children and self.parent is None

    # What can be seen of it.

    @property
    def is_root(self) -> bool:
        """Whether this node is the root."""
        return self.root.is_root

    @property
    def standby(self) -> Address | None:
        """At the root: the child that has a copy of its log."""
        return self._succession.replicated.standby

    @property
    def is_standby(self) -> bool:
        """Whether this node has a copy of the root's log."""
        return self._succession.standby_log.term is not None

    @property
    def recovering(self) -> bool:
        """Whether this node was the root when it stopped, and does not know yet whether it still is."""
        return self._succession.recovering

    @property
    def leaving(self) -> bool:
        """Whether this node is about to leave."""
        return self._children.leaving

    @property
    def parent(self) -> Address | None:
        """The parent, or the one that was lost last."""
        return self.link.parent

    @property
    def waiting(self) -> str:
        """Why this node has no parent and waits for one; empty if it does not wait."""
        return self._parent.waiting

    @property
    def children(self) -> tuple[Address, ...]:
        """Who has this node for a parent, or is about to."""
        return self._children.addresses

    @property
    def at_rest(self) -> bool:
        """Whether nothing is on its way: attached, granted, nothing missing."""
        attached = self.link.attached and self.link.change is None
        granted = self.upstream.granted == self.upstream.version
        return self.is_root or (attached and granted and self._events.complete)

    # Life.

    def attach(self, parent: TreeNode) -> None:
        """Make a child of a node before either starts, without messages; see `topology.settle`."""
        self._parent.place(parent.address, parent.parent)
        parent._children.place(self.address)

    def settle(self, term: messages.RootTerm) -> None:
        """Know the root from the start, without messages; the parent's grant of nothing included."""
        self.root.term = self._parent.granted_in = term
        self.upstream.granted = 0
        self.log.begin(term.epoch, 0)
        if self.is_root:
            self.log.ask(EVERYTHING, 0)

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Before the start: take up the log of a root or of a standby that was on this node's disk."""
        role = stored.get(ROLE)
        kept: set[str] = set()
        if isinstance(role, messages.RoleRecord):
            self.root.registry = None
            kept = {ROLE, *self._succession.restore(role, stored)}
        self._leftovers = tuple(name for name in stored if name not in kept)

    def _begin(self) -> None:
        self.link.heard = self._last_heartbeat = self.node.now
        self.outbox.begin()
        self._children.begin()
        for name in self._leftovers:
            self.node.store(name, None)
        self._leftovers = ()
        if self.is_root and self.root.term is None:
            self.settle(messages.RootTerm(self.node.now, 0, self.address))
        if self.recovering:
            self._succession.start_recovery()
        elif self.is_root and self.settings.heartbeat is not None:
            self._succession.replicated.begin_term(after_another=False)
        if not self.is_root and self.parent is None and not self.leaving and not self.recovering:
            self._parent.seek(None)
        if self.settings.heartbeat is not None:
            self.node.wake_after(self.settings.heartbeat * self.random.random(), "tree heartbeat")

    def _each_heartbeat(self, about: object) -> None:
        interval = self.settings.heartbeat
        if interval is None:
            return
        self.node.wake_after(interval, "tree heartbeat")
        self._excuse_pause(interval)
        standby = self._succession.replicated.named if self.is_root else None
        self._children.send_heartbeats(self.settings.silence * 2 * interval, standby, self._child_failed)
        self.root.send_waiting()
        self.outbox.send_again(2 * interval)
        self.reader.ask_again(2 * interval)
        self._role.remind(self._succession.estranged)
        self._succession.look_after(interval)
        if self.recovering:
            return
        if not self.is_root or self.root.term is None:
            self._parent.send_heartbeat(interval)
            if not self.leaving:
                self._succession.check_root(interval)
            if not self.leaving and not self.is_root:  # the election may just have made it the root
                self._parent.check(interval)

    def _excuse_pause(self, interval: float) -> None:
        """After a time in which this node itself stood still, take nobody for silent."""
        before, self._last_heartbeat = self._last_heartbeat, self.node.now
        paused = self.node.now - before - interval
        if paused > interval:
            self.link.heard += paused
            self._children.excuse(paused)

    def _parent_heartbeat(self, message: messages.Heartbeat, sender: Address) -> None:
        self._parent.heartbeat(message, sender)
        # While a new epoch is proposed to this node, the root's heartbeats are of the one before.
        if sender == self.parent and message.term == self.root.term:
            self._succession.standby_log.drop_older(message.term)
            if message.root_children:
                self._succession.standby_named(message.standby)

    def _child_failed(self, address: Address, link: int) -> None:
        self._succession.replicated.child_gone(address)
        self._detach_when_alone()
        self._role.child_failed(address, link)

    def _child_detached(self, message: messages.DetachNotice, sender: Address) -> None:
        if self._children.detach(message, sender):
            self._succession.replicated.child_gone(sender)
            self._detach_when_alone()

    def _detach_when_alone(self) -> None:
        """Leave the parent when this node leaves the tree and its last child has gone."""
        if self.leaving and not self.children:
            self._parent.detach()
