"""Brokers that are mute, deaf, late, repeat or leak: each of them on every system.

All systems deliver by their homes (`Home._hand_out`), whether these decide for themselves (`Home.offer`) or a
rendezvous has decided (`Home.accept`); the ring alone delivers at the owners of events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distributary.model import Delivery, Event
from distributary.systems.home import Home
from distributary.systems.lookups import LookupBroker
from sim.bugs.suite import on_every_system, one_by_one, unheard

LATER = 6.0
"""Seconds after which a delivery comes late or again: more than the gap between events."""

Handing = Callable[..., None]


@on_every_system(quick=["flooding", "ring", "state-aware-mfd"])
def mute(patch: pytest.MonkeyPatch) -> None:
    one_by_one(patch)
    patch.setattr(Home, "_hand_out", lambda self, event, keys, reached, offset=None: None)
    patch.setattr(LookupBroker, "_deliver", lambda self, message, arrival: None)


@on_every_system(but=["ring"], quick=["flooding"])
def deaf_to_some_subscribers(patch: pytest.MonkeyPatch) -> None:
    unheard(patch, lambda home, key: key.subscriber[-1] in "123")


def postponed(patch: pytest.MonkeyPatch, *, at_once: bool) -> None:
    """Deliver later, or at once and later again."""

    def late(whole: Handing) -> Handing:
        def hand_out(self: Any, *given: Any) -> None:
            before = len(self.node._effects)
            whole(self, *given)
            items = [effect.item for effect in self.node._effects[before:]]
            if not at_once:
                del self.node._effects[before:]
            for item in items:
                self.node.wake_after(LATER, "later", item)

        return hand_out

    def ready(made: Handing) -> Handing:
        def init(self: Any, *given: Any, **options: Any) -> None:
            made(self, *given, **options)
            self.node.at_alarm("later", self.node.deliver)

        return init

    one_by_one(patch)
    for kind, name in ((Home, "_hand_out"), (LookupBroker, "_deliver")):
        patch.setattr(kind, "__init__", ready(kind.__init__))
        patch.setattr(kind, name, late(getattr(kind, name)))


@on_every_system(quick=["central"])
def late(patch: pytest.MonkeyPatch) -> None:
    postponed(patch, at_once=False)


@on_every_system(quick=["tree"])
def repeated_later(patch: pytest.MonkeyPatch) -> None:
    postponed(patch, at_once=True)


@on_every_system(but=["ring"], quick=["state-aware-sf"])
def leaking(patch: pytest.MonkeyPatch) -> None:
    def leaky(whole: Handing) -> Handing:
        def take(self: Home, event: Event, *given: Any) -> None:
            whole(self, event, *given)
            if event.id.endswith("3"):
                for key in self.subscriptions:
                    self.node.deliver(Delivery(event, key.subscriber, (key.id,)))

        return take

    one_by_one(patch)
    for name in ("offer", "accept"):
        patch.setattr(Home, name, leaky(getattr(Home, name)))
