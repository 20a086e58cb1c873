"""A dissemination tree: events go from the root to whoever asked for them, and nodes change their parents
while they do, without losing or repeating one (003, sections 3.1 and 4.5).

Rules:

- Whoever publishes sends the event to the root, which numbers it. A node passes an event on to those of its
  children whose interest it matches, with the number of the event it passed to this child before. So a child
  knows what it has missed, and fetches it: from its parent if that has it, else from somebody further up.
- A node's interest is what its own clients and its children ask for. It tells its parent when that changes. A
  parent grants an interest once its own parent has granted what covers it; from a number on, then, everything
  that matches comes. The root grants everything.
- A node that changes its parent (`change_parent`) asks the root, which forbids loops and too many children
  (see `tree_registry`), then its new parent, and stays with the old one until the new one has granted its
  interest and the old one's events have reached to where the new one's begin. Then it parts from the old one.
  A node whose parent has fallen silent does the same, first with its grandparent, and fetches the difference.
- Each link has the stamp of the request by which it came about. What belongs to another link is not heard.
- A root that leaves makes a child the root (`Crowned`) and sends on what still comes to it. When more than
  half of the root's children have long not heard of it, the one with the lowest address becomes the root.
  That begins a new epoch, as does a root that comes back without its state: numbers start again, and events
  that only the lost root had are lost. A root that hears of a later one is an ordinary node from then on.
- Only the root that a node believes in may allow it anything, and only to those who say so.

Without `beat` a node sends nothing of its own accord: it finds no failures and relies on messages arriving.

Cost: an event costs one message for each child that must have it. A change of parent costs six, two more if
something is fetched, and two for each node above whose interest it changes: 15 in all in a tree of 30 nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.tree_interest import Form, Interest, Summary
from distributary.overlay.tree_messages import (
    Adopted,
    Alive,
    Beat,
    ChildMissed,
    Crowned,
    Farewell,
    Fetch,
    Fetched,
    Forwarded,
    Granted,
    Left,
    ParentAllowed,
    ParentRefused,
    ParentTaken,
    ParentWanted,
    Parted,
    Published,
    Registered,
    Reign,
    Reigned,
    RootMissed,
    Stranger,
)
from distributary.overlay.tree_registry import Registry
from distributary.overlay.tree_routes import Routes, Scan
from distributary.overlay.tree_stream import Stream

EVERYTHING = Interest(((),))
MOST_HOPS = 8
"""How often a message to the root is sent on by nodes that were the root, or know of a later one."""


MOST_TRIES = 4
"""How often a node asks a new root to let it stay where it is; then it asks for any place."""


@dataclass(frozen=True)
class Shape:
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


@dataclass
class _Child:
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
    overtook: dict[int, Registered] = field(default_factory=dict)
    """Changes of its interest that came before an earlier one did."""


@dataclass
class _Move:
    """A change of parent on its way."""

    stamp: int
    wanted: Address | None
    since: float
    must: bool
    """Whether the old parent is gone, or about to go."""
    to: Address | None = None
    """The new parent, once the root has allowed it."""
    granted: Granted | None = None
    early: dict[int, Forwarded] = field(default_factory=dict)


class Tree:
    """A node of a tree.

    tree = Tree(Node(7), Shape(beat=1.0), contacts=[3], courier=Courier(node))   # joins by itself
    tree.on_event(home.offer)
    tree.want(form_of(Profile.of(subscription)))
    tree.publish(event)
    tree.change_parent(12)
    """

    def __init__(
        self,
        node: Node,
        shape: Shape | None = None,
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
        self.shape = shape or Shape()
        self.contacts = tuple(contacts)
        self.parent: Address | None = None
        self.link = 0
        """The stamp of the link to the parent."""
        self.above: Address | None = None
        """The parent's parent, as last heard."""
        self.reign: Reign | None = None
        self.registry: Registry | None = None
        """At the root only."""
        self.stream = Stream(self.shape.room)
        self.interest = Interest()
        self.version = 0
        self.leaving = False
        self.moves = 0
        """Changes of parent that have come about."""
        self.refusals = 0
        self.fetches = 0
        self.missing = 0
        """How often something asked for had been forgotten everywhere, for want of room or of a root."""
        self._children: dict[Address, _Child] = {}
        self._routes: Routes = Scan() if routes is None else routes
        self._summary = Summary(self.shape.most_profiles)
        self._granted = -1
        """The latest version of the interest that the parent has granted."""
        self._since = 0
        """Above this number all that the granted version asks for has come, or will."""
        self._linked = False
        """Whether the parent is known to have this node as a child."""
        self._heard = 0.0
        self._move: _Move | None = None
        self._stamp = 0
        self._allowed_by: Reign | None = None
        """The root that has allowed this node its place: a new one must be told of it."""
        self._tries = 0
        self._early: dict[int, Forwarded] = {}
        self._gap = 0
        """Events up to this number are known to be missing, unless the position is above it."""
        self._fetching: float | None = None
        """When something was last asked for that has not come."""
        self._registering = 0.0
        self._heirs: tuple[Address, ...] = ()
        self._missing_root: dict[Address, float] = {}
        """Other children of the root that have long not heard of it, and when they said so."""
        self._estranged: set[Address] = set()
        """At the root: children that fell silent, who may have found another root."""
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._unsent: list[Message] = []
        """What must go to the root and waits until that is known."""
        self._listeners: list[Callable[[Event], None]] = []
        self._random = Random(f"{seed}/{self.address}")
        self._on_crowned = on_crowned
        self._post: Callable[[Address, Message], None] = courier.send if courier is not None else node.send
        if courier is not None:
            courier.on_failure(self._given_up)
        if is_root:
            self.registry = self._new_registry()
        self._listen()

    def _new_registry(self) -> Registry:
        return Registry(self.address, self.shape.fanout, self._random)

    def _listen(self) -> None:
        handle = self.node.handle
        handle(Published, self._published)
        handle(ParentWanted, self._parent_wanted)
        handle(ParentTaken, self._parent_taken)
        handle(ChildMissed, self._child_missed)
        handle(Left, self._left)
        handle(ParentAllowed, self._parent_allowed)
        handle(ParentRefused, self._parent_refused)
        handle(Crowned, self._crowned)
        handle(Reigned, self._reigned)
        handle(RootMissed, self._root_missed)
        handle(Adopted, self._adopted)
        handle(Registered, self._registered)
        handle(Alive, self._alive)
        handle(Parted, self._parted)
        handle(Fetch, self._fetch_asked)
        handle(Granted, self._granted_by)
        handle(Forwarded, self._forwarded)
        handle(Beat, self._beat)
        handle(Stranger, self._stranger)
        handle(Farewell, self._farewell)
        handle(Fetched, self._fetched)
        self.node.at_alarm("tree beat", self._tick)
        self.node.at_start(self._begin)

    # What its clients call.

    def on_event(self, listener: Callable[[Event], None]) -> None:
        """Have this called with every event that comes here, each once and in the order of the root."""
        self._listeners.append(listener)

    def want(self, form: Form) -> None:
        """A client of this node asks for what matches a profile; equal profiles are counted."""
        self._summary.add(form)
        self._reconsider()

    def unwant(self, form: Form) -> None:
        """A client of this node gives a profile up."""
        self._summary.remove(form)
        self._reconsider()

    def publish(self, event: Event) -> None:
        """Have an event go to all who asked for it."""
        self._to_root(Published(event))

    def change_parent(self, new: Address) -> None:
        """Go to another parent as soon as the root allows it; events are neither lost nor repeated.

        A change that is on its way is given up for this one. A refusal is counted, and nothing changes.
        """
        if self.is_root:
            raise DistributaryError(f"node {self.address} is the root, which has no parent to change")
        if new == self.address:
            raise DistributaryError(f"node {self.address} cannot be its own parent")
        if not self.leaving and new != self.parent:
            self._seek(new)

    def leave(self) -> None:
        """Send the children elsewhere, a root also its role; stay for what is under way, then part."""
        self.leaving = True
        if self.is_root:
            self._abdicate()
        else:
            self._to_root(Left(self.address))
        successor = self.reign.root if self.parent is None and self.reign is not None else self.parent
        for address, child in self._children.items():
            if address != successor:
                self._post(address, Farewell(child.link, successor))
        self._part_when_alone()

    @property
    def is_root(self) -> bool:
        return self.registry is not None

    @property
    def children(self) -> tuple[Address, ...]:
        """Who has this node for a parent, or is about to."""
        return tuple(self._children)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is on its way: attached, granted, nothing missing."""
        if self.is_root:
            return True
        attached = self._linked and self._move is None and self._granted == self.version
        return attached and self._gap <= self.stream.position

    def attach(self, parent: Tree) -> None:
        """Make a child of a node before either starts, without messages; see `tree_shape.settle`."""
        self.parent, self.link, self._linked = parent.address, 1, True
        self._stamp = 1
        self.above = parent.parent
        parent._children[self.address] = _Child(1, 0, Interest(), 0, 0.0, start=0, granted=0)

    def settle(self, reign: Reign) -> None:
        """Believe in a root from the start, without messages; the parent's grant of nothing included."""
        self.reign = self._allowed_by = reign
        self._granted = 0
        self.stream.begin(reign.epoch, 0)
        if self.is_root:
            self.stream.ask(EVERYTHING, 0)

    # Life.

    def _begin(self) -> None:
        now = self.node.now
        self._heard = now
        for child in self._children.values():
            child.heard = now
        if self.is_root and self.reign is None:
            self.settle(Reign(now, 0, self.address))
        elif not self.is_root and self.parent is None and not self.leaving:
            self._seek(None)
        if self.shape.beat is not None:
            self.node.wake_after(self.shape.beat * self._random.random(), "tree beat")

    def _tick(self, about: object) -> None:
        beat = self.shape.beat
        if beat is None:
            return
        self.node.wake_after(beat, "tree beat")
        self._beat_children(self.shape.silence * 2 * beat)
        unsent, self._unsent = self._unsent, []
        for message in unsent:
            self._to_root(message)
        if self.reign is not None and self.is_root:
            for address in sorted(self._estranged):
                self.node.send(address, Reigned(self.reign))
        else:
            self._estranged.clear()
            self._watch_parent(beat)

    def _beat_children(self, silence: float) -> None:
        if self.reign is None:
            return
        heirs = tuple(sorted(self._children)) if self.is_root else ()
        for address, child in list(self._children.items()):
            if self.node.now - child.heard > silence:
                self._drop(address)
                self._estranged.add(address)
                self._to_root(ChildMissed(address, self.address, child.link))
            else:
                last = 0 if child.start is None else child.last
                position = 0 if child.start is None else max(self.stream.position, last)
                epoch = self.stream.epoch
                beat = Beat(child.link, epoch, last, position, self.reign, self.parent, heirs)
                self.node.send(address, beat)

    def _watch_parent(self, beat: float) -> None:
        now, shape, move = self.node.now, self.shape, self._move
        if self.parent is not None:
            self.node.send(self.parent, Alive(self.link))
        if self._gap > self.stream.position:
            self._fetch(again_after=2 * beat)
        if self.leaving:
            return
        silent = not self._linked or now - self._heard > shape.silence * beat
        if self._heirs and now - self._heard > shape.succession * beat:
            self._miss_root(beat)
        if move is not None:
            self._hurry(move, beat, silent)
        elif silent:
            self._linked = False
            self._seek(self.above)
        elif self._granted < self.version and now - self._registering > 2 * beat:
            self._tell_again()
        elif self._allowed_by != self.reign:
            self._seek(self.parent if self._tries < MOST_TRIES else None)

    def _hurry(self, move: _Move, beat: float, silent: bool) -> None:
        """See to it that a change of parent comes about, or something else does."""
        waited = self.node.now - move.since
        if move.granted is not None and waited > beat:
            self._switch(move)
        elif waited > self.shape.patience * beat:
            self._seek(None if silent else self.parent)
        elif move.to is not None and waited > 2 * beat:
            self._post(move.to, Adopted(move.stamp, self.version, self.interest))

    # To the root, and at the root.

    def _to_root(self, message: Message) -> None:
        """Send to the root as it is known here, or hear it if that is this node."""
        if self.is_root:
            self.node.dispatch(message, self.address)
        elif self.reign is not None and self.reign.root != self.address:
            self._post(self.reign.root, message)
        elif isinstance(message, Published | ParentWanted):
            self._unsent.append(message)

    def _send_on(self, message: Published | ParentWanted) -> None:
        if message.hops < MOST_HOPS:
            self._to_root(message._replace(hops=message.hops + 1))

    def _given_up(self, to: Address, message: Message) -> None:
        """The courier could not bring a message to anybody."""
        if isinstance(message, Published):
            self._unsent.append(message._replace(hops=0))

    def _published(self, message: Published, sender: Address) -> None:
        if not self.is_root:
            self._send_on(message)
            return
        event = message.event
        if event.id in self._ids:
            return
        self._ids[event.id] = None
        if len(self._ids) > self.shape.remembered:
            self._ids.popitem(last=False)
        self._take(self.stream.position + 1, event)

    def _parent_wanted(self, message: ParentWanted, sender: Address) -> None:
        if self.registry is None or self.reign is None:
            self._send_on(message)
            return
        node, stamp = message.node, message.stamp
        if node == self.address:
            return
        if message.reign != self.reign:
            if message.reign is not None:
                self._believe(message.reign)
            self._post(node, Reigned(self.reign))
            return
        answer = self.registry.request(
            node, stamp, message.current, message.wanted, message.avoid, message.link
        )
        if answer is None:
            return
        if answer.parent is None:
            self._post(node, ParentRefused(stamp, answer.reason, self.reign))
        else:
            self._post(node, ParentAllowed(stamp, answer.parent, self.reign))

    def _parent_taken(self, message: ParentTaken, sender: Address) -> None:
        if self.registry is not None:
            self.registry.taken(message.node, message.stamp)
            self._estranged.discard(message.node)

    def _child_missed(self, message: ChildMissed, sender: Address) -> None:
        if self.registry is not None:
            self.registry.missed(message.node, message.by, message.link)

    def _left(self, message: Left, sender: Address) -> None:
        if self.registry is not None:
            self.registry.left(message.node)
            self._estranged.discard(message.node)

    def _abdicate(self) -> None:
        """Make a child the root; without children there is nobody to take over, nor anybody to miss it."""
        if self.registry is None or self.reign is None:
            return
        heir = min(
            (address for address, child in self._children.items() if child.start is not None), default=None
        )
        if heir is None:
            return
        self.reign = Reign(self.reign.epoch, self.reign.number + 1, heir)
        self._post(
            heir,
            Crowned(
                self.reign,
                self.stream.position,
                self.stream.all_after(0),
                self.registry.known,
                tuple(self._ids),
            ),
        )
        self.registry = None
        self._proclaim()

    def _crowned(self, message: Crowned, sender: Address) -> None:
        if self.is_root or (self.reign is not None and message.reign < self.reign):
            return
        self.reign = message.reign
        self._abandon()
        if self.stream.epoch != self.reign.epoch:
            self.stream.begin(self.reign.epoch, message.position)
            self._restart_children()
        self.parent, self.link, self._linked = None, 0, False
        self._early.clear()
        before, self.stream = self.stream, Stream(self.shape.room)
        self.stream.begin(before.epoch, 0)
        self.stream.ask(EVERYTHING, 0)
        for number, event in message.events:
            if number <= before.position:
                self.stream.take(number, event)
            else:
                self._take(number, event)
        self.stream.skip_to(max(message.position, before.position))
        self.registry = self._new_registry()
        self.registry.learn(message.known)
        self._ids = OrderedDict.fromkeys(message.ids)
        self._grant_children()
        self._proclaim()
        if self._on_crowned is not None:
            self._on_crowned(self.address)

    def _miss_root(self, beat: float) -> None:
        """Tell the other children of the root that it is gone; become the root if it is one's turn."""
        if self.reign is None or self.parent != self.reign.root:
            return
        for heir in self._heirs:
            if heir != self.address:
                self.node.send(heir, RootMissed(self.reign))
        agreed = [one for one, when in self._missing_root.items() if self.node.now - when < 3 * beat]
        if 2 * (len(agreed) + 1) > len(self._heirs) and self.address < min(agreed, default=self.address + 1):
            self._ascend()

    def _root_missed(self, message: RootMissed, sender: Address) -> None:
        if message.reign == self.reign and sender in self._heirs:
            self._missing_root[sender] = self.node.now

    def _ascend(self) -> None:
        """Become the root, in an epoch of one's own."""
        self._abandon()
        self.reign = Reign(self.node.now, 0, self.address)
        self.parent, self.link, self._linked = None, 0, False
        for heir in self._heirs:
            if heir != self.address:
                self._post(heir, Reigned(self.reign))
        self._heirs, self._early, self._gap = (), {}, 0
        self.stream.begin(self.reign.epoch, 0)
        self.stream.ask(EVERYTHING, 0)
        self.registry = self._new_registry()
        self._restart_children()
        self._grant_children()
        self._proclaim()
        if self._on_crowned is not None:
            self._on_crowned(self.address)

    def _step_down(self) -> None:
        """There is a later root: be an ordinary node, which needs a parent."""
        self.registry = None
        self._granted = -1
        self._reconsider()
        self._seek(None)

    # Changing the parent.

    def _seek(self, wanted: Address | None, *, must: bool = False) -> None:
        """Ask the root for a parent; for any, if that is refused and the old one goes or is gone."""
        avoid = () if self._linked or self.parent is None else (self.parent,)
        self._abandon()
        self._stamp = max(self._stamp + 1, int(self.node.now * 1_000_000))
        if wanted == self.address:
            wanted = None
        self._move = _Move(self._stamp, wanted, self.node.now, must or not self._linked)
        link = self.link if self._linked else 0
        message = ParentWanted(self.address, self._stamp, self.reign, self.parent, wanted, avoid, link)
        known = () if self.reign is None or self.reign.root == self.address else (self.reign.root,)
        others = (*known, *self._heirs, *self.contacts)
        helpers = [one for one in dict.fromkeys(others) if one != self.address]
        if helpers:
            to = helpers[0 if self._linked else self._tries % len(helpers)]
            self._tries += 1
            self._post(to, message)

    def _abandon(self) -> None:
        """Give up a change of parent that is on its way."""
        move, self._move = self._move, None
        if move is not None and move.to is not None:
            self._post(move.to, Parted(move.stamp))

    def _parent_refused(self, message: ParentRefused, sender: Address) -> None:
        self._believe(message.reign)
        move = self._move
        if move is None or move.stamp != message.stamp:
            return
        self.refusals += 1
        self._move = None
        if move.must and move.wanted is not None:
            self._seek(None, must=True)

    def _parent_allowed(self, message: ParentAllowed, sender: Address) -> None:
        self._hear_of(message.reign, sender)
        move = self._move
        if move is None or move.stamp != message.stamp or message.reign != self.reign:
            return
        self._allowed_by, self._tries = message.reign, 0
        if message.parent == self.parent and self._linked:
            self._move = None
            return
        move.to = message.parent
        self._post(move.to, Adopted(move.stamp, self.version, self.interest))

    def _switch(self, move: _Move) -> None:
        """The new parent serves from now on; what lies between is fetched."""
        granted = move.granted
        if granted is None:
            return
        old, old_link = self.parent, self.link
        self._move = None
        self.parent, self.link, self.above = move.to, move.stamp, granted.above
        self._linked, self._heard = True, self.node.now
        self._heirs = ()
        self._early = {number: each for number, each in move.early.items() if each.epoch == granted.epoch}
        self._granted, self._fetching = -1, None
        self.moves += 1
        if old is not None and old != self.parent:
            self._post(old, Parted(old_link))
        self._to_root(ParentTaken(self.address, move.stamp))
        self._grant_holds(granted)
        self._need(granted.start)
        self._drain()

    def _stranger(self, message: Stranger, sender: Address) -> None:
        if sender == self.parent and message.link == self.link and self._linked:
            self._linked = False
            self._seek(self.parent)

    def _farewell(self, message: Farewell, sender: Address) -> None:
        if sender == self.parent and message.link == self.link and not self.is_root:
            self._seek(message.successor, must=True)

    def _believe(self, reign: Reign) -> None:
        if self.reign is None or reign > self.reign:
            self.reign = reign
            if self.is_root:
                self._step_down()
            self._proclaim()
            if self._move is not None:
                self._seek(self._move.wanted, must=self._move.must)
            unsent, self._unsent = self._unsent, []
            for message in unsent:
                self._to_root(message)

    def _proclaim(self) -> None:
        """Tell the children who is the root now."""
        if self.reign is not None:
            for address in self._children:
                self._post(address, Reigned(self.reign))

    def _reigned(self, message: Reigned, sender: Address) -> None:
        self._hear_of(message.reign, sender)

    def _hear_of(self, reign: Reign, sender: Address) -> None:
        """Believe in a later root, or tell who believes in an earlier one."""
        self._believe(reign)
        if self.reign is not None and reign < self.reign:
            self._post(sender, Reigned(self.reign))

    # Being a parent.

    def _adopted(self, message: Adopted, sender: Address) -> None:
        child = self._children.get(sender)
        if child is not None and child.link > message.link:
            return
        if child is None or child.link < message.link:
            if child is not None:
                self._count(child, Interest())
            self._children[sender] = _Child(message.link, -1, Interest(), 0, self.node.now)
            if self.leaving:
                successor = self.parent if self.parent is not None or self.reign is None else self.reign.root
                self._post(sender, Farewell(message.link, successor))
        child = self._children[sender]
        if child.version <= message.version:
            self._asks_for(sender, child, message.version, message.interest)

    def _registered(self, message: Registered, sender: Address) -> None:
        child = self._children.get(sender)
        if child is None or child.link != message.link:
            return
        child.overtook[message.version] = message
        while (change := child.overtook.pop(child.version + 1, None)) is not None:
            interest = child.interest.changed(change.added, change.removed)
            self._asks_for(sender, child, change.version, interest)

    def _asks_for(self, address: Address, child: _Child, version: int, interest: Interest) -> None:
        """A child asks for this now."""
        child.heard = self.node.now
        child.overtook = {later: each for later, each in child.overtook.items() if later > version}
        if child.version < version:
            self._count(child, interest)
            child.version = version
            self._routes.put(address, interest)
            self._reconsider()
            child.needs = self.version
        self._grant(address, child, again=True)

    def _count(self, child: _Child, interest: Interest) -> None:
        added, removed = interest.differs_from(child.interest)
        for form in added:
            self._summary.add(form)
        for form in removed:
            self._summary.remove(form)
        child.interest = interest

    def _alive(self, message: Alive, sender: Address) -> None:
        child = self._children.get(sender)
        if child is not None and child.link == message.link:
            child.heard = self.node.now
        elif child is None or child.link < message.link:
            self.node.send(sender, Stranger(message.link))

    def _parted(self, message: Parted, sender: Address) -> None:
        child = self._children.get(sender)
        if child is not None and child.link <= message.link:
            self._drop(sender)

    def _drop(self, address: Address) -> None:
        self._count(self._children.pop(address), Interest())
        self._routes.drop(address)
        self._reconsider()
        self._part_when_alone()

    def _part_when_alone(self) -> None:
        if self.leaving and not self._children and self.parent is not None:
            self._abandon()
            self._post(self.parent, Parted(self.link))
            self.parent, self._linked = None, False

    # Interests, on their way up and granted on the way down.

    def _reconsider(self) -> None:
        """Tell the parent if what is asked for here has changed."""
        before, interest = self.interest, self._summary.interest
        if self.is_root or interest == before:
            return
        self.interest = interest
        self.version += 1
        self.stream.retain(interest)
        self._registering = self.node.now
        change = interest.differs_from(before)
        if self.parent is not None and self._linked:
            self._post(self.parent, Registered(self.link, self.version, *change))
        if self._move is not None and self._move.to is not None:
            self._post(self._move.to, Registered(self._move.stamp, self.version, *change))

    def _tell_again(self) -> None:
        """Tell the parent the whole interest: a change of it may have been lost, or overtaken by a later."""
        self._registering = self.node.now
        if self.parent is not None:
            self._post(self.parent, Adopted(self.link, self.version, self.interest))

    def _granted_by(self, message: Granted, sender: Address) -> None:
        self._believe(message.reign)
        move = self._move
        if self.is_root or message.epoch < self.stream.epoch:
            return
        if sender == self.parent and message.link == self.link:
            self.above, self._heard = message.above, self.node.now
            self._grant_holds(message)
            self._drain()
        elif (
            move is not None
            and (sender, message.link) == (move.to, move.stamp)
            and message.version == self.version
        ):
            move.granted = message
            self._switch_when_reached()

    def _switch_when_reached(self) -> None:
        """Change to the new parent once the old one's events have come to where the new one's begin."""
        move = self._move
        if move is None or move.granted is None:
            return
        granted = move.granted
        reached = self.stream.position >= granted.start and self.stream.epoch == granted.epoch
        if reached or not self._linked or self.shape.beat is None:
            self._switch(move)

    def _grant_holds(self, granted: Granted) -> None:
        if granted.epoch > self.stream.epoch:
            self._enter(granted)
        if granted.version <= self._granted:
            return
        self._granted = granted.version
        self._since = max(self._since, granted.since)
        if granted.version == self.version:
            self.stream.ask(self.interest, max(granted.since, self.stream.position))
        self._grant_children()

    def _enter(self, granted: Granted) -> None:
        """A new epoch has come: begin where the parent does."""
        self.missing += self._gap > self.stream.position
        self.stream.begin(granted.epoch, granted.start)
        self._granted, self._since, self._gap = -1, 0, 0
        self._early = {number: each for number, each in self._early.items() if each.epoch == granted.epoch}
        self._restart_children()

    def _restart_children(self) -> None:
        for child in self._children.values():
            child.start, child.granted = None, -1

    def _grant_children(self) -> None:
        for address, child in self._children.items():
            self._grant(address, child)

    def _grant(self, address: Address, child: _Child, *, again: bool = False) -> None:
        """Grant a child its interest if everything above does."""
        if self.reign is None or not (self.is_root or child.needs <= self._granted):
            return
        if child.granted >= child.version and not again:
            return
        since = self.stream.position if self.is_root else max(self.stream.position, self._since)
        if child.start is None:
            child.start = child.last = since
        child.granted = child.version
        epoch = self.stream.epoch
        granted = Granted(child.link, child.version, epoch, child.start, since, self.reign, self.parent)
        self._post(address, granted)

    # Events.

    def _take(self, number: int, event: Event) -> None:
        """The next event: to the clients and to the children who asked for it."""
        stream = self.stream
        stream.take(number, event)
        for listener in self._listeners:
            listener(event)
        for address in self._routes.wanted(event):
            child = self._children[address]
            if child.start is not None and number > child.last:
                self.node.send(address, Forwarded(child.link, stream.epoch, child.last, number, event))
                child.last = number

    def _forwarded(self, message: Forwarded, sender: Address) -> None:
        move = self._move
        if sender == self.parent and message.link == self.link:
            self._heard = self.node.now
            if message.epoch == self.stream.epoch and message.number > self.stream.position:
                self._early[message.number] = message
                self._drain()
                self._need(message.after)
        elif move is not None and sender == move.to and message.link == move.stamp:
            move.early[message.number] = message
        else:
            self._disown(sender, message.link)

    def _disown(self, sender: Address, link: int) -> None:
        """Somebody takes this node for a child that it is not, or not by this link."""
        if self.shape.beat is not None:
            self.node.send(sender, Parted(link))

    def _drain(self) -> None:
        """Take those that have come early and whose turn it is now."""
        stream = self.stream
        while self._early:
            number = min(self._early)
            message = self._early[number]
            if number > stream.position:
                if message.after > stream.position:
                    break
                self._take(number, message.event)
            del self._early[number]
        self._switch_when_reached()

    def _beat(self, message: Beat, sender: Address) -> None:
        self._hear_of(message.reign, sender)
        if self.is_root or sender != self.parent or message.link != self.link:
            if self._move is None or (sender, message.link) != (self._move.to, self._move.stamp):
                self._disown(sender, message.link)
            return
        self._heard, self._linked = self.node.now, True
        self.above, self._heirs = message.above, message.heirs
        if message.epoch != self.stream.epoch:
            return
        if message.after <= self.stream.position:
            self.stream.skip_to(message.position)
            self._drain()
        else:
            self._need(message.after)

    # What is missing.

    def _need(self, through: int) -> None:
        self._gap = max(self._gap, through)
        if self._gap > self.stream.position:
            self._fetch(again_after=None)

    def _fetch(self, again_after: float | None) -> None:
        """Ask for what is missing, unless that was asked for lately."""
        position, now = self.stream.position, self.node.now
        waited = self._fetching is not None and again_after is not None and now - self._fetching > again_after
        if self._fetching is not None and not waited:
            return
        if self.parent is not None and self._linked:
            self.fetches += 1
            self._fetching = now
            epoch = self.stream.epoch
            message = Fetch(self.address, self.version, epoch, position, self._gap, self.interest)
            self.node.send(self.parent, message)

    def _fetch_asked(self, message: Fetch, sender: Address) -> None:
        stream = self.stream
        _, version, epoch, after, through, interest = message
        if epoch != stream.epoch:
            return
        if self.is_root or stream.answers(interest, after, through):
            found = stream.between(interest, after, through)
            missing = stream.forgotten(after)
            self.node.send(message.node, Fetched(version, epoch, after, through, found, missing))
        elif self.parent is not None:
            self.node.send(self.parent, message)
        elif self.reign is not None and self.reign.root != self.address:
            self.node.send(self.reign.root, message)

    def _fetched(self, message: Fetched, sender: Address) -> None:
        stream = self.stream
        if self.is_root or message.epoch != stream.epoch:
            return
        self._fetching = None
        if message.version == self.version and message.after <= stream.position < message.through:
            self.missing += message.missing
            for number, event in message.events:
                if number > stream.position:
                    self._take(number, event)
            stream.skip_to(message.through)
        self._drain()
        self._need(self._gap)
