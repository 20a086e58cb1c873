"""What the edge asks of a broker, and a live broker that gives it.

Connections of MQTT and the web never talk to a node themselves: they go through `EdgeBroker`, which is small
enough to be a live broker (`LiveEdge`) or a node that a test drives by a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.model import Delivery, DeliveryBatch, Event, Offset, SubscriptionKey
from distributary.overlay.broker import LogGap, SessionState, ToleranceStart

Answer = Callable[[str | None], None]
"""Called once when something that was asked for is done (None), or will not be, with the reason."""


class LocalClient(Protocol):
    """Whoever is given deliveries in the broker's own process."""

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Take deliveries."""

    def miss(self, gap: LogGap) -> None:
        """What the network's log has no longer."""

    def tell_progress(self) -> None:
        """Now and then: look how far the broker has come (`EdgeBroker.reached`)."""

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends, or another client has taken the name (`final`)."""

    @property
    def paused(self) -> bool:
        """Whether it publishes more than can be passed on."""


class EdgeBroker(Protocol):
    """A broker, as the edge sees it."""

    @property
    def name(self) -> str:
        """What the broker is called."""

    @property
    def congested(self) -> bool:
        """Whether publishers should wait."""

    def admit(self, subscriber: str, client: LocalClient) -> None:
        """Have the deliveries of a subscriber given to a client."""

    def dismiss(self, subscriber: str, client: LocalClient) -> None:
        """Give a client nothing any more."""

    def register(self, session: SessionState, done: Answer) -> None:
        """Register subscriptions of one subscriber; where there is an offset, what came after it is given.

        Answered when they are in force: what is published from then on reaches them.
        """

    def start_from(self, start: ToleranceStart) -> None:
        """Have a tolerance start from values that its subscriber was given elsewhere; see `Broker`."""

    def withdraw(self, key: SubscriptionKey) -> None:
        """Forget a subscription, if it is registered."""

    def reached(self, subscriber: str) -> Offset | None:
        """Up to where a subscriber has been given everything; None where there is no such place."""

    def publish(self, events: Sequence[Event], done: Answer) -> None:
        """Have events delivered, all or none; answered when they are safe (or at once, where nobody says)."""

    def audience(self, topic: str, lacking: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Who would be given an event of a topic that lacks an attribute; None where more decides.

        Where there is an answer, an event that is published is as safe at once as it ever is. It holds until
        the broker is next asked or told anything, before which `before_entry` is called.
        """

    def before_entry(self, prepare: Callable[[], None]) -> None:
        """Have this called before the broker is asked or told anything; it may publish."""

    def in_turn(self, action: Callable[[], None]) -> None:
        """Do something after all deliveries that are on their way now."""


class LiveEdge:
    """A live broker, as the edge sees it."""

    def __init__(self, broker: LiveBroker) -> None:
        self.broker = broker

    @property
    def name(self) -> str:
        """What the broker is called."""
        return self.broker.name

    @property
    def congested(self) -> bool:
        """Whether publishers should wait."""
        return self.broker.congested

    def admit(self, subscriber: str, client: LocalClient) -> None:
        """Have the deliveries of a subscriber given to a client."""
        self.broker.clients.admit(subscriber, client)

    def dismiss(self, subscriber: str, client: LocalClient) -> None:
        """Give a client nothing any more."""
        self.broker.clients.dismiss(subscriber, client)

    def register(self, session: SessionState, done: Answer) -> None:
        """Register subscriptions; see `EdgeBroker`."""
        keys = [subscription.key for subscription in session.subscriptions]
        requests = self.broker.clients.requests

        def settled() -> None:
            reasons = list(request.refusals.values())
            self.broker.in_turn(partial(done, reasons[0] if reasons else None))

        request = requests.open(keys if self.broker.acknowledges else (), settled)
        try:
            if session.offset is not None:
                self.broker.resume(session)
            else:  # while others of the subscriber catch up, a new one waits for them
                for subscription in session.subscriptions:
                    self.broker.subscribe(subscription)
        except DistributaryError as error:
            request.abandon()
            done(str(error))
            return
        request.close()

    def start_from(self, start: ToleranceStart) -> None:
        """Have a tolerance start from values that its subscriber was given elsewhere."""
        if self.broker.runs:
            self.broker.ask(lambda broker: broker.start_from(start))

    def withdraw(self, key: SubscriptionKey) -> None:
        """Forget a subscription, if it is registered."""
        if self.broker.runs:
            try:
                self.broker.unsubscribe(key)
            except DistributaryError:
                return  # it was never in force

    def reached(self, subscriber: str) -> Offset | None:
        """Up to where a subscriber has been given everything; None where there is no such place."""
        return self.broker.reached(subscriber) if self.broker.runs else None

    def publish(self, events: Sequence[Event], done: Answer) -> None:
        """Have events delivered; see `EdgeBroker`."""
        try:
            through = self.broker.publish_all(events)
        except DistributaryError as error:
            done(str(error))
            return
        if through is None:
            done(None)
        else:
            self.broker.clients.publications.when_safe(through, partial(done, None))

    def audience(self, topic: str, lacking: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Who would be given an event of a topic that lacks an attribute; see `EdgeBroker`."""
        return self.broker.audience(topic, lacking)

    def before_entry(self, prepare: Callable[[], None]) -> None:
        """Have this called before the broker is asked or told anything."""
        self.broker.before_entry.append(prepare)

    def in_turn(self, action: Callable[[], None]) -> None:
        """Do something after all deliveries that are on their way now."""
        self.broker.in_turn(action)
