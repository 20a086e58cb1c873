"""Subscribes at a broker of a network and writes every event that it is given: a JSON object a line, at once.

It ends with SIGTERM or Ctrl-C, or after --count events. When the connection breaks, it goes on at the next
broker named, with what it has missed. With --out FILE its place is kept in FILE.session, or in the file given
with --state: started again with the same arguments, even after a kill, it goes on with the next event, and
the file has each once. What a network without a log has not kept is missed, which is told.

examples:
  distributary subscribe --at 127.0.0.1:7000 --topic 'quotes/*' --where 'price > 8'
  distributary subscribe --at 127.0.0.1:7000,127.0.0.1:7001 --path '//invoice[total > 100]' --out due.jsonl
  distributary subscribe --at 127.0.0.1:7000 --topic quotes/OTE --change price=0.05 --count 10
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli.arguments import tolerance, whole
from distributary.cli.brokers import add_broker, client_of
from distributary.cli.subscribed_file import SubscribedFile
from distributary.cli.terminal import WELL, add_options, describe, say
from distributary.errors import UsageError
from distributary.output import STANDARD

if TYPE_CHECKING:
    from distributary.client import Client
    from distributary.overlay.broker import SessionState

PAUSE = 0.5
"""Seconds between two times that the place is written down."""


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    describe(command, __doc__)
    add_broker(command, "--at")
    add_options(
        command,
        ("--subscriber NAME", str, "who subscribes (default: a name made up)"),
        ("--id ID", str, "the id of the subscription (default: made up)"),
        ("--topic PATTERN", str, "events of these topics"),
        ("--where CONDITION", str, "events for which this holds"),
        ("--path XPATH", str, "events whose document has this"),
    )
    command.add_argument(
        "--change",
        type=tolerance,
        action="append",
        metavar="NAME=C",
        help="only when it moved by more",
    )
    add_options(
        command,
        ("--out FILE", STANDARD, "a file to which events are added (default: - for standard output)"),
        ("--state FILE", Path, "where the place is kept (default: beside --out)"),
        ("--count N", whole(1), "end after so many"),
    )
    command.set_defaults(run=partial(_subscribe, command))


def _subscribe(command: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    if not any((parsed.topic, parsed.where, parsed.path, parsed.change)):
        command.error("give at least one of --topic, --where, --path, --change")
    return asyncio.run(_write_events(parsed))


async def _write_events(parsed: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    written = 0
    with closing(SubscribedFile(parsed.out, parsed.state)) as out:
        wanted = _wanted(parsed, out.session)
        client = client_of(parsed, name=wanted.pop("subscriber"), session=out.session)
        with suppress(asyncio.CancelledError):
            async with client, client.subscribed(**wanted) as events:
                out.note(client.session)
                say(f"subscribed as {client.name} at {client.broker}")
                noting = asyncio.get_running_loop().create_task(_note_often(client, out))
                try:
                    async for event in events:
                        written += out.write(event)
                        if written == parsed.count:
                            break
                finally:
                    noting.cancel()
                    out.note(client.session)
    say(f"{written:,} events written")
    return WELL


def _wanted(parsed: argparse.Namespace, session: SessionState | None) -> dict[str, Any]:
    """Who subscribes to what; UsageError when that is not what the session says."""
    change = dict(parsed.change) if parsed.change else None
    wanted = {"topic": parsed.topic, "where": parsed.where, "path": parsed.path, "change": change}
    names = {"subscriber": parsed.subscriber, "id": parsed.id}
    if session is None:
        return wanted | names
    [before] = session.subscriptions
    ours = {name: value for name, value in (wanted | names).items() if name in wanted or value is not None}
    if any(getattr(before, name) != value for name, value in ours.items()):
        raise UsageError(
            f"the place that is kept is that of another subscription, {before.to_record()}: give the same"
            " arguments as then, or another --out or --state"
        )
    return wanted | {"subscriber": before.subscriber, "id": before.id}


async def _note_often(client: Client, out: SubscribedFile) -> None:
    """Write down the place now and then, and tell what was missed."""
    gaps = client.gaps
    while True:
        await asyncio.sleep(PAUSE)
        out.note(client.session)
        if client.gaps > gaps:
            gaps = client.gaps
            say("the connection broke; what was published meanwhile may be missed")
