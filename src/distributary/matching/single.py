"""One event by itself, in the forms in which indexes ask for it: each is made once, and only when asked for.

What `batch` is to many events this is to one, without the fixed costs of a batch; where an index has no
faster way for one event, it is asked about a batch of one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from distributary.kernel import Bytes
from distributary.matching.batch import EventBatch
from distributary.matching.path.xml.scan import read_document
from distributary.model import MAX_TOPIC_LEVELS, Event, check_topic, require_instance


class SingleEvent:
    """An event that is matched alone; malformed, it raises the `InputError` that says why."""

    __slots__ = ("_arrived", "_batch", "_now", "event", "scanned", "topic", "trees")

    def __init__(self, event: Event) -> None:
        self.event = event
        self._batch: EventBatch | None = None
        self._arrived: Event | None = None
        self._now: int | None = None
        self.topic: Bytes | None = None
        """The topic in UTF-8."""
        try:
            topic = event.topic
        except AttributeError:  # asking first would cost every event
            require_instance(event, Event)
            raise
        if topic is not None:
            if not 0 < len(topic) < MAX_TOPIC_LEVELS:
                check_topic(topic)
            self.topic = np.frombuffer(topic.encode(), np.uint8)
        self.scanned: Any = None
        """The document as kernels read it (see `path.xml.scan`); None where the exact reader has to."""
        self.trees: dict[bool, Any] = {}
        """What path indexes made of the document (see `path.forest`)."""
        if event.document is not None:  # it is read at once: a malformed event is refused by everybody
            self.scanned = read_latest(event.document)
            if self.scanned is None:
                for error in self.batch.rejected.values():
                    raise error

    @property
    def batch(self) -> EventBatch:
        """The event as a batch of one."""
        if self._batch is None:
            self._batch = EventBatch.from_events([self.event], self._time())
        return self._batch

    @property
    def arrived(self) -> Event:
        """The event with its time of arrival: whoever evaluates a condition on it sees the same `now()`."""
        if self._arrived is None:
            event = self.event
            self._arrived = replace(event, arrival=self._time()) if event.arrival is None else event
        return self._arrived

    @property
    def arrival(self) -> int:
        """When it arrived, in nanoseconds since 1970: what `now()` is to it."""
        return self._time() if self.event.arrival is None else self.event.arrival

    def _time(self) -> int:
        """When it arrived, if it does not say so itself: when this was first asked for."""
        if self._now is None:
            self._now = time.time_ns()
        return self._now


_latest: tuple[str, Any] = ("", None)
"""The document that was read last, and what was read."""


def read_latest(document: str) -> Any:
    """A document as kernels read it (see `path.xml.scan.read_document`), and the latest one again at no cost.

    A broker reads a document to let it in, to address it and to match it.
    """
    global _latest
    text, scanned = _latest
    if text is not document:
        scanned = read_document(np.frombuffer(document.encode(), np.uint8))
        _latest = document, scanned
    return scanned
