"""The systems by name: what each is, how its nodes are made, and a workload that suits it.

To add a system, add a line to `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from distributary.errors import SettingError
from distributary.matching.path.signature import SIGNATURE_LAYOUT
from distributary.overlay.node import Address
from distributary.overlay.ring.placement import OrderedPlacement, ScatteredPlacement
from distributary.overlay.tree.state import TreeSettings
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.rules import DIRECTED, FIVE_LEVELS, FOUR_LEVELS, LOCAL
from distributary.systems.assembly import Assemble, Contact, MakeBroker, RingAssembly, RingParts, Settings
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.matching import Matching
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute
from distributary.systems.central import CentralBroker
from distributary.systems.flooding import FloodingBroker
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.tags import TagAddressing
from distributary.systems.lookups import LookupBroker
from distributary.systems.options import (
    ARCS,
    ATTRIBUTES,
    BOUNDED_HOPE,
    HOPE,
    KEEPING,
    LEVELS,
    SEGMENTS,
    TREE,
    SystemOption,
)
from distributary.systems.ring_broker import RingBroker
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.lengths.change import BalancedBroker
from distributary.systems.state_aware.lengths.mfd import BalancedMFD
from distributary.systems.state_aware.lengths.sf import BalancedSF
from distributary.systems.state_aware.lengths.target import WorkTarget
from distributary.systems.state_aware.lengths.thresholds import BalancedThresholds
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from distributary.systems.tree.broker import HEARTBEAT, TreeAssembly
from distributary.systems.tree.settings import OptimisationSettings


@dataclass(frozen=True)
class System:
    """A system that delivers events to subscriptions."""

    about: str
    assemble: Assemble
    """Makes the assembly of its nodes."""
    workload: str
    """The workload of its trials, unless another is named."""
    promise: Literal["exact", "within", "once"] = "exact"
    """What it delivers: exactly the matching events; some of them, by rules of its own; or every event once,
    whether it matches or not."""
    options: tuple[SystemOption, ...] = KEEPING
    """The settings of its own that a user may choose."""
    refresh: float = 10.0
    """Seconds after which homes register again, where faults are borne and nobody set others."""
    by_size: bool = False
    """Whether nodes divide their work by the number of nodes that they are told to expect."""
    names_all: bool = True
    """Whether a delivery names every subscription of its subscriber that wants the event; else one is enough,
    as rendezvous that know of different ones select for themselves."""
    layout: int = 1
    """Of what each node computes for itself and compares with others': nodes with another do not fit."""


