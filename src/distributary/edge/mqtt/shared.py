"""Shared subscriptions: of the members of a group at this broker, one gets each message.

Rules:

- A group is a session of its own, with a mailbox of its own: what comes while no member is connected waits
  there, if one of its members has a session that outlives its connection; else it is gone with the last one.
- A message goes to the members that are connected in turn, and from then on is in that member's mailbox. When
  the session of a member ends, what it has not acknowledged goes to the others, but for messages of QoS 2
  that it was sent.
- The members of a group are of one user, so that their grants are the same.
- Each broker has its own members: a group with members at two brokers gets each message at both. Who joins
  one at a broker that is linked with others is told so, by the answer's reason (`GROUPS_HERE`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from distributary.edge.access import Identity
from distributary.edge.broker import Answer
from distributary.edge.mailbox import MailboxBounds, MailboxItem
from distributary.edge.mqtt.filters import SHARE
from distributary.edge.mqtt.messages import qos_of
from distributary.edge.sessions import Session, Sessions
from distributary.model import Delivery, DeliveryBatch, Event, Subscription

GROUP = SHARE
"""Names of the sessions of groups begin with this."""

GROUPS_HERE = "this broker has others beside it: members of the group that are there get each message too"


class GroupMember(NamedTuple):
    """A session that takes part in a group, by a filter of its own."""

    session: Session
    filter: str


class SharedGroup:
    """The members of one group at this broker, and what waits for them."""

    def __init__(
        self,
        name: str,
        sessions: Sessions,
        identity: Identity | None,
        dirty: Callable[[SharedGroup], None],
        sent: Callable[[Session], int],
    ) -> None:
        self.name = name
        self._sessions, self._dirty, self._sent = sessions, dirty, sent
        self.members: dict[str, GroupMember] = {}
        self._turn = 0
        known = sessions.get(name)
        expiry = 0 if known is None else known.expiry
        self._session, _ = sessions.attach(name, self, MailboxBounds(), expiry, identity=identity)

    def subscribe(self, subscription: Subscription, done: Answer) -> None:
        """Have the group's subscription registered, unless it is."""
        if subscription.id in self._session.subscriptions:
            done(None)
        else:
            self._session.subscribe(subscription, done)

    def add(self, member: GroupMember) -> None:
        """Let a session take part."""
        self.members[member.session.subscriber] = member
        if member.session.lasts and not self._session.lasts:
            self._session.expiry = None
        self._dirty(self)

    def remove(self, subscriber: str) -> bool:
        """A session takes part no longer; whether nobody is left.

        What it has not acknowledged goes to the others, if its session has ended.
        """
        member = self.members.pop(subscriber)
        if not self.members:
            self._session.close("its group has no members any more")
            return True
        if not self._lives(member.session):
            for entry in list(member.session.mailbox.after(0)):
                if isinstance(entry, MailboxItem) and self._goes_back(member, entry):
                    self._hand(entry.delivery.event)
        return False

    def _goes_back(self, member: GroupMember, item: MailboxItem) -> bool:
        sent = item.place <= self._sent(member.session)
        asked = member.filter in item.delivery.subscriptions
        return asked and not (sent and qos_of(item.delivery.event) == 2)

    def pump(self) -> None:
        """Hand what waits to members that are connected."""
        while any(member.session.connected for member in self.members.values()):
            entries = self._session.take()
            if not entries:
                return
            for entry in entries:
                if isinstance(entry, MailboxItem):
                    self._hand(entry.delivery.event)
            self._session.acknowledge_each([entry.place for entry in entries])

    def _hand(self, event: Event) -> None:
        """Give an event to the next member: one that is connected, if there is one."""
        members = list(self.members.values())
        members = [member for member in members if member.session.connected] or members
        self._turn += 1
        session, text = members[self._turn % len(members)]
        session.give(Delivery(event, session.subscriber, (text,)))

    def _lives(self, session: Session) -> bool:
        return self._sessions.get(session.subscriber) is session

    def gone(self) -> list[str]:
        """The members whose sessions have ended."""
        return [name for name, member in self.members.items() if not self._lives(member.session)]

    # As the receiver of its session.

    def ready(self) -> None:
        """Something waits."""
        self._dirty(self)

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        """Nothing: each event goes to one member, in turn."""
        return False

    def end(self, reason: str) -> None:
        """The session has ended."""


class SharedGroups:
    """All groups of a broker."""

    def __init__(self, sessions: Sessions, soon: Callable[[], None], sent: Callable[[Session], int]) -> None:
        self._sessions, self._soon, self._sent = sessions, soon, sent
        self._groups: dict[str, SharedGroup] = {}
        self._waiting: dict[str, SharedGroup] = {}

    def group(self, name: str, identity: Identity | None) -> SharedGroup:
        """The group of a name, made if need be, of the user whose sessions take part."""
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = SharedGroup(name, self._sessions, identity, self._note, self._sent)
        return group

    def _note(self, group: SharedGroup) -> None:
        self._waiting[group.name] = group
        self._soon()

    def pump(self) -> None:
        """Hand out what waits in the groups that said so."""
        waiting, self._waiting = self._waiting, {}
        for group in waiting.values():
            group.pump()

    def wake(self, subscriber: str) -> None:
        """A member is connected again: its groups may have something for it."""
        for group in self._groups.values():
            if subscriber in group.members:
                self._note(group)

    def leave(self, name: str, subscriber: str) -> None:
        """A session takes part in a group no longer."""
        group = self._groups.get(name)
        if group is not None and subscriber in group.members and group.remove(subscriber):
            del self._groups[name]
            self._waiting.pop(name, None)

    def sweep(self) -> None:
        """Remove members whose sessions have ended."""
        for group in list(self._groups.values()):
            for subscriber in group.gone():
                self.leave(group.name, subscriber)


def group_name(user: str, group: str, subscription: Subscription) -> str:
    """The name of a group's session: of its user, and of the filters that its members share."""
    return f"{GROUP}{user}/{group}/{json.dumps(subscription.filters(), sort_keys=True)}"
