"""Segments of variable length where the guard does not know the nodes that keep subscriptions.

Rules, beside those of `change`:

- Registrations go to the guard, which forwards them to their places with the latest values, and values too,
  which the guard casts to the whole segment.
- Every `period` seconds, when a value arrives, the guard *surveys* the segment: every node tells how many
  subscriptions it keeps, how far from the start, and how many values they took. A survey is complete when the
  nodes that answered own the whole segment; an incomplete one is not used.
- The guard casts to everything that may keep subscriptions: at first, which may be after another guard, the
  longest possible segment; after a complete survey, as far as any subscription is kept; and from a change on,
  the longer of two segments until every node has handed back.

Cost of a survey: a message and an answer for each node of the segment. Registering costs the way from the
guard to the place, and a confirmation, more than without.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from distributary.model import Event, SubscriptionKey
from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import (
    DirectoryRegistration,
    GuardedRemoval,
    PublishedValue,
    RegistrationForward,
    TrackedSubscription,
)
from distributary.systems.state_aware.lengths.answers import Answers, AnswersOfSegment, Arc
from distributary.systems.state_aware.lengths.change import PATIENCE, BalancedBroker, HandBackRequest
from distributary.systems.state_aware.order import LatestValue, ValueStamp
from distributary.systems.state_aware.segments import Segments


class WorkRequest(NamedTuple):
    """To the nodes of a segment: tell your work for the item."""

    item: str
    guard: Address
    version: ValueStamp


class WorkReport(NamedTuple):
    """The work of a node for an item: subscriptions kept, values that they took, and its keys."""

    item: str
    version: ValueStamp
    kept: int
    taken: int
    span: int
    """How many identifiers there are from the start of the segment to the last subscription kept."""
    arc: Arc | None


class PlaceConfirmation(NamedTuple):
    """To the guard: a subscription that it forwarded is in place."""

    item: str
    name: SubscriptionKey


@dataclass(slots=True)
class _Survey:
    """A survey in progress."""

    version: ValueStamp
    answers: Answers
    kept: int = 0
    span: int = 0
    taken: dict[Address, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Guarded:
    """What a guard knows of an item."""

    reached: int
    """How many identifiers from the start values are cast to."""
    measured: float = -inf
    """When the work was last asked for."""
    surveyed: float = -inf
    """When the last complete survey began, with what had been taken until then at each node."""
    taken: dict[Address, int] = field(default_factory=dict)
    survey: _Survey | None = None
    pending: dict[SubscriptionKey, float] = field(default_factory=dict)
    """Registrations that are forwarded and not confirmed yet, and since when."""


class SurveyedBroker(BalancedBroker):
    """A node of a network whose guards survey the segments of their items."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._guarded: dict[str, _Guarded] = {}
        self._work: dict[str, int] = {}
        """How often subscriptions kept here have taken a value, by item."""
        super().__init__(ring, segments, **options)
        ring.listen(RegistrationForward, self._placed)
        ring.listen(GuardedRemoval, self._left)
        ring.listen(WorkRequest, lambda message, arrival: self._tell_work(message))
        ring.listen(HandBackRequest, lambda message, arrival: self._asked(message))
        self.node.handle(WorkReport, self._work_told)
        self.node.handle(PlaceConfirmation, lambda message, sender: self._confirmed(message))
        self.node.at_start(self._guarded.clear)
        ring.watch(self._forget_others)
        self.wait_while_moving(PublishedValue, lambda message: message.item)
        self.wait_while_moving(DirectoryRegistration, lambda message: message.registered.item)
        self.wait_while_moving(GuardedRemoval, lambda message: message.unregister.item)

    def latest_for(self, item: str) -> tuple[LatestValue, ...]:
        """At the guard: the latest values that are sent along with a registration."""
        return ()

    def begin_kept(self, tracked: TrackedSubscription, latest: tuple[LatestValue, ...]) -> None:
        """Give a subscription that was put here the latest values that its guard has sent along."""
        return

    def notify(self, item: str, event: Event, stamp: ValueStamp, fired: list[TrackedSubscription]) -> None:
        self._work[item] = self._work.get(item, 0) + len(fired)
        super().notify(item, event, stamp, fired)

    # Registering, through the guard.

    def register_key(self, tracked: TrackedSubscription) -> int:
        return self.segments.start(tracked.registered.item)

    def unregister(self, own: TrackedSubscription) -> None:
        self.unregister_at_guard(own)

    def _register(self, message: DirectoryRegistration, arrival: Arrival) -> None:
        self._forward(message, self.latest_for(message.registered.item))

    def _forward(self, message: DirectoryRegistration, latest: tuple[LatestValue, ...]) -> None:
        tracked = TrackedSubscription(message.registered, self.node.now)
        item = tracked.registered.item
        self.guarded(item).pending[tracked.name] = self.node.now
        place = self.place_of(item, tracked.least_tolerance)
        self.ring.route(place, RegistrationForward(message, self.node.address, latest))

    def _left(self, message: GuardedRemoval, arrival: Arrival) -> None:
        item, name, _ = message.unregister
        self.guarded(item).pending.pop(name, None)
        self.ring.route(self.place_of(item, message.tolerance), message.unregister)

    def _placed(self, message: RegistrationForward, arrival: Arrival) -> None:
        item, subscription, _ = message.register.registered
        self.keep(arrival.keys[0], message.register)
        self.begin_kept(self.directory[subscription.key], message.latest)
        self.tell(message.guard, PlaceConfirmation(item, subscription.key))

    def _confirmed(self, message: PlaceConfirmation) -> None:
        if message.item in self._guarded:
            self._guarded[message.item].pending.pop(message.name, None)
            self.confirm_placed(message.item)

    # The guard.

    def guarded(self, item: str) -> _Guarded:
        """What this node knows of an item as its guard."""
        return self._guarded.setdefault(item, _Guarded(self.reach))

    def is_guard(self, item: str) -> bool:
        return self.ring.owns(self.segments.start(item))

    def _forget_others(self) -> None:
        """Forget items of which another node is the guard now."""
        for item in [item for item in self._guarded if not self.is_guard(item)]:
            del self._guarded[item]
            self.latest.forget(item)

    def measure(self, item: str) -> None:
        """Survey the segment of an item if the period is over."""
        guarded = self.guarded(item)
        if self.node.now - guarded.measured >= self.balance.period and item not in self._moving:
            guarded.measured = self.node.now
            start = self.segments.start(item)
            answers = AnswersOfSegment(self.ring.circle, start, guarded.reached)
            guarded.survey = _Survey(self.stamp(), answers)
            request = WorkRequest(item, self.node.address, guarded.survey.version)
            self.ring.multicast_segment(start, guarded.reached, request)

    def _tell_work(self, message: WorkRequest) -> None:
        item, guard, version = message
        start = self.segments.start(item)
        kept = [each.key for each in self.directory.values() if each.registered.item == item]
        span = max((self.ring.circle.clockwise(start, key) + 1 for key in kept), default=0)
        taken = self._work.get(item, 0)
        self.tell(guard, WorkReport(item, version, len(kept), taken, span, self.ring.arc()))

    def _work_told(self, message: WorkReport, sender: Address) -> None:
        item, version, kept, taken, span, arc = message
        guarded = self._guarded.get(item)
        survey = guarded.survey if guarded is not None else None
        if survey is None or guarded is None or survey.version != version or sender in survey.taken:
            return
        survey.kept += kept
        survey.span = max(survey.span, span)
        survey.taken[sender] = taken
        survey.answers.add(sender, arc)
        if survey.answers.complete and item not in self._moving:
            self._use(item, guarded, survey)

    def _use(self, item: str, guarded: _Guarded, survey: _Survey) -> None:
        """Cast no further than needed, and weigh the work since the last complete survey."""
        taken = sum(all_time - guarded.taken.get(node, all_time) for node, all_time in survey.taken.items())
        passed = guarded.measured - guarded.surveyed
        guarded.survey, guarded.taken, guarded.surveyed = None, survey.taken, guarded.measured
        guarded.reached = max(self.length_of(item), survey.span)
        if passed < inf and self.is_placed(item):
            self.weigh(item, survey.kept, 60 * max(0, taken) / passed)

    # A change.

    def answers_for(self, item: str, length: int) -> Answers:
        guarded = self.guarded(item)
        guarded.survey = None
        guarded.reached = max(guarded.reached, length)
        return AnswersOfSegment(self.ring.circle, self.segments.start(item), guarded.reached)

    def ask_back(self, request: HandBackRequest) -> None:
        start = self.segments.start(request.item)
        self.ring.multicast_segment(start, self.guarded(request.item).reached, request)

    def on_moved(self, item: str) -> None:
        self.guarded(item).reached = self.length_of(item)

    def place_again(self, register: DirectoryRegistration) -> None:
        self._forward(register, ())

    def is_placed(self, item: str) -> bool:
        pending = self.guarded(item).pending
        for name in [name for name, since in pending.items() if since <= self.node.now - PATIENCE]:
            del pending[name]  # lost on its way, or its confirmation was
        return not pending
