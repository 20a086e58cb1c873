"""Dissemination trees (003, XPORT): profiles go up, merged on the way; events come down where they match.

Rules:

- A subscription's profile is made known up the tree; its home alone decides what is delivered.
- Everything else is the tree's: see `overlay.tree`. With heartbeats nodes find failures and mend the tree;
  without, they send what the system itself needs and nothing else.
- Who the root is must survive the root: whoever makes the nodes remembers it (`TreeAssembly`). A root that
  starts again without its disk is not the root, unless there is nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from distributary.model import Event, EventIdentity, Offset, Subscription, SubscriptionKey, key_of
from distributary.overlay.broker import SessionState, ToleranceStart
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.packed_events import PackedEvents
from distributary.overlay.tree.event_log import NumberedRun
from distributary.overlay.tree.interest import Form, profile_of
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.state import TreeSettings
from distributary.overlay.tree.topology import Parents, balanced_parents, settle, unsettled
from distributary.systems.assembly import CONTACTS, Contact, Settings
from distributary.systems.home import Home
from distributary.systems.interests import InterestIndex
from distributary.systems.publishing import require_readable
from distributary.systems.residents import Wanted
from distributary.systems.tree.optimiser import TreeOptimiser
from distributary.systems.tree.resuming import ResumingClients
from distributary.systems.tree.routes import IndexedRoutes
from distributary.systems.tree.settings import OptimisationSettings
from distributary.systems.tree.statistics import LocalClients

HEARTBEAT = 1.0
"""Seconds between heartbeats, where nodes may fail."""


class TreeBroker:
    """A node of a dissemination tree that serves clients.

    >>> node = Node(3)
    >>> broker = TreeBroker(TreeNode(node, is_root=True))
    >>> _ = node.start(now=0)
    >>> node.call(lambda: broker.subscribe(Subscription("s1", "ann", where="a > 3")), now=0)
    [Acknowledge(what=SubscriptionKey(subscriber='ann', id='s1'))]
    >>> [given] = node.call(lambda: broker.publish(Event("e1", attributes={"a": 4})), now=0)
    >>> given.item.event.id, given.item.subscriber, given.item.subscriptions
    ('e1', 'ann', ('s1',))
    """

    def __init__(self, tree: TreeNode, optimising: OptimisationSettings | None = None) -> None:
        self.tree = tree
        self.node = tree.node
        self.home = Home(tree.node)
        self._forms: dict[SubscriptionKey, Form] = {}
        self._wanted: InterestIndex[SubscriptionKey, None] = InterestIndex()
        """What the clients here ask for, where the optimiser is to be told."""
        self._resuming = ResumingClients(tree, self.home, self._want)
        tree.on_events(self._offer)
        self.optimiser: TreeOptimiser | None = None
        if optimising is not None:
            clients = LocalClients(self._are_interested, self.home.__len__)
            self.optimiser = TreeOptimiser(tree, optimising, clients)

    @property
    def joined(self) -> bool:
        """Whether the node is the root of the tree or has a parent."""
        return self.tree.is_root or self.tree.parent is not None

    @property
    def acknowledges(self) -> bool:
        """Where nodes may fail, clients are told what is safe."""
        return self.tree.settings.heartbeat is not None

    @property
    def congested(self) -> bool:
        """Whether publishers should wait: too much has been published here that is not safe yet."""
        return self.tree.outbox.full

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription of a client of this node, in place of one with the same key."""
        self._resuming.subscribe(subscription)

    def resume(self, session: SessionState) -> None:
        """Register a client's subscriptions, and deliver what it has missed: see `resuming`."""
        self._resuming.resume(session)

    def reached(self, subscriber: str) -> Offset | None:
        """Up to where this client has been given all that its subscriptions here want; see `Broker`."""
        log, upstream = self.tree.log, self.tree.upstream
        if not self.tree.is_root and (upstream.granted < upstream.version or log.position < upstream.since):
            return None
        return self._resuming.place(subscriber) or Offset(log.epoch, log.position)

    def start_from(self, start: ToleranceStart) -> None:
        """Have a tolerance start from values that its client was given elsewhere; see `Broker`."""
        self._resuming.start_from(start)

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription that was registered here."""
        if not self._resuming.withdraw(key):
            self.home.remove(key)
        if self.optimiser is not None:
            self._wanted.remove(key)
        self.tree.unwant(self._forms.pop(key))

    def publish(self, event: Event) -> None:
        """Have the event go to all who asked for it."""
        self.publish_all((event,))

    def publish_all(self, events: Sequence[Event]) -> int | None:
        """Have events go to all who asked for them; see `Broker`."""
        _require_readable(events)
        return self.tree.publish_all(events)

    def publish_at_once(self, events: Sequence[Event]) -> bool:
        """Publish where nobody else has a part in it; see `Broker`."""
        _require_readable(events)
        return self.tree.publish_at_once(events)

    def audience(self, topic: str, lacking: str) -> Wanted | None:
        """Who would be given an event, where this node alone decides; see `Broker`."""
        if self._resuming or not self.tree.is_alone:
            return None
        return self.home.audience(topic, lacking)

    def last_place(self) -> Offset | None:
        """The place in the log of what was published last, where this node is alone; see `Broker`."""
        return Offset(self.tree.log.epoch, self.tree.log.position) if self.tree.is_alone else None

    def remembers(self, identity: EventIdentity) -> bool:
        """Whether an event was published or came here before; see `Broker`."""
        return self.tree.has_numbered(identity) or self.home.was_offered(key_of(identity))

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Take up the log of a root or a standby; clients present their subscriptions again."""
        self.tree.restore(stored)

    def _want(self, key: SubscriptionKey, form: Form) -> None:
        """Have the tree bring what a subscription asks for."""
        before = self._forms.get(key)
        if form != before:
            self._forms[key] = form
            if self.optimiser is not None:
                self._wanted.put(key, None, profile_of(form).filters)
            self.tree.want(form)
            if before is not None:
                self.tree.unwant(before)

    def _offer(self, events: NumberedRun) -> None:
        """Events have come: those who have caught up to one are given it like the others."""
        epoch = self.tree.log.epoch
        if not self._resuming:
            self.home.offer_all(events.numbers, events.events, epoch)
            return
        for number, event in events:
            self._resuming.reach(number)
            self.home.offer_all((number,), (event,), epoch)

    def _are_interested(self, event: Event) -> bool:
        """Whether a client here asked for the event."""
        return bool(self._wanted.wanting(event))

    def change_parent(self, new: Address) -> None:
        """Go to another parent, while events flow; see `TreeNode.change_parent`."""
        self.tree.change_parent(new)

    def suspect(self, address: Address) -> None:
        """No process is where another node was; see `TreeNode.suspect`."""
        self.tree.suspect(address)

    def leave(self) -> None:
        """Leave the tree in good order; see `TreeNode.leave`."""
        self.tree.leave()

    @property
    def left(self) -> bool:
        """Whether the node has left the tree."""
        return self.tree.left


