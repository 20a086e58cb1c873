"""Topics that items are published under, made from their attributes; and which topics these can be.

An operator may say `publish = "alerts/{symbol}/large"`. A level is a text, or one that each item fills in:

- `{symbol}`: the attribute as one level; of type text, integer or boolean.
- `{topic[2]}`: the second level of a text attribute.
- `{topic}`: the attribute called `topic` with all its levels. Of a source whose schema has a text `topic`,
  that is the topic of the event; so a stage extends it (`{topic}/large`) or rewrites it (`large/{topic[2]}`).

An item is published without a topic when a level is null, empty or holds a `/`, or when the topic would be
longer or deeper than an event's may be. So every topic that a template makes is in one of its `ranges`, which
tell what can read it before there is any item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from distributary.errors import InputError
from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.flow.language.schema import Item, Schema, Type, listed
from distributary.model import Event, bare_topic, require_text, topic_excess, topic_fault

TOPIC = "topic"
"""The attribute that holds the topic of a source's event."""
FIELD = "publish"
VALUE = re.compile(r"\{([^{}\[\]]+)(?:\[([1-9][0-9]*)\])?\}")
LEVEL_TYPES = (Type.TEXT, Type.INTEGER, Type.BOOLEAN)
"""What a level can be filled in with; the text of a number is not the same everywhere."""


@dataclass(frozen=True)
class FilledLevel:
    """A level that an item fills in: with an attribute, or with one level of it."""

    attribute: str
    level: int | None = None
    """Which level of the attribute, from 1 on; None for all of it."""

    @property
    def is_whole_topic(self) -> bool:
        """Whether it stands for all levels of a topic."""
        return self.attribute == TOPIC and self.level is None

    def of(self, attributes: Mapping[str, Any]) -> str | None:
        """What an item fills in; None when that is no level."""
        value = attributes[self.attribute]
        if value is None:
            return None
        if self.is_whole_topic:
            return bare_topic(value) or None
        if self.level is not None:
            return dict(enumerate(bare_topic(value).split("/"), 1)).get(self.level) or None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return None if not text or "/" in text else text

    def faults(self, schema: Schema) -> Iterator[str]:
        """Why items of a schema cannot fill it in."""
        type = schema.type_of(self.attribute)
        several = self.is_whole_topic or self.level is not None
        if type is None:
            yield f"no attribute {self.attribute!r}; there are {listed(schema.attributes)}"
        elif type not in (LEVEL_TYPES[:1] if several else LEVEL_TYPES):
            what = "levels" if several else "a level"
            yield f"{self.attribute!r} is of type {type}, which cannot be {what}"


@dataclass(frozen=True)
class TopicTemplate:
    """How the topic of an item is made.

    >>> template = TopicTemplate.parse("alerts/{symbol}/{topic[2]}")
    >>> template.topic({"symbol": "OTE", "topic": "trades/NYSE"})
    'alerts/OTE/NYSE'
    """

    levels: tuple[str | FilledLevel, ...]

    @classmethod
    def parse(cls, text: Any) -> TopicTemplate:
        """Read a template; `InputError` when it is none."""
        if not isinstance(text, str):
            raise InputError(f"must be a topic such as 'alerts/{{symbol}}', not {text!r}", field=FIELD)
        require_text(text, FIELD)
        return _parse(text)

    @property
    def values(self) -> list[FilledLevel]:
        """The levels that items fill in."""
        return [level for level in self.levels if isinstance(level, FilledLevel)]

    def check(self, schema: Schema) -> None:
        """Refuse attributes that items of a schema do not have, or that can be no levels."""
        for value in self.values:
            for fault in value.faults(schema):
                raise InputError(fault, field=FIELD)

    def topic(self, attributes: Mapping[str, Any]) -> str | None:
        """The topic of an item; None when it is published without one."""
        texts = [level if isinstance(level, str) else level.of(attributes) for level in self.levels]
        topic = "/".join(text for text in texts if text is not None)
        return None if None in texts or topic_fault(topic) is not None else topic

    def ranges(self, of_topic: Iterable[TopicRange]) -> list[TopicRange]:
        """All topics that it can make, given those that the attribute `topic` can hold."""
        if not any(value.is_whole_topic for value in self.values):
            return [self._range(ANY_TOPIC)]
        return [self._range(each) for each in of_topic]

    def _range(self, of_topic: TopicRange) -> TopicRange:
        made = TopicRange((), False, 0)
        for level in self.levels:
            if isinstance(level, FilledLevel) and level.is_whole_topic:
                made = made.followed_by(of_topic)
            else:
                name = level if isinstance(level, str) else WILDCARD
                made = made.followed_by(TopicRange((name,), False, 1))
        return made


@lru_cache(maxsize=4096)
def _parse(text: str) -> TopicTemplate:
    bare = bare_topic(text)
    if (excess := topic_excess(bare)) is not None:
        raise InputError(excess, field=FIELD, text=text)
    levels: list[str | FilledLevel] = []
    for level in bare.split("/"):
        filled = VALUE.fullmatch(level)
        if filled:
            levels.append(FilledLevel(filled[1], int(filled[2]) if filled[2] else None))
        elif not level or set(level) & set("{}*#+"):
            reason = f"the level {level!r} must be a text, {{attribute}} or {{topic[2]}}, and no wildcard"
            raise InputError(reason, field=FIELD, text=text)
        else:
            levels.append(level)
    return TopicTemplate(tuple(levels))


@dataclass(frozen=True)
class TopicRange:
    """A set of topics, none of which begins with a slash: their first levels, and how deep they are."""

    levels: tuple[str, ...]
    """WILDCARD where any value can be."""
    open: bool
    """Whether more levels may follow."""
    least: int
    """How many levels there are at least."""

    @classmethod
    def of(cls, pattern: str | None) -> TopicRange:
        """The topics of a source's events, bare; any topic where these are not known level by level."""
        filter = None if pattern is None else TopicFilter.parse(pattern)
        if filter is None or filter.mqtt:
            return ANY_TOPIC
        return cls(filter.levels, filter.open, len(filter.levels))

    def followed_by(self, other: TopicRange) -> TopicRange:
        """The topics that are one of these and then one of the others."""
        levels = self.levels if self.open else self.levels + other.levels
        return TopicRange(levels, self.open or other.open, self.least + other.least)

    def overlaps(self, pattern: str | None) -> bool:
        """Whether some of these topics may match a pattern; false only when certain.

        >>> extended = TopicTemplate.parse("{topic}/large").ranges([TopicRange.of("trades/*/#")])[0]
        >>> extended.overlaps("trades/*/#"), extended.overlaps("trades"), extended.overlaps("trades/*/small")
        (False, True, False)
        """
        if pattern is None:
            return True
        filter = TopicFilter.parse(pattern)
        theirs = len(filter.levels)
        if not self.open and (self.least < theirs or (self.least > theirs and not filter.open)):
            return False
        if self.open and not filter.open and theirs < self.least:
            return False
        pairs = zip(self.levels, filter.levels, strict=False)
        return all(mine == level or WILDCARD in (mine, level) for mine, level in pairs)


ANY_TOPIC = TopicRange((), True, 1)


def published_item(item: Item, topic: str | None) -> Event:
    """An item as an event with this topic; what is null is left out, and so is its attribute `topic`."""
    attributes = {
        name: value for name, value in item.attributes.items() if value is not None and name != TOPIC
    }
    return Event(item.id, topic, attributes)
