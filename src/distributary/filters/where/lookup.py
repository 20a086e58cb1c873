"""What a condition finds in an event: attributes, its id and topic, objects, and its time of arrival."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from distributary.filters.where.closures import operand_function
from distributary.filters.where.evaluate import NOW
from distributary.filters.where.expression import Computation, Like, Operand, attributes_of_operand, calls
from distributary.filters.where.parse import operand_of
from distributary.filters.where.values import Instant
from distributary.model import Event

OBJECT: Mapping[str, Any] = {}
"""What stands for an object whose attributes have dotted names: it is there, and compares with nothing."""


def attribute_of(event: Event, name: str, presence: bool = True) -> Any:
    """The value of an attribute; `id` and `topic` are those of the event where no attribute is called so.

    With `presence`, an object (of whose attributes the event has any) is not missing.

    >>> attribute_of(Event("e1", topic="A/B"), "topic")
    'A/B'
    """
    value = event.attributes.get(name)
    if value is None and name in ("id", "topic"):
        return event.id if name == "id" else event.topic
    if value is None and presence:
        inside = name + "."
        if any(
            other.startswith(inside) and event.attributes[other] is not None for other in event.attributes
        ):
            return OBJECT
    return value


def arrival_of(event: Event) -> Instant:
    """When the event arrived: what it says, or now."""
    return Instant(time.time_ns() if event.arrival is None else event.arrival)


def value_under(event: Event, key: str) -> Any:
    """The value of an attribute, or of an operation by its key (see `write.operand_key`), for an event.

    >>> value_under(Event("e1", attributes={"a": 2, "b": 3}), "\\x03(a + b)")
    5
    """
    return value_function(key)(event)


@lru_cache(maxsize=4096)
def value_function(key: str) -> Callable[[Event], Any]:
    """`value_under` as a function of the event alone."""
    operand = operand_of(key)
    if isinstance(operand, str):
        return lambda event: attribute_of(event, operand)
    names, value_of = attributes_of_operand(operand), operand_function(operand)
    looks_at_clock = operand_looks_at_clock(operand)

    def value(event: Event) -> Any:
        given = event.attributes
        if not looks_at_clock:
            for name in names:
                if given.get(name) is None:
                    break
            else:  # no attribute is missing, the event's own, or an object: as nearly always
                return value_of(given)
        attributes: dict[str, Any] = {
            name: attribute_of(event, name) if (found := given.get(name)) is None else found for name in names
        }
        if looks_at_clock:
            attributes[NOW] = arrival_of(event)
        return value_of(attributes)

    return value


def operand_looks_at_clock(operand: Operand) -> bool:
    """Whether `now()` stands in an operand.

    >>> operand_looks_at_clock(operand_of("\\x03(at - now())"))
    True
    """
    return isinstance(operand, Computation) and calls(Like(operand, ""), "now")
