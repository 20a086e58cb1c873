"""Distributary delivers streams to those who asked for them.

    from distributary import Event, Subscription, Matcher

    m = Matcher(subscriptions)
    m.match(event)          # the ids of the subscriptions that want it
    m.match_batch(table)    # the same for an Arrow table of events

`Matcher` is loaded when it is first asked for, so that importing the package is quick.

docs/architecture.md shows the rooms and the way of an event through them. From the bottom up:

- `errors`, `model`, `quarantine`, `files`, `toml_files`, `feeds`, `kernel`: what everything stands on
- `output`, `json_text`, `table_lines`, `metrics_text`, `arrow_rows`, `kafka_transactions`, `kafka_values`,
  `cloud_events`: what comes in and goes out, in bounds, without harm
- `filters`: the filter kinds of subscriptions
- `matching`, `store`, `flow`: indexes; subscriptions that change; stream queries
- `spark`: all of these on Spark
- `overlay`, `plan`, `systems`, `sim`: networks of brokers: protocols, planning, systems, simulation
- `live`, `client`: the same networks on real sockets; publishing to them and subscribing at them
- `edge`: clients that are no part of the network: MQTT and the web, their sessions and what they may do
- `workloads`: data to try things with
- `cli`: the command
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from distributary.errors import DistributaryError, DocumentError, FilterError, InputError
from distributary.model import Delivery, Event, Subscription, check_subscriptions_with

if TYPE_CHECKING:
    from distributary.matching.matcher import Matcher

__all__ = [
    "Delivery",
    "DistributaryError",
    "DocumentError",
    "Event",
    "FilterError",
    "InputError",
    "Matcher",
    "Subscription",
]

__version__ = "0.1.0"


_check: Callable[[Subscription], None] | None = None
"""What checks the filters of a subscription, once it is loaded."""


def _check_filters(subscription: Subscription) -> None:
    global _check
    if _check is None:
        from distributary.filters.kinds import check_filters  # here, because it takes a while to load

        _check = check_filters
    _check(subscription)


check_subscriptions_with(_check_filters)


def __getattr__(name: str) -> Any:
    if name == "Matcher":
        from distributary.matching.matcher import Matcher

        return Matcher
    raise AttributeError(f"module 'distributary' has no attribute {name!r}")
