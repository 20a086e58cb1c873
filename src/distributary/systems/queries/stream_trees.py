"""Trees of operators' streams (003, section 5.1.1): a stream with many readers spreads over their nodes.

Rules:

- The host of an operator is the root of its stream's tree, and keeps it. It serves as many nodes itself as
  the fanout allows. A further node is asked for what it has measured of its links to the members, and is then
  given a parent among those that have room, by the preference of the network's goal.
- A node asks its parent for what its readers want, and for what those of its children do.
- When the operator moves, its tree ends with it: all nodes on it are told, ask the new host, and so make
  another.
- A node that nothing of a stream passes any more leaves its tree, as soon as nobody is below it.
- Where the root has not room for all, the tree is restructured by `tree_rules` every period, and its members
  are asked for what they have measured by then.

Cost: three messages more for a node that the root has no room for; two for each member and period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import Address, Message, Node
from distributary.plan.queries.spreading import ParentPreference, StreamSpreading
from distributary.systems.queries.links import LinkEstimate, LinkTable
from distributary.systems.queries.retention import discard
from distributary.systems.queries.source_trees import ParentChoice, SourceTree
from distributary.systems.queries.tree_rules import restructure


class JoinInvitation(NamedTuple):
    """To a node that wants a stream: these have it, and the host itself has no room."""

    stream: str
    members: tuple[Address, ...]


class JoinStream(NamedTuple):
    """To the host of a stream: the sender wants a parent in its tree; its links to the members."""

    stream: str
    links: tuple[tuple[Address, LinkEstimate], ...]


class StreamParent(NamedTuple):
    """The receiver's parent in the tree of a stream, while that has this version."""

    stream: str
    version: int
    parent: Address
    changed: bool
    """Whether subscriptions must be sent again even if the receiver had this parent before."""


class LeaveStream(NamedTuple):
    """To the host of a stream: nothing of it passes the sender any more."""

    stream: str


class StreamParentConfirmation(NamedTuple):
    """To the host of a stream: the sender knows its parent."""

    stream: str


class MemberLinksRequest(NamedTuple):
    """To a member of a tree: what has it measured of its links to the others?"""

    members: tuple[Address, ...]


class MemberLinks(NamedTuple):
    """The reply."""

    links: tuple[tuple[Address, LinkEstimate], ...]


STREAM_TREE_MESSAGES = (
    *(JoinInvitation, JoinStream, StreamParent, LeaveStream, StreamParentConfirmation),
    *(MemberLinksRequest, MemberLinks),
)


class StreamTreeSettings(NamedTuple):
    """How trees of streams are made, and how often they are restructured, if they are."""

    fanout: int = 4
    prefer: ParentPreference = ParentPreference.NEAREST
    period: float | None = None

    @property
    def spreading(self) -> StreamSpreading:
        """How the planner takes streams to spread by them."""
        return StreamSpreading(self.fanout, self.prefer)


