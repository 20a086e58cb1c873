"""The command `distributary demo`: a pipeline on Spark with live subscriptions, on data it makes itself.

- `script`: what happens: which subscriptions and events there are, and which come and go in which round.
- `kernels`: compiles the matching kernels, with progress, before the first batch would wait for them.
- `demo`: does it: store, pipeline, events, changes.
- `report`: what is shown at the end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from distributary.cli.arguments import whole
from distributary.cli.engine import require_engine
from distributary.cli.terminal import SEED, WELL, add_options, describe


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command and add its arguments."""
    describe(
        command,
        """Makes quotes, sensor readings and RSS documents, sends them through a pipeline on all cores of this
machine against subscriptions of every kind, some of which come and go meanwhile, and shows who gets what.
It needs pyspark and a Java. What an earlier demo left in the directory is removed first.""",
        "  distributary demo\n  distributary demo --subscriptions 100000 --events 50000 --seed 7",
    )
    command.add_argument("--subscriptions", type=whole(1), default=4000, metavar="N", help="how many (4000)")
    command.add_argument("--events", type=whole(1), default=20_000, metavar="N", help="how many (20000)")
    add_options(command, SEED, ("--out DIRECTORY", Path("build/demo"), "where to write (build/demo)"))
    command.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    require_engine()
    from rich.console import Console

    from distributary.cli.demo.demo import run_demo

    run_demo(Console(), parsed.out, parsed.subscriptions, parsed.events, parsed.seed)
    return WELL
