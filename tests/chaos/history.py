"""What clients of a network did and saw, and whether the network kept its promises: a pure function.

    violations = violations_of(history)

Promises, each checked for every client:

- An event that was acknowledged is given to every subscription that was confirmed before it was sent and
  wants it, unless that ends before the run does.
- Nothing is given twice to a subscription, whatever was sent again.
- Events of one source and topic are given in the order in which they were sent.
- Nothing is given that was not asked for: never published, changed on the way, not wanted by the
  subscription, or sent after that had ended.

Times are of one clock, that of the process in which all clients run. Whether a subscription wants an event is
decided by the oracle of the properties, which shares no code with the brokers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from properties.oracle import passes


class Publish(NamedTuple):
    """An event that a client published; in the order in which it was first sent."""

    event: Event
    sent: float
    acknowledged: float | None


@dataclass
class Subscribing:
    """A subscription of a client."""

    subscription: Subscription
    confirmed: float = inf
    """When the client was told that it is in force."""
    ended: float = inf
    """When the client asked for its end."""


class Given(NamedTuple):
    """An event that came to a client for one of its subscriptions, in the order in which it came."""

    subscription: SubscriptionKey
    event: Event
    time: float


class Violation(NamedTuple):
    """A promise that was not kept."""

    kind: str
    subscription: SubscriptionKey
    event: EventKey
    about: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: event {self.event} for {self.subscription} {self.about}".rstrip()


@dataclass
class History:
    """Everything that clients did and saw."""

    publishes: list[Publish] = field(default_factory=list)
    subscriptions: list[Subscribing] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)


def violations_of(history: History, since: float = -inf) -> list[Violation]:
    """All promises that were not kept to events sent since some time, grouped by their kind."""
    due = [each for each in history.publishes if each.sent >= since]
    keys = {each.event.key for each in due}
    given = [each for each in history.given if each.event.key in keys]
    strange = [] if since > -inf else [each for each in history.given if each.event.key not in keys]
    return [
        *_lost(due, history.subscriptions, given),
        *_doubled(given),
        *_disordered(due, given),
        *_unasked(due, history.subscriptions, given),
        *(Violation("unasked", each.subscription, each.event.key, "was never published") for each in strange),
    ]


def _lost(
    due: Iterable[Publish], subscriptions: Iterable[Subscribing], given: Iterable[Given]
) -> Iterable[Violation]:
    came = {(each.subscription, each.event.key) for each in given}
    for wanted in subscriptions:
        key = wanted.subscription.key
        for publish in due:
            event = publish.event
            if (
                publish.acknowledged is not None
                and wanted.confirmed < publish.sent
                and wanted.ended == inf
                and (key, event.key) not in came
                and passes(wanted.subscription, event)
            ):
                times = f"sent {publish.sent:.3f}, acknowledged {publish.acknowledged:.3f}"
                yield Violation("lost", key, event.key, times)


def _doubled(given: Iterable[Given]) -> Iterable[Violation]:
    for (key, event), count in Counter((each.subscription, each.event.key) for each in given).items():
        if count > 1:
            yield Violation("twice", key, event, f"came {count} times")


def _disordered(due: Iterable[Publish], given: Iterable[Given]) -> Iterable[Violation]:
    places = {publish.event.key: place for place, publish in enumerate(due)}
    latest: dict[tuple[SubscriptionKey, str, str | None], Given] = {}
    for each in given:
        line = (each.subscription, each.event.source, each.event.topic)
        before = latest.get(line)
        if before is not None and places[before.event.key] > places[each.event.key]:
            about = f"came {each.time:.3f} after {before.event.key}, {before.time:.3f}, which was sent later"
            yield Violation("disorder", each.subscription, each.event.key, about)
        else:
            latest[line] = each


def _unasked(
    due: Iterable[Publish], subscriptions: Iterable[Subscribing], given: Iterable[Given]
) -> Iterable[Violation]:
    published = {publish.event.key: publish for publish in due}
    asked: defaultdict[SubscriptionKey, list[Subscribing]] = defaultdict(list)
    for each in subscriptions:
        asked[each.subscription.key].append(each)
    for key, event, _ in given:
        publish = published[event.key]
        open_ = [each for each in asked[key] if each.ended >= publish.sent]
        if event != publish.event:
            yield Violation("unasked", key, event.key, "is not as it was published")
        elif not open_:
            yield Violation("unasked", key, event.key, "was sent after the subscription had ended")
        elif not any(passes(each.subscription, event) for each in open_):
            yield Violation("unasked", key, event.key, "is not wanted by it")
