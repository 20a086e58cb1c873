"""Why a subscription wants an event, or which of its filters let it not pass: in words a user can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from distributary.errors import InputError
from distributary.filters.filter import Filter
from distributary.filters.path.filter import PathFilter
from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.filters.where.evaluate import NOW, evaluate
from distributary.filters.where.expression import And, Expression, attributes_of
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.lookup import OBJECT, arrival_of, attribute_of
from distributary.filters.where.values import Duration, Instant, TimeOfDay, plain
from distributary.filters.where.write import write, write_literal
from distributary.matching.change.index import Peek
from distributary.model import Event

MAX_SHOWN = 500
"""So many characters of a value are shown."""
TRUTHS = {True: "true", False: "false", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Reason:
    """What one filter says to an event."""

    kind: str
    filter: str
    passes: bool
    detail: str

    def __str__(self) -> str:
        return f"{'passes' if self.passes else 'FAILS '} {self.kind} {self.filter}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What every filter of a subscription says to an event; it matches when all let it pass."""

    event: str
    subscription: str
    reasons: tuple[Reason, ...]

    @property
    def matches(self) -> bool:
        """Whether all filters let the event pass."""
        return all(reason.passes for reason in self.reasons)

    @property
    def failed(self) -> list[Reason]:
        """The filters that did not let the event pass."""
        return [reason for reason in self.reasons if not reason.passes]

    def __str__(self) -> str:
        verdict = "matches" if self.matches else "does not match"
        lines = [
            f"event {self.event!r} {verdict} subscription {self.subscription!r}",
            *map(str, self.reasons),
        ]
        return "\n  ".join(lines)


def explain_filter(filter: Filter, event: Event) -> Reason:
    """What a filter without a memory says to an event."""
    passes = filter.matches(event)
    match filter:
        case TopicFilter():
            detail = _about_topic(filter, event)
        case WhereFilter():
            detail = _about_condition(filter.expression, event)
        case PathFilter():
            detail = _about_path(passes, event)
        case _:
            detail = "holds" if passes else "does not hold"
    return Reason(filter.kind, filter.text, passes, detail)


def explain_rejected(event: str, subscription: str, error: InputError) -> Explanation:
    """Why a malformed event matches nothing."""
    return Explanation(event, subscription, (Reason("event", "", False, f"is malformed: {error}"),))


def explain_change(filter: Filter, peek: Peek) -> Reason:
    """What a tolerance says to an event, given what was delivered before."""
    return Reason("change", filter.text, peek.fires, str(peek))


def _about_topic(filter: TopicFilter, event: Event) -> str:
    if event.topic is None:
        return "the event has no topic"
    values = filter.seen(event.topic)
    for number, (level, value) in enumerate(zip_longest(filter.levels, values), start=1):
        if value is None:
            return (
                f"{event.topic!r} ends before level {number}, {'any value' if level == WILDCARD else level!r}"
            )
        if level is None:
            break
        if level not in (WILDCARD, value):
            return f"level {number} of {event.topic!r} is {value!r}, not {level!r}"
    if not filter.open and len(values) > len(filter.levels):
        return f"{event.topic!r} is deeper than {len(filter.levels)} levels"
    if filter.levels[0] == WILDCARD and values[0].startswith("$"):
        return f"a wildcard in the first level does not stand for {values[0]!r}"
    return f"the topic is {event.topic!r}"


def _about_condition(expression: Expression, event: Event) -> str:
    """The parts that are not true, with the values they saw; or all parts when all are true."""
    parts = expression.parts if isinstance(expression, And) else (expression,)
    values: dict[str, Any] = {name: attribute_of(event, name) for name in attributes_of(expression)}
    given = values | {NOW: arrival_of(event)}
    truths = [(part, evaluate(part, given)) for part in parts]
    shown = [pair for pair in truths if pair[1] is not True] or truths
    return "; ".join(f"{write(part)} is {TRUTHS[truth]}{_seen(part, values)}" for part, truth in shown)


def _seen(part: Expression, values: Mapping[str, Any]) -> str:
    seen = [
        f"{name} is {_shown(values[name])}" if values[name] is not None else f"no {name}"
        for name in attributes_of(part)
    ]
    return f" ({', '.join(seen)})" if seen else ""


def _shown(value: Any) -> str:
    """A value as a user would write it, shortened where it is long."""
    if value is OBJECT:
        return "an object"
    found = plain(value)
    text = write_literal(found) if isinstance(found, Instant | TimeOfDay | Duration) else repr(found)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _about_path(passes: bool, event: Event) -> str:
    if event.document is None:
        return "the event has no document"
    return "selects a node of the document" if passes else "selects no node of the document"
