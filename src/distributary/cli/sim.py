"""Runs the nodes of a system in virtual time, in one thread, from one seed: the same seed gives the
same trace, byte for byte. Faults come from the seed as well; a run that did not inject what its scenario
promises has failed, as has one whose deliveries are not those that brute force finds.

examples:
  distributary sim list
  distributary sim run churn --system central --nodes 64 --seed 7
  distributary sim run calm --system flooding --nodes 1000 --latency transit-stub
  distributary sim run random --system state-aware-sf --seed 3 --trace a.txt.gz
  distributary sim queries --scenario messages --goal bandwidth
  distributary sim promise --seeds 20
  distributary sim compare a.txt.gz b.txt.gz
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from distributary.cli.arguments import factor, seconds, setting, whole
from distributary.cli.sim_promise import add_promise
from distributary.cli.sim_queries import add_queries
from distributary.cli.terminal import FAILED, WELL, Commands, add_action, add_options, console, describe
from distributary.cli.trials import SEEDS, fault_table, run_trials
from distributary.cli.unused import refuse_unused, refuse_unused_settings, unused_in_run

if TYPE_CHECKING:
    from distributary.sim.trials.trial import TrialOutcome


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    parts = command.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(parts)
    add_queries(parts)
    add_promise(parts)
    traces = add_action(parts, "compare", "find where two traces part", _compare)
    traces.add_argument("first", type=Path, metavar="FILE")
    traces.add_argument("second", type=Path, metavar="FILE")
    again = add_action(parts, "replay", "do again what live nodes did", _replay)
    again.add_argument("trace", type=Path, metavar="FILE")
    listing = add_action(parts, "list", "the systems and the scenarios", _list)
    add_options(listing, ("--settings", False, "the settings of each system as well"))


def _add_run(parts: Commands[argparse.ArgumentParser]) -> None:
    from distributary.sim.networks import NETWORKS
    from distributary.sim.trials.run import LEAST

    latencies = "\n".join(f"  {name:<14}{about}" for name, about in NETWORKS.items())
    command = add_action(parts, "run", "one system, one scenario, one seed", _run, latencies=latencies)
    command.add_argument("scenario", metavar="SCENARIO", help="what goes wrong, such as loss, churn, random")
    command.add_argument("--system", required=True, metavar="NAME", help="what is tried")
    add_options(
        command,
        ("--nodes N", (whole(1), 64), "(64)"),
        *SEEDS,
        ("--subscriptions N", whole(0), "(200, or all of the file)"),
        ("--events N", whole(1), "(100, or all of the file)"),
        ("--subscriptions-file FILE", "", "your own: JSON lines, CSV or Parquet (made up)"),
        ("--events-file FILE", "", "your own: JSON lines, CSV or Parquet (made up)"),
        ("--schema FILE", "", "the attributes of your own, for the attribute systems"),
        ("--workload NAME", "", "(the system's own)"),
        ("--latency MODEL", "uniform", "one of those above (uniform)"),
        ("--gap SECONDS", (seconds, 5.0), "between events, in which each must have arrived (5)"),
        ("--robust", False, "acknowledgements, upkeep, copies and refresh also when calm"),
        ("--gone N", (whole(0), 0), "nodes that crash for good (0)"),
        ("--at-once N", (whole(1), 1), "nodes out of order at a time (1)"),
        ("--side N", (whole(1), 1), "nodes that a partition cuts off, at most (1)"),
        ("--strength X", (factor, 1.0), "times the usual chance of losing a message, and so on (1)"),
        ("--sizes", False, "measure bytes under faults too"),
        ("--settings FILE", "", "settings of the system, in TOML"),
        ("--least N", (whole(0), LEAST), f"deliveries that must be due to mean anything ({LEAST})"),
    )
    command.add_argument(
        "--set",
        dest="settings_given",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="a setting of the system, such as refresh=30; `sim list --settings` has all; may be repeated",
    )


def _list(parsed: argparse.Namespace) -> int:
    """Names every system and scenario, and what each is.

    examples:
      distributary sim list
    """
    from distributary.sim.scenario import SCENARIOS
    from distributary.systems.queries.options import NAME, OPTIONS
    from distributary.systems.table import SYSTEMS

    systems = Table("system", "what it is", "workload")
    for name, system in SYSTEMS.items():
        systems.add_row(name, system.about, system.workload)
    systems.add_row(NAME, "stream queries, by `sim queries` and `network up`", "feeds of its own")
    scenarios = Table("scenario", "what goes wrong")
    for name, kinds in SCENARIOS.items():
        scenarios.add_row(name, ", ".join(kinds) or "nothing")
    scenarios.add_row("random", "one to four kinds, chosen by the seed")
    out = console()
    out.print(systems)
    out.print(scenarios)
    if parsed.settings:
        chosen = Table("system", "setting", "default", "what it is")
        options = {**{name: system.options for name, system in SYSTEMS.items()}, NAME: OPTIONS}
        for name, own in options.items():
            for option in own:
                chosen.add_row(name, option.name, str(option.default), option.about)
        out.print(chosen)
    return WELL


def _compare(parsed: argparse.Namespace) -> int:
    """Shows the first line in which two traces differ, after the lines before it. Exit code 1 if they do.

    examples:
      distributary sim compare a.txt.gz b.txt.gz
    """
    from distributary.sim.trace import compare

    difference = compare(parsed.first, parsed.second)
    print("the traces are the same" if difference is None else difference)
    return WELL if difference is None else FAILED


def _run(parsed: argparse.Namespace) -> int:
    """Clients subscribe and unsubscribe, faults come and go, and every delivery is checked: amid faults
    nothing may come unasked or twice, and when all has healed nothing may be missing or late, by what brute
    force finds. A run in which too little was due fails. `distributary sim list` names scenarios and systems.

    latencies:
    {latencies}

    exit codes: 0 all was delivered as it should be; 1 it was not, too little was due, or a promised fault
    never happened; 2 the arguments are wrong.

    examples:
      distributary sim run everything --system attributes --nodes 32 --seed 11
      distributary sim run partition --system central --side 32 --gone 6 --at-once 2
      distributary sim run loss --system flooding --seeds 50
    """
    from distributary.sim.trials.trial import Trial, run_trial
    from distributary.toml_files import read_toml

    parsed_file = read_toml(parsed.settings) if parsed.settings else {}
    schema = {"schema": parsed.schema} if parsed.schema else {}
    parsed.settings = {**parsed_file, **schema, **dict(parsed.settings_given)}
    refuse_unused(unused_in_run(parsed))
    refuse_unused_settings(parsed)
    return run_trials(Trial, run_trial, _show, parsed)


def _replay(parsed: argparse.Namespace) -> int:
    """Gives fresh nodes what the nodes of a live network were given, in the same order and at the same times,
    and compares what they want: the exit code is 1 when it is not what was recorded.

    examples:
      distributary network trace --dir plant --out plant.trace
      distributary sim replay plant.trace
    """
    from distributary.sim.replaying import replay

    outcome = replay(parsed.trace)
    if outcome.partial_nodes:
        print(f"{len(outcome.partial_nodes):,} nodes were not recorded from their start and are left out")
    if not outcome.nodes:
        return FAILED
    print(f"{outcome.nodes:,} nodes were given {outcome.inputs:,} messages, alarms and calls again")
    if outcome.difference is not None:
        print(outcome.difference)
        return FAILED
    print(f"all {outcome.outputs:,} things that they wanted are the same")
    return WELL


def _show(out: Console, outcome: TrialOutcome) -> None:
    """Tell what a trial cost and what happened in it."""
    out.print(_costs_table(outcome))
    out.print(_kinds_table(outcome))
    if outcome.fired:
        out.print(fault_table(outcome.fired))
    if outcome.underlay is not None:
        below = outcome.underlay
        out.print(
            f"link stress {below.stress:.2f} on average, {below.largest_stress:,} at most;"
            f" stretch {below.stretch:.2f} on average, {below.largest_stretch:.2f} at most"
        )
    refused = f", {outcome.refused:,} subscriptions refused" if outcome.refused else ""
    borrowed = f", {outcome.borrowed:,} evaluated by the systems' own filters" if outcome.borrowed else ""
    out.print(
        f"{outcome.deliveries:,} deliveries checked; {outcome.due:,} were due of {outcome.checked:,} events"
        f" when all had healed: {len(outcome.problems):,} problems{refused}{borrowed}"
    )
    if outcome.refused:
        out.print(f"refused was {outcome.refusal}", soft_wrap=True, markup=False)
    speed = outcome.steps / max(outcome.seconds, 1e-9)
    out.print(
        f"{outcome.steps:,} steps of {outcome.virtual_seconds:,.0f} virtual seconds"
        f" in {outcome.seconds:.1f} s ({speed:,.0f} a second)"
    )


def _costs_table(outcome: TrialOutcome) -> Table:
    table = Table(
        "operation", title=f"{outcome.trial.system}, {outcome.trial.nodes:,} nodes", title_justify="left"
    )
    for heading in ("count", "messages", "acknowledgements", "bytes", "hops", "deliveries", "delay s"):
        table.add_column(heading, justify="right")
    for name, costs in outcome.costs.items():
        table.add_row(
            name,
            f"{costs.operations:,}",
            f"{costs.messages:,.1f}",
            f"{costs.apart.get('Ack', 0):,.1f}",
            f"{costs.bytes:,.0f}",
            f"{costs.hops:.1f}",
            f"{costs.deliveries:,.1f}",
            f"{costs.delay:.2f}",
        )
    return table


def _kinds_table(outcome: TrialOutcome) -> Table:
    table = Table("kind of message")
    for heading in ("messages", "bytes", "of these upkeep"):
        table.add_column(heading, justify="right")
    for kind, traffic in outcome.kinds.items():
        upkeep = outcome.upkeep.get(kind)
        table.add_row(
            kind, f"{traffic.messages:,}", f"{traffic.bytes:,}", f"{upkeep.messages:,}" if upkeep else "0"
        )
    return table
