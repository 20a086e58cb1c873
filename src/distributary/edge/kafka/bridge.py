"""All that a file of `--kafka` asks for, at one broker: sources, sinks, and what they set aside.

Rules:

- Every broker with the file reads its sources, as members of one group each. A sink is written by one broker:
  by the one that it names, or by the only one there is.
- Sinks need a disk: without one, what waits for Kafka would be gone with the process.
- The session of a sink that is no longer in the file is closed when the broker starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from distributary.edge.kafka.confluent import ConfluentReader, check_connection
from distributary.edge.kafka.intake import KafkaIntake, Publish
from distributary.edge.kafka.outlet import SESSIONS, KafkaOutlet
from distributary.edge.kafka.quarantine import RecordQuarantine
from distributary.edge.kafka.records import RecordReader
from distributary.edge.kafka.settings import KafkaSettings
from distributary.edge.sessions import Sessions
from distributary.errors import DistributaryError
from distributary.kafka_transactions import TransactionalWriter

QUARANTINE = "kafka-quarantine.jsonl"
FAREWELL = 15.0
"""Seconds that all of it may take to end."""


class KafkaBridge:
    """The sources and sinks of one broker."""

    def __init__(
        self,
        settings: KafkaSettings,
        sessions: Sessions,
        publish: Publish,
        *,
        network: str,
        broker: str,
        data: Path | None,
        alone: bool,
        note: Callable[[str], None],
    ) -> None:
        """`alone`: whether the broker is the first of its network; `data` is the directory that it keeps."""
        self._settings, self._sessions, self._note = settings, sessions, note
        self._sinks = [each for each in settings.sink if each.broker in (None, broker)]
        if self._sinks and data is None:
            raise DistributaryError(
                "[[sink]]: what waits for Kafka must be kept: give a directory with --data"
            )
        if not alone and any(each.broker is None for each in settings.sink):
            raise DistributaryError(
                "[[sink]]: which broker of the network writes it? Say broker = and its --name in the file"
            )
        check_connection(settings.connection, [each.options for each in settings.source] or [{}])
        file = data / QUARANTINE if data is not None else None
        self.quarantine = RecordQuarantine(Path(settings.quarantine) if settings.quarantine else file, note)
        self.intakes = [
            KafkaIntake(
                f"Kafka's {', '.join(source.topics)}",
                partial(
                    ConfluentReader,
                    settings.connection,
                    source,
                    f"{network}-{broker}-{number}" if data is not None else None,
                ),
                RecordReader(source, settings.name),
                publish,
                self.quarantine,
                note,
                Random(f"{broker} {number}"),
            )
            for number, source in enumerate(settings.source)
        ]
        self.outlets = [
            KafkaOutlet(
                sink,
                sessions,
                partial(
                    TransactionalWriter,
                    {**settings.connection, **sink.options},
                    _identity(network, broker, sink.name),
                    sink.to,
                ),
                self.quarantine,
                note,
                Random(f"{broker} {sink.name}"),
            )
            for sink in self._sinks
        ]
        self._tasks: list[asyncio.Task[None]] = []

    def described(self) -> Iterator[str]:
        """What is taken from Kafka and written to it here."""
        servers = self._settings.connection.get("bootstrap.servers", "the servers of the file")
        for source in self._settings.source:
            yield f"takes {', '.join(source.topics)} from {servers}, in group {source.group!r}"
        for sink in self._sinks:
            yield f"writes {sink.to} at {servers}"

    def start(self) -> None:
        """Begin; sessions have been restored."""
        wanted = {outlet.subscriber for outlet in self.outlets}
        for session in self._sessions:
            if session.subscriber.startswith(SESSIONS) and session.subscriber not in wanted:
                session.close("the sink is no longer in the file")
        self._tasks = [asyncio.create_task(self._noted(each.run())) for each in self.parts]

    async def stop(self) -> None:
        """End in good order: what was read is made safe and committed, transactions are completed."""
        tasks, self._tasks = self._tasks, []
        for each in self.parts:
            each.end()
        if tasks:
            await asyncio.wait(tasks, timeout=FAREWELL)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @property
    def parts(self) -> list[KafkaIntake | KafkaOutlet]:
        """All that read and write."""
        return [*self.intakes, *self.outlets]

    async def _noted(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, and say so if it fails: nobody awaits it before the end."""
        try:
            await work
        except Exception as error:
            self._note(f"Kafka: could not bear {type(error).__name__}: {error}")


def _identity(network: str, broker: str, sink: str) -> str:
    """What the transactions of a sink are known by at Kafka.

    >>> _identity("distributary", "serve", "dear")
    'distributary-distributary-serve-dear'
    """
    return f"distributary-{network}-{broker}-{sink}"
