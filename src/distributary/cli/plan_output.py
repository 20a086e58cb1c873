"""How a plan of a tree or of queries is told: on the terminal, and in the files asked for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext, redirect_stdout
from typing import Any, NamedTuple

from distributary.cli.terminal import WELL, write_text
from distributary.errors import UsageError
from distributary.output import STANDARD_OUTPUT


def several(count: int, what: str) -> str:
    """A number of things in words.

    >>> several(1, "site"), several(3, "site")
    ('1 site', '3 sites')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


class PlanFiles(NamedTuple):
    """What `--json` and `--svg` write of a plan."""

    record: dict[str, Any]
    picture: Callable[[], str]


def print_comparison(others: Iterable[tuple[str, str, str]]) -> None:
    """Print the plans to compare with.

    Each has a name, its cost as it is shown, and the limits that it breaks, if any.
    """
    others = list(others)
    width = max((len(name) for name, _, _ in others), default=0)
    print("\ncompared with")
    for name, cost, broken in others:
        print(f"  {name:<{width}} {cost:>10}" + (f"  breaks {broken}" if broken else ""))


def finish_plan(arguments: argparse.Namespace, plan: Callable[[argparse.Namespace], PlanFiles]) -> int:
    """Make a plan, print it, write what `--json` and `--svg` ask for, and give the exit code.

    Where one of these goes to standard output, the plan is printed on standard error.
    """
    standard = [path for path in (arguments.json, arguments.svg) if str(path) in STANDARD_OUTPUT]
    if len(standard) > 1:
        raise UsageError("--json and --svg cannot both go to standard output")
    with redirect_stdout(sys.stderr) if standard else nullcontext():
        files = plan(arguments)
    if arguments.json:
        write_text(arguments.json, json.dumps(files.record, indent=2) + "\n")
    if arguments.svg:
        write_text(arguments.svg, files.picture())
    return WELL
