"""Starts, shows and stops a network of brokers on this machine, a process each."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from distributary.cli.arguments import seconds, setting, whole
from distributary.cli.terminal import FAILED, SEED, WELL, add_action, add_options, console, describe, say
from distributary.errors import SettingError, UsageError
from distributary.output import STANDARD

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
        ("--system NAME", "tree", "what they run: `queries`, or as in `distributary sim list` (tree)"),
        ("--network NAME", "distributary", "the name of the network (distributary)"),
        ("--latency FILE", str, "how slow links are made: .csv, .jsonl, or a model such as wide-area"),
        ("--trace", False, "let each node record what it does, from its start"),
        ("--faults", False, "let links be disturbed for trials, at /faults of a node's status"),
        SEED,
    )
    up.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of it",
    )
    status = add_action(commands, "status", "the tree or ring, rates, queues, and who is missing", _status)
    add_directory(status)
    add_options(status, ("--json", False, "as one JSON object"))
    trace = add_action(commands, "trace", "what all nodes do, as the simulator tells it", _trace)
    add_directory(trace)
    add_options(
        trace,
        ("--seconds N", seconds, "for so long from now on (default: what nodes have recorded of themselves)"),
        ("--out FILE", STANDARD, "where to, compressed if it ends in .gz (default: - for standard output)"),
    )
    add_directory(add_action(commands, "down", "stop a network", _down))


def add_directory(command: argparse.ArgumentParser) -> None:
    """Add the option that says where the files of a network are."""
    command.add_argument("--dir", type=Path, required=True, metavar="DIR", help="where its files are")


def _up(parsed: argparse.Namespace) -> int:
    """Starts a network, and ends when all its nodes have joined. The directory then has network.json, which
    says where clients connect, and a file and a log for each node. A node that died is started again with
    distributary node DIR/NAME.toml.

    With --latency every link holds back what is sent, as long as it would take to get there: by a square of
    round-trip times in milliseconds (.csv), by {"from": "node-1", "to": 2, "ms": 80, "mbit": 10} a line
    (.jsonl; round trip and bandwidth), or as between hosts all over the world (wide-area, and the other
    models of `distributary sim run --latency`). DIR/NAME.toml then has what holds for each node.

    examples:
      distributary network up --nodes 5 --dir plant
      distributary network up --nodes 12 --system hope-kbpp --dir documents --set history=60
      distributary network up --nodes 12 --latency wide-area --seed 7 --dir world
    """
    from distributary.cli.link_speeds import link_speeds
    from distributary.live.local_network import LocalNetwork, node_names
    from distributary.systems.membership import Membership, settings_for

    names = node_names(parsed.nodes)
    try:
        Membership(parsed.system, parsed.nodes, settings_for(parsed.system, dict(parsed.set), names))
    except SettingError as error:
        raise UsageError(str(error)) from None
    tables: dict[str, dict[str, Any]] = {name: {} for name in names}
    if parsed.latency is not None:
        for name, speeds in link_speeds(parsed.latency, parsed.seed, parsed.network, names).items():
            tables[name] |= speeds
    for name in names:
        if parsed.trace:
            tables[name]["trace"] = {"file": f"{name}.trace"}
        if parsed.faults:
            tables[name]["faults"] = {"seed": parsed.seed}
    described = LocalNetwork(parsed.dir).up(
        parsed.nodes, parsed.system, parsed.network, dict(parsed.set), tables, say
    )
    print(json.dumps([entry["client"] for entry in described["nodes"]]))
    return WELL


def _status(parsed: argparse.Namespace) -> int:
    """Shows the tree or the ring as it is now, with the epoch and the term of the root; for each node the
    events a second that its clients published and were given, bytes that wait in its links, publishers that
    wait, and the slowest round trips; and what is wrong. The exit code is 1 when a node does not answer.

    examples:
      distributary network status --dir plant
      distributary network status --dir plant --json
    """
    from distributary.live.local_network import LocalNetwork

    view = LocalNetwork(parsed.dir).view()
    if parsed.json:
        print(json.dumps(view))
    else:
        from distributary.cli.network_status import print_network

        print_network(console(), view)
    return FAILED if view["missing"] else WELL


def _trace(parsed: argparse.Namespace) -> int:
    """Writes all messages, alarms and calls that the nodes were given and what each wanted then, in the lines
    of the simulator's traces: for some seconds from now on, or since their start where they record themselves
    (distributary network up --trace). What was recorded from the start the simulator can do again.

    examples:
      distributary network trace --dir plant --seconds 10 --out plant.trace
      distributary network trace --dir plant --out plant.trace.gz
      distributary sim replay plant.trace.gz
    """
    from contextlib import ExitStack

    from distributary.live.local_network import LocalNetwork
    from distributary.sim.trace import open_trace

    network = LocalNetwork(parsed.dir)
    lines = network.recorded() if parsed.seconds is None else network.trace(parsed.seconds)
    with ExitStack() as files:
        out = sys.stdout if parsed.out == STANDARD else open_trace(Path(parsed.out), files)
        for line in lines:
            out.write(line + "\n")
    say(f"{len(lines):,} lines")
    return WELL


def _down(parsed: argparse.Namespace) -> int:
    """Stops all nodes of a network; their logs stay.

    examples:
      distributary network down --dir plant
    """
    from distributary.live.local_network import LocalNetwork

    say(f"{LocalNetwork(parsed.dir).down()} nodes stopped")
    return WELL
