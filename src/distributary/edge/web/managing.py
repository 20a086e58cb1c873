"""Sessions and subscriptions by requests: made, looked at, changed and removed by their owners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from distributary.edge.access import AccessError, Identity
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
    session, _ = service.sessions.attach(subscriber, absent, read_bounds(record), expiry)
    session.detach(absent)
    return session, True


async def put_subscription(
    service: WebService,
    identity: Identity,
    session: Session,
    record: Mapping[str, Any],
    id: str | None = None,
    after: Offset | None = None,
) -> tuple[Subscription, bool]:
    """Register a subscription, or change the one that has its id; whether it is new.

    Narrowed to what the identity may see. WebError when nothing of it is, or when there are too many.
    """
    subscription = read_subscription(record, session.subscriber, id)
    new = subscription.id not in session.subscriptions
    try:
        service.access.subscribe(identity, len(session.subscriptions) + new)
        subscription = service.access.narrowed(identity, subscription)
    except AccessError as error:
        service.access.audit(identity, "subscribe", f"{subscription.filters()}: {error}", refused=True)
        raise WebError(403, str(error)) from None
    ask = partial(session.subscribe, subscription)
    reason = await service.settled(service.asked(ask), "the subscription is in force")
    if reason is not None:
        raise WebError(422, reason)
    return subscription, new


async def remove_subscription(service: WebService, session: Session, id: str) -> None:
    """End a subscription; WebError when there is none."""
    if id not in session.subscriptions:
        raise WebError(404, f"there is no subscription {id[:80]!r}")
    reason = await service.settled(service.asked(partial(session.unsubscribe, id)), "it has ended")
    if reason is not None:
        raise WebError(404, reason)
