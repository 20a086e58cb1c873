"""Topic filters: hierarchical patterns in our own syntax and in MQTT's, one representation for both.

A pattern is a row of levels, each a value or the wildcard, and is *open* at its end (it matches its own
depth and everything deeper) or *closed* (its own depth alone):

| meaning                    | ours            | MQTT          |
|----------------------------|-----------------|---------------|
| one level, any value       | `*`, not first  | `+`           |
| open                       | nothing         | last `#`      |
| closed                     | last `#`        | nothing       |

A wildcard stands alone in its level. No level is empty, so the empty string marks the wildcard in `levels`
and no value of an event, not even a literal `*`, is mistaken for it. A wildcard in the first level, which
only MQTT's syntax can write, does not match a value that starts with `$`. A pattern for every topic is
refused.

The canonical text is in our syntax whenever that can say it, else in MQTT's behind `mqtt:`. A first value
that itself starts with `mqtt:` is kept apart by a leading `/`.

Parsing, matching, covering and merging take time linear in the number of levels.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NoReturn

from distributary.errors import FilterError
from distributary.filters.filter import Filter
from distributary.model import Event, surrogate_in

WILDCARD = ""
"""How `levels` spells the wildcard: no value is empty."""

MQTT = "mqtt:"


class TopicFilter(Filter):
    """A topic pattern; build it with `parse`.

    >>> pattern = TopicFilter.parse("quotes/*/OTE")
    >>> pattern.matches(Event("e1", topic="quotes/ASE/OTE/close"))
    True
    >>> TopicFilter.parse("mqtt:quotes/+/OTE/#") == pattern
    True
    >>> TopicFilter.parse("quotes/*/OTE/#").matches(Event("e1", topic="quotes/ASE/OTE/close"))
    False
    """

    kind: ClassVar[str] = "topic"

    __slots__ = ("_text", "levels", "open")

    def __init__(self, levels: tuple[str, ...], opened: bool, text: str | None = None) -> None:
        self.levels: Final = levels
        self.open: Final = opened
        self._text: Final = _canonical(levels, opened) if text is None else text

    @classmethod
    def parse(cls, given: Any) -> TopicFilter:
        """Read a pattern in our syntax, or in MQTT's behind `mqtt:`; `FilterError` when it is neither."""
        if not isinstance(given, str):
            raise FilterError(
                f"must be a string such as 'quotes/NYSE/*', not {type(given).__name__}", field="topic"
            )
        if (position := surrogate_in(given)) is not None:
            reason = "half of a surrogate pair, which UTF-8 cannot write"
            raise FilterError(reason, field="topic", position=position)
        if given.startswith(MQTT):
            return cls(*_parse_mqtt(given))
        body = given.removeprefix("/")
        levels = body.split("/")
        opened = levels[-1] != "#"
        if not opened:
            levels.pop()
        if not levels:
            _refuse("`#` needs a level before it, as in `quotes/#`", given, len(given) - 1)
        wildcards = body.count("*")
        if "" in levels or levels.count("*") != wildcards or body.count("#") != (not opened):
            _checked(levels, given, len(given) - len(body), "*")
        if levels[0] == "*":
            _refuse("a wildcard as first level; name the first level", given, len(given) - len(body))
        at = 0
        for _ in range(wildcards):
            at = levels.index("*", at)
            levels[at] = WILDCARD
        return cls(tuple(levels), opened, body if not body.startswith(MQTT) else "/" + body)

    @property
    def text(self) -> str:
        """The canonical text: in our syntax whenever that can say it."""
        return self._text

    @property
    def selectivity(self) -> float:
        """A guess: each level with a fixed value lets three events in ten pass."""
        fixed = len(self.levels) - self.levels.count(WILDCARD)
        return float(0.3**fixed)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The values before the first wildcard: every topic it matches starts with them.

        >>> TopicFilter.parse("quotes/NYSE/*/close").fixed
        ('quotes', 'NYSE')
        """
        return self.levels[: self.levels.index(WILDCARD)] if WILDCARD in self.levels else self.levels

    def matches(self, event: Event) -> bool:
        """Whether the event's topic has the fixed values in their places, and a depth that fits."""
        if event.topic is None:
            return False
        values = event.topic.split("/")
        if len(values) < len(self.levels) or not (self.open or len(values) == len(self.levels)):
            return False
        if self.levels[0] == WILDCARD and values[0].startswith("$"):
            return False
        return all(level in (WILDCARD, value) for level, value in zip(self.levels, values, strict=False))

    def covers(self, other: TopicFilter) -> bool:
        """Exact: true if and only if every topic that `other` matches is matched by this one.

        >>> TopicFilter.parse("A/*").covers(TopicFilter.parse("A/B/C/#"))
        True
        """
        if len(other.levels) < len(self.levels):
            return False
        if not self.open and (other.open or len(other.levels) > len(self.levels)):
            return False
        if self.levels[0] == WILDCARD and other.levels[0].startswith("$"):
            return False
        return all(
            mine in (WILDCARD, theirs) for mine, theirs in zip(self.levels, other.levels, strict=False)
        )

    def merge(self, other: TopicFilter) -> TopicFilter | None:
        """The narrowest pattern for both; None when their first levels differ.

        A merge never puts a wildcard in the first level by itself: nobody who named a first level gets the
        streams of those who named another (section I.A of the topic paper).

        >>> TopicFilter.parse("A/B/C").merge(TopicFilter.parse("A/D/C/E"))
        TopicFilter('A/*/C')
        """
        first, others_first = self.levels[0], other.levels[0]
        if first != others_first and (
            WILDCARD not in (first, others_first) or (first + others_first).startswith("$")
        ):
            return None
        levels = tuple(
            mine if mine == theirs else WILDCARD
            for mine, theirs in zip(self.levels, other.levels, strict=False)
        )
        opened = self.open or other.open or len(self.levels) != len(other.levels)
        return None if opened and levels == (WILDCARD,) else TopicFilter(levels, opened)


def _parse_mqtt(given: str) -> tuple[tuple[str, ...], bool]:
    body = given.removeprefix(MQTT).removeprefix("/")
    levels = body.split("/")
    opened = levels[-1] == "#"
    if opened:
        levels.pop()
    levels = _checked(levels, given, len(given) - len(body), "+")
    if opened and levels in ([], [WILDCARD]):
        _refuse("matches every topic; name at least one level, as in `mqtt:quotes/#`", given)
    return tuple(levels), opened


def _checked(levels: list[str], given: str, position: int, wildcard: str) -> list[str]:
    """The levels with their wildcards marked; `position` is where the first stands in `given`."""
    checked = []
    for level in levels:
        if not level:
            _refuse("an empty level", given, position)
        if level != wildcard and wildcard in level:
            whole = f"`{wildcard}` must be a whole level, as in `A/{wildcard}/B`"
            _refuse(whole, given, position + level.index(wildcard))
        if "#" in level:
            _refuse("`#` must be a whole level and the last, as in `A/#`", given, position + level.index("#"))
        checked.append(WILDCARD if level == wildcard else level)
        position += len(level) + 1
    return checked


def _canonical(levels: tuple[str, ...], opened: bool) -> str:
    if levels[0] == WILDCARD or any("*" in level or "#" in level for level in levels):
        return MQTT + "/".join([level or "+" for level in levels]) + ("/#" if opened else "")
    text = "/".join([level or "*" for level in levels]) + ("" if opened else "/#")
    return "/" + text if text.startswith(MQTT) else text


def _refuse(reason: str, given: str, position: int | None = None) -> NoReturn:
    raise FilterError(reason, field="topic", text=given, position=position)
