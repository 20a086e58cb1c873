"""The messages of a query network: streams, subscriptions of readers, registration, hand-over of operators.

Kinds are grouped by purpose, so that metrics tell what each purpose costs: `DATA` carries streams, `CONTROL`
registers, subscribes and moves, `ROUND_MESSAGES` are of a round of statistics. `STATISTICS` and
`OPTIMISATION` are in `optimiser`, `CHECKPOINT_MESSAGES` in `checkpoints`. The number and order of fields
decide the size of a message on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from distributary.flow import Item, Operation, Query, Schema, Source
from distributary.model import Subscription, SubscriptionKey
from distributary.overlay.node import Address

PART = "/"
"""Between the name of an operator and the number of a replica."""


def replica_name(operator: str, index: int) -> str:
    """The name of a replica of an operator, counted from 0: `busy.large/1` is the first."""
    return f"{operator}{PART}{index + 1}"


def whole_operator(name: str) -> str:
    """The operator that a replica is part of; any other name as it is.

    >>> whole_operator("busy.large/2"), whole_operator("busy.large")
    ('busy.large', 'busy.large')
    """
    operator, part, number = name.rpartition(PART)
    return operator if part and number.isdecimal() else name


def network_name(name: str, generation: int) -> str:
    """The name in the network of what is called by a name for the so-many-th time: it is never used twice.

    >>> network_name("busy.large", 1), network_name("busy.large", 2)
    ('busy.large', 'busy.large~2')
    """
    return name if generation == 1 else f"{name}~{generation}"


# What messages are made of


class Element(NamedTuple):
    """One numbered element of a stream: an item or a watermark."""

    number: int
    item: Item | None = None
    watermark: int | None = None


class StreamReader(NamedTuple):
    """An input of an operator, or a client; its epoch grows with each new subscription to its stream."""

    name: str
    input: int
    epoch: int

    @property
    def key(self) -> tuple[str, int]:
        """The reader whatever its epoch."""
        return self.name, self.input


class Selection(NamedTuple):
    """Which items a reader can use; it always gets watermarks."""

    where: str | None = None
    block: str | None = None
    part: int = 0
    parts: int = 1
    keys: tuple[str, ...] | None = None
    """Items are partitioned by these attributes, or by their ids."""


class StreamLocation(NamedTuple):
    """Where a stream can be read: on a tree of sources, or at the host of its operator."""

    host: Address
    tree: int | None = None
    version: int = 0
    """How often its operator has moved, or the source has changed trees: of two locations, the one with the
    higher version is right. A new root of the same tree is no new version: those on the tree are told."""


Locations = tuple[tuple[str, StreamLocation], ...]
"""Streams by name, and where they can be read."""


@dataclass(frozen=True)
class OperatorSpec:
    """An operator as it is installed at a node; its stream has its name."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    schemas: tuple[Schema, ...]
    unit: str | None = None
    """The super-operator that it moves with."""


class InputCursor(NamedTuple):
    """How far an input has been read."""

    stream: str
    selection: Selection
    epoch: int = 0
    position: int | None = None
    """The number of the last element that was taken; None to begin with what comes next."""


# Data


class StreamElements(NamedTuple):
    """New elements of a stream, from hop to hop down to its readers."""

    stream: str
    elements: tuple[Element, ...]


# Subscriptions of readers to streams


class Subscribe(NamedTuple):
    """A reader's subscription, on its way up, hop by hop, to the publisher of the stream."""

    stream: str
    reader: StreamReader
    selection: Selection
    position: int | None
    location: StreamLocation
    """Where the reader's node believes the stream to be."""
    at: Address | None = None
    """The reader's node; nodes of an earlier version do not say."""


class SubscriptionGrant(NamedTuple):
    """On its way down the same hops: what the reader missed; from here on it is sent what comes."""

    stream: str
    reader: StreamReader
    elements: tuple[Element, ...]


class Unsubscribe(NamedTuple):
    """A reader wants nothing more, on its way up to the publisher."""

    stream: str
    reader: StreamReader
    forget: bool
    """Whether the reader has ended for good; else it continues from its position, elsewhere."""


class ReadAcknowledgement(NamedTuple):
    """A reader needs nothing up to this number any more."""

    stream: str
    reader: StreamReader
    position: int


