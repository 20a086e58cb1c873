"""Requests of clients that are answered once all that they ask for is acknowledged.

Where there is a log, events are acknowledged by how far all that was published is safe (`Publications`);
subscriptions, and all that query networks are asked for, by their keys (`Requests`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import RequestKey


class _Waiting(NamedTuple):
    """What is done when all up to a number is safe."""

    through: int
    done: Callable[[], None]


class Publications:
    """Who waits for events to be safe, in the order in which they were published.

    >>> publications = Publications()
    >>> publications.when_safe(3, lambda: print("three"))
    >>> publications.safe_through(4)
    three
    >>> publications.when_safe(4, lambda: print("four")); publications.when_safe(5, lambda: print("five"))
    four
    >>> publications.safe_through(5)
    five
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._safe = self._published = 0

    def __len__(self) -> int:
        """How many events are not safe."""
        return self._published - self._safe

    def published(self, through: int) -> None:
        """So many events have been published."""
        self._published = max(self._published, through)

    def when_safe(self, through: int, done: Callable[[], None]) -> None:
        """Have this called when all events up to a number are safe, at once if they are."""
        if through <= self._safe and not self._waiting:
            done()
        else:
            self._waiting.append(_Waiting(through, done))

    def safe_through(self, through: int) -> None:
        """All events up to this number are safe."""
        self._safe = max(self._safe, through)
        self.published(through)
        while self._waiting and self._waiting[0].through <= through:
            self._waiting.popleft().done()


class Requests:
    """Who waits for which acknowledgements.

    >>> from distributary.model import SubscriptionKey
    >>> requests, key = Requests(), SubscriptionKey("ann", "s1")
    >>> request = requests.open([key], lambda: print("done"))
    >>> request.close()
    >>> requests.acknowledged(key)
    done
    """

    def __init__(self) -> None:
        self._waiting: dict[RequestKey, list[Request]] = {}

    def __len__(self) -> int:
        """How many acknowledgements are waited for."""
        return len(self._waiting)

    def open(self, keys: Iterable[RequestKey], done: Callable[[], None]) -> Request:
        """Have `done` called when all of these are acknowledged and the request is closed.

        An acknowledgement may come while the broker is being asked, so this is called before.
        """
        request = Request(self, set(keys), done)
        for key in request.left:
            self._waiting.setdefault(key, []).append(request)
        return request

    def acknowledged(self, key: RequestKey) -> None:
        """This is done."""
        for request in self._waiting.pop(key, ()):
            request.settle(key)

    def refused(self, key: RequestKey, reason: str) -> None:
        """This will not be done."""
        for request in self._waiting.pop(key, ()):
            request.refusals[key] = reason
            request.settle(key)

    def forget(self, key: RequestKey, request: Request) -> None:
        """A request waits for this no more."""
        others = [each for each in self._waiting.get(key, ()) if each is not request]
        if others:
            self._waiting[key] = others
        else:
            self._waiting.pop(key, None)


class Request:
    """One request, and what it waits for."""

    def __init__(self, requests: Requests, left: set[RequestKey], done: Callable[[], None]) -> None:
        self.left = left
        self.refusals: dict[RequestKey, str] = {}
        """What will not be done of it, and why."""
        self._requests = requests
        self._done = done
        self._closed = False

    def settle(self, key: RequestKey) -> None:
        """This needs not be waited for: it is acknowledged."""
        self.left.discard(key)
        self._check()

    def refuse(self, key: RequestKey) -> None:
        """This was refused, so nobody will acknowledge it."""
        if key in self.left:
            self._requests.forget(key, self)
            self.left.discard(key)

    def close(self) -> None:
        """All has been asked for."""
        self._closed = True
        self._check()

    def abandon(self) -> None:
        """Whoever asked is gone."""
        for key in self.left:
            self._requests.forget(key, self)
        self.left = set()
        self._closed = False

    def _check(self) -> None:
        if self._closed and not self.left:
            self._closed = False
            self._done()
