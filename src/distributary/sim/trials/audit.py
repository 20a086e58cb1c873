"""The audit of a trial: every delivery of the whole run is held against what clients asked and were promised.

Rules:

- At any time, amid faults too: a delivery is of an event that was published, as it was published; it names
  subscriptions of its subscriber that its node has (or had, `GRACE` seconds ago at most) and that the event
  matches; and no node delivers an event to a subscriber twice, unless it lost its state in between.
- When all has healed, of each event, within the time until the next: an `exact` system has reached everybody
  for every subscription that wants it; a `within` one has left nobody further from the value than their
  tolerance; a `once` one has delivered it once, and never again until the end.
- What was due is counted. A run in which little was due has shown little, and is told as a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distributary.model import Event, EventKey
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment, ReceivedDelivery, Stay
from distributary.sim.oracle import ClientSubscription, Oracle
from distributary.systems.table import System

GRACE = 1.0
"""Seconds after the acknowledgement of an unsubscription in which a delivery may still be handed over."""


class Expectation(NamedTuple):
    """What must come of an event: the subscriptions there were, and by node and subscriber whom it is for."""

    event: Event
    clients: list[ClientSubscription]
    wanted: dict[tuple[Address, str], tuple[str, ...]]


class Audit:
    """Checks the deliveries of a deployment as they come, and notes what is wrong."""

    def __init__(self, system: System, deployment: Deployment, published: Mapping[EventKey, Event]) -> None:
        self.problems: list[str] = []
        self.due = 0
        """Deliveries that had to happen: (event, subscription) pairs, or events where each comes once."""
        self.oracle = Oracle()
        self._system = system
        self._deployment = deployment
        self._published = published
        self._read = 0
        self._reached: dict[tuple[EventKey, Address, str], dict[int, set[str]]] = {}
        """By event, node and subscriber, and by the node's life, the subscriptions that were named."""
        self._checked: set[EventKey] = set()
        self._times: Counter[EventKey] = Counter()

    # Every delivery.

    def catch_up(self) -> None:
        """Check the deliveries since the last call."""
        deliveries = self._deployment.deliveries
        while self._read < len(deliveries):
            received = deliveries[self._read]
            self._read += 1
            self._check(received)

    def _check(self, received: ReceivedDelivery) -> None:
        delivery = received.delivery
        event = self._published.get(delivery.event.key)
        if event is None or event != delivery.event:
            self._complain(received, "though it was not published so")
            return
        self._times[event.key] += 1
        if self._system.promise == "once":
            return
        lives = self._reached.setdefault((event.key, received.address, delivery.subscriber), {})
        life = self._deployment.life(received.address, received.time)
        if life in lives:
            self._complain(received, "a second time")
        lives.setdefault(life, set()).update(delivery.subscriptions)
        if not delivery.subscriptions:
            self._complain(received, "unasked, for no subscription")
        standing = self._standing(received)
        for key in delivery.keys:
            stay = standing.get(key.id)
            if stay is None:
                self._complain(received, f"unasked: there is no subscription {key.id} of theirs")
            elif not self.oracle.evaluation(stay.subscription).passes(event):
                self._complain(received, f"unasked: it does not match their subscription {key.id}")
        self._note(received, event, standing.values())

    def _complain(self, received: ReceivedDelivery, what: str) -> None:
        delivery = received.delivery
        self.problems.append(
            f"event {delivery.event.key} reached {delivery.subscriber} at node {received.address}"
            f" at {received.time:.1f} s {what}"
        )

    def _standing(self, received: ReceivedDelivery) -> dict[str, Stay]:
        """By id, the subscriptions of the subscriber that the delivering node has, or had a moment ago."""
        found = {}
        for key in self._deployment.subscription_keys(received.delivery.subscriber):
            for stay in self._deployment.stays(key):
                if stay.at == received.address and stay.since <= received.time <= stay.until + GRACE:
                    found[key.id] = stay
        return found

    def _note(self, received: ReceivedDelivery, event: Event, standing: Iterable[Stay]) -> None:
        """Tell the oracle which subscriptions have these values now: all that wanted the event, for it is
        delivered to a subscriber once; where a system chooses by itself, all that it matches."""
        clients = [ClientSubscription(stay.subscription, stay.at, stay.since) for stay in standing]
        if self._system.promise == "exact":
            named = set(received.delivery.subscriptions)
            had = [one for one in clients if one.subscription.id in named or self.oracle.wants(one, event)]
        else:
            had = [one for one in clients if self.oracle.evaluation(one.subscription).passes(event)]
        self.oracle.note(event, had, received.time)

    # What is due when all has healed.

    def expect(self, event: Event) -> Expectation:
        """What must come of an event that is published now; ask before it is."""
        self.catch_up()
        self._checked.add(event.key)
        deployment = self._deployment
        clients = [
            ClientSubscription(subscription, at, deployment.subscribed_since(key))
            for key, (subscription, at) in deployment.subscriptions.items()
        ]
        return Expectation(event, clients, self.oracle.wanted(event, clients))

    def settle(self, expected: Expectation) -> None:
        """Check that what was expected has happened by now."""
        self.catch_up()
        event = expected.event
        match self._system.promise:
            case "once":
                self.due += 1
                if not self._times[event.key]:
                    self.problems.append(f"event {event.key} was not delivered")
            case "exact":
                for (at, who), names in expected.wanted.items():
                    self.due += len(names)
                    self._require(event, at, who, set(names))
            case "within":
                for client in expected.clients:
                    self.due += self.oracle.evaluation(client.subscription).passes(event)
                    drift = self.oracle.drift(client, event)
                    if drift is not None:
                        self.problems.append(f"after event {event.key} {client.subscription.key} {drift}")

    def _require(self, event: Event, at: Address, who: str, names: set[str]) -> None:
        lives = self._reached.get((event.key, at, who))
        if lives is None:
            self.problems.append(f"event {event.key} did not reach {who} at node {at}")
            return
        named = set().union(*lives.values())
        if not named <= names or (self._system.names_all and named != names):
            told = f"named {sorted(named)}, not {sorted(names)}"
            self.problems.append(f"event {event.key} reached {who} at node {at} but {told}")

    def close(self, least: int, refusal: str = "") -> None:
        """Check what can only be said in the end; a run in which less than `least` was due has failed, and
        tells of a subscription that was refused, if there is one."""
        self.catch_up()
        if self._system.promise == "once":
            repeated = [key for key in sorted(self._checked) if self._times[key] > 1]
            self.problems += [f"event {key} was delivered {self._times[key]} times" for key in repeated]
        if self.due < least:
            self.problems.append(
                f"only {self.due} deliveries were due when all had healed, fewer than {least} mean nothing:"
                " give more events, subscriptions, or ones that match"
                + (f"; refused was {refusal}" if refusal else "")
            )
