"""Starts, shows and stops a network of brokers on this machine, a process each."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from distributary.cli.arguments import setting, whole
from distributary.cli.terminal import FAILED, WELL, add_action, add_options, describe, say

EXAMPLES = """  distributary network up --nodes 5 --dir plant
  distributary network status --dir plant
  distributary network down --dir plant"""


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command, and add those below it."""
    describe(command, __doc__, EXAMPLES)
    commands = command.add_subparsers(title="commands", required=True, metavar="COMMAND")
    up = add_action(commands, "up", "start a network", _up)
    add_directory(up)
    add_options(
        up,
        ("--nodes N", (whole(1), 5), "how many (5)"),
        ("--system NAME", "tree", "what they run, as in `distributary sim list` (tree)"),
        ("--network NAME", "distributary", "the name of the network (distributary)"),
    )
    up.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of it",
    )
    status = add_action(commands, "status", "what each node says of itself", _status)
    add_directory(status)
    add_options(status, ("--json", False, "as one JSON list"))
    add_directory(add_action(commands, "down", "stop a network", _down))


def add_directory(command: argparse.ArgumentParser) -> None:
    """Add the option that says where the files of a network are."""
    command.add_argument("--dir", type=Path, required=True, metavar="DIR", help="where its files are")


def _up(parsed: argparse.Namespace) -> int:
    """Starts a network, and ends when all its nodes have joined. The directory then has network.json, which
    says where clients connect, and a file and a log for each node. A node that died is started again with
    distributary node DIR/NAME.toml.

    examples:
      distributary network up --nodes 5 --dir plant
      distributary network up --nodes 12 --system hope-kbpp --dir documents --set history=60
    """
    from distributary.live.local_network import LocalNetwork

    described = LocalNetwork(parsed.dir).up(
        parsed.nodes, parsed.system, parsed.network, dict(parsed.set), say
    )
    print(json.dumps([entry["client"] for entry in described["nodes"]]))
    return WELL


def _status(parsed: argparse.Namespace) -> int:
    """Shows what each node says of itself; the exit code is 1 when one does not answer.

    examples:
      distributary network status --dir plant
      distributary network status --dir plant --json
    """
    from distributary.live.local_network import LocalNetwork

    nodes = LocalNetwork(parsed.dir).status()
    if parsed.json:
        print(json.dumps(nodes))
    else:
        _print_table(nodes)
    return FAILED if any(node.get("missing") for node in nodes) else WELL


def _down(parsed: argparse.Namespace) -> int:
    """Stops all nodes of a network; their logs stay.

    examples:
      distributary network down --dir plant
    """
    from distributary.live.local_network import LocalNetwork

    say(f"{LocalNetwork(parsed.dir).down()} nodes stopped")
    return WELL


def _print_table(nodes: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from distributary.cli.terminal import console

    table = Table("node", "clients connect at", "is", "links", "clients", "published", "delivered", "dropped")
    for node in nodes:
        counts = node.get("counts", {})
        state = "missing" if node.get("missing") else "joined" if node["joined"] else "joining"
        numbers = [counts.get(name, 0) for name in ("published", "delivered", "dropped")]
        table.add_row(
            node["name"],
            node["endpoint"],
            state,
            str(len(node.get("linked", []))),
            str(len(node.get("clients", []))),
            *(f"{number:,}" for number in numbers),
        )
    console().print(table)
