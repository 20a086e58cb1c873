"""Puts a bug into the broker of every process that has this directory on its path: DISTRIBUTARY_BUG names it.

Python runs this file at its start. The bugs are of the kinds that the checker of histories must find.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from typing import Any

from distributary.live.clients import ClientRoom

EVERY = 7
"""Of so many deliveries of a broker one is hit."""

bug = os.environ.get("DISTRIBUTARY_BUG")
deliver = ClientRoom.deliver
numbers = count(1)


def hit(room: ClientRoom, delivery: Any) -> bool:
    """Deliver, but for one of `EVERY`, which is lost or changed."""
    if next(numbers) % EVERY:
        return deliver(room, delivery)
    if bug == "lost":
        return True
    event = delivery.event
    changed = replace(event, attributes={**event.attributes, "price": -1})
    return deliver(room, delivery._replace(event=changed))


if bug is not None:
    ClientRoom.deliver = hit  # type: ignore[method-assign]
