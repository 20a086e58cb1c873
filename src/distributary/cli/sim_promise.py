"""`distributary sim promise`: whether a tree keeps what it acknowledged, whatever happens to one node."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from distributary.cli.arguments import factor, whole
from distributary.cli.terminal import Commands, add_action, add_options
from distributary.cli.trials import SEEDS, fault_table, run_trials

if TYPE_CHECKING:
    from distributary.sim.trials.promise import PromiseOutcome


def add_promise(parts: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to those of `distributary sim`."""
    from distributary.sim.trials.promise import KINDS

    about = "a tree whose nodes fail one after another: is anything lost, or twice?"
    command = add_action(parts, "promise", about, _run, kinds=", ".join(KINDS))
    add_options(
        command,
        ("--nodes N", (whole(1), 7), "(7)"),
        ("--faults N", (whole(1), 4), "one after another (4)"),
        (
            "--kinds KIND,...",
            (_kinds, KINDS),
            "what can happen to a node (all of those above), or leave (in good order), lose on return",
        ),
        ("--publishers N", (whole(1), 3), "(3)"),
        ("--subscribers N", (whole(1), 6), "(6)"),
        ("--rate N", (factor, 1.0), "events a second of each publisher (1)"),
        ("--late CLASS", "", "messages that come late, such as ForwardedEvents (none)"),
        ("--refused", False, "tell nodes that the process of another is gone, as connections do"),
        *SEEDS,
    )


def _kinds(text: str) -> tuple[str, ...]:
    """Kinds of faults, separated by commas; the trial refuses those that there are not."""
    return tuple(kind.strip() for kind in text.split(","))


def _run(parsed: argparse.Namespace) -> int:
    """Publishers send events to the brokers of a tree until each is acknowledged, and subscribers carry
    their sessions from broker to broker, while one node after another fails, the root and its standby more
    often than others. What was acknowledged must reach everybody who had asked for it: once, and in the order
    of its publisher. Nothing may come that was not asked for.

    kinds of faults: {kinds}.

    exit codes: 0 the promise was kept; 1 it was not, or too little was owed; 2 the arguments are wrong.

    examples:
      distributary sim promise --seed 7
      distributary sim promise --seeds 100 --json
      distributary sim promise --kinds "lose,kill and wipe" --nodes 12 --faults 8
      distributary sim promise --seed 7 --trace promise.txt.gz
    """
    from distributary.sim.trials.promise import PromiseTrial, try_promise

    return run_trials(PromiseTrial, try_promise, _show, parsed)


def _show(out: Console, outcome: PromiseOutcome) -> None:
    """Tell what happened, and what came of it."""
    out.print(fault_table(outcome.fired))
    out.print(
        f"{outcome.acknowledged:,} events were acknowledged; {outcome.owed:,} deliveries were owed and"
        f" {outcome.received:,} received, {outcome.repeated:,} more were dropped by clients that had them:"
        f" {len(outcome.problems):,} problems"
    )
