"""Publishes what a request or a WebSocket brings: answered when all of it is safe, or rejected one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from distributary.edge.access import AccessError, Identity
from distributary.edge.web.bodies import RejectedEvent
from distributary.edge.web.faults import WebError
from distributary.edge.web.service import WebService
from distributary.model import Event

SAFE = "these events are safe"
PAUSE = 0.02
"""Seconds between two looks whether the broker is still congested."""


class PublishOutcome(NamedTuple):
    """What became of the events of one request."""

    ids: list[str]
    """Of those that are safe, in their order."""
    rejected: list[RejectedEvent]

    @property
    def status(self) -> int:
        """200: all are published; 207: some; 422, or 403 where that is the only reason: none."""
        if not self.rejected:
            return 200
        if self.ids:
            return 207
        return 403 if all(each.forbidden for each in self.rejected) else 422

    def record(self) -> dict[str, Any]:
        """For the answer, in JSON."""
        rejected = [{"place": each.place, "reason": each.reason} for each in self.rejected]
        return {"published": len(self.ids), "ids": self.ids, "rejected": rejected}


async def wait_for_room(service: WebService) -> None:
    """Wait while the broker has more than it can pass on; WebError when that takes long."""
    try:
        async with asyncio.timeout(service.limits.answer):
            while service.broker.congested:
                await asyncio.sleep(PAUSE)
    except TimeoutError:
        raise WebError(503, "the broker has more events than it can pass on; try again later") from None


async def publish(
    service: WebService,
    identity: Identity,
    events: Sequence[tuple[int, Event]],
    rejected: Sequence[RejectedEvent],
    size: int,
) -> PublishOutcome:
    """Publish events, each with its place in the request, beside those that are rejected already.

    The broker has them, in this order, before this first waits. WebError when it does not say that they are
    safe; they may be, and nobody gets them twice if they are sent again with the same sources and ids.
    """
    try:
        service.access.publish(identity, len(events), size)
    except AccessError as error:
        raise WebError(429, str(error)) from None
    refused = list(rejected)
    allowed: list[tuple[int, Event]] = []
    for place, event in events:
        reason = service.access.may_publish(identity, event)
        if reason is None:
            allowed.append((place, event))
        else:
            refused.append(RejectedEvent(place, reason, forbidden=True))
            service.access.audit(identity, "publish", f"{event.topic}: {reason}", refused=True)
    if allowed:
        refused += await _publish_allowed(service, allowed)
    refused.sort()
    without = {each.place for each in refused}
    return PublishOutcome([event.id for place, event in allowed if place not in without], refused)


async def _publish_allowed(service: WebService, allowed: list[tuple[int, Event]]) -> list[RejectedEvent]:
    """Publish together; one by one where something is wrong with one of them, which then is told alone."""
    together = service.asked(partial(service.broker.publish, [event for _, event in allowed]))
    if not together.done() or len(allowed) == 1:
        reason = await service.settled(together, SAFE)
        return [RejectedEvent(place, reason) for place, _ in allowed] if reason is not None else []
    if together.result() is None:
        return []
    asked = [(place, service.asked(partial(service.broker.publish, [event]))) for place, event in allowed]
    answers = [(place, await service.settled(answer, SAFE)) for place, answer in asked]
    return [RejectedEvent(place, reason) for place, reason in answers if reason is not None]
