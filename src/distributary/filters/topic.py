"""Topic filters: hierarchical patterns in our own syntax and in MQTT's, one representation for both.

A pattern is a row of levels, each a value or the wildcard, and is *open* at its end (it matches its own
depth and everything deeper) or *closed* (its own depth alone):

| meaning                    | ours            | MQTT          |
|----------------------------|-----------------|---------------|
| one level, any value       | `*`, not first  | `+`           |
| open                       | nothing         | last `#`      |
| closed                     | last `#`        | nothing       |
| a leading slash            | says nothing    | empty level   |
| an empty level             | refused         | a value       |

The two see topics differently. MQTT's syntax takes the topic as it came, so `/A` has an empty first level;
ours looks behind a leading slash, so `A` matches what `mqtt:A/#` and `mqtt:/A/#` match together. Empty
levels elsewhere are levels to both, and a wildcard stands for them too.

A wildcard stands alone in its level; `WILDCARD` in `levels` is no value of an event, not even a literal `*`
or an empty level. A wildcard in the first level, which only MQTT's syntax can write, does not match a value
that starts with `$`. So `mqtt:#` is for every topic but those; `mqtt:+/#` says the same, and is its canonical
text. Shared subscriptions (`$share/...`) are refused, because every subscriber gets deliveries of their own.

The canonical text is in the syntax of the pattern. A first value of ours that itself starts with `mqtt:` is
kept apart by a leading `/`.

Parsing, matching, covering and merging take time linear in the number of levels, and of these there are at
most `MAX_TOPIC_LEVELS`, in at most `MAX_TOPIC_BYTES` (see `model`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NoReturn

from distributary.errors import FilterError
from distributary.filters.filter import Filter
from distributary.model import Event, bare_topic, surrogate_in, topic_excess

WILDCARD = "\udc00"
"""How `levels` spells the wildcard: half of a surrogate pair, which no text can hold."""

MQTT = "mqtt:"
SHARED = "$share/"
"""What MQTT's shared subscriptions begin with."""

Levels = tuple[str, ...]
EVERY_LEVEL: Levels = (WILDCARD,)
"""The levels of the open pattern for every topic."""
FOR_EVERY_TOPIC = "for every topic write `mqtt:#`"


