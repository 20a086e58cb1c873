"""A network as its nodes tell it, put together: names for addresses, who is where, and who is missing.

{"network", "system", "missing": [names], "left": [names],
 "tree": {"roots": [names], "epoch", "term"} or "ring": {"order": [names], "broken": [names]} or
 "queries": {"registry": [names], "operators": {operator: name}},
 "rates": {"events in", "events out"}, "unsent": bytes, "waiting": publishers,
 "nodes": [{"name", "joined", "parent", "children", ..., "links": [{"node", "round_trip_ms", "unsent"}]}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distributary.systems.membership import address_of

BY_ADDRESS = ("parent", "root", "predecessor", "successor", "registry")
"""What a node tells of its place as an address of another."""


def network_view(described: Mapping[str, Any], told: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The network of `network.json`, by what each node tells of itself; None for one that is silent."""
    entries = described["nodes"]
    names = {address_of(described["network"], entry["name"]): entry["name"] for entry in entries}
    nodes = [_node(entry, health, names) for entry, health in zip(entries, told, strict=True)]
    there = [node for node in nodes if not node.get("missing")]
    return {
        "network": described["network"],
        "system": described["system"],
        "missing": [node["name"] for node in nodes if node.get("missing")],
        "left": [node["name"] for node in nodes if node.get("left")],
        **_shape(there),
        "rates": {
            "events in": round(sum(node["rates"].get("published", 0.0) for node in there), 1),
            "events out": round(sum(node["rates"].get("delivered", 0.0) for node in there), 1),
        },
        "unsent": sum(link["unsent"] for node in there for link in node["links"]),
        "waiting": sum(node["waiting"] for node in there),
        "nodes": nodes,
    }


def _node(
    entry: Mapping[str, Any], health: Mapping[str, Any] | None, names: Mapping[int, str]
) -> dict[str, Any]:
    if health is None:
        told = {"name": entry["name"], "endpoint": entry["client"], "missing": True}
        return told | ({"left": True} if entry.get("left") else {})
    place = dict(health["place"])
    for key in BY_ADDRESS:
        if key in place:
            place[key] = _name(place[key], names)
    if "children" in place:
        place["children"] = sorted(str(_name(child, names)) for child in place["children"])
    links = [{**link, "node": _name(link["node"], names)} for link in health["links"]]
    rest = {key: value for key, value in health.items() if key not in ("place", "links", "linked")}
    return {**rest, **place, "links": links, "linked": [link["node"] for link in links if link["linked"]]}


def _name(address: int | None, names: Mapping[int, str]) -> str | None:
    return None if address is None else names.get(address, str(address))


def _shape(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the nodes make together."""
    if nodes and all(node.get("overlay") == "tree" for node in nodes):
        latest = max(nodes, key=lambda node: (node["epoch"] or 0.0, node["term"] or 0))
        roots = [node["name"] for node in nodes if node["parent"] is None and node["joined"]]
        return {"tree": {"roots": roots, "epoch": latest["epoch"], "term": latest["term"]}}
    if nodes and all(node.get("overlay") == "ring" for node in nodes):
        order = [node["name"] for node in sorted(nodes, key=lambda node: node["address"])]
        after = dict(zip(order, [*order[1:], order[0]], strict=True))
        broken = [node["name"] for node in nodes if node["successor"] != after[node["name"]]]
        return {"ring": {"order": order, "broken": broken}}
    if nodes and all(node.get("overlay") == "queries" for node in nodes):
        hosts = {operator: node["name"] for node in nodes for operator in node["operators"]}
        registries = sorted({node["registry"] for node in nodes})
        return {"queries": {"registry": registries, "operators": dict(sorted(hosts.items()))}}
    return {}
