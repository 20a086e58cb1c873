"""What the clients of a trial ask for and publish: from a workload, or from the user's own records.

Rules:

- What a workload makes up gets ids that collide: publishers number their events, and subscribers their
  subscriptions, from 1. So a system that knows an event or a subscription by its id alone is found out.
- Records of the user's own are taken as they are: JSON lines, CSV, or a table (Parquet, Arrow), as for
  `distributary match`; in CSV a tolerance is a JSON object, quoted: `"{""price"": 0.05}"`. A record that is
  malformed stops the trial, which is to be about all of them.
- A workload may be given with options of its generator, such as `ranges:constrained=2,width=0.3`; they apply
  to whichever of its two generators has them.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from zlib import crc32

import pyarrow as pa
from pyarrow import csv

from distributary.errors import DistributaryError, DocumentError, UsageError
from distributary.files import events_from_table, read_events, read_subscriptions, subscriptions_from_table
from distributary.model import Event, Subscription
from distributary.quarantine import Rejection
from distributary.systems.publishing import require_readable
from distributary.workloads import WORKLOADS, workload

PUBLISHERS = 3
"""How many publishers the events of a workload come from."""

T = TypeVar("T")
K = TypeVar("K", Subscription, Event)


@dataclass(frozen=True)
class TrialData:
    """Subscriptions and events of the user's own."""

    subscriptions: Sequence[Subscription]
    events: Sequence[Event]


def subscriptions_of(name: str) -> list[Subscription]:
    """The subscriptions of a file; DistributaryError for a malformed one, or two that are known alike."""
    read = subscriptions_from_table(_csv(name), name=name) if _is_csv(name) else read_subscriptions(name)
    return _all_of(name, read)


def events_of(name: str) -> list[Event]:
    """The events of a file; DistributaryError for a malformed one, or two that are known alike."""
    return _all_of(name, events_from_table(_csv(name), name=name) if _is_csv(name) else read_events(name))


def _is_csv(name: str) -> bool:
    return name.lower().endswith(".csv")


def _csv(name: str) -> pa.Table:
    try:
        return csv.read_csv(name, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    except (OSError, pa.ArrowInvalid) as error:
        raise DistributaryError(f"cannot read {name}: {error}") from error


def _all_of(name: str, read: Iterable[tuple[str, K] | Rejection]) -> list[K]:
    found: dict[Any, K] = {}
    for one in read:
        if isinstance(one, Rejection):
            raise DistributaryError(str(one))
        place, record = one
        if record.key in found:
            raise DistributaryError(f"{place}: there is a second {record.key}")
        if isinstance(record, Event):
            _require_readable_at(place, record)
        found[record.key] = record
    if not found:
        raise DistributaryError(f"{name} holds nothing")
    return list(found.values())


def _require_readable_at(place: str, event: Event) -> None:
    try:
        require_readable(event)
    except DocumentError as error:
        raise DistributaryError(f"{place}: {error}") from error


def made_up(name: str, subscriptions: int, events: int, seed: int) -> TrialData:
    """So many subscriptions and events of a workload, with ids that collide.

    >>> data = made_up("quotes", 2, 3, seed=1)
    >>> [one.key for one in data.subscriptions]
    [SubscriptionKey(subscriber='subscriber0', id='1'), SubscriptionKey(subscriber='subscriber1', id='1')]
    """
    module, options = read_workload(name)
    asked = _generated(module.subscriptions, subscriptions, seed, options)
    published = _generated(module.events, events, seed, options)
    return TrialData(list(_numbered(asked)), list(_published(published)))


def read_workload(text: str) -> tuple[Any, dict[str, Any]]:
    """A workload's module and the options of its generators; UsageError when there are none such."""
    name, _, rest = text.partition(":")
    if name not in WORKLOADS:
        raise UsageError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    module = workload(name)
    known = {**_options(module.subscriptions), **_options(module.events)}
    chosen = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            told = ", ".join(known) or "none"
            raise UsageError(f"workload {name!r} has no option {key!r}; its options are {told}")
        try:
            chosen[key] = type(known[key])(value)
        except ValueError as error:
            raise UsageError(f"{key} of workload {name!r} is a number, not {value!r}") from error
    return module, chosen


def _options(generator: Callable[..., Any]) -> dict[str, int | float]:
    """The options of a generator that are numbers, with their defaults."""
    given = inspect.signature(generator).parameters.values()
    return {one.name: one.default for one in given if type(one.default) in (int, float)}


def _generated(
    make: Callable[..., Iterator[T]], count: int, seed: int, options: dict[str, Any]
) -> Iterator[T]:
    own = _options(make)
    return make(count, seed=seed, **{key: value for key, value in options.items() if key in own})


def _numbered(subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
    """The same, numbered by each subscriber."""
    numbers: Counter[str] = Counter()
    for subscription in subscriptions:
        numbers[subscription.subscriber] += 1
        yield replace(subscription, id=str(numbers[subscription.subscriber]))


def _published(events: Iterable[Event]) -> Iterator[Event]:
    """The same from some publishers, who number theirs; most topics have several."""
    numbers: Counter[str] = Counter()
    for number, event in enumerate(events):
        publisher = f"publisher{crc32(str(number).encode()) % PUBLISHERS}"
        numbers[publisher] += 1
        attributes = {**event.attributes, "source": publisher}
        yield replace(event, id=str(numbers[publisher]), attributes=attributes)
