"""`distributary sim queries`: stream queries in a simulated network, compared with the interpreter."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from distributary.cli.arguments import seconds, whole
from distributary.cli.terminal import Commands, add_action, add_options
from distributary.cli.trials import SEEDS, fault_table, run_trials

if TYPE_CHECKING:
    from distributary.sim.trials.query_trial import QueryOutcome


def add_queries(parts: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to those of `distributary sim`."""
    command = add_action(parts, "queries", "stream queries whose operators move, while items flow", _run)
    command.add_argument("file", nargs="?", default="", metavar="FILE", help="queries (made up)")
    command.add_argument(
        "--events", dest="events_file", default="", metavar="FILE", help="for the file's queries (made up)"
    )
    add_options(
        command,
        ("--scenario NAME", "calm", "what goes wrong (calm)"),
        ("--goal GOAL", "", "what the network is to follow (nothing)"),
        ("--period SECONDS", (seconds, 15.0), "between its changes (15)"),
    )
    command.add_argument(
        "--told",
        default="neighbourhood",
        choices=["neighbourhood", "whole"],
        help="what nodes are told for it: what concerns them, or the whole situation (neighbourhood)",
    )
    add_options(
        command,
        ("--changes N", (whole(0), 0), "moves and divisions at random (0)"),
        ("--gone N", (whole(0), 0), "nodes that stop for good, one after the other (0)"),
        ("--nodes N", (whole(1), 16), "(16)"),
        ("--queries N", (whole(1), 20), "that are made up (20)"),
        ("--feeds N", (whole(1), 12), "that they read (12)"),
    )
    made_up = "events that are made up (1200)"
    command.add_argument("--count", dest="events", type=whole(1), default=1200, metavar="N", help=made_up)
    add_options(
        command,
        ("--seconds S", (seconds, 120.0), "of virtual time for all events (120)"),
        ("--latency MODEL", "uniform", "as for `sim run` (uniform)"),
        *SEEDS,
    )


def _run(parsed: argparse.Namespace) -> int:
    """Registers sources and queries at nodes of a simulated network and publishes events, while operators
    are moved and divided at random, or by the network itself towards a goal, and while messages are lost and
    nodes stop. In the end every client must have got what the interpreter gives, each item once.

    Without a file of queries it makes its own: chains of five operators over web feeds. Goals are bandwidth,
    latency and load, or a goal's text (docs/placement.md).

    exit codes: 0 all answers are right; 1 one is not, or a promised fault never happened.

    examples:
      distributary sim queries --goal bandwidth
      distributary sim queries --scenario everything --changes 30 --seeds 20
      distributary sim queries --gone 2 --changes 30
      distributary sim queries queries.toml --events events.jsonl --nodes 8 --goal load
    """
    from distributary.sim.trials.query_trial import QueryTrial, run_query_trial

    return run_trials(QueryTrial, run_query_trial, _show, parsed)


def _show(out: Console, outcome: QueryOutcome) -> None:
    trial = outcome.trial
    table = Table("what messages were for", title=f"queries on {trial.nodes:,} nodes", title_justify="left")
    for heading in ("messages", "bytes"):
        table.add_column(heading, justify="right")
    for purpose, traffic in outcome.traffic.items():
        table.add_row(purpose, f"{traffic.messages:,}", f"{traffic.bytes:,}")
    out.print(table)
    if outcome.fired:
        out.print(fault_table(outcome.fired))
    shares = ", ".join(f"{at} {count:,}" for at, count in sorted(Counter(outcome.hosts.values()).items()))
    out.print(f"operators by node in the end: {shares}", soft_wrap=True)
    changed = ", ".join(f"{what} {count:,}" for what, count in outcome.changed.items())
    out.print(f"changes: {changed}")
    out.print(
        f"streams, bytes a second by tenth of the time: {', '.join(f'{rate:,.0f}' for rate in outcome.data)}"
    )
    out.print(
        f"{len(trial.catalogue.queries):,} queries, {len(trial.given):,} events, {outcome.late:,} set aside; "
        f"{outcome.results:,} results, compared with the interpreter's: {len(outcome.problems):,} problems"
    )
    out.print(
        f"{outcome.steps:,} steps of {outcome.virtual_seconds:,.0f} virtual seconds "
        f"in {outcome.seconds:.1f} s"
    )
