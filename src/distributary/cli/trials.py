"""How commands run trials: seed by seed, with progress and traces; problems with how to run it again."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rich.console import Console
from rich.table import Table

from distributary.cli.arguments import whole
from distributary.cli.terminal import FAILED, SEED, WELL, console, progress_shown, say
from distributary.errors import DistributaryError, SettingError, UsageError
from distributary.output import require_distinct

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from distributary.sim.simulator import Observer

COUNTED = (
    *("events", "checked", "due", "deliveries", "withdrawn", "refused", "results", "steps"),
    *("acknowledged", "owed", "received", "repeated"),
)
"""The fields of outcomes that are added up over seeds."""
SHOWN = 10
"""Problems that are told; the others are counted."""


class Tried(Protocol):
    """What came of a trial."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong; empty when the trial succeeded."""

    @property
    def fired(self) -> Mapping[str, int]:
        """How often each kind of fault happened."""


T = TypeVar("T", bound=Tried)
M = TypeVar("M", bound="DataclassInstance")
Passed = Callable[[float, float], None]
"""Told the virtual time that has passed, and the whole of it."""


Run = Callable[[M, Sequence["Observer"], Passed], T]
"""Runs a trial before observers, tells what has passed, and gives what came of it."""
Show = Callable[[Console, T], None]


def run_trials(kind: type[M], run: Run[M, T], show: Show[T], parsed: argparse.Namespace) -> int:
    """Run trials of a kind, one for each seed asked for, and tell what came of them; gives the exit code.

    The kind is a frozen dataclass whose fields are the arguments of the same names.
    """
    if parsed.trace is not None and parsed.seeds > 1:
        raise UsageError("--trace is for one seed; leave out --seeds")
    given = vars(parsed)
    if parsed.trace is not None:
        read = {"the queries": given.get("file"), "--events": given.get("events_file")}
        require_distinct({what: name for what, name in read.items() if name}, {"--trace": str(parsed.trace)})
    try:
        trial = kind(**{each.name: given[each.name] for each in fields(kind) if each.name in given})
    except SettingError as error:
        raise UsageError(str(error)) from None
    summary = SeedSummary()
    brief = parsed.seeds > 1 or parsed.json
    for seed in range(parsed.seed, parsed.seed + parsed.seeds):
        one = replace(trial, seed=seed)
        summary.note(one, _run_one(run, show, one, parsed.trace, brief=brief))
    if parsed.json:
        print(json.dumps(summary.record(), indent=2))
    elif parsed.seeds > 1:
        if summary.fired:
            console().print(fault_table(summary.fired))
        told = ", ".join(f"{count:,} {what}" for what, count in summary.counts.items())
        say(f"{summary.well:,} of {parsed.seeds:,} seeds went well" + (f": {told}" if told else ""))
    return WELL if summary.well == parsed.seeds else FAILED


class SeedSummary:
    """What came of the trials of several seeds, added up."""

    def __init__(self) -> None:
        self.well = 0
        self.counts: Counter[str] = Counter()
        """Events, deliveries and whatever else the outcomes count, by the names of their fields."""
        self.fired: Counter[str] = Counter()
        self.failed: list[dict[str, Any]] = []

    def note(self, trial: Any, outcome: Any) -> None:
        """Add the outcome of one seed, or the error that it ended with."""
        if isinstance(outcome, DistributaryError):
            self.failed.append({"seed": trial.seed, "command": trial.command, "problems": [str(outcome)]})
            return
        for name in COUNTED:
            if isinstance(count := getattr(outcome, name, None), int):
                self.counts[name] += count
        self.fired.update(outcome.fired)
        if outcome.problems:
            problems = list(outcome.problems)
            self.failed.append({"seed": trial.seed, "command": trial.command, "problems": problems})
        else:
            self.well += 1

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        counts = {"seeds": self.well + len(self.failed), "well": self.well, **self.counts}
        return {**counts, "faults": dict(sorted(self.fired.items())), "failed": self.failed}


def _run_one(
    run: Run[M, T], show: Show[T], trial: Any, trace_path: Path | None, *, brief: bool
) -> T | DistributaryError:
    """Run and tell; what came of it, or the error that it ended with."""
    from distributary.sim.trace import Trace

    with progress_shown() as progress:
        task = progress.add_task(f"seed {trial.seed}", total=None)

        def passed(now: float, end: float) -> None:
            progress.update(task, completed=round(now), total=round(end))

        try:
            if trace_path is None:
                outcome = run(trial, (), passed)
            else:
                with Trace(trace_path) as trace:
                    outcome = run(trial, [trace], passed)
        except UsageError:
            raise
        except DistributaryError as error:
            say(f"{error}\nrun it again with: {trial.command}")
            return error
    if trace_path is not None:
        say(f"{trace.lines:,} lines in {trace_path}, digest {trace.digest()}")
    if not brief:
        show(console(), outcome)
    for problem in outcome.problems[:SHOWN]:
        say(problem)
    if len(outcome.problems) > SHOWN:
        say(f"and {len(outcome.problems) - SHOWN:,} more")
    if outcome.problems:
        say(f"run it again with: {trial.command}")
    return outcome


def fault_table(fired: Mapping[str, int]) -> Table:
    """How often each kind of fault happened."""
    table = Table("fault", "fired")
    for kind, count in fired.items():
        table.add_row(kind, f"{count:,}")
    return table


SEEDS = (
    SEED,
    ("--seeds N", (whole(1), 1), "run so many, from that one on (1)"),
    ("--trace FILE", Path, "write all that happens (.gz: compressed)"),
    ("--json", False, "faults, events and deliveries over all seeds, as one JSON object"),
)
"""What every command with trials takes."""
