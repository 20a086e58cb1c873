"""What a grant leaves of a subscription: the filters of both must hold.

Two filters of a kind become one that lets pass exactly what both do:

- topics level by level. In one syntax that is one pattern, or nothing. A pattern of ours and one of MQTT's
  see a leading slash differently, so that two patterns of MQTT's may be left, or, where a value holds a
  character that MQTT keeps for itself, none that can be written;
- conditions by `and`;
- paths by a path to the document's root on condition that both select something: `/*[a][b]`.

The parts that several grants leave are put together where that says exactly the same: those that differ in
nothing but their condition by `or`, those that differ in nothing but their path by `|`. The rest are
subscriptions of their own. A tolerance starts from the value last delivered for a topic, so parts with a
tolerance must not share a topic: that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from distributary.edge.access.identity import AccessError
from distributary.errors import FilterError
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filter
from distributary.filters.path.filter import PathFilter
from distributary.filters.profile import Profile
from distributary.filters.topic import WILDCARD, Levels, TopicFilter
from distributary.filters.where.filter import WhereFilter
from distributary.model import Subscription

MOST_PARTS = 16
"""Subscriptions that one may be divided into."""
PART = "\x1f"
"""Stands in the ids of parts, behind the id that was asked for; no id that is asked for holds it."""


def narrowed_parts(asked: Subscription, grants: Sequence[Profile]) -> tuple[Subscription, ...]:
    """What is left of a subscription by grants of which one must hold; AccessError when nothing is.

    Itself, where a grant covers it. Else subscriptions that together let pass exactly what the subscription
    and any grant let pass, the first under the subscription's own id.

    >>> grant = Profile.of(Subscription("g", "g", topic="plants", where="tenant = 'acme'"))
    >>> narrowed_parts(Subscription("s1", "ann", topic="plants/*/oven", where="heat > 80"), [grant])[0].where
    "heat > 80 and tenant = 'acme'"
    """
    wanted = Profile.of(replace(asked, change=None)) if _has_more(asked) else Profile()
    if any(grant.covers(wanted) for grant in grants):
        return (asked,)
    left = [part for grant in grants for part in _both(wanted, grant)]
    parts = _united(_uncovered(left))
    if not parts:
        raise AccessError("none of your grants lets any of it pass")
    if len(parts) > MOST_PARTS:
        raise AccessError(f"your grants would divide it into {len(parts)} parts; ask for less at a time")
    if asked.change is not None and _share_a_topic(parts):
        raise AccessError(
            "several of your grants let different events of one topic pass, which a tolerance cannot follow; "
            "ask for what one of them covers"
        )
    return tuple(_subscription(asked, part, number) for number, part in enumerate(parts))


def part_of(id: str) -> str:
    """The id that was asked for, of the id of a part."""
    return id.partition(PART)[0]


def _has_more(asked: Subscription) -> bool:
    return any(kind != "change" for kind in asked.filters())


def _subscription(asked: Subscription, part: Profile, number: int) -> Subscription:
    texts: dict[str, Any] = {kind: part.filters[kind].text for kind in part.filters if kind not in asked.more}
    id = f"{asked.id}{PART}{number + 1}" if number else asked.id
    if not texts and not asked.more and asked.change is None:
        texts["where"] = "true"  # the grants together let everything pass
    return Subscription(id, asked.subscriber, **texts, change=asked.change, more=asked.more)


# Both of two.


def _both(wanted: Profile, grant: Profile) -> list[Profile]:
    """What passes both: no profile, one, or two."""
    found: list[dict[str, Filter]] = [dict(wanted.filters)]
    for kind, theirs in grant.filters.items():
        mine = wanted.filters.get(kind)
        both = [theirs] if mine is None else BOTH[kind](mine, theirs)
        found = [{**each, kind: filter} for each in found for filter in both]
    return [Profile(each) for each in found]


def topics_both(mine: TopicFilter, theirs: TopicFilter) -> list[TopicFilter]:
    """The patterns that together match what both match; AccessError when none can be written.

    >>> [each.text for each in topics_both(TopicFilter.parse("A/*/C"), TopicFilter.parse("A/B"))]
    ['A/B/C']
    >>> [each.text for each in topics_both(TopicFilter.parse("mqtt:+/+/#"), TopicFilter.parse("A"))]
    ['mqtt:A/+/#', 'mqtt:/A/#']
    """
    if mine.covers(theirs):
        return [theirs]
    if theirs.covers(mine):
        return [mine]
    if mine.mqtt == theirs.mqtt:
        both = [_levels_both(mine.levels, mine.open, theirs.levels, theirs.open)]
    else:
        ours, mqtt = (theirs, mine) if mine.mqtt else (mine, theirs)
        both = [
            _levels_both(levels, ours.open, mqtt.levels, mqtt.open)
            for levels in (ours.levels, ("", *ours.levels))
        ]
    return [_written(*each, mine.mqtt or theirs.mqtt) for each in both if each is not None]


def _levels_both(
    mine: Levels, open_mine: bool, theirs: Levels, open_theirs: bool
) -> tuple[Levels, bool] | None:
    """The levels that both patterns allow, and whether the end is open; None when no topic passes both."""
    if len(mine) > len(theirs):
        mine, theirs, open_mine, open_theirs = theirs, mine, open_theirs, open_mine
    if len(mine) < len(theirs) and not open_mine:
        return None
    levels = []
    for one, other in zip(mine, theirs, strict=False):
        if WILDCARD not in (one, other) and one != other:
            return None
        levels.append(other if one == WILDCARD else one)
    if WILDCARD in (mine[0], theirs[0]) and levels[0].startswith("$"):
        return None
    opened = open_theirs and (open_mine or len(mine) < len(theirs))
    both = (*levels, *theirs[len(mine) :])
    return None if both == ("",) and not opened else (both, opened)  # no topic is empty


def _written(levels: Levels, opened: bool, mqtt: bool) -> TopicFilter:
    made = TopicFilter(levels, opened, mqtt)
    try:
        if TopicFilter.parse(made.text) == made and TopicFilter.parse(made.text).levels == levels:
            return made
    except FilterError:
        pass
    raise AccessError(
        f"what a grant leaves of its topic cannot be written as one pattern: {made.text!r}; "
        "ask in the syntax of the grant"
    )


def _conditions_both(mine: WhereFilter, theirs: WhereFilter) -> list[WhereFilter]:
    both = _covered_one(mine, theirs) or _parsed("where", f"({mine.text}) and ({theirs.text})")
    return [] if both.conjunctions == () else [both]


def _paths_both(mine: PathFilter, theirs: PathFilter) -> list[PathFilter]:
    def selects(filter: PathFilter) -> str:
        return "[" + " or ".join(PathFilter((branch,)).text for branch in filter.branches) + "]"

    return [_covered_one(mine, theirs) or _parsed("path", f"/*{selects(mine)}{selects(theirs)}")]


BOTH: dict[str, Callable[[Any, Any], Sequence[Filter]]] = {
    "topic": topics_both,
    "where": _conditions_both,
    "path": _paths_both,
}
"""By kind: filters of which one must hold, so that what passes is what passes both."""


def _covered_one(mine: Any, theirs: Any) -> Any:
    return mine if theirs.covers(mine) else theirs if mine.covers(theirs) else None


def _parsed(kind: str, text: str) -> Any:
    try:
        return parse_filter(kind, text)
    except FilterError as error:
        raise AccessError(f"together with a grant its {kind} cannot be written: {error.reason}") from None


# Any of several.


def _uncovered(parts: Iterable[Profile]) -> list[Profile]:
    """Those that are not covered by another; of two that cover each other the first."""
    kept: list[Profile] = []
    for part in parts:
        if not any(other.covers(part) for other in kept):
            kept = [other for other in kept if not part.covers(other)] + [part]
    return kept


def _united(parts: list[Profile]) -> list[Profile]:
    """As few as possible that let pass exactly the same."""
    for kind, between in (("where", " or "), ("path", " | ")):
        groups: dict[Any, list[Profile]] = {}
        for part in parts:
            rest = {name: filter for name, filter in part.filters.items() if name != kind}
            alike = kind in part.filters and (Profile(rest), kind)
            groups.setdefault(alike or part, []).append(part)
        parts = [_any_of(group, kind, between) for group in groups.values()]
    return parts


def _any_of(group: list[Profile], kind: str, between: str) -> Profile:
    if len(group) == 1:
        return group[0]
    texts = [part.filters[kind].text for part in group]
    text = between.join(f"({each})" for each in texts) if kind == "where" else between.join(texts)
    return Profile({**group[0].filters, kind: _parsed(kind, text)})


def _share_a_topic(parts: list[Profile]) -> bool:
    topics = [cast("TopicFilter | None", part.filters.get("topic")) for part in parts]
    pairs = [(one, other) for number, one in enumerate(topics) for other in topics[:number]]
    return any(one is None or other is None or topics_both(one, other) for one, other in pairs)
