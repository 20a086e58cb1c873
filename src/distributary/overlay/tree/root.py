"""The root: numbers the events, decides who may be whose child, hands its role over, and is replaced.

Rules:

- An event is numbered once: its key is remembered.
- Only requests of the root's own term are answered; who knows another term is told of this one.
- Nodes that wait for a parent are told when somebody may have room: soon after a node has come, moved, left
  or fallen silent. Each is told once, and says so if it still waits. What the next root does not know of them
  they make up for by asking from time to time.
- A root that leaves makes a child the root (`RootHandover`) and tells it everything: numbers go on.
- A root that hears of a later term is an ordinary node from then on.
- The root tells its children of each other. When more than half of them have not heard of it for long, the
  one with the lowest address becomes the root. With a root of one child, that child decides alone.
- That begins a new epoch: numbers start again, and events that only the lost root had are lost.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable

from distributary.model import EventKey
from distributary.overlay.node import Address
from distributary.overlay.tree import messages
from distributary.overlay.tree.events import LowerParts
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.parent import ParentProtocol
from distributary.overlay.tree.registry import ParentRegistry
from distributary.overlay.tree.upstream import NOT_GRANTED

EVERYTHING = Interest(((),))
ROOM_DELAY = 2.0
"""Seconds after a change of the tree in which its nodes hear what it means for them."""


class RootRole:
    """What a node does if it is the root, and forwards if it is not; how it learns of and becomes one."""

    def __init__(
        self, parts: LowerParts, parent: ParentProtocol, on_elected: Callable[[Address], None] | None
    ) -> None:
        state, self._upstream, self._children, self._events = parts
        self._node, self._post = state.node, state.post
        self._settings, self._random = state.settings, state.random
        self._root, self._link, self._log = state.root, state.link, state.log
        self._parent, self._on_elected = parent, on_elected
        self.move_listeners: list[Callable[[Address], None]] = []
        """Called, at the root, with every node that has changed its parent."""
        self._silent: set[Address] = set()
        """At the root: children that fell silent, who may have found another root."""
        self._waiting: set[Address] = set()
        """At the root: nodes that wait for a parent."""
        self._published: OrderedDict[EventKey, None] = OrderedDict()
        self._timeouts: dict[Address, float] = {}
        """Other children of the root that have not heard of it for long, and when they said so."""
        self._node.at_alarm("tree room", self._tell_waiting)

    def begin(self, known: Iterable[messages.RegistryEntry] = ()) -> None:
        """Be the root, with a register of what another root knew."""
        registry = ParentRegistry(self._node.address, self._settings.fanout, self._random)
        registry.learn(known)
        self._root.registry = registry

    # Terms.

    def learn(self, term: messages.RootTerm, sender: Address) -> None:
        """Take a later term for the present one; step down as root, and pass the news on."""
        root = self._root
        if root.term is not None and term <= root.term:
            return
        root.term = term
        if root.is_root:
            self._step_down()
        self._children.announce(term)
        self._parent.ask_again()
        root.send_waiting()

    def compare(self, term: messages.RootTerm, sender: Address) -> None:
        """Learn a later term, or tell the sender of an earlier one which is the latest."""
        self.learn(term, sender)
        if self._root.term is not None and term < self._root.term:
            self._post(sender, messages.RootAnnouncement(self._root.term))

    def remind(self) -> None:
        """Remind children that fell silent that this node is the root; forget them if it is not."""
        if self._root.term is None or not self._root.is_root:
            self._silent.clear()
            return
        for address in sorted(self._silent):
            self._node.send(address, messages.RootAnnouncement(self._root.term))

    def child_failed(self, address: Address, link: int) -> None:
        """Tell the root, which may be this node, that a child has fallen silent."""
        self._silent.add(address)
        self._root.send(messages.ChildTimeout(address, self._node.address, link))

    # What others ask of the root.

    def publish(self, message: messages.PublishRequest, sender: Address) -> None:
        """Number an event, unless it has been numbered."""
        if not self._root.is_root:
            self._root.forward(message)
            return
        event = message.event
        key = event.key
        if key in self._published:
            return
        self._published[key] = None
        if len(self._published) > self._settings.remembered:
            self._published.popitem(last=False)
        self._events.take(self._log.position + 1, event)

    def request_parent(self, message: messages.ParentRequest, sender: Address) -> None:
        """Grant, deny or offer parents to a node of the same term."""
        node, stamp, term = message.node, message.stamp, message.term
        registry, present = self._root.registry, self._root.term
        if registry is None or present is None:
            self._root.forward(message)
        elif node == self._node.address:
            return
        elif term != present:
            if term is not None:
                self.learn(term, sender)
            self._post(node, messages.RootAnnouncement(self._root.term or present))
        elif message.offers:
            parents = registry.offers(message)
            if parents is not None:
                self._post(node, messages.ParentOffers(stamp, parents, present))
        else:
            decision = registry.request(message)
            if isinstance(decision, str):
                self._post(node, messages.ParentDenial(stamp, decision, present))
            elif decision is not None:
                self._post(node, messages.ParentGrant(stamp, decision, present))

    def place_awaited(self, message: messages.PlaceWait, sender: Address) -> None:
        """A node waits for a parent."""
        if self._root.is_root:
            self._waiting.add(message.node)

    def _note_room(self) -> None:
        """The tree has changed: somebody may have room for those who wait."""
        if self._waiting:
            self._node.wake_after(ROOM_DELAY, "tree room")

    def _tell_waiting(self, about: object) -> None:
        waiting, self._waiting = sorted(self._waiting), set()
        for node in waiting if self._root.is_root else ():
            self._post(node, messages.RoomNotice())

    def parent_confirmed(self, message: messages.ParentConfirmation, sender: Address) -> None:
        """A node has changed to the parent that it was granted."""
        if self._root.registry is not None:
            self._root.registry.taken(message.node, message.stamp)
            self._silent.discard(message.node)
            for listener in self.move_listeners:
                listener(message.node)
            self._note_room()

    def child_timed_out(self, message: messages.ChildTimeout, sender: Address) -> None:
        """A parent has not heard of a child for long."""
        if self._root.registry is not None:
            self._root.registry.missed(message.node, message.by, message.link)
            self._note_room()

    def departed(self, message: messages.TreeDeparture, sender: Address) -> None:
        """A node is about to leave."""
        if self._root.registry is not None:
            self._root.registry.left(message.node)
            self._silent.discard(message.node)
            self._waiting.discard(message.node)
            self._note_room()

    # Giving and taking the role.

    def hand_over(self) -> None:
        """Make a child the root; without children there is nobody to take over, nor to miss the root."""
        root, log, successor = self._root, self._log, self._children.successor()
        if root.registry is None or root.term is None or successor is None:
            return
        later = root.term = messages.RootTerm(root.term.epoch, root.term.number + 1, successor)
        state = (log.position, log.all_after(0), root.registry.known, tuple(self._published))
        self._post(successor, messages.RootHandover(later, *state))
        root.registry = None
        self._children.announce(later)

    def take_over(self, message: messages.RootHandover, sender: Address) -> None:
        """Become the root in place of one that leaves, with all that it knew; numbers go on."""
        root, log = self._root, self._log
        if root.is_root or (root.term is not None and message.term < root.term):
            return
        root.term = message.term
        self._parent.abandon()
        if log.epoch != message.term.epoch:
            log.begin(message.term.epoch, message.position)
            self._children.restart()
        self._link.place(None, 0)
        self._events.forget_early()
        position = log.position
        log.begin(log.epoch, 0)
        log.ask(EVERYTHING, 0)
        for number, event in message.events:
            (log.take if number <= position else self._events.take)(number, event)
        log.skip_to(max(message.position, position))
        self._published = OrderedDict.fromkeys(message.published)
        self._act_as_root(message.known)

    # Replacing a root that has failed.

    def check_root(self, interval: float) -> None:
        """As a child of the root: tell the others that it is silent; become the root if enough agree."""
        link, term, me, now = self._link, self._root.term, self._node.address, self._node.now
        if not link.root_children or now - link.heard <= self._settings.election * interval:
            return
        if term is None or link.parent != term.root:
            return
        others = [one for one in link.root_children if one != me]
        for other in others:
            self._node.send(other, messages.RootTimeout(term))
        agreed = [one for one, when in self._timeouts.items() if now - when < 3 * interval]
        majority = 2 * (len(agreed) + 1) > len(link.root_children)
        if majority and me < min(agreed, default=me + 1):
            self._be_elected(others)

    def root_timed_out(self, message: messages.RootTimeout, sender: Address) -> None:
        """Another child of the same root has not heard of it for long."""
        if message.term == self._root.term and sender in self._link.root_children:
            self._timeouts[sender] = self._node.now

    def _be_elected(self, others: list[Address]) -> None:
        """Become the root in place of one that has failed, in a new epoch; tell the others who elected."""
        self._parent.abandon()
        term = self._root.term = messages.RootTerm(self._next_epoch(), 0, self._node.address)
        self._link.place(None, 0)
        for other in others:
            self._post(other, messages.RootAnnouncement(term))
        self._link.root_children = ()
        self._events.forget_gap()
        self._log.begin(term.epoch, 0)
        self._log.ask(EVERYTHING, 0)
        self._children.restart()
        self._act_as_root(())

    def _next_epoch(self) -> float:
        """A time for a new epoch: later than the one before, even if that began by a clock that is ahead."""
        before, now = self._root.term, self._node.now
        return now if before is None else max(now, math.nextafter(before.epoch, math.inf))

    def _act_as_root(self, known: Iterable[messages.RegistryEntry]) -> None:
        self.begin(known)
        self._children.grant_all()
        if self._root.term is not None:
            self._children.announce(self._root.term)
        if self._on_elected is not None:
            self._on_elected(self._node.address)

    def _step_down(self) -> None:
        """There is a later root: be an ordinary node, which needs a parent."""
        self._root.registry = None
        self._upstream.granted = NOT_GRANTED
        self._upstream.update()
        self._parent.seek(None)
