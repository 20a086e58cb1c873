"""The messages between nodes of the attribute system."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event, EventKey
from distributary.overlay.node import Address
from distributary.overlay.ring.placement import ArcPlacement, Version
from distributary.systems.attributes.parts import PartCondition
from distributary.systems.attributes.schema import Spot, ValueSet


class EntryName(NamedTuple):
    """Identifies an entry of a key: the attribute, the placement version, and the packed id of the part."""

    attribute: str
    version: Version
    part: int


class ListEntry(NamedTuple):
    """A part in a list: the values it asks for of the list's attribute, and, if it is in one list only, its
    conditions on the others.

    The serial number grows with every change that its home makes; the entry with the greater one wins.
    """

    serial: int
    reach: ValueSet
    wanted: PartCondition | None = None


class EntryStore(NamedTuple):
    """Put an entry under the keys that this is routed to."""

    name: EntryName
    entry: ListEntry


class EntryDrop(NamedTuple):
    """Remove an entry from the keys that this is routed to."""

    name: EntryName
    serial: int


class EntryChange(NamedTuple):
    """A change of entries on its way from node to node along the ring, for the keys that are left."""

    keys: tuple[int, ...]
    change: EntryStore | EntryDrop


class ValueLookup(NamedTuple):
    """One value of an event: the key at which it is looked up, and by which placement."""

    key: int
    attribute: str
    spot: Spot
    version: Version


class ListRequest(NamedTuple):
    """Send the publisher the parts in the list of this value."""

    event: EventKey
    lookup: ValueLookup
    publisher: Address


class ListReply(NamedTuple):
    """The packed ids of the parts in the list of one value."""

    event: EventKey
    attribute: str
    spot: Spot
    parts: tuple[int, ...]


class EventLookup(NamedTuple):
    """Match this event with the lists of these values, and send it to the homes of the matching parts."""

    event: Event
    lookups: tuple[ValueLookup, ...]


class EventOffer(NamedTuple):
    """To a home: an event that may match a subscription there."""

    event: Event


class RebalanceRequest(NamedTuple):
    """To the keeper: make a new placement of an attribute, balanced by load."""

    attribute: str


class LoadRequest(NamedTuple):
    """From the keeper to all nodes: report how often the values of an attribute were asked for."""

    attribute: str
    number: int


class LoadReply(NamedTuple):
    """The load at a node: for each grain of cells, lookups of events published there and entries filed."""

    attribute: str
    number: int
    weights: tuple[tuple[int, int, int], ...]


class PlacementAnnouncement(NamedTuple):
    """A new placement; if `settled`, lookups use it already."""

    arcs: ArcPlacement
    settled: bool


class PlacementVersions(NamedTuple):
    """The newest placement versions that a node knows, for another node to compare with its own."""

    versions: tuple[tuple[str, Version], ...]
