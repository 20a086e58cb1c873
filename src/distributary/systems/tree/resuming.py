"""Clients that come back: what they missed is read from the root's log, then they are served like the others.

Rules:

- A client presents what it knows of itself: its subscriptions, the offset up to which it has received
  everything, and what its tolerances start from. It does not matter at which broker it was, nor what became
  of that one.
- First the tree is asked for what the subscriptions want. When that is granted, all later events will come
  here, so that whatever the root's log holds by then closes the gap.
- What the log holds is delivered in its order. Live events follow: a subscription joins those of the home
  when the node has come to where the log was read to, and not before, so that none comes twice.
- What the log does not hold any more is told to the client (`LogGap`) and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from distributary.filters.profile import Profile
from distributary.model import Event, Offset, SubscriptionKey
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.tree.interest import Form, Interest, form_of
from distributary.overlay.tree.messages import LogReply
from distributary.overlay.tree.node import TreeNode
from distributary.systems.home import Home
from distributary.systems.residents import Resident, Residents, ValuesByTopic


@dataclass
class _Returning:
    """A client that has not caught up."""

    subscriber: str
    plain: Residents
    """Its subscriptions without tolerances."""
    tolerant: dict[SubscriptionKey, Resident]
    """Those with tolerances, which remember what the client was given."""
    offset: Offset
    """The client has been given everything up to there."""
    read_to: int | None = None
    """The number up to which the log was read; None until all of it was."""

    @property
    def residents(self) -> list[Resident]:
        """All its subscriptions."""
        return [*self.plain, *self.tolerant.values()]

    def firing(self, event: Event) -> list[SubscriptionKey]:
        """Those that want an event, which is delivered to them next."""
        moved = [key for key, resident in self.tolerant.items() if resident.fires(event)]
        return self.plain.firing(event) + moved


class ResumingClients:
    """The clients of one node that are catching up."""

    def __init__(self, tree: TreeNode, home: Home, want: Callable[[SubscriptionKey, Form], None]) -> None:
        self._tree, self._home, self._want = tree, home, want
        self._returning: list[_Returning] = []

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
            self._tree.upstream.when_granted(lambda: self._acknowledge(residents))
        else:
            returning = _Returning(session.subscriptions[0].subscriber, Residents(), {}, session.offset)
            for resident in residents:
                if "change" in resident.filters:
                    returning.tolerant[resident.subscription.key] = resident
                else:
                    returning.plain.put(resident.subscription)
            self._returning.append(returning)
            interest = Interest(tuple(dict.fromkeys(forms)))
            self._tree.upstream.when_granted(lambda: self._read(returning, interest))

    def withdraw(self, key: SubscriptionKey) -> bool:
        """Forget a subscription that is catching up; whether there was one."""
        for returning in self._returning:
            if key in returning.plain:
                returning.plain.remove(key)
                return True
            if returning.tolerant.pop(key, None) is not None:
                return True
        return False

    def place(self, subscriber: str) -> Offset | None:
        """Up to where a client that is catching up has been given everything; None for any other."""
        places = [each.offset for each in self._returning if each.subscriber == subscriber]
        return min(places, default=None)

    def reach(self, number: int) -> None:
        """The event of this number is next: serve those who have read the log to before it."""
        if not self._returning:
            return
        for returning in list(self._returning):
            if returning.read_to is not None and returning.read_to < number:
                self._returning.remove(returning)
                self._settle(returning)

    def _read(self, returning: _Returning, interest: Interest) -> None:
        self._tree.read_log(interest, returning.offset, lambda part: self._take(returning, part))

    def _take(self, returning: _Returning, part: LogReply) -> None:
        subscriber, lost = returning.subscriber, Offset(part.epoch, part.floor)
        if part.floor > part.after:
            self._tree.log.missing += 1
            self._tree.node.deliver(LogGap(subscriber, Offset(part.epoch, part.after), lost))
        for number, event in part.events:
            firing = returning.firing(event)
            if firing:
                self._home.give(event, firing, Offset(part.epoch, number))
        returning.offset = Offset(part.epoch, part.through)
        if part.more:
            return
        returning.read_to = part.through
        self._acknowledge(returning.residents)
        if self._tree.log.epoch == part.epoch:
            self.reach(self._tree.log.position + 1)

    def _settle(self, returning: _Returning) -> None:
        for resident in returning.residents:
            self._home.add(resident.subscription, resident.last)

    def _acknowledge(self, residents: list[Resident]) -> None:
        for resident in residents:
            self._tree.node.acknowledge(resident.subscription.key)


def _remembered(session: SessionState, subscription: str) -> ValuesByTopic:
    """The values that a subscription was last given, by topic."""
    return {each.topic: dict(each.values) for each in session.last if each.subscription == subscription}
