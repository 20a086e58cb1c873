"""Sources: which events belong to a stream, and how an event becomes an item of it.

An event belongs to a source when it passes the source's topic pattern and condition. It fits when every
attribute of the schema that it has is of the declared type and its time is there; one that does not fit is
rejected with the reason, and the others go on. Attributes beyond the schema are not part of the stream. A
schema with a text called `topic` has the event's topic there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from distributary.errors import InputError
from distributary.filters.topic import TopicFilter
from distributary.filters.where.filter import WhereFilter
from distributary.flow.language.operators import parse_condition
from distributary.flow.language.problems import Checks
from distributary.flow.language.schema import MAX_TIME, Item, Schema, Type, require_name, set_fields
from distributary.flow.language.topics import TOPIC
from distributary.flow.language.window import parse_duration
from distributary.model import Event


@dataclass(frozen=True)
class Source:
    """A stream from outside.

    >>> trades = Source("trades", topic="trades/*", schema={"price": "number", "at": "integer"}, time="at")
    >>> trades.item(Event("e1", topic="trades/OTE", attributes={"price": 8, "at": 1000}))
    Item(id='e1', time=1000, attributes={'price': 8.0, 'at': 1000}, rank=0)
    """

    name: str
    schema: Schema
    topic: str | None
    where: str | None
    lateness: int
    """How many milliseconds an item's time may lie behind the latest that was seen."""
    derived: bool
    """Whether it has only what queries publish under its topics, and no event from outside."""

    def __init__(
        self,
        name: str,
        schema: Schema | Mapping[str, Type | str],
        time: str | None = None,
        topic: str | None = None,
        where: str | None = None,
        lateness: str | int = 0,
        derived: bool = False,
    ) -> None:
        checks = Checks()
        parsed_topic = None if topic is None else checks.attempt(TopicFilter.parse, topic)
        parsed_where = None if where is None else checks.attempt(parse_condition, where)
        if topic is None and where is None:
            reason = "has neither topic nor where, so every event would be its; write where = 'true' for that"
            checks.fault(reason, field="topic")
        if not isinstance(derived, bool):
            checks.fault(f"must be true or false, not {derived!r}", field="derived")
        fields = {
            "name": checks.attempt(require_name, name, "a source"),
            "schema": checks.attempt(_schema, schema, time),
            "topic": parsed_topic.text if parsed_topic else None,
            "where": parsed_where.text if parsed_where else None,
            "lateness": checks.attempt(parse_duration, lateness, "lateness"),
            "derived": derived,
        }
        checks.finish(source=str(name))
        set_fields(self, **fields)

    @property
    def time(self) -> str:
        """The attribute that holds an item's time."""
        return self.schema.time

    def accepts(self, event: Event) -> bool:
        """Whether an event from outside belongs to this source."""
        return not self.derived and self.matches(event)

    def matches(self, event: Event) -> bool:
        """Whether an event has a topic of this source, and passes its condition."""
        topic, condition = _parsed_filters(self.topic, self.where)
        return (topic is None or topic.matches(event)) and (condition is None or condition.matches(event))

    def seen(self, event: Event) -> Mapping[str, Any]:
        """The attributes of an event, and its topic where the schema has one."""
        if event.topic is None or self.schema.type_of(TOPIC) is not Type.TEXT:
            return event.attributes
        return {**event.attributes, TOPIC: event.topic}

    def item(self, event: Event) -> Item:
        """The event as an item of the stream; InputError when it does not fit."""
        given = self.seen(event)
        fault = self.schema.fault(given)
        if fault is not None:
            raise InputError(f"{fault[1]}, as source {self.name!r} declares it", field=fault[0])
        attributes = self.schema.settled(given)
        time = attributes[self.schema.time]
        if time is None or not -MAX_TIME <= time <= MAX_TIME:
            reason = f"is {time}, where source {self.name!r} needs the time in milliseconds since 1970"
            raise InputError(reason, field=self.schema.time)
        return Item(event.id, time, attributes)


@lru_cache(maxsize=4096)
def _parsed_filters(topic: str | None, where: str | None) -> tuple[TopicFilter | None, WhereFilter | None]:
    return (
        None if topic is None else TopicFilter.parse(topic),
        None if where is None else WhereFilter.parse(where),
    )


def _schema(given: Schema | Mapping[str, Type | str], time: str | None) -> Schema:
    if isinstance(given, Schema):
        if time not in (None, given.time):
            raise InputError(f"{time!r} is not the time of the schema, {given.time!r}", field="time")
        return given
    if not isinstance(given, Mapping) or not given:
        raise InputError('must be a table such as { price = "number", at = "integer" }', field="schema")
    if not isinstance(time, str):
        raise InputError("missing; name the attribute that holds milliseconds since 1970", field="time")
    schema = Schema(given, time)
    if Type.PARTIAL in schema.attributes.values():
        raise InputError("no attribute of a source can be of type partial", field="schema")
    return schema


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """Something that could not be used: of which stream, its id, and why."""

    stream: str
    id: str
    reason: str


def read_events(
    sources: Iterable[Source], events: Iterable[Event]
) -> tuple[dict[str, list[Item]], list[RejectedItem]]:
    """The items of each source, and the events that were rejected. An event may belong to several sources.

    Ids are unique in a stream: of events with one id, the first that fits is taken.
    """
    all_sources = list(sources)
    items: dict[str, dict[str, Item]] = {source.name: {} for source in all_sources}
    aside: list[RejectedItem] = []
    for event in events:
        for source in all_sources:
            if not source.accepts(event):
                continue
            try:
                item = source.item(event)
            except InputError as error:
                aside.append(RejectedItem(source.name, event.id, str(error)))
                continue
            if items[source.name].setdefault(item.id, item) is not item:
                aside.append(RejectedItem(source.name, event.id, "id: an earlier event has the same"))
    return {name: list(found.values()) for name, found in items.items()}, aside
