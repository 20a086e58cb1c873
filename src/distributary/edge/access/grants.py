"""What one user may subscribe to and publish: grants, which are filters, of which one must let an event pass.

A grant is made of a topic, a condition and a path, each optional, that must all hold. In a grant's topic the
level `{user}` stands for the user's own name.

Cost of asking about an event: a look at a dictionary by its topic, and the conditions and paths of those
grants whose topic passes, if none of them is without.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, cast

from distributary.edge.access.narrowing import narrowed_parts
from distributary.errors import DistributaryError
from distributary.filters.profile import Profile
from distributary.model import Event, Subscription

USER = "{user}"
"""The level of a grant's topic that stands for the user's name."""
TOPICS = 4_096
"""Topics whose grants are remembered."""


class GrantSet:
    """Grants of one user for one purpose.

    >>> grants = GrantSet([Profile.of(Subscription("g", "g", topic="plants", where="tenant = 'acme'"))])
    >>> [grants.allow(Event("e1", "plants/7", {"tenant": name})) for name in ("acme", "other")]
    [True, False]
    """

    def __init__(self, grants: Iterable[Profile]) -> None:
        self.grants = tuple(dict.fromkeys(grants))
        self._by_topic: dict[str | None, tuple[Profile, ...]] = {}

    @cached_property
    def everything(self) -> bool:
        """Whether one of them lets everything pass."""
        return any(not grant.filters for grant in self.grants)

    def allow(self, event: Event) -> bool:
        """Whether one of the grants lets an event pass. A document that cannot be read passes no path."""
        if self.everything:
            return True
        rest = self._by_topic.get(event.topic)
        if rest is None:
            rest = self._left_by_topic(event)
        for grant in rest:
            try:
                if not grant.filters or grant.matches(event):
                    return True
            except DistributaryError:
                continue
        return False

    def _left_by_topic(self, event: Event) -> tuple[Profile, ...]:
        """What remains to be asked of the grants whose topic passes; one without a rest stands alone."""
        left = []
        for grant in self.grants:
            rest = {kind: filter for kind, filter in grant.filters.items() if kind != "topic"}
            if len(rest) == len(grant.filters) or grant.filters["topic"].matches(event):
                left.append(Profile(rest))
        if any(not grant.filters for grant in left):
            left = [Profile()]
        if len(self._by_topic) >= TOPICS:
            self._by_topic.clear()
        found = self._by_topic[event.topic] = tuple(left)
        return found

    def narrowed(self, subscription: Subscription) -> tuple[Subscription, ...]:
        """What may be registered of a subscription; see `narrowed_parts`."""
        return narrowed_parts(subscription, self.grants)


def grant_profile(record: dict[str, str], user: str) -> Profile:
    """A grant of the access file for a user; FilterError when one of its filters is wrong.

    >>> grant_profile({"topic": "devices/{user}/state"}, "ann")
    Profile(topic='devices/ann/state')
    """
    given = dict(record)
    topic = given.get("topic")
    if topic is not None and USER in topic:
        prefix = "mqtt:" if topic.startswith("mqtt:") else ""
        levels = topic.removeprefix(prefix).split("/")
        given["topic"] = prefix + "/".join(user if level == USER else level for level in levels)
    return Profile.of(Subscription("grant", user or "nobody", **cast("dict[str, Any]", given)))
