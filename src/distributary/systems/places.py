"""Where a node stands in its overlay, in plain values: for whoever looks at a network."""

from __future__ import annotations

from typing import Any

from distributary.overlay.broker import Broker
from distributary.overlay.recording import RecordedBroker
from distributary.systems.ring_broker import RingBroker
from distributary.systems.tree.broker import TreeBroker


def place_of(broker: Broker | None) -> dict[str, Any]:
    """Who is next to a node, by address: parent, children and root, or predecessor and successor.

    Of a tree also the epoch and the term of the root that the node knows, and whether it stands by for the
    root. Nothing for nodes of other overlays.
    """
    if isinstance(broker, RecordedBroker):
        broker = broker.recorded
    if isinstance(broker, TreeBroker):
        tree = broker.tree
        term = tree.root.term
        return {
            "overlay": "tree",
            "parent": tree.parent,
            "children": list(tree.children),
            "root": None if term is None else term.root,
            "epoch": None if term is None else term.epoch,
            "term": None if term is None else term.number,
            "standby": tree.is_standby,
        }
    if isinstance(broker, RingBroker):
        ring = broker.ring
        return {"overlay": "ring", "predecessor": ring.predecessor, "successor": ring.successors[0]}
    return {}