class TopicFilter(Filter):
    """A topic pattern; build it with `parse`.

    >>> pattern = TopicFilter.parse("quotes/*/OTE")
    >>> [pattern.matches(Event("e1", topic=topic)) for topic in ("quotes/ASE/OTE/close", "/quotes/ASE/OTE")]
    [True, True]
    >>> pattern = TopicFilter.parse("mqtt:quotes/+/OTE/#")
    >>> [pattern.matches(Event("e1", topic=topic)) for topic in ("quotes/ASE/OTE/close", "/quotes/ASE/OTE")]
    [True, False]
    """

    kind: ClassVar[str] = "topic"

    __slots__ = ("_text", "levels", "mqtt", "open")

    def __init__(self, levels: Levels, opened: bool, mqtt: bool = False, text: str | None = None) -> None:
        self.levels: Final = levels
        self.open: Final = opened
        self.mqtt: Final = mqtt
        self._text: Final = _canonical(levels, opened, mqtt) if text is None else text

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
            return _parse_mqtt(given)
        body = given.removeprefix("/")
        if (excess := topic_excess(body)) is not None:
            _refuse(excess, given)
        levels = body.split("/")
        opened = levels[-1] != "#"
        if not opened:
            levels.pop()
        if not levels:
            _refuse(
                f"`#` needs a level before it, as in `quotes/#`; {FOR_EVERY_TOPIC}", given, len(given) - 1
            )
        wildcards = body.count("*")
        if "" in levels or levels.count("*") != wildcards or body.count("#") != (not opened):
            _check_ours(levels, given, len(given) - len(body))
        if levels[0] == "*":
            reason = f"a wildcard as first level; name the first level; {FOR_EVERY_TOPIC}"
            _refuse(reason, given, len(given) - len(body))
        at = 0
        for _ in range(wildcards):
            at = levels.index("*", at)
            levels[at] = WILDCARD
        return cls(tuple(levels), opened, text=body if not body.startswith(MQTT) else "/" + body)

    @property
    def text(self) -> str:
        """The canonical text, in the pattern's own syntax."""
        return self._text

    @property
    def selectivity(self) -> float:
        """A guess: each level with a fixed value lets three events in ten pass."""
        fixed = len(self.levels) - self.levels.count(WILDCARD)
        return float(0.3**fixed)

    @property
    def asks_for_all(self) -> str | None:
        """For `mqtt:#`: every topic that a wildcard may stand for."""
        everything = self.open and self.levels == EVERY_LEVEL
        return "every topic but those that begin with $" if everything else None

    @property
    def bare(self) -> Levels:
        """The levels behind a leading slash; those that every topic it matches has behind its own.

        >>> TopicFilter.parse("mqtt:/quotes/+").bare == TopicFilter.parse("mqtt:quotes/+").bare
        True
        """
        return self.levels[1:] if self.levels[0] == "" else self.levels

    @property
    def fixed(self) -> Levels:
        """The values before the first wildcard: every topic it matches, bare of a leading slash, starts so.

        >>> TopicFilter.parse("quotes/NYSE/*/close").fixed
        ('quotes', 'NYSE')
        """
        bare = self.bare
        return bare[: bare.index(WILDCARD)] if WILDCARD in bare else bare

    def seen(self, topic: str) -> list[str]:
        """The levels of an event's topic as this pattern sees them.

        >>> TopicFilter.parse("A").seen("/A/B"), TopicFilter.parse("mqtt:A").seen("/A/B")
        (['A', 'B'], ['', 'A', 'B'])
        """
        return (topic if self.mqtt else bare_topic(topic)).split("/")

    def matches(self, event: Event) -> bool:
        """Whether the event has a topic that this pattern matches."""
        return event.topic is not None and self.matches_topic(event.topic)

    def matches_topic(self, topic: str) -> bool:
        """Whether a topic has the fixed values in their places, and a depth that fits.

        >>> TopicFilter.parse("A/*/#").matches_topic("A/B"), TopicFilter.parse("A/*/#").matches_topic("A/B/C")
        (True, False)
        """
        values = self.seen(topic)
        if len(values) < len(self.levels) or not (self.open or len(values) == len(self.levels)):
            return False
        if self.levels[0] == WILDCARD and values[0].startswith("$"):
            return False
        return all(level in (WILDCARD, value) for level, value in zip(self.levels, values, strict=False))

    def covers(self, other: TopicFilter) -> bool:
        """Exact: true if and only if every topic that `other` matches is matched by this one.

        >>> TopicFilter.parse("A/*").covers(TopicFilter.parse("A/B/C/#"))
        True
        >>> TopicFilter.parse("A").covers(TopicFilter.parse("mqtt:/A/+"))
        True
        >>> TopicFilter.parse("mqtt:A/#").covers(TopicFilter.parse("A"))
        False
        """
        if not self.mqtt:
            return self._covers(other.bare, other.open)
        if other.mqtt:
            return self._covers(("", WILDCARD) if other.levels == ("",) else other.levels, other.open)
        return all(self._covers(levels, other.open) for levels in _as_mqtt(other))

    def _covers(self, theirs: Levels, opened: bool) -> bool:
        """Whether it covers a pattern of these levels that sees topics as it does."""
        mine = self.levels
        if len(theirs) < len(mine) or not (self.open or (len(theirs) == len(mine) and not opened)):
            return False
        if mine[0] == WILDCARD and theirs[0].startswith("$"):
            return False
        return all(level in (WILDCARD, other) for level, other in zip(mine, theirs, strict=False))

    def merge(self, other: TopicFilter) -> TopicFilter | None:
        """The narrowest pattern for both; None when their first levels differ.

        A merge never puts a wildcard in the first level by itself: nobody who named a first level gets the
        streams of those who named another (section I.A of the topic paper). Patterns of different syntax
        merge into one of ours if they name the same first level.

        >>> TopicFilter.parse("A/B/C").merge(TopicFilter.parse("A/D/C/E"))
        TopicFilter('A/*/C')
        >>> TopicFilter.parse("A/B/C").merge(TopicFilter.parse("mqtt:/A/D/+"))
        TopicFilter('A/*/*')
        >>> TopicFilter.parse("mqtt:+/A").merge(TopicFilter.parse("mqtt:B"))
        TopicFilter('mqtt:+/#')
        """
        if self.mqtt == other.mqtt:
            return _merged(self.levels, other.levels, self.open, other.open, self.mqtt)
        ours, theirs = (other, self) if self.mqtt else (self, other)
        if theirs.levels[0] != WILDCARD:
            return _merged(ours.levels, theirs.bare, ours.open, theirs.open, False)
        merged: TopicFilter | None = theirs
        for levels in _as_mqtt(ours):
            if merged is not None:
                merged = _merged(merged.levels, levels, merged.open, ours.open, True)
        return merged


