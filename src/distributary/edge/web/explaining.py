"""Why an event would match a subscription or would not: what `Matcher.explain` says, to who may know."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from distributary.edge.access import AccessError, Identity
from distributary.edge.web.bodies import read_record
from distributary.edge.web.faults import WebError
from distributary.edge.web.managing import session_of
from distributary.edge.web.records import read_subscription
from distributary.edge.web.service import WebService
from distributary.errors import InputError
from distributary.model import Event, Subscription

_one_at_a_time = asyncio.Lock()


async def explain(service: WebService, identity: Identity, record: Mapping[str, Any]) -> dict[str, Any]:
    """What every filter of a subscription says to an event.

    The subscription is given, or is one of a session of one's own. Whoever may not see the event is told
    nothing of it, and what grants take from the subscription is explained too.
    """
    event, subscription = _event(record), _subscription(service, identity, record)
    try:
        parts = service.access.parts(identity, subscription)
    except AccessError as error:
        raise WebError(403, str(error)) from None
    if not service.access.may_see(identity, event):
        raise WebError(403, "none of your grants lets you see this event")
    async with _one_at_a_time:
        found = await asyncio.to_thread(lambda: [_explained(event, part) for part in parts])
    matching = [each for each in found if each["matches"]]
    return {"matches": bool(matching), "filters": (matching or found)[0]["filters"]}


def _event(record: Mapping[str, Any]) -> Event:
    given = record.get("event")
    if not isinstance(given, dict):
        raise InputError("must be an event's record", field="event")
    return read_record(given)


def _subscription(service: WebService, identity: Identity, record: Mapping[str, Any]) -> Subscription:
    given = record.get("subscription")
    if isinstance(given, dict):
        return read_subscription({"id": "s1", **given}, "you")
    client = record.get("session")
    if not isinstance(client, str) or not isinstance(given, str):
        raise InputError("must be a record, or the id of one of `session`", field="subscription")
    found = session_of(service, identity, client).subscriptions.get(given)
    if found is None:
        raise WebError(404, f"there is no subscription {given[:80]!r}")
    return found


def _explained(event: Event, subscription: Subscription) -> dict[str, Any]:
    from distributary.matching.matcher import Matcher

    explanation = Matcher([subscription]).explain(event, subscription.id)
    reasons = [
        {"kind": each.kind, "filter": each.filter, "passes": each.passes, "detail": each.detail}
        for each in explanation.reasons
    ]
    return {"matches": explanation.matches, "filters": reasons}
