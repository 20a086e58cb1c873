"""Bugs in homes, filters, overlays and single systems; those of any broker are in `brokers`, and
HOPE's in `hope`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from distributary.filters.change import ChangeFilter
from distributary.filters.where.filter import WhereFilter
from distributary.model import Delivery, Event, EventKey, SubscriptionKey
from distributary.overlay.courier import Courier
from distributary.overlay.replication import Replication
from distributary.overlay.ring.stabilisation import Stabilisation
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.schema import NumberAttribute
from distributary.systems.central import CentralBroker, CentralRegistration
from distributary.systems.flooding import FloodingBroker
from distributary.systems.home import Home
from distributary.systems.lookups import LookupBroker
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.order import ValueStamp
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from distributary.systems.tree.broker import TreeBroker
from sim.bugs.suite import bug, one_by_one, unheard

# What a home does with what it is given.


@bug("state-aware-mfd")
@bug("state-aware-sf")
@bug("state-aware-thresholds")
def mute_rendezvous(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StateAwareBroker, "notify", lambda self, item, event, stamp, fired: None)


@bug("central", "crash")
@bug("tree", "loss", quick=True)
def unasked_amid_faults(patch: pytest.MonkeyPatch) -> None:
    whole = Home.offer

    def offer(self: Home, event: Event, offset: Any = None) -> None:
        if 20 < self.node.now < 80:
            for key in self.subscriptions:
                self.node.deliver(Delivery(event, key.subscriber, (key.id,)))
        else:
            whole(self, event, offset)

    one_by_one(patch)
    patch.setattr(Home, "offer", offer)


@bug("central", nodes=4, subscriptions=200, seeds=3)
@bug("flooding", quick=True)
def ignored_unsubscription(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Home, "remove", lambda self, key: self.subscriptions[key])


@bug("central", "loss")
@bug("tree", quick=True)
def events_known_by_their_id_alone(patch: pytest.MonkeyPatch) -> None:
    whole = Home.offer
    known: dict[Home, set[str]] = {}

    def offer(self: Home, event: Event, offset: Any = None) -> None:
        ids = known.setdefault(self, set())
        if event.id not in ids:
            ids.add(event.id)
            whole(self, event, offset)

    one_by_one(patch)
    patch.setattr(Home, "offer", offer)


@bug("central", quick=True)
def subscriptions_known_by_their_id_alone(patch: pytest.MonkeyPatch) -> None:
    def register(self: CentralBroker, message: CentralRegistration, arrival: Any) -> None:
        self.replication.put(self.key, SubscriptionKey("", message.subscription.id), message)

    patch.setattr(CentralBroker, "_register", register)


@bug("flooding", subscriptions=200)
def one_subscription_named_of_several(patch: pytest.MonkeyPatch) -> None:
    whole = Home._hand_out

    def hand_out(
        self: Home, event: Event, keys: Iterable[SubscriptionKey], reached: Any, offset: Any = None
    ) -> None:
        first: dict[str, SubscriptionKey] = {}
        for key in sorted(keys):
            first.setdefault(key.subscriber, key)
        whole(self, event, first.values(), reached, offset)

    one_by_one(patch)
    patch.setattr(Home, "_hand_out", hand_out)


@bug("flooding")
def altered_events(patch: pytest.MonkeyPatch) -> None:
    whole = Home.offer
    patch.setattr(
        Home, "offer", lambda self, event, offset=None: whole(self, replace(event, document=None, topic="x"))
    )


# Filters: what all systems share, and the oracle does not.


@bug("flooding", subscriptions=12)
@bug("attributes")
def conditions_always_true(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WhereFilter, "matches", lambda self, event: True)


@bug("state-aware-sf", subscriptions=200, events=200, seeds=3)
def tolerances_met_are_exceeded(patch: pytest.MonkeyPatch) -> None:
    def moved(self: ChangeFilter, numbers: dict[str, float], last: dict[str, float]) -> bool:
        return any(
            name in numbers and (name not in last or abs(numbers[name] - last[name]) > 2 * tolerance)
            for name, tolerance in self.tolerances
        )

    patch.setattr(ChangeFilter, "moved", moved)


# Overlays.


@bug("ring", gone=4, at_once=2, seeds=5)
@bug("central", gone=4, at_once=2, seeds=5)
def successor_list_not_shifted(patch: pytest.MonkeyPatch) -> None:
    whole = Stabilisation._successor_answered

    def answered(self: Stabilisation, head: int, told: Any) -> None:
        if told is None and head == self.ring.successors[0] and len(self.ring.successors) > 1:
            self._busy = False
        else:
            whole(self, head, told)

    patch.setattr(Stabilisation, "_successor_answered", answered)


@bug("attributes", gone=4, settings={"refresh": 600}, seeds=5)
@bug("central", gone=6, settings={"refresh": 600}, seeds=5)
def replicas_that_get_no_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replication, "_give", lambda self, to, items: None)


@bug("central", gone=6, subscriptions=300, settings={"refresh": 600}, seeds=8)
def acknowledged_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    made, register = CentralBroker.__init__, CentralBroker._register

    def init(self: CentralBroker, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self.node.at_alarm("store", lambda about: register(self, *about))

    patch.setattr(CentralBroker, "__init__", init)
    patch.setattr(CentralBroker, "_register", lambda self, *about: self.node.wake_after(4.0, "store", about))


@bug("central", "loss", strength=3, subscriptions=120, settings={"refresh": 600}, seeds=3)
def nothing_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Courier, "_again", lambda self, about: None)


@bug("flooding")
@bug("ring", quick=True)
def a_node_that_multicasts_and_routes_to_itself_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        FloodingBroker, "publish", lambda self, event: self.home.offer(event) if event.id[-1] == "2" else None
    )
    whole = LookupBroker.publish
    patch.setattr(
        LookupBroker, "publish", lambda self, event: whole(self, event) if event.id[-1] != "2" else None
    )


@bug("ring")
def delivered_by_two_owners(patch: pytest.MonkeyPatch) -> None:
    whole = LookupBroker._deliver

    def deliver(self: LookupBroker, message: Any, arrival: Any) -> None:
        whole(self, message, arrival)
        if message.event.id[-1] == "3":
            whole(self, message, arrival)

    patch.setattr(LookupBroker, "_deliver", deliver)


# Systems.


@bug("attributes")
def values_off_the_grid_looked_up_below_alone(patch: pytest.MonkeyPatch) -> None:
    whole = NumberAttribute.spots
    patch.setattr(NumberAttribute, "spots", lambda self, value: list(whole(self, value))[1:])


@bug("attributes")
@bug("attributes-ordered")
def only_some_attributes_looked_up(patch: pytest.MonkeyPatch) -> None:
    whole = AttributeBroker.publish

    def publish(self: AttributeBroker, event: Event) -> None:
        kept = {name: value for name, value in event.attributes.items() if name in ("a0", "source")}
        whole(self, replace(event, attributes=kept))

    patch.setattr(AttributeBroker, "publish", publish)


@bug("state-aware-mfd", subscriptions=200, events=200, seeds=3)
def values_stay_on_the_lowest_level(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MFDBroker, "_gather", lambda self, output: None)


@bug("state-aware-thresholds", "pause", subscriptions=100, events=100, seeds=5)
@bug("state-aware-thresholds", "calm", robust=True, subscriptions=100, events=100, seeds=5)
def leases_without_limits(patch: pytest.MonkeyPatch) -> None:
    whole = ThresholdsBroker.send_value
    sent: set[tuple[int, str | None]] = set()

    def send_value(self: ThresholdsBroker, item: str, event: Event, stamp: ValueStamp) -> None:
        if (self.node.address, event.topic) not in sent:
            sent.add((self.node.address, event.topic))
            whole(self, item, event, stamp)

    patch.setattr(ThresholdsBroker, "send_value", send_value)


@bug("state-aware-sf", "clocks", nodes=16, subscriptions=100, events=100, seeds=5)
def values_of_a_publisher_with_a_clock_behind_are_lost(patch: pytest.MonkeyPatch) -> None:
    send, receive = SFBroker.send_value, SFBroker._receive_value
    published: dict[EventKey, float] = {}
    newest: dict[str, float] = {}

    def send_value(self: SFBroker, item: str, event: Event, stamp: ValueStamp) -> None:
        published[event.key] = self.node.now
        send(self, item, event, stamp)

    def receive_value(self: SFBroker, message: Any, arrival: Any) -> None:
        time = published[message.event.key]
        newest[message.item] = max(newest.get(message.item, 0.0), time)
        if time == newest[message.item]:
            receive(self, message, arrival)

    patch.setattr(SFBroker, "send_value", send_value)
    patch.setattr(SFBroker, "_receive_value", receive_value)


@bug("tree", quick=True)
def a_withdrawal_takes_others_along(patch: pytest.MonkeyPatch) -> None:
    whole = TreeBroker.unsubscribe
    gone: set[SubscriptionKey] = set()

    def unsubscribe(self: TreeBroker, key: SubscriptionKey) -> None:
        whole(self, key)
        gone.update(list(self.home.subscriptions)[:2])

    patch.setattr(TreeBroker, "unsubscribe", unsubscribe)
    unheard(patch, lambda home, key: key in gone)
