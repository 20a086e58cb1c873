"""A node that founds a network or joins one by itself, wherever it runs: made from a few plain values.

    broker = Membership("tree", nodes=16, chosen={"fanout": 4}).broker(address, contacts=[93])

The same values make the same node, so that what a live node did can be done again in the simulator; but for
nodes of query networks, which measure their own work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

from distributary.errors import DistributaryError
from distributary.overlay.broker import Broker
from distributary.overlay.node import Address
from distributary.overlay.trace_text import text_of, value_of
from distributary.systems.assembly import CIRCLE, Settings
from distributary.systems.options import LAYOUT, read_options
from distributary.systems.table import system

QUERIES = "queries"
"""The system whose nodes run stream queries; loaded by those who run it."""
LONGEST_SHOWN = 80
"""Characters of a setting that nodes tell each other in full."""
MADE = "made "
"""How a line of a trace begins, after `happened` and the node, that tells how the node was made."""


def address_of(network: str, name: str) -> Address:
    """The address of a node, from the names of its network and its own.

    >>> address_of("plant", "hall-1")
    722281284
    """
    return int.from_bytes(sha256(f"{network}/{name}".encode()).digest()[: CIRCLE.bits // 8], "big")


def settings_for(system: str, chosen: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """The settings of nodes that are started together, by what was chosen and their names."""
    return {"brokers": list(nodes), "registry": nodes[0], **chosen} if system == QUERIES else dict(chosen)


def short(value: Any) -> str:
    """A setting as a text; where that is long, its beginning and a digest of all of it.

    >>> short(4), short("x" * 100)
    ('4', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (digest 9919cd30)")
    """
    value = " ".join(value.split()) if isinstance(value, str) else value
    text = "none" if value is None else repr(value)
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:40]}... (digest {sha256(text.encode()).hexdigest()[:8]})"


@dataclass(frozen=True)
class Membership:
    """What the nodes of a network have in common; DistributaryError for a system or setting there is not."""

    system: str
    nodes: int
    """About how many there will be: some systems divide their work by it."""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the system that a user chose."""
    network: str = "distributary"
    """Its name, by which the names of nodes become addresses."""

    def __post_init__(self) -> None:
        if self.is_query_network:
            from distributary.systems.queries.options import read_query_options

            read_query_options(self.chosen)
        else:
            self.settings()

    @property
    def is_query_network(self) -> bool:
        """Whether its nodes run stream queries."""
        return self.system == QUERIES

    @property
    def keeps_log(self) -> bool:
        """Whether its nodes have something to keep on disks."""
        return not self.is_query_network and self.broker(0).acknowledges

    @property
    def shared(self) -> tuple[tuple[str, str], ...]:
        """The settings that all nodes must have alike, with those that nobody chose, as texts.

        >>> dict(Membership("tree", 16, {"fanout": "4"}).shared)["fanout"]
        '4'
        """
        if self.is_query_network:
            from distributary.systems.queries.options import shared_query_options

            return tuple((name, short(value)) for name, value in shared_query_options(self.chosen).items())
        found = system(self.system)
        defaults = {option.name: option.default for option in found.options}
        values = {**defaults, **read_options(self.system, found.options, self.chosen)}
        if found.by_size and values.get("dimension") is None:
            values["nodes"] = self.nodes
        if found.layout > 1:
            values[LAYOUT] = found.layout
        return tuple((name, short(value)) for name, value in values.items())

    def settings(self) -> Settings:
        """Those of robust nodes, and what was chosen."""
        found = system(self.system)
        given = read_options(self.system, found.options, self.chosen)
        keeping: dict[str, Any] = {"refresh": found.refresh}
        keeping |= {key: given.pop(key) for key in ("copies", "refresh") if key in given}
        return Settings.robust(self.nodes, **keeping, chosen=given)

    def broker(self, address: Address, contacts: Sequence[Address] = ()) -> Broker:
        """Make a node that joins through these; the first of a network where there are none."""
        if self.is_query_network:
            from distributary.systems.queries.options import query_broker

            return query_broker(self.chosen, address, partial(address_of, self.network))
        founders = contacts[:1] or [address]
        ways = iter(contacts)
        assembly = system(self.system).assemble(self.settings(), founders, lambda _: next(ways, None))
        broker = assembly(address)
        if not contacts:
            assembly.settle([broker])
        return broker

    def told(self, contacts: Sequence[Address]) -> str:
        """How a node was made, as a trace tells it."""
        made = {"system": self.system, "nodes": self.nodes, "chosen": dict(self.chosen)}
        return MADE + text_of(made | {"contacts": tuple(contacts)})

    @classmethod
    def remade(cls, address: Address, told: str) -> Broker:
        """A node made as a trace tells it; DistributaryError when it does not."""
        made = value_of(told.removeprefix(MADE))
        try:
            return cls(made["system"], made["nodes"], made["chosen"]).broker(address, made["contacts"])
        except (KeyError, TypeError) as error:
            raise DistributaryError(f"a trace does not tell how node {address} was made: {error}") from None
