"""Publishes events to a broker of a network, in their order, and ends when it has passed all of them on.

When the connection breaks, it goes on at the next broker named, and sends again what was not answered; an
event keeps its source and id, so nobody gets it twice. Events that are malformed or refused are told, with
the exit code 3.

examples:
  distributary publish --to 127.0.0.1:7000 --events events.jsonl
  distributary generate events --count 100 | distributary publish --to 127.0.0.1:7000 --events - --rate 10
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from distributary.cli.arguments import factor
from distributary.cli.terminal import SET_ASIDE, WELL, add_options, describe, say
from distributary.files import read_events
from distributary.quarantine import Rejection

if TYPE_CHECKING:
    from distributary.model import Event

TOGETHER = 1_000
"""Events that are published at a time, without a rate."""


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    add_broker(command, "--to")
    command.add_argument(
        "--events",
        required=True,
        metavar="FILE",
        help="JSON lines, or a table; - is standard input",
    )
    add_options(command, ("--rate N", factor, "so many events a second (default: as fast as they are taken)"))
    command.set_defaults(run=_publish)


def add_broker(command: argparse.ArgumentParser, option: str) -> None:
    """Add the options that say which brokers a client connects to."""
    command.add_argument(
        option,
        required=True,
        action="append",
        dest="brokers",
        metavar="HOST:PORT",
        help="where a broker listens; may be repeated: the next is tried when one does not answer",
    )
    add_options(command, ("--network NAME", "distributary", "the name of the network (distributary)"))


def _publish(parsed: argparse.Namespace) -> int:
    published, left_out = asyncio.run(_publish_all(parsed))
    say(f"{published:,} events published" + (f", {left_out:,} not" if left_out else ""))
    return SET_ASIDE if left_out else WELL


async def _publish_all(parsed: argparse.Namespace) -> tuple[int, int]:
    from distributary.client import RefusedError, connect

    published = left_out = 0
    rejected: list[Rejection] = []
    events = _well_formed(parsed.events, rejected)
    started = time.monotonic()
    async with connect(*parsed.brokers, network=parsed.network) as client:
        while batch := await asyncio.to_thread(_next, events, 1 if parsed.rate else TOGETHER):
            try:
                await client.publish(*batch)
            except RefusedError as error:
                for event, reason in error.refused:
                    say(f"event {event.key} was refused: {reason}")
                left_out += len(error.refused)
                published -= len(error.refused)
            published += len(batch)
            if parsed.rate:
                due = started + published / parsed.rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
    for each in rejected:
        say(str(each))
    return published, left_out + len(rejected)


def _next(events: Iterator[Event], most: int) -> list[Event]:
    return list(islice(events, most))


def _well_formed(name: str, rejected: list[Rejection]) -> Iterator[Event]:
    for read in read_events(name):
        if isinstance(read, Rejection):
            rejected.append(read)
        else:
            yield read[1]
