"""Subscribes at a broker of a network and writes every event that it is given: a JSON object a line, at once.

It ends with SIGTERM or Ctrl-C, or after --count events. When the connection breaks, it goes on at the next
broker named; what was published meanwhile is missed, which is told.

examples:
  distributary subscribe --at 127.0.0.1:7000 --topic 'quotes/*' --where 'price > 8'
  distributary subscribe --at 127.0.0.1:7000 --subscriber ann --path '//invoice[total > 100]' --out due.jsonl
  distributary subscribe --at 127.0.0.1:7000 --topic quotes/OTE --change price=0.05 --count 10
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import nullcontext, suppress
from functools import partial

from distributary.cli.arguments import tolerance, whole
from distributary.cli.publish import add_broker
from distributary.cli.terminal import WELL, add_options, describe, say
from distributary.output import STANDARD


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
        ("--count N", whole(1), "end after so many"),
    )
    command.set_defaults(run=partial(_subscribe, command))


def _subscribe(command: argparse.ArgumentParser, parsed: argparse.Namespace) -> int:
    if not any((parsed.topic, parsed.where, parsed.path, parsed.change)):
        command.error("give at least one of --topic, --where, --path, --change")
    return asyncio.run(_write_events(parsed))


async def _write_events(parsed: argparse.Namespace) -> int:
    from distributary.client import connect

    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    change = dict(parsed.change) if parsed.change else None
    filters = {"topic": parsed.topic, "where": parsed.where, "path": parsed.path, "change": change}
    written = gaps = 0
    client = connect(*parsed.brokers, name=parsed.subscriber, network=parsed.network)
    stream = nullcontext(sys.stdout) if parsed.out == STANDARD else open(parsed.out, "a", encoding="utf-8")  # noqa: SIM115
    with suppress(asyncio.CancelledError), stream as out:
        async with client, client.subscribed(id=parsed.id, **filters) as events:
            say(f"subscribed as {client.name} at {client.broker}")
            async for event in events:
                if client.gaps > gaps:
                    gaps = client.gaps
                    say("the connection broke; what was published meanwhile is missed")
                out.write(json.dumps(event.to_record(), ensure_ascii=False) + "\n")
                out.flush()
                written += 1
                if written == parsed.count:
                    break
    say(f"{written:,} events written")
    return WELL
