"""Puts a bug into the broker of every process that has this directory on its path: DISTRIBUTARY_BUG names it.

Python runs this file at its start. The bugs are of the kinds that the checker of histories must find.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from typing import Any

from distributary.live.clients import ClientRoom
from distributary.overlay.node import Deliver

EVERY = 7
"""Of so many deliveries of a broker one is hit."""

bug = os.environ.get("DISTRIBUTARY_BUG")
deliver = ClientRoom.deliver
numbers = count(1)


held: dict[tuple[str, str, str | None], Any] = {}
"""Deliveries that the next one of the same subscriber, source and topic overtakes."""


def hit(room: ClientRoom, delivery: Any) -> bool:
    """Deliver, but for one of `EVERY`, which is lost, changed, given twice, or given after the next one."""
    line = (delivery.subscriber, delivery.event.source, delivery.event.topic)
    if next(numbers) % EVERY:
        given = deliver(room, delivery)
        if line in held:
            deliver(room, held.pop(line))
        return given
    match bug:
        case "lost":
            return True
        case "doubled":
            deliver(room, delivery)
        case "swapped" if line not in held:
            held[line] = delivery
            return True
        case "changed":
            attributes = {**delivery.event.attributes, "price": -1}
            delivery = delivery._replace(event=replace(delivery.event, attributes=attributes))
    return deliver(room, delivery)


def hit_each(room: ClientRoom, item: Any) -> bool:
    """As `hit`, of a delivery or of all in a batch."""
    given = [hit(room, delivery) for delivery in Deliver(item).items]
    return all(given)


if bug is not None:
    ClientRoom.deliver = hit_each  # type: ignore[method-assign]
