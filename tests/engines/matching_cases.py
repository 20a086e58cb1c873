"""Subscriptions and events with matches that were worked out by hand: the cases that every engine runs.

`case(name, subscriptions, events, matches)` adds one. Events come in the order in which they are written and
have the columns of `spark.world`: topic, document, a (number), b (integer), c (text), d (boolean), and n with
x and y inside.

All cases together are one world (`whole_world`), so that an engine runs once. A case is told by the ids; what
its subscriptions get of other cases' events is the oracle's business. Tolerances remember by topic, so those
of a case have a topic of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributary.model import Record, Subscription
from spark.world import SCHEMA, World, make_world


@dataclass(frozen=True)
class MatchingCase:
    """Subscriptions and events by their ids, and which subscriptions each event matches."""

    name: str
    subscriptions: Mapping[str, Mapping[str, Any]]
    events: Mapping[str, Record]
    matches: Mapping[str, str]

    def pairs(self) -> set[tuple[str, str]]:
        """Event and subscription, as they are called in the whole world."""
        return {
            (self.id(event), self.id(one)) for event in self.events for one in self.matches[event].split()
        }

    def id(self, name: str) -> str:
        return f"{self.name}:{name}"

    def own(self, pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """The pairs whose event and subscription are of this case."""
        mine = f"{self.name}:"
        return {(event, one) for event, one in pairs if event.startswith(mine) and one.startswith(mine)}


CASES: dict[str, MatchingCase] = {}
"""Every case by its name."""


def case(
    name: str,
    subscriptions: Mapping[str, Mapping[str, Any]],
    events: Mapping[str, Record],
    matches: Mapping[str, str],
) -> None:
    """Add a case; `matches` has for every event the subscriptions it matches, with blanks in between."""
    assert set(events) == set(matches), name
    CASES[name] = MatchingCase(name, subscriptions, events, matches)


def whole_world(seed: int = 0) -> World:
    """A random world, and after its events those of all cases."""
    world = make_world(seed)
    records, subscriptions = list(world.events), list(world.subscriptions)
    for one in CASES.values():
        for name, record in one.events.items():
            nulls = dict.fromkeys(SCHEMA.names)
            at = {"at": 1000 + len(records)}
            records.append({**nulls, **at, **record, "id": one.id(name)})
        subscriptions += [
            Subscription(one.id(name), f"{one.name} client", **filters)
            for name, filters in one.subscriptions.items()
        ]
    return World(records, subscriptions)


case(
    "topics",
    {
        "a": {"topic": "A"},
        "a-b": {"topic": "A/B"},
        "a-any": {"topic": "A/*"},
        "a-any-c": {"topic": "A/*/C"},
        "a-b-closed": {"topic": "A/B/#"},
        "b-any-closed": {"topic": "B/*/#"},
    },
    {
        "A": {"topic": "A"},
        "leading-slash": {"topic": "/A"},
        "two-leading-slashes": {"topic": "//A"},
        "empty-level": {"topic": "A//C"},
        "trailing-slash": {"topic": "/B/"},
        "A/B": {"topic": "A/B"},
        "A/B/C": {"topic": "A/B/C"},
        "A/C": {"topic": "A/C"},
        "B/B": {"topic": "B/B"},
        "B/B/C": {"topic": "B/B/C"},
        "AB": {"topic": "AB"},
        "no-topic": {"a": 1.0},
    },
    {
        "A": "a",
        "leading-slash": "a",
        "two-leading-slashes": "",
        "empty-level": "a a-any a-any-c",
        "trailing-slash": "b-any-closed",
        "A/B": "a a-b a-any a-b-closed",
        "A/B/C": "a a-b a-any a-any-c",
        "A/C": "a a-any",
        "B/B": "b-any-closed",
        "B/B/C": "",
        "AB": "",
        "no-topic": "",
    },
)

case(
    "mqtt",
    {
        "any-b": {"topic": "mqtt:+/B"},
        "a-open": {"topic": "mqtt:A/#"},
        "a-any": {"topic": "mqtt:A/+"},
        "any-any-open": {"topic": "mqtt:+/+/#"},
        "slash-a-open": {"topic": "mqtt:/A/#"},
        "empty-level": {"topic": "mqtt:A//B"},
        "any-a": {"topic": "mqtt:+/A"},
        "two-levels": {"topic": "mqtt:+/+"},
        "slash-open": {"topic": "mqtt:/#"},
    },
    {
        "A": {"topic": "A"},
        "A/B": {"topic": "A/B"},
        "A/B/C": {"topic": "A/B/C"},
        "B/B": {"topic": "B/B"},
        "$SYS/B": {"topic": "$SYS/B"},
        "/A": {"topic": "/A"},
        "/A/B": {"topic": "/A/B"},
        "A//B": {"topic": "A//B"},
        "A/": {"topic": "A/"},
        "/": {"topic": "/"},
    },
    {
        "A": "a-open",
        "A/B": "any-b a-open a-any any-any-open two-levels",
        "A/B/C": "a-open any-any-open",
        "B/B": "any-b any-any-open two-levels",
        "$SYS/B": "",
        "/A": "any-any-open slash-a-open any-a two-levels slash-open",
        "/A/B": "any-any-open slash-a-open slash-open",
        "A//B": "a-open any-any-open empty-level",
        "A/": "a-open a-any any-any-open two-levels",
        "/": "any-any-open two-levels slash-open",
    },
)

case(
    "everything",
    {
        "true": {"where": "true"},
        "one-is-one": {"where": "1 = 1"},
        "null-or-not": {"where": "a is null or a is not null"},
        "like-or-true": {"where": "c like '%x%' or not false"},
        "itself": {"where": "a = a"},
        "never": {"where": "false"},
        "topics": {"topic": "mqtt:#"},
        "documents": {"path": "/*"},
        "all-elements": {"path": "//*"},
        "union": {"path": "/b[2] | /"},
        "true-topics": {"where": "true", "topic": "mqtt:+/#"},
        "true-a": {"where": "true", "topic": "A"},
        "documents-greater": {"where": "a > 1", "path": "//node()"},
        "all": {"where": "2 > 1", "topic": "mqtt:#", "path": "*"},
    },
    {
        "nothing": {},
        "nan": {"a": float("nan")},
        "number": {"a": 2.0},
        "topic": {"topic": "A/B"},
        "dollar": {"topic": "$SYS/A"},
        "slash": {"topic": "/$SYS", "a": 2.0},
        "document": {"document": "<a/>"},
        "document-greater": {"document": "<!-- c --><b>x</b>", "a": 2.0},
        "both": {"topic": "B", "document": "<a/>", "c": "xyz"},
    },
    {
        "nothing": "true one-is-one null-or-not like-or-true",
        "nan": "true one-is-one null-or-not like-or-true",
        "number": "true one-is-one null-or-not like-or-true itself",
        "topic": "true one-is-one null-or-not like-or-true topics true-topics true-a",
        "dollar": "true one-is-one null-or-not like-or-true",
        "slash": "true one-is-one null-or-not like-or-true itself topics true-topics",
        "document": "true one-is-one null-or-not like-or-true documents all-elements union",
        "document-greater": "true one-is-one null-or-not like-or-true itself documents all-elements union "
        "documents-greater",
        "both": "true one-is-one null-or-not like-or-true topics documents all-elements union true-topics "
        "all",
    },
)

case(
    "nulls",
    {
        "greater": {"where": "a > 1"},
        "not-greater": {"where": "not (a > 1)"},
        "not-both": {"where": "not (a > 1 and b > 1)"},
        "either": {"where": "b <= 2 or a = 1"},
        "null": {"where": "a is null"},
        "other-text": {"where": "c <> 'x'"},
        "true": {"where": "d"},
        "false": {"where": "not d"},
    },
    {
        "nothing": {},
        "b-decides": {"b": 0},
        "b-cannot-decide": {"b": 3},
        "a-decides": {"a": 1.0},
        "both": {"a": 2.0, "b": 3, "c": "y", "d": False},
        "true": {"a": 2.0, "c": "x", "d": True},
    },
    {
        "nothing": "null",
        "b-decides": "not-both either null",
        "b-cannot-decide": "null",
        "a-decides": "not-greater not-both either",
        "both": "greater other-text false",
        "true": "greater true",
    },
)

case(
    "values",
    {
        "exact": {"where": "b >= 9007199254740993"},
        "between": {"where": "a between 1 and 3 and c = 'x'"},
        "narrow": {"where": "a >= 2 and a < 2.5"},
        "columns": {"where": "a < b"},
        "list": {"where": "c in ('x', 'yy') and not b = 2"},
        "like": {"where": "c like 'y%'"},
        "inside": {"where": "n.x > 2"},
        "inside-null": {"where": "n.y = 'x' or n.x is null"},
        "never": {"where": "a > 3 and a < 2"},
    },
    {
        "large": {"b": 9007199254740993, "n": {"x": 3.0, "y": None}},
        "one-less": {"b": 9007199254740992, "n": {"x": 1.0, "y": "x"}},
        "x": {"a": 2.0, "b": 2, "c": "x", "n": {"x": 1.0, "y": "y"}},
        "yy": {"a": 2.5, "b": 3, "c": "yy", "n": {"x": 1.0, "y": None}},
    },
    {"large": "exact inside", "one-less": "inside-null", "x": "between narrow", "yy": "columns list like"},
)

case(
    "paths",
    {
        "child": {"path": "/a/b"},
        "anywhere": {"path": "//b[@k]"},
        "below": {"path": "a//c"},
        "value": {"path": "/a[b/c = 2]/d"},
        "without": {"path": "/a/*[not(c)]"},
    },
    {
        "plain": {"document": "<a><b/></a>"},
        "value": {"document": "<a><b><c>2</c></b><d>x</d></a>"},
        "other-value": {"document": "<a><b><c>3</c></b></a>"},
        "attribute": {"document": "<r><b k=''/></r>"},
        "no-document": {"a": 2.0},
    },
    {
        "plain": "child without",
        "value": "child below value without",
        "other-value": "child below",
        "attribute": "anywhere",
        "no-document": "",
    },
)

case(
    "paths that say more than tree patterns",
    {
        "second": {"path": "/a/b[2]"},
        "last": {"path": "/a/b[last()][@k]"},
        "next": {"path": "//c/following-sibling::*[1][self::d]"},
        "above": {"path": "//d/../b"},
        "word": {"path": "a[contains(b, 'storm')] | /x"},
        "count": {"path": "/a[count(b) > 1 and position() = last()]"},
        "both": {"where": "a > 1", "path": "//b/ancestor::*[1]/c"},
        "same": {"path": "//b[@k = ../@k]"},
    },
    {
        "one": {"document": "<a k='1'><b k='1'>a storm</b></a>", "a": 2.0},
        "two": {"document": "<a><b k='1'/><b>storm</b><c/><d/></a>", "a": 2.0},
        "apart": {"document": "<a><b/><c/><b/><d/><b k='1'/></a>", "a": 0.0},
        "other": {"document": "<x/>", "a": 5.0},
        "none": {"a": 2.0},
    },
    {
        "one": "last word same",
        "two": "second next above count both",
        "apart": "second last above count",
        "other": "word",
        "none": "",
    },
)

case(
    "tolerances",
    {
        "two": {"topic": "drift", "change": {"a": 2}},
        "any": {"topic": "drift", "change": {"a": 0}},
        "either": {"topic": "drift/A", "change": {"a": 3, "b": 0}},
    },
    {
        "1": {"topic": "drift/A", "a": 5.0},
        "2": {"topic": "drift/A", "a": 6.0, "b": 1},
        "3": {"topic": "drift/B", "a": 6.0},
        "4": {"topic": "drift/A", "a": 8.0},
        "5": {"topic": "drift/A", "a": 8.0, "b": 1},
        "6": {"topic": "drift/A", "a": 5.5},
        "7": {"topic": "drift/B", "a": 8.0},
        "8": {"topic": "drift/A"},
    },
    # Each topic has a memory of its own, and only what was delivered is remembered.
    {
        "1": "two any either",
        "2": "any either",
        "3": "two any",
        "4": "two any",
        "5": "",
        "6": "two any",
        "7": "any",
        "8": "",
    },
)

case(
    "kinds",
    {
        "topic-where": {"topic": "K/*", "where": "a > 1"},
        "where-path": {"where": "a > 1", "path": "/k"},
        "all": {"topic": "K", "where": "a > 1", "path": "/k", "change": {"b": 1}},
    },
    {
        "all": {"topic": "K/L", "a": 2.0, "b": 5, "document": "<k/>"},
        "no-document": {"topic": "K/L", "a": 2.0, "b": 9},
        "near": {"topic": "K/L", "a": 2.0, "b": 6, "document": "<k/>"},
        "far": {"topic": "K/L", "a": 2.0, "b": 7, "document": "<k/>"},
        "small": {"topic": "K/L", "a": 1.0, "b": 19, "document": "<k/>"},
        "no-topic": {"a": 2.0, "b": 19, "document": "<k/>"},
    },
    {
        "all": "topic-where where-path all",
        "no-document": "topic-where",
        "near": "topic-where where-path",
        "far": "topic-where where-path all",
        "small": "",
        "no-topic": "where-path",
    },
)

case(
    "rejected",
    {"where": {"where": "a > 1"}, "topic": {"topic": "R"}, "change": {"topic": "R", "change": {"b": 1}}},
    {
        "empty-topic": {"topic": "", "a": 2.0},
        "cut-document": {"topic": "R", "document": "<a>", "a": 2.0, "b": 5},
        "no-order": {"topic": "R", "at": None, "a": 2.0, "b": 5},
        "good": {"topic": "R", "a": 2.0, "b": 5},
    },
    # Had the tolerance seen one of the others, it would not fire for the last.
    {"empty-topic": "", "cut-document": "", "no-order": "", "good": "where topic change"},
)

case(
    "same-text",
    {
        "first": {"topic": "T", "where": "a > 1"},
        "second": {"topic": "T", "where": "a > 1"},
        "spaced": {"topic": "/T", "where": "a   >   1.0"},
        "remembers": {"topic": "T", "change": {"a": 1}},
        "too": {"topic": "T", "change": {"a": 1}},
    },
    {"1": {"topic": "T", "a": 2.0}, "2": {"topic": "T", "a": 2.5}, "3": {"topic": "T", "a": 0.5}},
    {"1": "first second spaced remembers too", "2": "first second spaced", "3": "remembers too"},
)
