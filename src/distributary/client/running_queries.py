"""The stream queries of a client, and the items of their answers that the client has not taken yet.

A query that ran when the connection broke is registered again with the next one. The broker of before may not
have withdrawn it yet, so while it is refused it is asked for again, for `AGAIN` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from distributary.errors import DistributaryError
from distributary.flow import Query
from distributary.live.client_messages import ClientQuery, ClientResult
from distributary.model import Event

AGAIN = 20.0
"""Seconds for which a query is asked for again after a reconnect, while it is refused."""
PAUSE = 0.5
"""Seconds between two times that it is."""

AskAside = Callable[[Callable[[int], ClientQuery]], int]
"""Sends a request that is made with its number, and gives the number."""


class RefusedError(DistributaryError):
    """The broker refused something: `refused` has, for events, each with the reason."""

    def __init__(self, reason: str, refused: Sequence[tuple[Event, str]] = ()) -> None:
        super().__init__(reason)
        self.refused = tuple(refused)


def require_accepted(refused: Sequence[tuple[Event, str]]) -> None:
    """RefusedError when events that were published have been refused."""
    if refused:
        event, reason = refused[0]
        more = f", and {len(refused) - 1} others" if len(refused) > 1 else ""
        raise RefusedError(f"event {event.key} was refused: {reason}{more}", refused)


@dataclass(eq=False)
class RunningQuery:
    """One query of a client."""

    query: Query
    queue: asyncio.Queue[ClientResult | Exception] = field(default_factory=asyncio.Queue)
    accepted: bool = False
    """Whether it was registered: it is registered again when the client has to connect again."""
    number: int = 0
    """Of the request by which it is registered again, if that has not been answered."""
    patience: float | None = None
    """Until when that is tried again."""

    async def results(self) -> AsyncIterator[ClientResult]:
        """The items of the answer as they come; raises what ends them."""
        while True:
            item = await self.queue.get()
            if isinstance(item, Exception):
                raise item
            yield item


class RunningQueries:
    """All queries of a client, by name."""

    def __init__(self, ask_aside: AskAside) -> None:
        self._ask_aside = ask_aside
        self._running: dict[str, RunningQuery] = {}

    def begin(self, query: Query) -> RunningQuery:
        """The client wants a query; DistributaryError when it has one of that name."""
        if query.name in self._running:
            raise DistributaryError(f"there is a query {query.name!r} already")
        running = self._running[query.name] = RunningQuery(query)
        return running

    def end(self, name: str) -> None:
        """The client wants a query no longer."""
        del self._running[name]

    def take(self, stream: str, result: ClientResult) -> None:
        """An item of an answer has come."""
        running = self._running.get(stream.partition(".")[0])
        if running is not None:
            running.queue.put_nowait(result)

    def run_again(self) -> int:
        """Register at another broker what ran at the last one; how many queries that are."""
        accepted = [running for running in self._running.values() if running.accepted]
        for running in accepted:
            running.patience = None
            self._ask_again(running)
        return len(accepted)

    def answered(self, number: int, refused: str | None) -> None:
        """A request has been answered: if by it a query is registered again, see whether it was refused."""
        loop = asyncio.get_running_loop()
        for running in self._running.values():
            if running.number != number:
                continue
            running.number = 0
            running.patience = running.patience or loop.time() + AGAIN
            if refused is not None and loop.time() > running.patience:
                running.queue.put_nowait(RefusedError(refused))
            elif refused is not None:
                loop.call_later(PAUSE, partial(self._ask_again, running))

    def fail(self, error: DistributaryError) -> None:
        """No answer comes any more."""
        for running in self._running.values():
            running.queue.put_nowait(error)

    def _ask_again(self, running: RunningQuery) -> None:
        if self._running.get(running.query.name) is running:
            running.number = self._ask_aside(lambda number: ClientQuery(number, running.query))