class StreamTrees:
    """The trees of the streams that are published at a node.

    `version_of` gives the version of a stream's location, or None if it is not published here; `links` gives
    what the node has measured of its links.
    """

    def __init__(
        self,
        node: Node,
        send: Callable[[Address, Message], None],
        settings: StreamTreeSettings,
        version_of: Callable[[str], int | None],
        links: Callable[[], LinkTable],
    ) -> None:
        self.trees: dict[str, SourceTree] = {}
        self.restructured = 0
        """How often a rule was applied to a tree."""
        self._node = node
        self._send = send
        self.settings = settings
        self._version_of = version_of
        self._measured = links
        self._links = LinkTable()
        """As members have told them."""
        node.handle(MemberLinksRequest, self._links_requested)
        node.handle(MemberLinks, lambda message, sender: self._links.learn(sender, message.links))
        node.handle(LeaveStream, lambda message, sender: self.leave(message.stream, sender))
        node.handle(StreamParentConfirmation, self._confirmed)
        if settings.period is not None:
            node.at_alarm("flow restructure", self._restructure)
            node.at_start(lambda: node.wake_after(settings.period or 0.0, "flow restructure"))

    @property
    def _choice(self) -> ParentChoice:
        return ParentChoice(self._links, self.settings.fanout, self.settings.prefer)

    def admits(self, stream: str, node: Address) -> bool:
        """Whether a node may ask here for a stream; if not, it is told whom to ask."""
        tree = self.trees.setdefault(stream, SourceTree(self._node.address))
        tree.idle.discard(node)
        is_new = node not in tree.parents
        if is_new and tree.children(tree.root) < self.settings.fanout:
            tree.parents[node] = tree.root
        parent = tree.parents.get(node)
        if parent is None:
            self._send(node, JoinInvitation(stream, tuple(sorted(tree.parents))))
        elif is_new or parent != tree.root:
            self._tell(stream, [node], changed=False)
        return parent == tree.root

    def children(self, stream: str) -> list[Address]:
        """The nodes that ask here for a stream."""
        tree = self.trees[stream]
        return [node for node, parent in tree.parents.items() if parent == tree.root]

    def leave(self, stream: str, node: Address) -> None:
        """Nothing of a stream passes a node any more."""
        if stream in self.trees and node in self.trees[stream].parents:
            self.trees[stream].retire(node)

    def leave_root(self, stream: str, node: Address) -> None:
        """Nothing of a stream is sent from here to a node any more."""
        if stream in self.trees and self.trees[stream].parents.get(node) == self._node.address:
            self.trees[stream].retire(node)

    def forget(self, streams: Iterable[str]) -> None:
        """Streams are not published here any more."""
        for stream in streams:
            self.trees.pop(stream, None)

    def remove_node(self, node: Address) -> None:
        """A node has been removed for good: those below it get other parents."""
        self._links.forget(node)
        for stream, tree in self.trees.items():
            self._tell(stream, tree.remove(node, self._choice))
        discard(self.trees, lambda stream: not self.trees[stream].parents)

    def join(self, message: JoinStream, sender: Address) -> None:
        """Give a node a parent in the tree of a stream that is published here."""
        self._links.learn(sender, message.links)
        tree = self.trees.setdefault(message.stream, SourceTree(self._node.address))
        self._links.learn(self._node.address, self.links_to(tree.parents))  # ways begin here
        tree.join(sender, self._choice)
        self._tell(message.stream, [sender, *tree.below(sender)])

    def _tell(self, stream: str, nodes: Iterable[Address], *, changed: bool = True) -> None:
        """Tell nodes their parents. If ways have changed, so are all below, whose routes are void."""
        version = self._version_of(stream)
        if version is not None:
            for node in nodes:
                self._send(node, StreamParent(stream, version, self.trees[stream].parents[node], changed))

    def _confirmed(self, message: StreamParentConfirmation, sender: Address) -> None:
        if message.stream in self.trees:
            self.trees[message.stream].unsettled.discard(sender)

    def _restructure(self, about: object) -> None:
        self._node.wake_after(self.settings.period or 0.0, "flow restructure")
        self._links.learn(self._node.address, self.links_to(self._measured_others()))
        for stream, tree in self.trees.items():
            if all(parent == tree.root for parent in tree.parents.values()):
                continue  # the root has room for all
            told = restructure(tree, self._choice)
            self.restructured += bool(told)
            self._tell(stream, told)
            for member in tree.parents:
                self._send(member, MemberLinksRequest(tuple(tree.parents)))

    def _measured_others(self) -> list[Address]:
        return [other for _, other in self._measured().known]

    def links_to(self, others: Iterable[Address]) -> tuple[tuple[Address, LinkEstimate], ...]:
        """What this node has measured of its links to some others."""
        return self._measured().of(self._node.address, others)

    def _links_requested(self, message: MemberLinksRequest, sender: Address) -> None:
        self._send(sender, MemberLinks(self.links_to((sender, *message.members))))
