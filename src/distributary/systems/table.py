"""The systems by name, each with what it is, how its nodes are made, and a workload that suits it.

A system of another part adds one line to `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from distributary.errors import DistributaryError
from distributary.overlay.broker import Broker
from distributary.overlay.replication import Replication
from distributary.overlay.ring.placement import (
    ArcPlacement,
    OrderedPlacement,
    PlacementFactory,
    ScatteredPlacement,
)
from distributary.overlay.ring.ring import Ring
from distributary.systems.assembly import Assemble, MakeBroker, RingAssembly, RingParts
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.matching import Matching
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute
from distributary.systems.central import CentralBroker
from distributary.systems.flooding import FloodingBroker
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.lookups import LookupBroker
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from distributary.systems.tree.broker import TreeAssembly


@dataclass(frozen=True)
class System:
    """A way to bring events to subscriptions."""

    about: str
    assemble: Assemble
    """Begins it: makes what makes its nodes."""
    workload: str
    """The workload that it is tried with, unless another is named."""
    promise: Literal["exact", "within", "once"] = "exact"
    """What it delivers: exactly what was asked for; some of it, by rules of its own; or, asked for or not,
    every event once."""


def system(name: str) -> System:
    """The system of that name.

    >>> system("flooding").workload
    'market'
    >>> system("guessing")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: no system 'guessing'; there are attributes, attributes-ordered, ...
    """
    if name not in SYSTEMS:
        raise DistributaryError(f"no system {name!r}; there are {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def on_ring(make: MakeBroker) -> Assemble:
    """A system whose nodes are on a ring."""
    return lambda settings, founders, contact: RingAssembly(make, settings, founders, contact)


def _flooding(parts: RingParts) -> tuple[Broker, Replication | None]:
    return FloodingBroker(parts.ring, courier=parts.courier), None


def _lookups(parts: RingParts) -> tuple[Broker, Replication | None]:
    return LookupBroker(parts.ring, courier=parts.courier), None


def _central(parts: RingParts) -> tuple[Broker, Replication | None]:
    settings = parts.settings
    broker = CentralBroker(
        parts.ring, courier=parts.courier, copies=settings.copies, refresh=settings.refresh
    )
    return broker, broker.replication


SCHEMA = AttributeSchema(
    (
        *(NumberAttribute(f"a{number}", 0.0, 1.0, 0.01) for number in range(10)),
        NumberAttribute("price", 0.0, 200.0, 0.1),
    )
)
"""The attributes of the workload `ranges`, and the one of `watches` that is no topic."""


def attributes_on(
    schema: AttributeSchema,
    placement: PlacementFactory = ArcPlacement.evenly,
    match: Matching = Matching.NARROWEST,
) -> MakeBroker:
    """Nodes of the attribute system with this schema."""

    def make(parts: RingParts) -> tuple[Broker, Replication | None]:
        settings = parts.settings
        broker = AttributeBroker(
            parts.ring,
            schema,
            placement=placement,
            match=match,
            courier=parts.courier,
            copies=settings.copies,
            refresh=settings.refresh,
        )
        return broker, broker.replication

    return make


def state_aware(kind: Callable[..., StateAwareBroker]) -> MakeBroker:
    """Nodes of one of the state-aware systems, with segments of the usual span."""

    def make(parts: RingParts) -> tuple[Broker, Replication | None]:
        ring: Ring = parts.ring
        replication = parts.replication()
        broker = kind(
            ring,
            Segments.spanning(ring.circle, of=parts.settings.nodes),
            courier=parts.courier,
            replication=replication,
            refresh=parts.settings.refresh,
        )
        return broker, replication

    return make


def hope(kind: Callable[..., HopeBroker]) -> MakeBroker:
    """Nodes of HOPE, with about as many vertices as nodes."""

    def make(parts: RingParts) -> tuple[Broker, Replication | None]:
        settings = parts.settings
        broker = kind(
            parts.ring,
            Addressing(dimension=max(1, (settings.nodes - 1).bit_length())),
            courier=parts.courier,
            copies=settings.copies,
            refresh=settings.refresh,
        )
        return broker, broker.replication

    return make


SYSTEMS: dict[str, System] = {
    "attributes": System(
        "attributes in arcs, found by the narrowest constraint", on_ring(attributes_on(SCHEMA)), "ranges"
    ),
    "attributes-ordered": System(
        "attributes placed in the order of their values, counting lists (004)",
        on_ring(attributes_on(SCHEMA, OrderedPlacement, Matching.COUNTING)),
        "ranges",
    ),
    "attributes-scattered": System(
        "attributes placed by hashing each value, counting lists (004)",
        on_ring(attributes_on(SCHEMA, ScatteredPlacement, Matching.COUNTING)),
        "ranges",
    ),
    "central": System("one rendezvous for everything", on_ring(_central), "market"),
    "flooding": System("every event to every node", on_ring(_flooding), "market"),
    "hope-kbpp": System("events to every key that they cover (001)", on_ring(hope(Kbpp)), "documents"),
    "hope-kbsp": System(
        "subscriptions to every key that covers them (001)", on_ring(hope(Kbsp)), "documents"
    ),
    "ring": System("the ring alone: every event to the owner of its id", on_ring(_lookups), "topics", "once"),
    "state-aware-mfd": System(
        "tolerances by MFD with proxies (002)", on_ring(state_aware(MFDBroker)), "quotes", "within"
    ),
    "state-aware-sf": System("tolerances by SF (002)", on_ring(state_aware(SFBroker)), "quotes"),
    "state-aware-thresholds": System(
        "tolerances by thresholds and leases", on_ring(state_aware(ThresholdsBroker)), "quotes"
    ),
    "tree": System("a tree that routes by merged profiles (003)", TreeAssembly, "market"),
}
