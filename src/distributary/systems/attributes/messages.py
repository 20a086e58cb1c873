"""What nodes of the attribute system say to one another."""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.ring.placement import ArcPlacement, Version
from distributary.systems.attributes.parts import PartCondition
from distributary.systems.attributes.schema import Spot, ValueSet


class EntryName(NamedTuple):
    """Which entry of a key: the list of an attribute, the placement, and the packed id of a part."""

    attribute: str
    version: Version
    part: int


class ListEntry(NamedTuple):
    """A part in a list: what it asks of the list's attribute, and, if it is in one list only, of the others.

    The serial grows with every change that its home makes: of two entries the later one counts, whichever
    arrives last.
    """

    serial: int
    reach: ValueSet
    wanted: PartCondition | None = None


class EntryStore(NamedTuple):
    """Put an entry under the keys that this is routed to."""

    name: EntryName
    entry: ListEntry


class EntryDrop(NamedTuple):
    """Take an entry away from the keys that this is routed to."""

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
    """Tell the publisher which parts the list of this value holds."""

    event_id: str
    lookup: ValueLookup
    publisher: Address


class ListReply(NamedTuple):
    """The packed ids of the parts in the list of one value."""

    event_id: str
    attribute: str
    spot: Spot
    parts: tuple[int, ...]


class EventLookup(NamedTuple):
    """Tell the homes of whoever wants this event, of those in the lists of these values."""

    event: Event
    lookups: tuple[ValueLookup, ...]


class EventOffer(NamedTuple):
    """Somebody here may want this event."""

    event: Event


class RebalanceRequest(NamedTuple):
    """Place the values of an attribute anew, by how often they are asked for."""

    attribute: str


class LoadRequest(NamedTuple):
    """Tell me who you are and how often the values of an attribute were asked for."""

    attribute: str
    number: int


class LoadReply(NamedTuple):
    """How often: for each grain of cells, the lookups by events published here and the entries of parts."""

    attribute: str
    number: int
    weights: tuple[tuple[int, int, int], ...]


class PlacementAnnouncement(NamedTuple):
    """A new placement. When `settled`, others use it already."""

    arcs: ArcPlacement
    settled: bool


class PlacementVersions(NamedTuple):
    """The newest placements that a node knows of, so that whoever knows more can say so."""

    versions: tuple[tuple[str, Version], ...]