class StreamMove(NamedTuple):
    """A stream is published elsewhere from now on."""

    stream: str
    location: StreamLocation


class SubscriptionRedirect(NamedTuple):
    """To whom a subscription came from: make it again, as the stream has left, or the way to it has changed.

    The location is where the stream is now.
    """

    stream: str
    reader: StreamReader
    location: StreamLocation


# Registration


class RegisterSource(NamedTuple):
    """To the registry: the sender is the proxy of an external source of about `volume` bytes a second."""

    source: Source
    proxy: Address
    volume: float


class SourceRoot(NamedTuple):
    """The root broker of a source and its tree, to both root and proxy, at first and when it changes."""

    source: Source
    location: StreamLocation
    proxy: Address


class RegisterQuery(NamedTuple):
    """To the registry: the sender has a client that wants a query run."""

    query: Query
    utility: float = 1.0
    """What the query is worth among others, when there is too much to do."""


class UnregisterQuery(NamedTuple):
    """To the registry: a client withdraws its query."""

    name: str


class QueryDeployment(NamedTuple):
    """A query that was accepted: operators to run, streams that are its answer, where streams are."""

    query: str
    specs: tuple[OperatorSpec, ...]
    outputs: tuple[tuple[str, str], ...]
    """Each output's name, and the stream that is computed in its place."""
    locations: Locations
    generation: int = 1
    """How often a query of this name has been registered."""
    ordered: bool = False
    """Whether the client is given its answer in stream order."""


class RegistrationRefusal(NamedTuple):
    """A source, query or subscription that is refused, and why."""

    name: str
    reason: str


class ListingRequest(NamedTuple):
    """To the registry: a client wants to know what is registered."""


class RegisterSubscription(NamedTuple):
    """To the registry: a plain subscription to streams of operators."""

    subscription: Subscription


class UnregisterSubscription(NamedTuple):
    """To the registry: a subscription is withdrawn."""

    subscription: SubscriptionKey


class SubscriptionStreams(NamedTuple):
    """Published streams that a subscription may want, and where they are."""

    subscription: Subscription
    streams: tuple[tuple[str, str], ...]
    """Each stream's name, and the one that is computed in its place."""
    locations: Locations
    generation: int = 1
    """How often this subscription has been made."""
    topics: tuple[tuple[str, str], ...] = ()
    """Of streams whose items are published under topics of their own: the name, and how these are made."""


class WithdrawalNotice(NamedTuple):
    """Operators and clients that have been withdrawn, to every node: messages about them are ignored."""

    names: tuple[str, ...]


class WithdrawalConfirmation(NamedTuple):
    """A query or subscription is withdrawn, to the node that asked for it."""

    name: str
    """Of the query, or the subscription's id."""
    subscriber: str | None = None
    """Whose subscription it was."""


class LocationReport(NamedTuple):
    """To the registry: the operator of a stream is at the sender now."""

    stream: str
    location: StreamLocation


class DivisionReport(NamedTuple):
    """To the registry: an operator has been divided, and its replicas are at the sender."""

    operator: str
    rule: str
    replicas: tuple[str, ...]
    retired: str | None
    """The union before it whose work the replicas do now."""


class JoinTree(NamedTuple):
    """To the registry: the sender wants a parent in a tree of sources."""

    tree: int


class LeaveTree(NamedTuple):
    """To the registry: the sender needs nothing of a tree of sources any more."""

    tree: int


class TreeParent(NamedTuple):
    """The receiver's parent in a tree of sources."""

    tree: int
    parent: Address


class TreeParentConfirmation(NamedTuple):
    """To the registry: the sender knows which parent in a tree of sources it has instead of another."""

    tree: int


class Prune(NamedTuple):
    """The sender gets a stream from elsewhere, or needs it no more: the receiver sends it nothing of it."""

    stream: str


# Hand-over of operators, and what is measured of them


