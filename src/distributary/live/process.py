"""A node as a process: starts a broker from its settings, says so, and stops when it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.settings import NodeSettings
from distributary.live.status import StatusServer, log_line


def left_file(config: Path) -> Path:
    """The file beside a node's own that is there while the node has left in good order.

    >>> left_file(Path("plant/node-1.toml")).name
    'node-1.left'
    """
    return config.with_suffix(".left")


async def serve(settings: NodeSettings, say: Callable[[str], None], ready: Path | None = None) -> bool:
    """Run a node until SIGTERM or Ctrl-C, or until its disk fails; returns whether it was told to end.

    At the first signal it leaves the network in good order; a second ends it at once. As soon as the node
    takes part, `ready` gets a JSON object of where it listens.
    """
    table = settings.table
    stop, at_once = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: (at_once if stop.is_set() else stop).set())

    def note(what: str) -> None:
        say(log_line(what))

    files = ExitStack()
    broker = LiveBroker(
        table.network,
        table.system,
        name=table.name,
        contacts=settings.contacts,
        nodes=table.nodes,
        chosen=table.settings,
        tls=settings.tls,
        lines=settings.lines(),
        trace=None if settings.trace is None else _TraceFile(settings.trace, note, files).write,
        data=settings.data,
        on_notice=note,
    )
    status = StatusServer(broker)
    try:
        starting = loop.create_task(broker.start(*settings.listen))
        await _first(starting, stop.wait())
        if stop.is_set():
            starting.cancel()
            return True
        await starting
        with suppress(OSError):
            left_file(settings.path).unlink(missing_ok=True)
        await _tell_where(settings, broker, status, ready, note)
        await _first(stop.wait(), broker.failure.wait())
        if broker.failure.is_set():
            note("stops")
            return False
        note("leaves")
        leaving = loop.create_task(broker.leave())
        await _first(leaving, at_once.wait())
        has_left = leaving.done() and leaving.result()
        note("has left" if has_left else "stops, and has not left in good order")
        if has_left:
            with suppress(OSError):  # the place may be one that must not be written
                left_file(settings.path).touch()
        leaving.cancel()
        return True
    finally:
        await status.stop()
        await broker.stop()
        files.close()


async def _tell_where(
    settings: NodeSettings,
    broker: LiveBroker,
    status: StatusServer,
    ready: Path | None,
    note: Callable[[str], None],
) -> None:
    """Say where a node listens that takes part now, and open its status."""
    table = settings.table
    found = "joins" if settings.contacts else "founds"
    note(f"node {table.name!r} ({broker.address}) {found} network {table.network!r} at {broker.endpoint}")
    where = {
        "name": table.name,
        "pid": os.getpid(),
        "client": str(broker.endpoint),
        "address": broker.address,
    }
    if settings.status is not None:
        where["status"] = str(await status.start(settings.status))
        note(f"status at http://{where['status']}/health")
    if ready is not None:
        unfinished = ready.with_suffix(".part")
        unfinished.write_text(json.dumps(where))
        unfinished.replace(ready)


class _TraceFile:
    """Writes lines behind those of earlier lives of the node; a disk that is full ends that, not the node."""

    def __init__(self, path: Path, note: Callable[[str], None], files: ExitStack) -> None:
        self._path = path
        self._note = note
        try:
            self._stream: IO[str] | None = path.open("a", buffering=1, encoding="utf-8", newline="\n")
        except OSError as error:
            raise DistributaryError(f"cannot write the trace {path}: {error.strerror}") from None
        files.callback(self._end)

    def write(self, line: str) -> None:
        """Write a line."""
        if self._stream is not None:
            try:
                self._stream.write(line + "\n")
            except OSError as error:
                self._end()
                self._note(f"the trace {self._path} ends here: {error.strerror}")

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()


async def _first(*awaited: Awaitable[object]) -> None:
    """Wait until one of these is there, and for the others no more, but for tasks of their own."""
    tasks = [asyncio.ensure_future(each) for each in awaited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, given in zip(tasks, awaited, strict=True):
        if task is not given:
            task.cancel()
