"""Tags in place of structure: addresses from the attributes of an event (001, section 4.7).

A set of tags is a structure without pairs, so HOPE carries tagged events as it carries documents: only the
addressing differs. The tags of an event are the names of its attributes; those of a subscription are the
attributes that its condition guarantees: `sport is not null and urgent = true` asks for `sport` and `urgent`.

Rules:

- What is below `or` counts only when all alternatives guarantee it, and nothing does that a missing attribute
  satisfies; `WhereFilter.confines` says which attributes those are. Others are for the home to decide.
- Equality with one text or number is a value of the filter, as with documents.
- `w` is there when `w.speed` is, and every event has an `id` and a `topic`, which are no tags.
- Documents and paths do not count here. A system has one addressing: of documents or of tags.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from distributary.filters.filter import Filter
from distributary.filters.where.domain import Domain, NumberRange, TextRange
from distributary.filters.where.filter import WhereFilter
from distributary.matching.path.signature import Item, value_item
from distributary.model import Event
from distributary.systems.hope.addressing import Addressing, StructuralAddress

UNTAGGED = ("id", "topic")
"""Names that a condition may ask for although the event has no such attribute."""


@dataclass(frozen=True)
class TagAddressing(Addressing):
    """Addresses from the names of attributes.

    >>> from distributary.filters.kinds import parse_filters
    >>> from distributary.model import Subscription
    >>> from distributary.overlay.hypercube import covers
    >>> addressing = TagAddressing(dimension=16)
    >>> has = addressing.of_event(Event("e", attributes={"sport": True, "urgent": True, "city": "Bern"}))
    >>> asks = addressing.of_filters(parse_filters(Subscription("s", "ann", where="sport = true")))
    >>> covers(has.key, asks.key), covers(has.filter, asks.filter), asks.key.bit_count()
    (True, True, 1)
    """

    def of_event(self, event: Event) -> StructuralAddress:
        """The address of an event, from the names of the attributes that it has."""
        present = {name: value for name, value in event.attributes.items() if value is not None}
        tags = {prefix for name in present for prefix in _prefixes(name)}
        values = (_value(name, value) for name, value in present.items())
        return self.of_items(tags, {item for item in values if item is not None})

    def of_filters(self, filters: Mapping[str, Filter]) -> StructuralAddress:
        """The address of a subscription, from the attributes that its condition guarantees."""
        where = filters.get("where")
        if not isinstance(where, WhereFilter):
            return self.of_items(())
        tags = {name: domain for name, domain in where.confines.items() if _is_tag(name) and not domain.null}
        values = (_value(name, _only_value(domain)) for name, domain in tags.items())
        return self.of_items(tags, {item for item in values if item is not None})


def _prefixes(name: str) -> Iterator[str]:
    """A dotted name, and the objects that are there because it is."""
    place = len(name)
    while place > 0:
        yield name[:place]
        place = name.rfind(".", 0, place)


def _is_tag(name: str) -> bool:
    """Whether this is the name of an attribute, and not an operation or the elements of a list."""
    return name not in UNTAGGED and all(part.isidentifier() for part in name.split("."))


def _value(name: str, value: Any) -> Item | None:
    """The item of an attribute that equals a text or a number; None for any other value."""
    if isinstance(value, str):
        return value_item(name, value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return value_item(name, number) if math.isfinite(number) else None


def _only_value(domain: Domain) -> str | int | float | None:
    """The one text or number of a domain; None when it has other values too."""
    match domain:
        case Domain(numbers=(NumberRange(low=low, high=high),), texts=()) if low == high:
            only: str | int | float = low
        case Domain(numbers=(), texts=(TextRange(low=text, high=last),)) if text == last:
            only = text
        case _:
            return None
    rest = (domain.booleans, domain.other, domain.instants, domain.times, domain.durations)
    return None if any(rest) else only
