"""Publishes events to a broker of a network, in their order, and ends when all of them are acknowledged.

In a network with a log an acknowledged event is safe; in others the broker has passed it on. When the
connection breaks, it goes on at the next broker named, and sends again what was not answered; an event keeps
its source and id, so nobody gets it twice. Events that are malformed or refused are told, with the exit code
3.

examples:
  distributary publish --to 127.0.0.1:7000 --events events.jsonl
  distributary publish --to 127.0.0.1:7000,127.0.0.1:7001 --events events.jsonl
  head -100 events.jsonl | distributary publish --to 127.0.0.1:7000 --events - --rate 10
  distributary publish --to 10.0.0.7:7001 --events e.jsonl --certificate c.crt --key c.key --authority ca.crt
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from distributary.cli.arguments import factor
from distributary.cli.brokers import add_broker, client_of
from distributary.cli.terminal import SET_ASIDE, WELL, add_options, describe, say
from distributary.files import read_events
from distributary.quarantine import Rejection

if TYPE_CHECKING:
    from distributary.client import Client
    from distributary.model import Event

TOGETHER = 256
"""Events of one request, at most."""
UNDER_WAY = 64
"""Requests that are not answered yet, at most."""
AHEAD = 10_000
"""Events that are read before they can be published."""


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


def _publish(parsed: argparse.Namespace) -> int:
    published, left_out = asyncio.run(_publish_all(parsed))
    say(f"{published:,} events published" + (f", {left_out:,} not" if left_out else ""))
    return SET_ASIDE if left_out else WELL


async def _publish_all(parsed: argparse.Namespace) -> tuple[int, int]:
    rejected: list[Rejection] = []
    async with client_of(parsed) as client:
        published, refused = await _send_all(client, _EventReader(parsed.events, rejected), parsed.rate)
    for each in rejected:
        say(str(each))
    return published, refused + len(rejected)


async def _send_all(client: Client, events: _EventReader, rate: float | None) -> tuple[int, int]:
    """Publish what is read, several requests at a time; how many events were taken and refused."""
    loop = asyncio.get_running_loop()
    started, read, refused = loop.time(), 0, 0
    under_way: deque[asyncio.Task[int]] = deque()
    try:
        async for batch in events.batches(1 if rate else TOGETHER):
            if rate:
                await asyncio.sleep(max(0.0, started + read / rate - loop.time()))
            if len(under_way) >= UNDER_WAY:
                refused += await under_way.popleft()
            read += len(batch)
            under_way.append(loop.create_task(_send(client, batch)))
            await asyncio.sleep(0)  # requests go out in the order in which they are made
        while under_way:
            refused += await under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
    return read - refused, refused


async def _send(client: Client, batch: list[Event]) -> int:
    """Publish some events; how many were refused, which is told."""
    from distributary.client import RefusedError

    try:
        await client.publish(*batch)
    except RefusedError as error:
        for event, reason in error.refused:
            say(f"event {event.key} was refused: {reason}")
        return len(error.refused)
    return 0


class _EventReader:
    """Reads events in a thread of its own, and gives out what has come: a pipe need not end first."""

    def __init__(self, name: str, rejected: list[Rejection]) -> None:
        self._name = name
        self._rejected = rejected
        self._room = threading.Semaphore(AHEAD)
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()
        self._events: deque[Event] = deque()
        self._ended = False
        self._failure: BaseException | None = None

    async def batches(self, most: int) -> AsyncIterator[list[Event]]:
        """The events, so many at a time at most; what went wrong with the file is raised after them."""
        # The thread ends with the process, even while nobody writes to the pipe that it reads.
        threading.Thread(target=self._read, daemon=True).start()
        while self._events or not self._ended:
            await self._came.wait()
            self._came.clear()
            while self._events:
                batch = [self._events.popleft() for _ in range(min(most, len(self._events)))]
                self._room.release(len(batch))
                yield batch
        if self._failure is not None:
            raise self._failure

    def _read(self) -> None:
        failure: BaseException | None = None
        try:
            for event in self._well_formed():
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._put, event)
        except BaseException as error:  # whatever it is, it is raised where the events are waited for
            failure = error
        with suppress(RuntimeError):  # the loop has ended before the file has
            self._loop.call_soon_threadsafe(self._end, failure)

    def _well_formed(self) -> Iterator[Event]:
        for read in read_events(self._name):
            if isinstance(read, Rejection):
                self._rejected.append(read)
            else:
                yield read[1]

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._came.set()

    def _end(self, failure: BaseException | None) -> None:
        self._ended, self._failure = True, failure
        self._came.set()
