"""What the nodes of a query network say to one another.

Kinds are grouped by what they are for, so that metrics can tell what each costs: `DATA` carries streams,
`CONTROL` registers, subscribes and moves, `STATISTICS` and `OPTIMISATION` improve the placement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from distributary.flow import Item, Operation, Query, Schema, Source
from distributary.model import Subscription
from distributary.overlay.node import Address

PART = "/"
"""Between the name of an operator and the number of a replica."""


def whole(name: str) -> str:
    """The operator that a replica is part of; any other name as it is.

    >>> whole("busy.large/2"), whole("busy.large")
    ('busy.large', 'busy.large')
    """
    operator, part, number = name.rpartition(PART)
    return operator if part and number.isdecimal() else name


def numbered(name: str, time: int) -> str:
    """What is called by a name for the second time or later is called otherwise in the network.

    >>> numbered("busy.large", 1), numbered("busy.large", 2)
    ('busy.large', 'busy.large~2')
    """
    return name if time == 1 else f"{name}~{time}"


class Element(NamedTuple):
    """One numbered piece of a stream: an item or a watermark."""

    number: int
    item: Item | None = None
    watermark: int | None = None


class StreamReader(NamedTuple):
    """An input of an operator, or a client; its turn grows with each new subscription to its stream."""

    name: str
    input: int
    turn: int


class Selection(NamedTuple):
    """Which items a reader can use; watermarks it always gets."""

    where: str | None = None
    block: str | None = None
    part: int = 0
    parts: int = 1
    keys: tuple[str, ...] | None = None
    """Items are dealt out by these attributes, or by their ids."""


class StreamLocation(NamedTuple):
    """Where a stream is to be had: on a tree of sources, or from the host of its operator."""

    host: Address
    tree: int | None = None
    moves: int = 0
    """How often its operator has moved, or the source has changed trees: of two places, the one after more
    moves is right. That a tree has another root is no move: those are told whose way it concerns."""


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
    turn: int = 0
    position: int | None = None
    """The number of the last element that was taken; None to begin with what comes next."""


# Data


class StreamElements(NamedTuple):
    stream: str
    elements: tuple[Element, ...]


# Subscriptions of readers to streams


class Subscribe(NamedTuple):
    """On its way up, hop by hop, to whoever publishes the stream."""

    stream: str
    reader: StreamReader
    selection: Selection
    position: int | None
    place: StreamLocation
    """Where the reader's node believes the stream to be."""


class SubscriptionGrant(NamedTuple):
    """On its way down the same hops: what the reader missed; from here on it is sent what comes."""

    stream: str
    reader: StreamReader
    elements: tuple[Element, ...]


class Unsubscribe(NamedTuple):
    stream: str
    reader: StreamReader
    forget: bool
    """Whether the reader is gone for good; else it goes on from where it was, elsewhere."""


class ReadAcknowledgement(NamedTuple):
    """A reader needs nothing up to this number any more."""

    stream: str
    reader: StreamReader
    position: int


class StreamMove(NamedTuple):
    """A stream is published elsewhere from now on."""

    stream: str
    place: StreamLocation


class SubscriptionRedirect(NamedTuple):
    """A subscription came to a host that the stream has left."""

    stream: str
    reader: StreamReader
    place: StreamLocation


# Registration


class RegisterSource(NamedTuple):
    source: Source
    proxy: Address
    volume: float


class SourceRoot(NamedTuple):
    """The root broker of a source and its tree, told to both root and proxy, at first and when it changes."""

    source: Source
    place: StreamLocation
    proxy: Address


class RegisterQuery(NamedTuple):
    query: Query


class UnregisterQuery(NamedTuple):
    name: str


class QueryDeployment(NamedTuple):
    """A query that was accepted: operators to run, streams that are its answer, where streams are."""

    query: str
    specs: tuple[OperatorSpec, ...]
    outputs: tuple[tuple[str, str], ...]
    """Each output's name, and the stream that is computed in its place."""
    places: tuple[tuple[str, StreamLocation], ...]
    time: int = 1
    """How often a query of this name has been registered."""


class RegistrationRefusal(NamedTuple):
    """A query or subscription that cannot be served, and why."""

    name: str
    reason: str


class RegisterSubscription(NamedTuple):
    subscription: Subscription


class UnregisterSubscription(NamedTuple):
    id: str


class SubscriptionStreams(NamedTuple):
    """Published streams that a subscription may want, and where they are."""

    subscription: str
    streams: tuple[tuple[str, str], ...]
    """Each stream's name, and the one that is computed in its place."""
    places: tuple[tuple[str, StreamLocation], ...]
    time: int = 1
    """How often a subscription of this id has been made."""


class WithdrawalNotice(NamedTuple):
    """Operators and clients that are no more, to every node: nothing that is said of them counts."""

    names: tuple[str, ...]


class WithdrawalConfirmation(NamedTuple):
    """A query or subscription is withdrawn, to the node that asked for it."""

    name: str
    subscription: bool


class LocationReport(NamedTuple):
    """An operator is here now."""

    stream: str
    place: StreamLocation


class DivisionReport(NamedTuple):
    """An operator has been divided, and its replicas are here."""

    operator: str
    rule: str
    replicas: tuple[str, ...]
    retired: str | None


class JoinTree(NamedTuple):
    tree: int


class LeaveTree(NamedTuple):
    tree: int


class TreeParent(NamedTuple):
    tree: int
    parent: Address


# Moves


@dataclass(frozen=True)
class OperatorHandover:
    """An operator with all it knows, to its new host."""

    spec: OperatorSpec
    state: str
    """What it remembers, as JSON."""
    inlets: tuple[InputCursor, ...]
    places: tuple[tuple[str, StreamLocation], ...]
    place: StreamLocation
    """Of its own stream, from now on."""
    number: int
    watermark: int
    kept: tuple[Element, ...]
    acknowledged: tuple[tuple[StreamReader, int], ...]
    """How far each reader of its stream has come."""
    memories: tuple[tuple[int | None, tuple[tuple[str, int], ...]], ...] = ()
    """Of each input, where it may be read again: the watermark, and ids and times of items after it."""
    asleep: bool = False
    """Whether it reads nothing until somebody reads it."""
    sender: Address | None = None
    """Who wants to know that it has arrived."""
    replaces: tuple[tuple[str, StreamReader], ...] = ()
    """Readings of before its division that may not be forgotten yet."""


class TrafficCounts(NamedTuple):
    """What went through an operator, or into a source, within some seconds.

    Of a source, its proxy tells it to the root broker.
    """

    name: str
    seconds: float
    items_in: int
    bytes_in: int
    items_out: int
    bytes_out: int
    work: int


DATA = (StreamElements,)
CONTROL = (
    *(
        Subscribe,
        SubscriptionGrant,
        Unsubscribe,
        ReadAcknowledgement,
        StreamMove,
        SubscriptionRedirect,
        RegisterSource,
        SourceRoot,
    ),
    *(
        RegisterQuery,
        QueryDeployment,
        RegistrationRefusal,
        RegisterSubscription,
        SubscriptionStreams,
        LocationReport,
        DivisionReport,
        JoinTree,
        TreeParent,
        OperatorHandover,
    ),
    *(UnregisterQuery, UnregisterSubscription, WithdrawalNotice, WithdrawalConfirmation, LeaveTree),
)
