"""What all requests of the web share: the broker, the sessions, who is let in, and limits."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakSet

from distributary.edge.access import Access
from distributary.edge.broker import Answer, EdgeBroker
from distributary.edge.sessions import Sessions
from distributary.edge.web.faults import WebError
from distributary.edge.web.pulling import Puller
from distributary.edge.web.replaying import ReplayClock
from distributary.edge.web.tickets import Tickets
from distributary.edge.web.webhooks import WebhookRules, Webhooks
from distributary.live.runner import Disk

if TYPE_CHECKING:
    from distributary.edge.mqtt.room import MqttRoom

_log = logging.getLogger("distributary")
ENDS = "the broker ends, and has not answered yet; try again when it is back"


@dataclass(frozen=True)
class WebLimits:
    """How much one request may ask for."""

    body: int = 16 << 20
    """Bytes of a request's body, and of a WebSocket's message."""
    events: int = 10_000
    """Events of one request."""
    headers: int = 32 << 10
    """Bytes of a request's line and headers."""
    patience: float = 20.0
    """Seconds in which the headers of a request must have come, and its body."""
    answer: float = 30.0
    """Seconds that somebody who publishes or subscribes waits for the broker."""
    window: int = 1_000
    """Events that were sent to a connection and not acknowledged, beyond which it is sent no more."""
    connections: int = 10_000


@dataclass(frozen=True)
class WebService:
    """A broker's service to the web."""

    broker: EdgeBroker
    sessions: Sessions
    access: Access
    limits: WebLimits = field(default_factory=WebLimits)
    origins: tuple[str, ...] = ()
    """Origins of web pages, beside the server's own, whose scripts may connect; such as https://example.org."""
    loopback_only: bool = True
    """Whether it listens on loopback alone, so that only names of this machine can lead to it."""
    tickets: Tickets = field(default_factory=Tickets)
    note: Callable[[str], None] = _log.warning
    webhook_rules: WebhookRules = field(default_factory=WebhookRules)
    mqtt: MqttRoom | None = None
    """Where MQTT over WebSocket goes, if anywhere."""
    disk: Disk | None = None
    """Where is kept how far the network's log had come when."""
    certificates: dict[tuple[str, int], str] = field(default_factory=dict)
    """By the address and port of a connection: the user in the certificate that its other side has proved."""
    receivers: WeakSet[Puller] = field(default_factory=WeakSet)
    """The connections that are given what sessions have."""
    webhooks: Webhooks = field(init=False)
    clock: ReplayClock = field(init=False)
    registering: Counter[str] = field(default_factory=Counter)
    """By subscriber: the new subscriptions that are not in force yet, which count for quotas."""
    _unanswered: set[asyncio.Future[str | None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        object.__setattr__(self, "webhooks", Webhooks(self.sessions, self.note, self.webhook_rules))
        object.__setattr__(self, "clock", ReplayClock(self.broker, self.sessions.now, self.disk))

    def start(self) -> None:
        """Begin with what goes on without requests: webhooks, and the clock of replays."""
        self.webhooks.start()
        self.clock.start()

    def end(self) -> None:
        """The server ends: nobody waits any more for an answer, or for what a session has."""
        for answer in list(self._unanswered):
            answer.set_exception(WebError(503, ENDS))
        for receiver in list(self.receivers):
            receiver.end(ENDS)

    def asked(self, ask: Callable[[Answer], None]) -> asyncio.Future[str | None]:
        """Ask for something now; gives what will be the answer: the reason why not, or None."""
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        ask(lambda reason: None if answer.done() else answer.set_result(reason))
        if not answer.done():
            self._unanswered.add(answer)
            answer.add_done_callback(self._unanswered.discard)
        return answer

    async def settled(self, answer: asyncio.Future[str | None], what: str) -> str | None:
        """Wait for what was asked; WebError when the broker takes too long."""
        try:
            async with asyncio.timeout(self.limits.answer):
                return await answer
        except TimeoutError:
            raise WebError(503, f"the broker has not answered yet whether {what}; try again") from None
