"""Reads sites, latencies, bandwidths, interests and a goal, and prints the tree, what it costs before
and after, which sites get another parent and why, and how it compares with the trees one would have drawn. It
starts from the parents given, if they are there, else from a best-effort tree. FILE is a TOML file that names
or holds everything, or a CSV file of latencies.

If the file names queries, it is their operators that are placed: printed are where each runs, what it costs
before and after, what moved and why, and how it compares with all at the clients, all at the sources, and
each in turn where it is best.

examples:
  distributary plan sites.toml
  distributary plan sites.toml --goal 'maximise aggregate(MIN, aggregate(MIN, link bandwidth, PATH), BROKERS)'
  distributary plan sites.toml --json tree.json --svg tree.svg
  distributary plan latency.csv --root fra --goal \\
    'minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS); subject to fanout <= 6'
  distributary plan queries-on-sites.toml --svg placement.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

from distributary.cli.plan_output import finish_plan
from distributary.cli.terminal import SEED, add_options, describe
from distributary.errors import UsageError
from distributary.output import require_distinct


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    command.add_argument("file", type=Path, metavar="FILE", help="what is known of the sites (TOML or CSV)")
    add_options(
        command,
        ("--goal TEXT", str, "instead of the one in the file"),
        ("--root SITE", str, "where everything comes from, instead of the file's"),
        ("--bandwidth CSV", Path, "bandwidths, instead of the file's"),
        ("--sites CSV", Path, "clients, interests and parents of the sites, likewise"),
        ("--streams CSV", Path, "streams and their rates, likewise"),
        ("--trees", False, "with queries: give sites other parents in the trees as well"),
        ("--json FILE", Path, "write the plan there as JSON (-: standard output)"),
        ("--svg FILE", Path, "draw the plan there (-: likewise)"),
        SEED,
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from distributary.plan.queries.plan_file import asks_for_queries

    given = {name: str(path) for name, path in vars(arguments).items() if isinstance(path, Path)}
    written = {f"--{name}": given.pop(name) for name in ("json", "svg") if name in given}
    require_distinct(given, written)
    if asks_for_queries(arguments.file):
        from distributary.cli.plan_queries import plan_queries as plan

        for option in ("root", "bandwidth", "sites", "streams"):
            if getattr(arguments, option) is not None:
                reason = f"--{option} is for plans of trees, and {arguments.file} names queries"
                raise UsageError(reason)
    else:
        from distributary.cli.plan_trees import plan_tree as plan

        if arguments.trees:
            raise UsageError(f"--trees is for plans of queries, and {arguments.file} names none")
    return finish_plan(arguments, plan)
