"""Records one node: what it is given and what it wants, in the lines of traces (`trace_text`).

The node itself is recorded, not what becomes of its wishes: a line `sent` says that the node wanted a message
sent. A node that is made alike and given the same again, in the same order and at the same times, wants the
same again (`sim.replaying`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from distributary.errors import DistributaryError
from distributary.model import Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import Broker, SessionState, ToleranceStart
from distributary.overlay.node import Acknowledge, Address, Deliver, Effect, Message, Node, Send, Store, Token
from distributary.overlay.trace_text import text_of

WriteLine = Callable[[str], None]
"""Takes a line, without its end."""

CAUSE = "| unknown depth 0"
"""What a line has in the place of the cause, which a node alone does not know."""


class RecordedNode(Node):
    """A node that writes down whatever passes its entries."""

    def __init__(self, node: Node, write: WriteLine) -> None:
        super().__init__(node.address)
        self._node = node
        self._write = write

    def start(self, now: float) -> list[Effect]:
        """Begin, and say so."""
        self._write(f"{now!r} happened {self.address} start")
        return self._written(now, self._node.start(now))

    def receive(self, message: Message, sender: Address, now: float) -> list[Effect]:
        """Handle a message, and write it down."""
        self._write(f"{now!r} received {sender} > {self.address} {text_of(message)}")
        return self._written(now, self._node.receive(message, sender, now))

    def wake(self, token: Token, now: float) -> list[Effect]:
        """Handle an alarm, and write it down."""
        self._write(f"{now!r} woken {self.address} {token.alarm} {text_of(token.about)}")
        return self._written(now, self._node.wake(token, now))

    def call(self, action: Callable[[], Any], now: float) -> list[Effect]:
        """Do what a client asks; what that is, the `RecordedBroker` writes down."""
        return self._written(now, self._node.call(action, now))

    def _written(self, now: float, effects: list[Effect]) -> list[Effect]:
        for line in effect_lines(now, self.address, effects):
            self._write(line)
        return effects


class RecordedBroker(Broker):
    """A broker that writes down what is asked of it, within the entries of its node."""

    def __init__(self, broker: Broker, write: WriteLine, began: float = 0.0) -> None:
        self.node = broker.node
        self.driven = RecordedNode(broker.node, write)
        """The node for whoever runs it."""
        self.recorded = broker
        self._write = write
        self._began = began

    @property
    def acknowledges(self) -> bool:
        return self.recorded.acknowledges

    @property
    def joined(self) -> bool:
        return self.recorded.joined

    def subscribe(self, subscription: Subscription) -> None:
        self._called("subscribe", subscription)
        self.recorded.subscribe(subscription)

    def unsubscribe(self, key: SubscriptionKey) -> None:
        self._called("unsubscribe", key)
        self.recorded.unsubscribe(key)

    def start_from(self, start: ToleranceStart) -> None:
        self._called("start_from", start)
        self.recorded.start_from(start)

    def resume(self, session: SessionState) -> None:
        self._called("resume", session)
        self.recorded.resume(session)

    def reached(self, subscriber: str) -> Offset | None:
        return self.recorded.reached(subscriber)

    def publish(self, event: Event) -> None:
        self._called("publish", event)
        self.recorded.publish(event)

    def publish_all(self, events: Sequence[Event]) -> int | None:
        self._called("publish_all", tuple(events))
        return self.recorded.publish_all(events)

    def suspect(self, address: Address) -> None:
        self._called("suspect", address)
        self.recorded.suspect(address)

    def leave(self) -> None:
        self._called("leave", None)
        self.recorded.leave()

    @property
    def left(self) -> bool:
        return self.recorded.left

    def restore(self, stored: Mapping[str, Message]) -> None:
        self._called("restore", dict(stored))
        self.recorded.restore(stored)

    def _called(self, name: str, given: Any) -> None:
        now = max(self._began, self.node.now)  # before its start a node knows no time
        self._write(f"{now!r} called {self.node.address} {name} {text_of(given)}")


CALLS = (
    *("subscribe", "unsubscribe", "resume", "start_from"),
    *("publish", "publish_all", "restore", "suspect", "leave"),
)
"""What a line `called` may say was asked of a broker."""


def effect_lines(now: float, address: Address, effects: Iterable[Effect]) -> list[str]:
    """What a node wants, in lines; alarms have none, as they are written when they ring."""
    lines = []
    for effect in effects:
        if isinstance(effect, Send):
            lines.append(f"{now!r} sent {address} > {effect.to} {text_of(effect.message)} {CAUSE}")
        elif isinstance(effect, Deliver):
            with suppress(DistributaryError):  # what no trace can tell is of whoever runs the node
                lines += [f"{now!r} delivered {address} {text_of(item)} {CAUSE}" for item in effect.items]
        elif isinstance(effect, Store):
            lines.append(f"{now!r} stored {address} {effect.name!r} {text_of(effect.value)}")
        elif isinstance(effect, Acknowledge):
            lines += [f"{now!r} acknowledged {address} {text_of(key)}" for key in effect.keys]
    return lines
