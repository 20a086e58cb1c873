"""How commands run trials: seed by seed, with progress and traces; problems with how to run it again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rich.console import Console
from rich.table import Table

from distributary.cli.arguments import whole
from distributary.cli.terminal import FAILED, SEED, WELL, console, progress_shown, say
from distributary.errors import DistributaryError
from distributary.output import require_distinct

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from distributary.sim.simulator import Observer

SHOWN = 10
"""Problems that are told; the others are counted."""


class Tried(Protocol):
    """What came of a trial."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong; empty when the trial succeeded."""


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
        raise DistributaryError("--trace is for one seed; leave out --seeds")
    given = vars(parsed)
    if parsed.trace is not None:
        read = {"the queries": given.get("file"), "--events": given.get("events_file")}
        require_distinct({what: name for what, name in read.items() if name}, {"--trace": str(parsed.trace)})
    trial = kind(**{each.name: given[each.name] for each in fields(kind) if each.name in given})
    failed = 0
    for seed in range(parsed.seed, parsed.seed + parsed.seeds):
        brief = parsed.seeds > 1
        failed += not _run_one(run, show, replace(trial, seed=seed), parsed.trace, brief=brief)
    if parsed.seeds > 1:
        say(f"{parsed.seeds - failed:,} of {parsed.seeds:,} seeds went well")
    return FAILED if failed else WELL


def _run_one(run: Run[M, T], show: Show[T], trial: Any, trace_path: Path | None, *, brief: bool) -> bool:
    """Run and tell; whether it went well."""
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
        except DistributaryError as error:
            say(f"{error}\nrun it again with: {trial.command}")
            return False
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
    return not outcome.problems


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
)
"""What every command with trials takes."""
