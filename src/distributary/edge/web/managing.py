"""Sessions and subscriptions by requests: made, looked at, changed and removed by their owners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from distributary.edge.access import AccessError, Identity
from distributary.edge.broker import Answer
from distributary.edge.mailbox import MailboxBounds
from distributary.edge.mqtt.latest import give_latest
from distributary.edge.sessions import Session
from distributary.edge.web.faults import WebError
from distributary.edge.web.pulling import Puller
from distributary.edge.web.records import read_bounds, read_expiry, read_subscription
from distributary.edge.web.service import WebService
from distributary.errors import InputError
from distributary.model import Offset, Subscription

EXPIRY = 3_600.0
"""Seconds that a session made by a request waits for its subscriber, unless said otherwise."""


def subscriber_of(identity: Identity, client: str) -> str:
    """The name of a client's session; WebError when it cannot be one."""
    try:
        return identity.subscriber(client)
    except AccessError as error:
        raise WebError(422, str(error)) from None


def session_of(service: WebService, identity: Identity, client: str) -> Session:
    """A session of somebody's own; WebError when there is none."""
    session = service.sessions.get(subscriber_of(identity, client))
    if session is None:
        raise WebError(404, f"there is no session {client[:80]!r}")
    return session


def attached(
    service: WebService,
    identity: Identity,
    subscriber: str,
    receiver: Puller,
    bounds: MailboxBounds | None,
    expiry: float | None,
    *,
    fresh: bool = False,
) -> tuple[Session, bool]:
    """Connect to a session; whether it was there before. WebError when somebody has too many."""
    service.receivers.add(receiver)
    try:
        return service.sessions.attach(subscriber, receiver, bounds, expiry, fresh=fresh, identity=identity)
    except AccessError as error:
        raise WebError(429, str(error)) from None


def put_session(
    service: WebService, identity: Identity, client: str, record: Mapping[str, Any]
) -> tuple[Session, bool]:
    """Make a session, or give one other bounds; whether it is new."""
    subscriber = subscriber_of(identity, client)
    unknown = set(record) - {"policy", "events", "bytes", "seconds", "expiry"}
    if unknown:
        raise InputError("is no setting of a session", field=sorted(unknown)[0][:60])
    session = service.sessions.get(subscriber)
    if session is not None:
        session.rebound(read_bounds(record, session.mailbox.bounds), read_expiry(record, session.expiry))
        service.sessions.keep(session)
        return session, False
    expiry = read_expiry(record, EXPIRY)
    if expiry == 0:
        raise InputError("must be above 0: a session made by a request has no connection", field="expiry")
    absent = Puller()
    session, _ = attached(service, identity, subscriber, absent, read_bounds(record), expiry)
    session.detach(absent)
    return session, True


async def put_subscription(
    service: WebService,
    identity: Identity,
    session: Session,
    record: Mapping[str, Any],
    id: str | None = None,
) -> tuple[Subscription, bool]:
    """Register a subscription, or change the one that has its id; whether it is new.

    With `from`, an offset or a time, it begins there. The session has what the identity's grants leave of it.
    WebError when that is nothing, or when there are too many.
    """
    asked = dict(record)
    begins = asked.pop("from", None)
    after = None if begins is None else service.clock.after(begins)
    if after is not None and (session.subscriptions or session.mailbox.last):
        raise InputError("a replay needs a session of its own, which has received nothing", field="from")
    subscription = read_subscription(asked, session.subscriber, id)
    new = subscription.id not in session.subscriptions
    try:
        count = len(session.subscriptions) + service.registering[session.subscriber]
        service.access.subscribe(identity, count + new)
        service.access.parts(identity, subscription)
    except AccessError as error:
        service.access.audit(identity, "subscribe", f"{subscription.filters()}: {error}", refused=True)
        raise WebError(403, str(error)) from None
    ask = partial(_subscribe, service, session, subscription, after)
    service.registering[session.subscriber] += new
    try:
        reason = await service.settled(service.asked(ask), "the subscription is in force")
    finally:
        service.registering[session.subscriber] -= new
        if not service.registering[session.subscriber]:
            del service.registering[session.subscriber]
    if reason is not None:
        raise WebError(422, reason)
    return subscription, new


def _subscribe(
    service: WebService, session: Session, asked: Subscription, after: Offset | None, done: Answer
) -> None:
    """Have a session subscribe; a tolerance that does not begin earlier starts from the latest values."""

    def in_force(reason: str | None) -> None:
        if reason is None and asked.change is not None and after is None and service.mqtt is not None:
            give_latest(service.mqtt, session, asked)
        done(reason)

    session.subscribe(asked, in_force, after)


async def remove_subscription(service: WebService, session: Session, id: str) -> None:
    """End a subscription; WebError when there is none."""
    if id not in session.subscriptions:
        raise WebError(404, f"there is no subscription {id[:80]!r}")
    reason = await service.settled(service.asked(partial(session.unsubscribe, id)), "it has ended")
    if reason is not None:
        raise WebError(404, reason)
