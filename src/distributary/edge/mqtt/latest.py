"""Gives a new subscription the latest values there are, from which its tolerance starts: retained messages.

What is given counts as delivered. The broker's node measures tolerances, so it is told; it may be ahead of
what was given here, and then goes by what it has delivered itself.
"""

from __future__ import annotations

from distributary.edge.access import NOBODY
from distributary.edge.mqtt.room import MqttRoom
from distributary.edge.sessions import Session
from distributary.model import Delivery, Subscription
from distributary.overlay.broker import RememberedValues, ToleranceStart, ValuesByTopic


def give_latest(room: MqttRoom, session: Session, asked: Subscription) -> None:
    """Put the retained messages that a subscription in force lets pass into its mailbox."""
    identity = session.identity or NOBODY
    for part in (asked,) if asked.change is None else session.in_force(asked.id):
        before = session.last(part.id)
        given = [event for event in room.retained.matching(part) if room.access.may_see(identity, event)]
        for event in given:
            session.give(Delivery(event, session.subscriber, (part.id,)))
        if part.change is not None and given:
            topics, now = {event.topic for event in given}, session.last(part.id)
            values = {topic: numbers for topic, numbers in now.items() if topic in topics}
            start = ToleranceStart(part.key, _remembered(part, before), _remembered(part, values))
            room.broker.start_from(start)


def _remembered(part: Subscription, values: ValuesByTopic) -> tuple[RememberedValues, ...]:
    return tuple(RememberedValues(part.id, topic, tuple(each.items())) for topic, each in values.items())
