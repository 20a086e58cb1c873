"""Frozen indexes of every kind, with events and the right answers to everything that can be asked."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from damage.damages import Files, files_below
from distributary import Event, Matcher, Subscription

DOCUMENTS = (
    "<rss><channel><item><author>ann</author><title>x</title></item></channel></rss>",
    "<rss><channel><item><price>12</price></item></channel></rss>",
    "<a><b c='1'>t</b></a>",
)
ADDED = Subscription("added", "zoe", topic="quotes/NYSE", where="price > 3", path="//item")
EVENTS = tuple(
    Event(
        f"e{number}",
        topic=f"quotes/{'NYSE' if number % 2 else 'ASE'}/{'OTE' if number % 3 else 'ALPHA'}",
        attributes={"price": number * 0.75, "name": "übung" if number % 4 else "x", "size": number % 7},
        document=DOCUMENTS[number % 3],
    )
    for number in range(12)
)


def _topics(count: int, salt: int) -> list[dict[str, Any]]:
    patterns = (
        "quotes/NYSE/*",
        "quotes",
        "quotes/*/OTE",
        "quotes/ASE/ALPHA/#",
        "mqtt:quotes/+/OTE",
        "other/A",
    )
    return [{"topic": patterns[(number + salt) % len(patterns)]} for number in range(count)]


def _conditions(count: int, salt: int) -> list[dict[str, Any]]:
    kinds = (
        "price > {0} and price < {1}",
        "name like 'ü%' and size = {2}",
        "size in ({2}, 9) or price >= {1}",
        "name <> 'x' and not price > {0}",
        "size is null or price = {0}.5",
    )
    return [
        {"where": kinds[number % 5].format((number + salt) % 9, (number + salt) % 9 + 3, number % 7)}
        for number in range(count)
    ]


def _paths(count: int, salt: int) -> list[dict[str, Any]]:
    kinds = (
        "/rss/channel/item[author]/title",
        "//item[price > {0}]",
        "/a/b[@c = '{1}']",
        "//b",
        "/rss//title[text() = 'x']",
    )
    return [{"path": kinds[number % 5].format(number + salt, number % 2)} for number in range(count)]


def _tolerances(count: int, salt: int) -> list[dict[str, Any]]:
    return [
        {"change": {"price": 0.5 * ((number + salt) % 5)} if number % 3 else {"price": 1, "size": number % 4}}
        for number in range(count)
    ]


def _combined(count: int, salt: int) -> list[dict[str, Any]]:
    parts = (_topics(count, salt), _conditions(count, salt), _paths(count, salt), _tolerances(count, salt))
    return [
        {
            key: value
            for place, part in enumerate(parts)
            if (number + place) % 4 or number % 5 == place
            for key, value in part[number].items()
        }
        for number in range(count)
    ]


MADE = {
    "topics": _topics,
    "conditions": _conditions,
    "paths": _paths,
    "tolerances": _tolerances,
    "combined": _combined,
}


@dataclass(frozen=True)
class FrozenExample:
    """The files of a frozen index, and what it answers."""

    files: Files
    answers: list[Any]


@cache
def example(kind: str, salt: int = 0) -> FrozenExample:
    """A frozen index of this kind; another salt, other subscriptions."""
    filters = MADE[kind](40, salt)
    matcher = Matcher(
        Subscription(f"s{number}", f"subscriber {number % 7}", **each) for number, each in enumerate(filters)
    )
    for event in EVENTS[:3]:
        matcher.match(event)
    with tempfile.TemporaryDirectory() as place:
        matcher.freeze(Path(place) / "index")
        return FrozenExample(files_below(Path(place) / "index"), answers(matcher))


def answers(matcher: Matcher) -> list[Any]:
    """All that a matcher says, before and after changes."""
    said: list[Any] = [
        len(matcher),
        "s3" in matcher,
        matcher.ids(),
        dict(matcher.slow),
        matcher.has_tolerances,
    ]
    said += [str(matcher.explain(event, f"s{number}")) for number, event in enumerate(EVENTS)]
    said += [(matcher.subscriber(f"s{number}"), matcher.serial(f"s{number}")) for number in range(40)]
    said.append(matcher.recall([event.topic for event in EVENTS]))
    said.append([matcher.match(event) for event in EVENTS[3:6]])
    said.append(matcher.match_batch(EVENTS, tolerances="ignore").to_pylist())
    matcher.remove("s3")
    matcher.add(ADDED)
    said.append(matcher.match_batch(EVENTS).to_pylist())
    matcher.compact()
    said.append(matcher.match_batch(EVENTS).to_pylist())
    return said