def _require_readable(events: Sequence[Event]) -> None:
    """DocumentError when the document of one of them cannot be read."""
    if not isinstance(events, PackedEvents) or events.has_documents:
        for event in events:
            if event.document is not None:
                require_readable(event)


class TreeAssembly:
    """Makes the brokers of one tree: the founders in a shape of their own, later ones to join by themselves.

    `parents` makes the founders' parents from their addresses, the root's first; a flat tree when not given.
    With `optimising` the tree improves itself.
    """

    def __init__(
        self,
        settings: Settings,
        founders: Sequence[Address],
        contact: Contact,
        *,
        tree: TreeSettings | None = None,
        parents: Callable[[list[Address]], Parents] | None = None,
        optimising: OptimisationSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.settings = settings
        self.tree_settings = tree or TreeSettings(heartbeat=HEARTBEAT if settings.upkeep else None)
        self.root, *_ = self._founders = list(founders)
        """Who the root is now."""
        self._contact = contact
        self._parents = parents or (lambda nodes: balanced_parents(nodes, self.tree_settings.fanout))
        self._optimising = optimising
        self._seed = seed
        self._made: set[Address] = set()
        """Nodes that were made before: a root that is made again has lost its log, and joins the others."""

    def __call__(self, address: Address) -> TreeBroker:
        node = Node(address)
        contacts = [self._contact(address) for _ in range(CONTACTS)]
        tree = TreeNode(
            node,
            self.tree_settings,
            is_root=address == self.root and (address not in self._made or not any(contacts)),
            contacts=dict.fromkeys(one for one in contacts if one is not None),
            routes=IndexedRoutes(),
            courier=Courier(node) if self.settings.courier else None,
            seed=self._seed,
            on_elected=self._elected,
        )
        self._made.add(address)
        return TreeBroker(tree, self._optimising)

    def settle(self, brokers: Iterable[TreeBroker]) -> None:
        """Give the founders, before they start, their places in the tree.

        One alone has its place, and begins its epoch when it starts: later than any before it that it has
        forgotten.
        """
        trees, parents = [broker.tree for broker in brokers], self._parents(self._founders)
        if len(trees) > 1:
            settle(trees, parents)

    def disorder(self, brokers: Iterable[TreeBroker]) -> list[str]:
        """How a tree that should be at rest is not."""
        wrong = unsettled([broker.tree for broker in brokers])
        return [f"the tree is not in order: {one}" for one in wrong]

    def _elected(self, address: Address) -> None:
        self.root = address
