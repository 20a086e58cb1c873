"""`distributary sim queries`: stream queries in a simulated network, compared with the interpreter."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from distributary.cli.arguments import factor, seconds, whole
from distributary.cli.terminal import Commands, add_action, add_options
from distributary.cli.trials import SEEDS, fault_table, run_trials
from distributary.cli.unused import refuse_unused, unused_in_queries

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
        ("--withdrawals N", (whole(0), 0), "queries that are withdrawn at random (0)"),
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
        ("--speed CYCLES", (factor, 0.0), "a second of every node; an item costs an operator one (no limit)"),
        ("--rush TIMES", (factor, 1.0), "as many events in the middle third of the time (1)"),
        ("--shed", False, "thin queries out while nodes have too much to do"),
        *SEEDS,
    )


def _run(parsed: argparse.Namespace) -> int:
    """Registers sources and queries at nodes of a simulated network and publishes events, while operators
    are moved and divided at random, or by the network itself towards a goal, and while messages are lost and
    nodes stop. In the end every client must have got what the interpreter gives, each item once.

    Without a file of queries it makes its own: chains of five operators over web feeds. Goals are bandwidth,
    latency and load, or a goal's text (docs/placement.md).

    With --speed nodes take time to process items, and with --rush more events come in the middle third of the
    time than before and after. With --shed queries are then thinned out: their clients are told their shares,
    and must get exactly the answers of these.

    exit codes: 0 all answers are right; 1 one is not, or a promised fault never happened; 2 the arguments are
    wrong.

    examples:
      distributary sim queries --goal bandwidth
      distributary sim queries --scenario everything --changes 30 --seeds 20
      distributary sim queries --gone 2 --changes 30
      distributary sim queries --nodes 4 --count 4000 --speed 60 --rush 6 --shed
      distributary sim queries queries.toml --events events.jsonl --nodes 8 --goal load
    """
    from distributary.sim.trials.query_trial import QueryTrial, run_query_trial

    refuse_unused(unused_in_queries(parsed))
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
    if outcome.told:
        out.print(_share_table(outcome))
    out.print(
        f"{len(trial.catalogue.queries):,} queries, {len(trial.given):,} events, {outcome.late:,} set aside; "
        f"{outcome.results:,} results, compared with the interpreter's: {len(outcome.problems):,} problems"
    )
    if outcome.rejection:
        out.print(f"set aside was {outcome.rejection}", soft_wrap=True, markup=False)
    out.print(
        f"{outcome.steps:,} steps of {outcome.virtual_seconds:,.0f} virtual seconds "
        f"in {outcome.seconds:.1f} s"
    )


def _share_table(outcome: QueryOutcome) -> Table:
    """The shares that clients were told, one line a query."""
    table = Table("query", title="queries that were thinned out, or could not be", title_justify="left")
    for heading in ("changes", "least share", "last share"):
        table.add_column(heading, justify="right")
    table.add_column("why not")
    for query in dict.fromkeys(one.query for one in outcome.told):
        told = [one for one in outcome.told if one.query == query]
        changes = sum(one.refused is None for one in told)
        reason = next((one.refused for one in told if one.refused is not None), "")
        least = min(one.share for one in told)
        table.add_row(query, f"{changes:,}", f"{least:.0%}", f"{told[-1].share:.0%}", reason)
    return table
