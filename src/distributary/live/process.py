"""A node as a process: starts a broker from its settings, says so, and stops when it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from distributary.live.broker import LiveBroker
from distributary.live.settings import NodeSettings
from distributary.live.status import StatusServer, log_line


async def serve(settings: NodeSettings, say: Callable[[str], None], ready: Path | None = None) -> None:
    """Run a node until SIGTERM or Ctrl-C. As soon as it listens, `ready` gets a JSON object of where."""
    table = settings.table
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def note(what: str) -> None:
        say(log_line(what))

    broker = LiveBroker(
        table.network,
        table.system,
        name=table.name,
        contacts=settings.contacts,
        nodes=table.nodes,
        chosen=table.settings,
        tls=settings.tls,
        on_notice=note,
    )
    status = StatusServer(broker)
    try:
        endpoint = await broker.start(*settings.listen)
        found = "joins" if settings.contacts else "founds"
        note(f"node {table.name!r} ({broker.address}) {found} network {table.network!r} at {endpoint}")
        where = {"name": table.name, "pid": os.getpid(), "client": str(endpoint), "address": broker.address}
        if settings.status is not None:
            where["status"] = str(await status.start(settings.status))
            note(f"status at http://{where['status']}/health")
        if ready is not None:
            unfinished = ready.with_suffix(".part")
            unfinished.write_text(json.dumps(where))
            unfinished.replace(ready)
        await stop.wait()
        note("stops")
    finally:
        await status.stop()
        await broker.stop()