@dataclass(frozen=True)
class OperatorHandover:
    """An operator with its whole state, to its new host or as part of a checkpoint."""

    spec: OperatorSpec
    state: str
    """What it remembers, as JSON."""
    cursors: tuple[InputCursor, ...]
    locations: Locations
    """Of the streams that it reads."""
    location: StreamLocation
    """Of its own stream, from now on."""
    number: int
    watermark: int
    kept: tuple[Element, ...]
    acknowledged: tuple[tuple[StreamReader, int], ...]
    """How far each reader of its stream has come."""
    recent: tuple[tuple[int | None, tuple[tuple[str, int], ...]], ...] = ()
    """Of each input, where it may be read again: the watermark, and ids and times of items after it."""
    idle: bool = False
    """Whether it reads nothing until somebody reads it."""
    sender: Address | None = None
    """Who wants a receipt when it has arrived."""
    replaced: tuple[tuple[str, StreamReader], ...] = ()
    """Streams and readers of before its division that publishers still wait for."""


class TrafficCounts(NamedTuple):
    """What went through an operator, or into a source, within some seconds, and the cycles that it took.

    Counts of a source are sent by its proxy to the root broker.
    """

    name: str
    seconds: float
    items_in: int
    bytes_in: int
    items_out: int
    bytes_out: int
    work: float


# Rounds of statistics (`statistics` and `node_model` say what is done with them)


class NodeValue(NamedTuple):
    """The goal's value of a node."""

    site: Address
    value: float


class SourceRate(NamedTuple):
    """What a stream carries in a second."""

    stream: str
    items: float
    bytes: float


class StreamDemand(NamedTuple):
    """How much of a stream is asked for, in parts of the planner's `WHOLE`; more where several ask for it."""

    stream: str
    share: int


class TreePosition(NamedTuple):
    """Where a node is in a tree."""

    root: Address
    parent: Address | None
    children: tuple[Address, ...]
    levels: int
    """Below the node."""
    height: int
    """Levels of the whole tree."""


class RoundAnnouncement(NamedTuple):
    """A period begins; from the registry to each broker."""

    period: int
    brokers: int
    queries: int
    positions: tuple[TreePosition, ...]
    """In each tree."""


class UpwardStatistics(NamedTuple):
    """From a node to its parent: what it knows of itself and of the nodes below."""

    period: int
    tree: int
    values: tuple[NodeValue, ...]
    widest: float
    """The worst value below: no node there wants to hear of worse."""
    worst: tuple[NodeValue, ...]
    total: float
    """What all nodes below together contribute to the cost."""
    demand: tuple[StreamDemand, ...]
    below: tuple[tuple[Address, int], ...]
    """Nodes below, and how many levels."""


class DownwardStatistics(NamedTuple):
    """From a node to one of its children: what the nodes there can use of what is known above."""

    period: int
    tree: int
    values: tuple[NodeValue, ...]
    worst: tuple[NodeValue, ...]
    total: float
    path_cost: float
    """From the root to the sender: the values of the links together."""
    rates: tuple[SourceRate, ...]
    above: tuple[Address, ...]
    """Nodes above the sender, the nearest first."""
    hops: tuple[float, ...]
    """Seconds that a message takes from the nearest of these to the sender, from the next to that, and on."""
    siblings: tuple[Address, ...]
    """The sender's other children."""


class SendRate(NamedTuple):
    """The bytes a second that the operators of a node send to another one, all streams together."""

    period: int
    bytes: float


class FilterRates(NamedTuple):
    """Filters that read an operator's stream, and the items a second that pass them; to its host.

    Sent when they change. What passes a filter is all that it is sent.
    """

    filters: tuple[tuple[str, str, float], ...]
    """Stream, filter, items."""


DATA = (StreamElements,)
CONTROL = (
    *(Subscribe, SubscriptionGrant, Unsubscribe, ReadAcknowledgement, StreamMove, SubscriptionRedirect),
    *(RegisterSource, SourceRoot, RegisterQuery, QueryDeployment, RegistrationRefusal),
    *(RegisterSubscription, SubscriptionStreams, LocationReport, DivisionReport, JoinTree, TreeParent),
    *(OperatorHandover, UnregisterQuery, UnregisterSubscription, WithdrawalNotice, WithdrawalConfirmation),
    *(LeaveTree, TreeParentConfirmation, Prune, ListingRequest),
)
ROUND_MESSAGES = (RoundAnnouncement, UpwardStatistics, DownwardStatistics, SendRate, FilterRates)