def system(name: str) -> System:
    """The system of that name.

    >>> system("flooding").workload
    'market'
    >>> system("guessing")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    distributary.errors.SettingError: no system 'guessing'; there are attributes, attributes-ordered, ...
    """
    if name not in SYSTEMS:
        raise SettingError(f"no system {name!r}; there are {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def on_ring(make: MakeBroker) -> Assemble:
    """The assembly of a system whose nodes are on a ring."""
    return lambda settings, founders, contact: RingAssembly(make, settings, founders, contact)


SCHEMA = AttributeSchema(
    (
        *(NumberAttribute(f"a{number}", 0.0, 1.0, 0.04) for number in range(10)),
        NumberAttribute("price", 0.0, 200.0, 0.1),
    )
)
"""The attributes of the workload `ranges`, and the price of `watches`."""


def attributes(**options: Any) -> MakeBroker:
    """Make nodes of the attribute system; the options are those of `AttributeBroker`."""

    def make(parts: RingParts) -> AttributeBroker:
        chosen = parts.settings.among("rebalance", "overlap", "window", "outstanding")
        schema = parts.settings.chosen.get("schema", SCHEMA)
        return AttributeBroker(parts.ring, schema, **options, **chosen, **parts.options)

    return make


def state_aware(kind: Callable[..., StateAwareBroker]) -> MakeBroker:
    """Make nodes of one of the state-aware systems."""

    def make(parts: RingParts) -> StateAwareBroker:
        settings = parts.settings
        span = {"nodes": settings.chosen["span"]} if "span" in settings.chosen else {}
        places = settings.among("maximum", "depth")
        segments = Segments.spanning(parts.ring.circle, of=settings.nodes, **span, **places)
        return kind(parts.ring, segments, **settings.among("window"), **parts.options)

    return make


def balanced(kind: Callable[..., BalancedBroker]) -> MakeBroker:
    """Make nodes of a state-aware system with segments whose length is looked at twice a minute."""

    def make(parts: RingParts) -> RingBroker:
        target = WorkTarget(spacing=parts.ring.circle.size // parts.settings.nodes, period=30.0)
        return state_aware(partial(kind, balance=target))(parts)

    return make


def hope(kind: Callable[..., HopeBroker], addressing: type[Addressing] = Addressing) -> MakeBroker:
    """Make nodes of HOPE, with about as many vertices as nodes."""

    def make(parts: RingParts) -> HopeBroker:
        settings = parts.settings
        lengths = {"dimension": fitting_dimension(settings.nodes)}
        lengths |= settings.among("dimension", "length", "hashes", "value_bits")
        chosen = settings.among("facets", "history", "dimensions", "budget")
        return kind(parts.ring, addressing(**lengths), **chosen, **parts.options)

    return make


def tree(settings: Settings, founders: Sequence[Address], contact: Contact) -> TreeAssembly:
    """The assembly of a tree; with a goal, it improves itself."""
    shape: dict[str, Any] = {"heartbeat": HEARTBEAT if settings.upkeep else None}
    shape |= settings.among("fanout", "most_profiles", "heartbeat")
    if not settings.upkeep:
        shape["heartbeat"] = None
    optimising = None
    if "goal" in settings.chosen:
        more = settings.among("period", "statistics", "best_effort", "concurrent")
        unit = settings.chosen.get("unit", 3)
        local = (*LOCAL, *(FOUR_LEVELS if unit >= 4 else ()), *(FIVE_LEVELS if unit >= 5 else ()))
        rules = {"local": local, "directed": DIRECTED, "hybrid": (*local, *DIRECTED)}
        chosen = rules[settings.chosen.get("rules", "hybrid")]
        optimising = OptimisationSettings(parse_goal(settings.chosen["goal"]), rules=chosen, **more)
    return TreeAssembly(settings, founders, contact, tree=TreeSettings(**shape), optimising=optimising)


SELDOM = 30.0
"""How often homes of the attribute systems register again: each subscription is filed at many values."""
RANGES = "ranges:constrained=2"
"""Ranges over two attributes, of which one in 25 matches an event: enough to tell right from wrong."""
DOCUMENTS = "documents:size=1500"
"""Documents of a size that nodes would send to each other."""
QUOTES = "quotes:stock_count=6,maximum=0.1"
"""Few stocks, so that values of each follow one another, and tolerances that they exceed."""
WIDE_QUOTES = "quotes:stock_count=6,maximum=6"
"""The same with tolerances of several levels of sub-filters."""


SYSTEMS: dict[str, System] = {
    "attributes": System(
        "attributes in arcs, found by the narrowest constraint",
        on_ring(attributes()),
        RANGES,
        options=ARCS,
        refresh=SELDOM,
    ),
    "attributes-ordered": System(
        "attributes placed in the order of their values, counting lists (004)",
        on_ring(attributes(placement=OrderedPlacement, match=Matching.COUNTING)),
        RANGES,
        options=ATTRIBUTES,
        refresh=SELDOM,
    ),
    "attributes-scattered": System(
        "attributes placed by hashing each value, counting lists (004)",
        on_ring(attributes(placement=ScatteredPlacement, match=Matching.COUNTING)),
        RANGES,
        options=ATTRIBUTES,
        refresh=SELDOM,
    ),
    "central": System(
        "one rendezvous for everything",
        on_ring(lambda parts: CentralBroker(parts.ring, **parts.options)),
        "market",
    ),
    "flooding": System(
        "every event to every node",
        on_ring(lambda parts: FloodingBroker(parts.ring, **parts.layers)),
        "market",
        options=(),
    ),
    "hope-kbpp": System(
        "events to every key that they cover (001)",
        on_ring(hope(Kbpp)),
        DOCUMENTS,
        options=HOPE,
        by_size=True,
        layout=SIGNATURE_LAYOUT,
    ),
    "hope-kbsp": System(
        "subscriptions to every key that covers them (001)",
        on_ring(hope(Kbsp)),
        DOCUMENTS,
        options=BOUNDED_HOPE,
        by_size=True,
        layout=SIGNATURE_LAYOUT,
    ),
    "hope-tags": System(
        "the same, for the attributes of events in place of documents (001)",
        on_ring(hope(Kbsp, TagAddressing)),
        RANGES,
        options=BOUNDED_HOPE,
        by_size=True,
        layout=SIGNATURE_LAYOUT,
    ),
    "ring": System(
        "the ring alone: every event to the owner of its id",
        on_ring(lambda parts: LookupBroker(parts.ring, **parts.layers)),
        "topics",
        "once",
        options=(),
    ),
    "state-aware-lengths": System(
        "tolerances by thresholds, with segments whose length follows their work",
        on_ring(balanced(BalancedThresholds)),
        QUOTES,
        options=SEGMENTS,
        by_size=True,
        names_all=False,
    ),
    "state-aware-mfd": System(
        "tolerances by MFD with proxies (002)",
        on_ring(state_aware(MFDBroker)),
        WIDE_QUOTES,
        "within",
        options=LEVELS,
        by_size=True,
        names_all=False,
    ),
    "state-aware-mfd-lengths": System(
        "tolerances by MFD, with segments whose length follows their work",
        on_ring(balanced(BalancedMFD)),
        WIDE_QUOTES,
        "within",
        options=LEVELS,
        by_size=True,
        names_all=False,
    ),
    "state-aware-sf": System(
        "tolerances by SF (002)",
        on_ring(state_aware(SFBroker)),
        QUOTES,
        options=SEGMENTS,
        by_size=True,
        names_all=False,
    ),
    "state-aware-sf-lengths": System(
        "tolerances by SF, with segments whose length follows their work",
        on_ring(balanced(BalancedSF)),
        QUOTES,
        options=SEGMENTS,
        by_size=True,
        names_all=False,
    ),
    "state-aware-thresholds": System(
        "tolerances by thresholds and leases",
        on_ring(state_aware(ThresholdsBroker)),
        QUOTES,
        options=SEGMENTS,
        by_size=True,
        names_all=False,
    ),
    "tree": System("a tree that routes by merged profiles (003)", tree, "market", options=TREE),
}
