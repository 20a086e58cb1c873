"""Writes what a subscription is delivered to a topic of Kafka's: each delivery once, through crashes of both.

Rules:

- A sink is a subscriber with a session that lasts: its deliveries wait in a mailbox, on the disk, until Kafka
  has them. Each has a place in the mailbox, which it keeps after a crash.
- Deliveries are written in transactions. Each transaction also commits, as the offset of a group of the
  sink's own, the place of its last delivery. So whether Kafka has a delivery is known from Kafka alone:
  after a crash, or an error that leaves open what became of a transaction, all up to that place is
  acknowledged, and what comes after it is written. A consumer that reads committed records sees each
  delivery once.
- The transactions of a sink have one identity, so a process that was thought dead can write nothing once
  another has begun.
- The offset carries the mark of the session: the place of another session, of data that was removed, says
  nothing about this one.
- A record that Kafka refuses for its length is set aside. What the mailbox gave up while Kafka was away is
  told.
- The Kafka itself is behind `KafkaWriter`: this module does no I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol
from uuid import uuid4

from distributary.edge.kafka.intake import BackOff
from distributary.edge.kafka.quarantine import RecordQuarantine, rejected_at
from distributary.edge.kafka.records import message_of
from distributary.edge.kafka.settings import KafkaSink
from distributary.edge.mailbox import MailboxEntry, MailboxGap, MailboxItem
from distributary.edge.sessions import Session, Sessions
from distributary.edge.web.pulling import Puller, SessionEndedError
from distributary.errors import DistributaryError, InputError
from distributary.kafka_transactions import KafkaMessage, WrittenPlace

SESSIONS = "$kafka/"
"""Names of the sessions of sinks begin with this."""
MARK = "kafka"
"""The mark of a session by which its places are known."""
MOST_WRITTEN = 1_000
"""Deliveries of one transaction."""
ENDING = "the broker ends"
RETRY = 1.0
"""Seconds until the network is asked again for a subscription."""


class KafkaWriter(Protocol):
    """Writes the records of a sink: a `TransactionalWriter`, or what a test has in its place."""

    def begin(self) -> WrittenPlace | None:
        """Keep whoever wrote before from writing more, and tell up to where it wrote; None if it never did.

        KafkaTroubleError when Kafka does not answer.
        """

    def write(self, messages: Sequence[KafkaMessage], written: WrittenPlace) -> list[int]:
        """Write records and the place together, or nothing; gives which of them are too long, and left out.

        KafkaTroubleError when it is not certain that they are written, or that they are not.
        """

    def close(self) -> None:
        """Leave nothing open."""


class KafkaOutlet:
    """Has the deliveries of one sink written, until it is told to end."""

    def __init__(
        self,
        sink: KafkaSink,
        sessions: Sessions,
        open_writer: Callable[[], KafkaWriter],
        quarantine: RecordQuarantine,
        note: Callable[[str], None],
        random: Random,
    ) -> None:
        self.written = 0
        self.ready = False
        """Whether its subscription is in force."""
        self.trouble: str | None = None
        """What is wrong with Kafka, if anything is."""
        self._sink, self._sessions, self._open = sink, sessions, open_writer
        self._quarantine, self._note = quarantine, note
        self._pauses = BackOff(random)
        self._puller = Puller()
        self._ending = asyncio.Event()
        self._entries: list[MailboxEntry] = []
        """What was taken from the session and is not known to be written."""

    @property
    def subscriber(self) -> str:
        """The name of its session."""
        return SESSIONS + self._sink.name

    def end(self) -> None:
        """Have `run` end, after the transaction that is under way."""
        self._ending.set()
        self._puller.end(ENDING)

    async def run(self) -> None:
        """Write until the end, or until the session is not its own any more."""
        session, _ = self._sessions.attach(self.subscriber, self._puller, self._sink.bounds, None)
        try:
            await self._subscribe(session)
            mark = await self._mark(session)
            self.ready = True
            while not self._ending.is_set():
                await self._write_until_trouble(session, mark)
                await self._pause(self._pauses.next())
        except SessionEndedError as error:
            if not self._ending.is_set():
                self._note(f"the sink {self._sink.name!r} ends: {error}")
        finally:
            session.detach(self._puller)

    async def _subscribe(self, session: Session) -> None:
        """Have what the sink asks for, in place of what it asked for before."""
        wanted = self._sink.subscription(self.subscriber)
        while session.subscriptions.get(wanted.id) != wanted:
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            session.subscribe(wanted, lambda reason, answer=answer: _answer(answer, reason))  # type: ignore[misc]
            reason = await answer
            if reason is not None:
                self._tell(f"its subscription is not in force yet: {reason}")
                await self._pause(RETRY)
                if self._ending.is_set():
                    raise SessionEndedError(ENDING)
        self._tell(None)

    async def _mark(self, session: Session) -> str:
        """The mark of the session, which is on the disk from now on."""
        if MARK not in session.marks:
            session.marks[MARK] = uuid4().hex
            kept: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            session.keep_marks(lambda: _answer(kept, None))
            await kept
        return session.marks[MARK]

    async def _write_until_trouble(self, session: Session, mark: str) -> None:
        """Write what the session has until that fails."""
        writer: KafkaWriter | None = None
        try:
            writer = await asyncio.to_thread(self._open)
            written = await asyncio.to_thread(writer.begin)
            if written is not None and written.mark == mark:
                self._acknowledge(session, written.place)
            while True:
                self._tell(None)
                if not self._entries:
                    self._entries = await self._puller.take(session, MOST_WRITTEN)
                place = self._entries[-1].place
                await self._write(writer, WrittenPlace(mark, place))
                self._acknowledge(session, place)
                self._pauses.over()
        except SessionEndedError:
            raise
        except DistributaryError as error:  # Kafka's, or of the file for what is set aside
            self._tell(str(error))
        finally:
            if writer is not None:
                await asyncio.to_thread(writer.close)

    async def _write(self, writer: KafkaWriter, written: WrittenPlace) -> None:
        items = [each for each in self._entries if isinstance(each, MailboxItem)]
        messages = [message_of(item.delivery.event, self._sink.to, self._sink.key) for item in items]
        refused = await asyncio.to_thread(writer.write, messages, written)
        self.written += len(messages) - len(refused)
        for each in self._entries:
            if isinstance(each, MailboxGap):
                many = each.events or "some"
                self._note(f"the sink {self._sink.name!r} misses {many} events: {each.reason}")
        await self._quarantine.keep(
            [
                rejected_at(
                    f"{self._sink.to}: event {items[index].delivery.event.key}",
                    InputError(f"Kafka takes no record of {len(messages[index].value):,} bytes"),
                    messages[index].value,
                )
                for index in refused
            ]
        )

    def _acknowledge(self, session: Session, place: int) -> None:
        """Kafka has all up to a place."""
        session.acknowledge_through(place)
        self._entries = [entry for entry in self._entries if entry.place > place]

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    def _tell(self, trouble: str | None) -> None:
        """Say what is wrong, or that it is over, once."""
        if trouble != self.trouble:
            self._note(f"the sink {self._sink.name!r}: {trouble or 'goes on'}")
        self.trouble = trouble


def _answer(future: asyncio.Future[str | None], reason: str | None) -> None:
    if not future.done():
        future.set_result(reason)
