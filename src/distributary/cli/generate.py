"""Writes subscriptions.jsonl and events.jsonl; the same seed gives the same files. With --folder,
XML files of yours are the events and paths are made over what they contain; a file that is no
document is set aside in quarantine.jsonl, with the reason.

workloads:
{workloads}

examples:
  distributary generate topics --subscriptions 100000 --events 10000 --out build/topics
  distributary generate market --seed 7 --out build/market
  distributary generate documents --set size=4000 --set depth=4 --set branching=0.5 --out build/documents
  distributary generate documents --folder feeds/ --out build/feeds
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from distributary.cli.arguments import whole
from distributary.cli.terminal import SEED, add_options, describe, progress_shown, say, say_rejected
from distributary.errors import DistributaryError
from distributary.files import write_records
from distributary.model import Event, Subscription
from distributary.output import opened_for_writing
from distributary.quarantine import Quarantine
from distributary.workloads import WORKLOADS, Workload, workload
from distributary.workloads.options import chosen
from distributary.workloads.xml_folder import XmlFolder


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    listed = "\n".join(f"  {name:<16}{about}" for name, about in WORKLOADS.items())
    describe(command, __doc__, workloads=listed)
    command.add_argument(
        "workload", choices=list(WORKLOADS), metavar="WORKLOAD", help="one of those listed below"
    )
    add_options(command, ("--folder DIRECTORY", Path, "XML files in place of made ones (documents)"))
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the workload, such as levels=5 for topics; a wrong name lists them",
    )
    command.add_argument("--subscriptions", type=whole(1), default=1000, metavar="N", help="how many (1000)")
    command.add_argument("--events", type=whole(1), default=1000, metavar="N", help="how many (1000)")
    add_options(command, SEED, ("--out DIRECTORY", Path("."), "where to write (.)"))
    command.set_defaults(run=_generate)


def _generate(parsed: argparse.Namespace) -> int:
    made = _workload(parsed)
    makers: list[Callable[..., Iterable[Event | Subscription]]] = [made.subscriptions, made.events]
    counts = {"subscriptions": parsed.subscriptions, "events": parsed.events}
    parts = zip(counts.items(), makers, chosen(made, parsed.set), strict=True)
    with progress_shown() as progress:
        for (name, count), make, options in parts:
            path = parsed.out / f"{name}.jsonl"
            with opened_for_writing(str(path)) as stream:
                records = (thing.to_record() for thing in make(count, seed=parsed.seed, **options))
                written = write_records(stream, progress.track(records, total=count, description=name))
            say(f"{written:,} {name} in {path}")
    with Quarantine(parsed.out / "quarantine.jsonl") as quarantine:
        for rejected in made.rejected if isinstance(made, XmlFolder) else ():
            quarantine.add(rejected)
    return say_rejected(quarantine)


def _workload(parsed: argparse.Namespace) -> Workload:
    if parsed.folder is None:
        return workload(parsed.workload)
    if parsed.workload != "documents":
        raise DistributaryError(f"--folder goes with the workload documents, not with {parsed.workload}")
    return XmlFolder(parsed.folder)
