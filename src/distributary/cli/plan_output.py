"""How a plan of a tree or of queries ends: with what it is compared with, and the files asked for."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from typing import Any

from distributary.cli.terminal import WELL, write_text


def several(count: int, what: str) -> str:
    """A number of things in words.

    >>> several(1, "site"), several(3, "site")
    ('1 site', '3 sites')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def finish_plan(
    arguments: argparse.Namespace,
    record: dict[str, Any],
    others: Iterable[tuple[str, str, str]],
    picture: Callable[[], str],
) -> int:
    """Print the plans to compare with, write what `--json` and `--svg` ask for, and give the exit code.

    Each of the others has a name, its cost as it is shown, and the limits that it breaks, if any.
    """
    others = list(others)
    width = max((len(name) for name, _, _ in others), default=0)
    print("\ncompared with")
    for name, cost, broken in others:
        print(f"  {name:<{width}} {cost:>10}" + (f"  breaks {broken}" if broken else ""))
    if arguments.json:
        write_text(arguments.json, json.dumps(record, indent=2) + "\n")
    if arguments.svg:
        write_text(arguments.svg, picture())
    return WELL
