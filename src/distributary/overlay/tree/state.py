"""What every part of a tree node is given when it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.tree.event_log import EventLog
from distributary.overlay.tree.link import ParentLink
from distributary.overlay.tree.root_contact import RootContact


@dataclass(frozen=True)
class TreeSettings:
    """What all nodes of a tree have in common. Times are multiples of `heartbeat` unless they say seconds."""

    fanout: int | None = 8
    """The most children that a node may have; None for no limit."""
    most_profiles: int = 64
    """The most profiles in an interest; above that, profiles are merged."""
    room: int = 10_000
    """How many events a node keeps, to send them again."""
    room_bytes: int = 64 << 20
    """How many bytes of events it keeps at most, but one event at least."""
    remembered: int = 100_000
    """How many event ids the root remembers, to number no event twice."""
    heartbeat: float | None = None
    """Seconds between heartbeats; None for a tree in which nothing fails."""
    silence: float = 3.5
    """A parent that has been silent for longer has failed; a child, for twice as long."""
    election: float = 20.0
    """When the root has been silent for longer, its children elect another."""
    patience: float = 8.0
    """A change of parent that takes longer is tried another way."""
    offers: int = 64
    """How many parents the root offers to a node that chooses its own."""
    retry: float = 10.0
    """Seconds after which a node for which there is no place in the tree asks again."""
    probe_wait: float = 2.0
    """Seconds after which nodes that have not answered a probe are left out."""


@dataclass(frozen=True)
class TreeState:
    """The means of a node to act, and the state that several of its parts read."""

    node: Node
    post: Callable[[Address, Message], None]
    """Sends a message reliably, where the node has a courier; `node.send` may lose it."""
    settings: TreeSettings
    random: Random
    root: RootContact
    link: ParentLink
    log: EventLog
