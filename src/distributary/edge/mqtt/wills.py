"""Wills: what is published for a client that is gone without saying so.

Rules:

- A will is due when its delay has passed since the connection ended, or when its session ends, whichever is
  first. A connection to the same session before that cancels it.
- A will is published if its client may publish it then, as any other message.
- A will of a session that outlives its connection is kept on the disk with it. After a crash of the broker
  all its connections have ended, so those wills are due.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import NamedTuple

from distributary.edge.access import Identity
from distributary.edge.mqtt.packets import WillMessage

WILL_MARK = "mqtt.will"
"""The mark of a session that keeps its will."""


class DueWill(NamedTuple):
    """A will that waits."""

    will: WillMessage
    subscriber: str
    identity: Identity
    due: float


class PendingWills:
    """The wills of clients that are gone. `publish` is called once with each, its client's name and user."""

    def __init__(
        self, now: Callable[[], float], publish: Callable[[WillMessage, str, Identity], None]
    ) -> None:
        self._now, self._publish = now, publish
        self._waiting: dict[str, DueWill] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def leave(self, subscriber: str, will: WillMessage, expiry: float | None, identity: Identity) -> None:
        """A client of somebody is gone; its session expires after so many seconds, None for never."""
        delay = float(will.properties.get("will_delay_interval", 0))
        if expiry is not None:
            delay = min(delay, expiry)
        if delay <= 0:
            self._publish(will, subscriber, identity)
        else:
            self._waiting[subscriber] = DueWill(will, subscriber, identity, self._now() + delay)

    def come_back(self, subscriber: str, *, fresh: bool) -> None:
        """A client is back: its will is cancelled, or due if its session ends with that (`fresh`)."""
        waiting = self._waiting.pop(subscriber, None)
        if waiting is not None and fresh:
            self._publish(waiting.will, subscriber, waiting.identity)

    def tick(self) -> None:
        """Publish what is due."""
        now = self._now()
        for each in [each for each in self._waiting.values() if each.due <= now]:
            del self._waiting[each.subscriber]
            self._publish(each.will, each.subscriber, each.identity)


def written_will(will: WillMessage) -> str:
    """A will as a session keeps it.

    >>> read_will(written_will(WillMessage("A", b"gone", 1))).payload
    b'gone'
    """
    properties = dict(will.properties)
    if "correlation_data" in properties:
        properties["correlation_data"] = base64.b64encode(properties["correlation_data"]).decode()
    payload = base64.b64encode(will.payload).decode()
    return json.dumps([will.topic, payload, will.qos, will.retain, properties])


def read_will(text: str) -> WillMessage:
    """What `written_will` wrote."""
    topic, payload, qos, retain, properties = json.loads(text)
    if "correlation_data" in properties:
        properties["correlation_data"] = base64.b64decode(properties["correlation_data"])
    if "user_property" in properties:
        properties["user_property"] = tuple(map(tuple, properties["user_property"]))
    return WillMessage(topic, base64.b64decode(payload), qos, retain, properties)