def _as_mqtt(ours: TopicFilter) -> tuple[Levels, Levels]:
    """The levels of the two patterns in MQTT's syntax that match together what one of ours does."""
    return ours.levels, ("", *ours.levels)


def _merged(
    mine: Levels, theirs: Levels, open_mine: bool, open_theirs: bool, mqtt: bool
) -> TopicFilter | None:
    """The narrowest pattern for two that see topics alike."""
    firsts = mine[:1] + theirs[:1]
    if firsts[:1] != firsts[1:] and (
        WILDCARD not in firsts or not mqtt or any(first.startswith("$") for first in firsts)
    ):
        return None
    levels = tuple(level if level == other else WILDCARD for level, other in zip(mine, theirs, strict=False))
    opened = open_mine or open_theirs or len(mine) != len(theirs)
    merged = TopicFilter(levels, opened, mqtt)
    # A wildcard is longer than an empty level, and an open end of MQTT's longer than a closed one.
    return None if topic_excess(merged.text.removeprefix(MQTT)) else merged


def _parse_mqtt(given: str) -> TopicFilter:
    """Read a filter as section 4.7 of MQTT 5.0 has it."""
    body = given.removeprefix(MQTT)
    if not body:
        _refuse("an empty filter; name at least one level, as in `mqtt:quotes/#`", given, len(given))
    if (excess := topic_excess(body)) is not None:
        _refuse(excess, given)
    if "\0" in body:
        _refuse("the character U+0000, which MQTT does not allow", given, given.index("\0"))
    if body.startswith(SHARED):
        reason = (
            "a shared subscription, where every subscriber gets their own deliveries; write the filter alone"
        )
        _refuse(reason, given, len(MQTT))
    levels = body.split("/")
    opened = levels[-1] == "#"
    if opened:
        levels.pop()
    _check_wildcards(levels, given, len(MQTT), "+")
    if not levels:
        return TopicFilter(EVERY_LEVEL, opened, True)
    return TopicFilter(tuple(WILDCARD if level == "+" else level for level in levels), opened, True, given)


def _check_ours(levels: list[str], given: str, position: int) -> None:
    """Refuse an empty level, or a wildcard that is none; `position` is where the first level stands."""
    for number, level in enumerate(levels):
        if not level:
            _refuse("an empty level", given, position)
        _check_wildcards(levels[number : number + 1], given, position, "*")
        position += len(level) + 1


def _check_wildcards(levels: list[str], given: str, position: int, wildcard: str) -> None:
    """Refuse a wildcard that shares its level; `position` is where the first level stands in `given`."""
    for level in levels:
        if level != wildcard and wildcard in level:
            whole = f"`{wildcard}` must be a whole level, as in `A/{wildcard}/B`"
            _refuse(whole, given, position + level.index(wildcard))
        if "#" in level:
            _refuse("`#` must be a whole level and the last, as in `A/#`", given, position + level.index("#"))
        position += len(level) + 1


def _canonical(levels: Levels, opened: bool, mqtt: bool) -> str:
    if mqtt:
        body = "/".join(["+" if level == WILDCARD else level for level in levels])
        return MQTT + body + ("/#" if opened else "")
    body = "/".join(["*" if level == WILDCARD else level for level in levels]) + ("" if opened else "/#")
    return "/" + body if body.startswith(MQTT) else body


def _refuse(reason: str, given: str, position: int | None = None) -> NoReturn:
    raise FilterError(reason, field="topic", text=given, position=position)
