"""How `distributary network status` shows a network: tree, ring or operators, its nodes, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

SHOWN = 4
"""Links of a node whose round trips are shown: the slowest."""


def print_network(out: Console, view: Mapping[str, Any]) -> None:
    """Show a network as `live.network_view` gives it."""
    there = len(view["nodes"]) - len(view["missing"])
    rates = view["rates"]
    out.print(
        f"network {escape(view['network'])!r} of {view['system']}: {there} of {len(view['nodes'])} nodes,"
        f" {rates['events in']:,} events in and {rates['events out']:,} out a second"
    )
    for part in _shape(view):
        out.print(part)
    out.print(_table(view))
    for problem in problems(view):
        out.print(problem, markup=False)


def problems(view: Mapping[str, Any]) -> list[str]:
    """What is not as it should be, a sentence each."""
    found = [
        f"{name} has left" if name in view["left"] else f"{name} does not answer" for name in view["missing"]
    ]
    found += [f"{node['name']} has no place yet" for node in view["nodes"] if not node.get("joined", True)]
    roots = view.get("tree", {}).get("roots", ["one"])
    if len(roots) != 1:
        found.append(f"the tree has {len(roots)} roots: {', '.join(roots) or 'none'}")
    if len(registries := view.get("queries", {}).get("registry", ["one"])) > 1:
        found.append(f"nodes know different registries: {', '.join(registries)}")
    found += [
        f"{name} has another successor than the next node" for name in view.get("ring", {}).get("broken", ())
    ]
    if view["unsent"]:
        found.append(f"{view['unsent']:,} bytes wait in links")
    if view["waiting"]:
        found.append(f"{view['waiting']:,} publishers wait")
    return found


def _shape(view: Mapping[str, Any]) -> list[RenderableType]:
    nodes = {node["name"]: node for node in view["nodes"]}
    if "tree" in view:
        shape = view["tree"]
        title = f"epoch {shape['epoch']}, term {shape['term']}"
        return [_branch(Tree(f"{name} ({title})"), nodes[name], nodes, {name}) for name in shape["roots"]]
    if "ring" in view:
        order = view["ring"]["order"]
        return ["ring: " + " > ".join([*order, order[0]])]
    if "queries" in view:
        registry, operators = view["queries"]["registry"], view["queries"]["operators"]
        table = Table("operator", "runs at")
        for name, host in operators.items():
            table.add_row(escape(name), host)
        return [f"registry at {', '.join(registry)}", *([table] if operators else [])]
    return []


def _branch(tree: Tree, node: Mapping[str, Any], nodes: Mapping[str, Any], seen: set[str]) -> Tree:
    for name in node.get("children", ()):
        child = nodes.get(name)
        standby = " (stands by for the root)" if child and child.get("standby") else ""
        below = tree.add(f"{name}{standby}" if child and not child.get("missing") else f"{name} (missing)")
        if child is not None and name not in seen:
            _branch(below, child, nodes, seen | {name})
    return tree


def _table(view: Mapping[str, Any]) -> Table:
    table = Table("node", "clients connect at", "is")
    for heading in ("clients", "in /s", "out /s", "unsent", "waiting"):
        table.add_column(heading, justify="right")
    table.add_column("round trips")
    for node in view["nodes"]:
        if node.get("missing"):
            table.add_row(node["name"], node["endpoint"], "left" if node.get("left") else "missing")
            continue
        rates = node["rates"]
        table.add_row(
            node["name"],
            node["endpoint"],
            "joined" if node["joined"] else "joining",
            f"{len(node['clients']):,}",
            f"{rates.get('published', 0.0):,}",
            f"{rates.get('delivered', 0.0):,}",
            f"{sum(link['unsent'] for link in node['links']):,}",
            f"{node['waiting']:,}",
            _round_trips(node),
        )
    return table


def _round_trips(node: Mapping[str, Any]) -> str:
    """The slowest links of a node."""
    measured = [link for link in node["links"] if link["round_trip_ms"] is not None]
    slowest = sorted(measured, key=lambda link: -link["round_trip_ms"])
    shown = [f"{link['node']} {link['round_trip_ms']:.1f} ms" for link in slowest[:SHOWN]]
    return ", ".join([*shown, *(["..."] if len(slowest) > SHOWN else [])])
