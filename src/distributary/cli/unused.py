"""Options that would change nothing in a run are refused: whoever gives one means something by it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from distributary.errors import UsageError

Unused = tuple[str, bool, bool, str]
"""An option, whether it was given, whether it would change nothing, and why."""

PARTITIONS = frozenset({"partition", "one-way partition"})
MESSAGES = frozenset({"loss", "duplication", "reordering", "delay spike"})
CLOCKS = frozenset({"clock skew", "clock drift"})


def refuse_unused(options: Iterable[Unused]) -> None:
    """Raise a UsageError that names all options given in vain."""
    vain = [f"--{name} changes nothing: {why}" for name, given, useless, why in options if given and useless]
    if vain:
        raise UsageError("; ".join(vain))


def unused_in_run(parsed: argparse.Namespace) -> list[Unused]:
    """The options of `sim run` that its other options make useless; names that are unknown are not judged."""
    from distributary.sim.scenario import SCENARIOS

    kinds = set(SCENARIOS.get(parsed.scenario, (*PARTITIONS, *MESSAGES, "crash")))
    outages = bool(kinds - MESSAGES - CLOCKS) or parsed.gone > 0
    files = bool(parsed.subscriptions_file and parsed.events_file)
    where = f"scenario {parsed.scenario!r} has no"
    return [
        ("workload", bool(parsed.workload), files, "subscriptions and events are both read from files"),
        ("side", parsed.side != 1, not kinds & PARTITIONS, f"{where} partitions"),
        ("strength", parsed.strength != 1.0, not kinds & MESSAGES, f"{where} faults of messages"),
        ("at-once", parsed.at_once != 1, not outages, f"{where} faults of nodes"),
    ]


def unused_in_queries(parsed: argparse.Namespace) -> list[Unused]:
    """The same for `sim queries`."""
    own, no_goal = bool(parsed.file), not parsed.goal
    queries = "the queries are those of the file"
    events = "the events are those of the file"
    return [
        ("queries", parsed.queries != 20, own, queries),
        ("feeds", parsed.feeds != 12, own, queries),
        ("count", parsed.events != 1200, bool(parsed.events_file), events),
        ("period", parsed.period != 15.0, no_goal, "there is no --goal"),
        ("told", parsed.told != "neighbourhood", no_goal, "there is no --goal"),
    ]


def refuse_unused_settings(parsed: argparse.Namespace) -> None:
    """The same for settings of the system, given by `--set` or in a file."""
    from distributary.systems.table import SYSTEMS

    options = SYSTEMS[parsed.system].options if parsed.system in SYSTEMS else ()
    bearing = parsed.robust or parsed.scenario != "calm" or parsed.gone > 0
    vain = []
    for option in options:
        if option.name not in parsed.settings:
            continue
        if option.for_faults and not bearing:
            vain.append(f"setting {option.name} changes nothing in a calm run: add --robust")
        elif option.needs and option.needs not in parsed.settings:
            vain.append(f"setting {option.name} changes nothing without a setting {option.needs}")
    if vain:
        raise UsageError("; ".join(vain))
