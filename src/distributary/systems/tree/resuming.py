"""Clients that come back: what they missed is read from the root's log, then they are served like the others.

Rules:

- A client presents what it knows of itself: its subscriptions, the offset up to which it has received
  everything, and what its tolerances start from. It does not matter at which broker it was, nor what became
  of that one.
- First the tree is asked for what the subscriptions want. When that is granted, all later events will come
  here, so that whatever the root's log holds by then closes the gap.
- What the log holds is delivered in its order. Live events follow: a subscription joins those of the home
  when the node has come to where the log was read to, and not before, so that none comes twice.
- An answer of the root may be late: what has come to the node meanwhile is given from the node's own log, or
  asked for again where that does not have it all. The same if the node has gone on to another epoch.
- A subscription that is new while its client catches up joins the others when the log was read: a client that
  was given a later event would take the earlier ones for such as it has.
- What the log does not hold any more is told to the client (`LogGap`) and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from distributary.filters.profile import Profile
from distributary.model import Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import LogGap, RememberedValues, SessionState, ToleranceStart, ValuesByTopic
from distributary.overlay.tree.event_log import NumberedEvent
from distributary.overlay.tree.interest import Form, Interest, InterestSummary, form_of
from distributary.overlay.tree.messages import LogReply
from distributary.overlay.tree.node import TreeNode
from distributary.systems.home import Home
from distributary.systems.residents import Resident, Residents


@dataclass
class _Returning:
    """A client that has not caught up."""

    subscriber: str
    subscriptions: Residents
    """Those that are given what the log holds; tolerances remember what the client was given."""
    interest: Interest
    """What they ask for together."""
    offset: Offset
    """The client has been given everything up to there."""
    has_read: bool = False
    """Whether the log was read to its end, which is the offset."""
    joining: dict[SubscriptionKey, tuple[Subscription, Form]] = field(default_factory=dict)
    """Its new subscriptions, which ask for what comes after the end of the log."""


class ResumingClients:
    """The clients of one node that are catching up."""

    def __init__(self, tree: TreeNode, home: Home, want: Callable[[SubscriptionKey, Form], None]) -> None:
        self._tree, self._home, self._want = tree, home, want
        self._returning: list[_Returning] = []
        self._registered: dict[SubscriptionKey, object] = {}
        """What tells a registration from others of the same key, before and after it."""

    def __len__(self) -> int:
        """How many clients have not caught up."""
        return len(self._returning)

    def resume(self, session: SessionState) -> None:
        """Register the subscriptions of a client and catch up; FilterError when one cannot be parsed."""
        residents = [Resident(each, _remembered(session, each.id)) for each in session.subscriptions]
        forms = [form_of(Profile(resident.filters)) for resident in residents]
        for resident, form in zip(residents, forms, strict=True):
            key = resident.subscription.key
            if not self.withdraw(key) and key in self._home:
                self._home.remove(key)
            self._want(key, form)
        if session.offset is None or not residents:
            for resident in residents:
                self._home.add(resident.subscription)
                self._acknowledge_when_granted(resident.subscription.key)
        else:
            interest = Interest(tuple(dict.fromkeys(forms)))
            subscriber = session.subscriptions[0].subscriber
            returning = _Returning(subscriber, Residents(), interest, session.offset)
            for resident in residents:
                returning.subscriptions.put(resident.subscription, resident.last)
            self._returning.append(returning)
            self._tree.upstream.when_granted(lambda: self._read(returning))

    def subscribe(self, subscription: Subscription) -> None:
        """Register a new subscription; FilterError when it cannot be parsed."""
        resident = Resident(subscription)
        key, form = subscription.key, form_of(Profile(resident.filters))
        catching_up = [each for each in self._returning if each.subscriber == subscription.subscriber]
        self.withdraw(key)
        self._want(key, form)
        if not catching_up:
            self._home.add(subscription)
            self._acknowledge_when_granted(key)
            return
        if key in self._home:
            self._home.remove(key)
        catching_up[-1].joining[key] = (subscription, form)
        if catching_up[-1].has_read:
            self._join(catching_up[-1])

    def withdraw(self, key: SubscriptionKey) -> bool:
        """Forget a subscription that is catching up; whether there was one."""
        self._registered.pop(key, None)
        for returning in self._returning:
            if returning.joining.pop(key, None) is not None:
                return True
            if key in returning.subscriptions:
                returning.subscriptions.remove(key)
                return True
        return False

    def start_from(self, start: ToleranceStart) -> None:
        """Have a tolerance start from values, here or at the home; see `Broker.start_from`."""
        key, before, values = start.key, _by_topic(start.before), _by_topic(start.values)
        self._home.start_from(key, before, values)
        for residents in [each.subscriptions for each in self._returning]:
            residents.start_from(key, before, values)

    def place(self, subscriber: str) -> Offset | None:
        """Up to where a client that is catching up has been given everything; None for any other."""
        places = [each.offset for each in self._returning if each.subscriber == subscriber]
        return min(places, default=None)

    def reach(self, number: int) -> None:
        """The event of this number is next: serve those who have read the log to before it."""
        epoch = self._tree.log.epoch
        for returning in [each for each in self._returning if each.has_read]:
            if returning.offset.epoch < epoch:
                self._read(returning)
            elif returning.offset < (epoch, number):
                self._settle(returning)

    def _read(self, returning: _Returning) -> None:
        """Read the log from where the client is, by few profiles: the root compares each event with all."""
        returning.has_read = False
        asked = InterestSummary(self._tree.settings.most_profiles)
        for form in returning.interest.forms:
            asked.add(form)
        self._tree.read_log(asked.interest, returning.offset, partial(self._take, returning))

    def _take(self, returning: _Returning, part: LogReply) -> None:
        subscriber, lost = returning.subscriber, Offset(part.epoch, part.floor)
        if part.floor > part.after:
            self._tree.log.missing += 1
            self._tree.node.deliver(LogGap(subscriber, Offset(part.epoch, part.after), lost))
        self._give(returning, part.events, Offset(part.epoch, part.through))
        if part.more:
            return
        if self._has_caught_up(returning):
            returning.has_read = True
            for resident in returning.subscriptions:
                self._tree.node.acknowledge(resident.subscription.key)
            self._join(returning)
            if returning.offset == (self._tree.log.epoch, self._tree.log.position):
                self._settle(returning)
        else:
            self._read(returning)

    def _has_caught_up(self, returning: _Returning) -> bool:
        """Give what has come here while the log was read; False if something of it may be missing here."""
        log, (epoch, number) = self._tree.log, returning.offset
        if epoch > log.epoch or (epoch == log.epoch and number >= log.position):
            return True
        here = epoch == log.epoch and log.answers(returning.interest, number, log.position)
        if here:
            events = log.between(returning.interest, number, log.position)
            self._give(returning, events, Offset(epoch, log.position))
        return here

    def _give(self, returning: _Returning, events: Iterable[NumberedEvent], through: Offset) -> None:
        """Give a client those of the events that it wants; it has then all up to a place."""
        for number, event in events:
            firing = returning.subscriptions.firing(event)
            if firing:
                self._home.give(event, firing, Offset(through.epoch, number))
        returning.offset = through

    def _settle(self, returning: _Returning) -> None:
        """Serve a client like the others."""
        self._returning.remove(returning)
        for subscription, last in returning.subscriptions.remembered():
            self._home.add(subscription, last)

    def _join(self, returning: _Returning) -> None:
        """Have the new subscriptions of a client ask for what comes after the end of the log."""
        for key, (subscription, form) in returning.joining.items():
            returning.subscriptions.put(subscription)
            returning.interest = Interest(tuple(dict.fromkeys((*returning.interest.forms, form))))
            self._acknowledge_when_granted(key)
        returning.joining.clear()

    def _acknowledge_when_granted(self, key: SubscriptionKey) -> None:
        """Acknowledge a subscription when the tree has granted it, unless it was withdrawn meanwhile."""
        registration = self._registered[key] = object()

        def granted() -> None:
            if self._registered.get(key) is registration:
                self._tree.node.acknowledge(key)

        self._tree.upstream.when_granted(granted)


def _remembered(session: SessionState, subscription: str) -> ValuesByTopic:
    """The values that a subscription was last given, by topic."""
    return _by_topic(each for each in session.last if each.subscription == subscription)


def _by_topic(values: Iterable[RememberedValues]) -> ValuesByTopic:
    return {each.topic: dict(each.values) for each in values}
