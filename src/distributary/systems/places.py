"""Where a node stands in its overlay, in plain values: for whoever looks at a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from distributary.overlay.broker import Broker
from distributary.overlay.recording import RecordedBroker
from distributary.systems.ring_broker import RingBroker
from distributary.systems.tree.broker import TreeBroker

if TYPE_CHECKING:
    from distributary.systems.queries.broker import FlowBroker


def place_of(broker: Broker | None) -> dict[str, Any]:
    """Who is next to a node, by address: parent, children and root, or predecessor and successor.

    Of a tree also the epoch and the term of the root that the node knows, and whether it stands by for the
    root. Of a query network the node that has the registry, and the operators that run here. Nothing for
    nodes of other overlays.
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
    if hasattr(broker, "registry_link"):  # query networks are loaded only where there is one
        flow = cast("FlowBroker", broker)
        registry = flow.registry_link.address
        return {"overlay": "queries", "registry": registry, "operators": sorted(flow.engine.operators)}
    return {}
