"""Takes the events of a subscription from a broker into a log on the disk, each once.

One thread runs the client's event loop; whoever asks how far the log has come is another.

Rules:

- The events that a client hands out together are appended together, and the last has the place behind them
  (`distributary.client.batches`). Nothing is acknowledged before that is on the disk. A client that starts
  again presents the place of the log: at a web server the number of the last event in its session's mailbox,
  at a node of a network the offset in the network's log.
- An event whose source and id are among the last `KEPT` of the log is not written again. So an event comes
  once also if a crash has torn a write in the middle of what was handed out together, or if another root of
  the network has numbered it anew.
- At a node of a network the place moves with events that the subscription does not want. It is noted every
  `PERIOD` seconds, so that a subscription to rare events does not fall behind what the network's log keeps.
- When the log is full, the connection ends, until Spark has processed some of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from time import time_ns
from typing import Any

from distributary.client import Client, RefusedError, TakenEvents, WebClient
from distributary.errors import DistributaryError
from distributary.model import EventKey
from distributary.spark.connectors.intake import LogIntake
from distributary.spark.connectors.message_log import KEPT, MessageLog
from distributary.spark.connectors.network.broker import client_of, is_web
from distributary.spark.connectors.network.event import LoggedEvent, logged_event
from distributary.spark.connectors.options import Value

PATIENCE = 60.0
"""Seconds in which a broker must have accepted the subscription, the first time."""
PERIOD = 5.0
PAUSE = 0.2
"""Seconds between two looks whether a full log has room again."""
LONGEST_PAUSE = 5.0


class NetworkIntake(LogIntake):
    """The way of events from a broker into a log; it ends with its process."""

    def __init__(
        self,
        options: Mapping[str, Value],
        id: str,
        filters: Mapping[str, Any],
        log: MessageLog[LoggedEvent],
    ) -> None:
        super().__init__(log, int(options["maxLogBytes"] or 0), bool(options["failOnLoss"]))
        self._options, self._id, self._filters = options, id, dict(filters)
        self._known: OrderedDict[EventKey, None] = OrderedDict()
        self._place = log.state.place
        for offset, event in enumerate(log.last(KEPT), max(log.begin, log.end - KEPT)):
            self._remember(EventKey(event.source, event.id))
            if offset >= log.state.placed:
                self._place = event.place or self._place
        self._subscribed = self._busy = False
        self._gaps = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="event log", daemon=True)

    def start(self) -> None:
        """Connect and subscribe; returns when the broker has accepted both."""
        self._thread.start()
        with self.changed:
            answered = self.changed.wait_for(lambda: self._subscribed or self.failure, PATIENCE)
        self.require_sound()
        if not answered:
            raise DistributaryError(f"no broker at {self._options['at']} has answered in {PATIENCE:.0f} s")

    def close(self) -> None:
        """End the connection, and not the session; what is not in the log comes again another time."""
        self.fail("the intake was closed")
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has just ended
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join()
        self.log.close()

    @property
    def waits(self) -> bool:
        """Whether something has come that is not in the log yet."""
        return self._busy

    # What runs in the thread of the loop.

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                asyncio.run(self._live())
        except Exception as error:  # whatever it is, whoever asks for offsets must be told
            self.fail(str(error) or type(error).__name__)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _live(self) -> None:
        """Be connected while the log has room; when the first connection fails, so does the intake."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        pause = PAUSE
        while self.failure is None:
            if not self._has_room():
                await asyncio.sleep(PAUSE)
                continue
            try:
                await self._take_until_full()
                pause = PAUSE
            except RefusedError:
                raise
            except DistributaryError:
                if not self._subscribed:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _has_room(self) -> bool:
        with self.changed:
            return self.has_room()

    async def _take_until_full(self) -> None:
        more: dict[str, Any] = {"place": self._place}
        if is_web(self._options):
            more |= {
                "expiry": float(self._options["sessionExpiry"] or 0),
                "mailbox": {"events": self._options["mailboxEvents"], "bytes": self._options["mailboxBytes"]},
            }
        client = client_of(self._options, self.log.state.client, **more)
        self._gaps = 0
        async with client, client.batches(id=self._id, **self._filters) as batches:
            self._note_place(client)
            self._now_subscribed()
            noting = asyncio.create_task(self._note_often(client))
            try:
                async for taken in batches:
                    self._busy = True
                    await asyncio.to_thread(self._keep, taken)
                    self._busy = False
                    self._tell_gaps(client)
                    if self.failure is not None or not self._has_room():
                        return
            finally:
                noting.cancel()

    def _now_subscribed(self) -> None:
        with self.changed:
            self._subscribed = True
            self.arrived()
            self.changed.notify_all()

    async def _note_often(self, client: Client | WebClient) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            try:
                self._note_place(client)
                self._tell_gaps(client)
            except DistributaryError as error:
                self.fail(str(error))

    def _note_place(self, client: Client | WebClient) -> None:
        """Note the place of a node's client, unless it has handed out what is not in the log yet."""
        if self._busy or not isinstance(client, Client) or client.place == self._place:
            return
        with self.changed:
            self._place = self.log.state.place = client.place
            self.log.state.placed = self.log.end
            self.log.write_state()

    def _tell_gaps(self, client: Client | WebClient) -> None:
        if client.gaps > self._gaps:
            self._gaps = client.gaps
            self.lost(f"the network did not keep all events for {client.name}: some are missing")

    # What runs in another thread, because it waits for the disk.

    def _keep(self, taken: TakenEvents) -> None:
        """Write events, and the place behind them; a disk that fails is no matter of the connection."""
        try:
            self._write(taken)
        except Exception as error:
            self.fail(str(error) or type(error).__name__)

    def _write(self, taken: TakenEvents) -> None:
        arrival = time_ns() // 1000
        fresh = [event for event in taken.events if event.key not in self._known]
        with self.changed:
            if fresh:
                *before, last = fresh
                self.log.append(
                    [
                        *(logged_event(event, arrival, None) for event in before),
                        logged_event(last, arrival, taken.place),
                    ]
                )
            for event in fresh:
                self._remember(event.key)
            self._place = taken.place
            self.arrived()
            self.changed.notify_all()

    def _remember(self, key: EventKey) -> None:
        self._known[key] = None
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
