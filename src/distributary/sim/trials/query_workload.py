"""Generated queries over feeds, with events that give results: the chains of operators of 003, section 5.5.

    catalogue = feed_catalogue(queries=20, feeds=12, seed=1)
    events = feed_events(catalogue, count=400, seconds=120, seed=1)

Rules:

- A query is a chain of operators of Table 5.6 over one feed, or over the union of two. Which feeds it reads
  follows Zipf's law with the exponent of 003.
- Filters, windows and compared values are drawn so that some items pass; these probabilities are ours.
- For queries from a file, `random_events` generates events from the schemas of their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import merge
from random import Random
from typing import Any

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.flow import Catalogue, Query, QueryBuilder, Source, Type
from distributary.model import Event
from distributary.plan.queries.generator import OPERATORS
from distributary.workloads.feeds import SECTIONS, SKEW, START

BEGIN = 1000 * START
"""When the events begin, in milliseconds since 1970."""
TWO_FEEDS = 0.2
"""The share of queries that read two feeds."""
WINDOWS = ("2 seconds", "5 seconds", "10 seconds")
WORDS = ("bridge", "harvest", "lantern", "market", "orchard", "river", "signal", "winter")

SCHEMA = {"title": "text", "section": "text", "comments": "integer", "at": "integer"}


def feed_catalogue(
    queries: int, feeds: int, seed: int, operators: int = OPERATORS, ordered: float = 0.0
) -> Catalogue:
    """A catalogue of feeds, and of queries with `operators` operators each over them.

    A query asks for its answer in stream order with a probability of `ordered`.

    >>> catalogue = feed_catalogue(queries=3, feeds=5, seed=1)
    >>> [len(query.operators) for query in catalogue.queries.values()], len(catalogue.sources)
    ([5, 5, 5], 5)
    """
    random = Random(f"{seed}/feed queries")
    sources = [
        Source(f"feed{number}", SCHEMA, time="at", topic=f"feeds/feed{number}", lateness="1 second")
        for number in range(feeds)
    ]
    made = [_query(f"q{number}", sources, operators, random) for number in range(queries)]
    wishes = Random(f"{seed}/ordered queries")
    return Catalogue(sources, [replace(query, ordered=wishes.random() < ordered) for query in made])


def _query(name: str, sources: list[Source], operators: int, random: Random) -> Query:
    chain = _Chain(QueryBuilder(name), random)
    weights = [1 / rank**SKEW for rank in range(1, len(sources) + 1)]
    first, second = random.choices(sources, weights, k=2)
    if operators > 1 and first is not second and random.random() < TWO_FEEDS:
        chain.stream = chain.build.union("both", first, second)
        chain.length = 1
    else:
        chain.stream = first.name
    while chain.length < operators:
        random.choice(KINDS)(chain)
        chain.length += 1
    return chain.build.query(outputs=[chain.stream])


class _Chain:
    """A query under construction: a chain of operators so far."""

    def __init__(self, build: QueryBuilder, random: Random) -> None:
        self.build = build
        self.random = random
        self.stream = ""
        self.length = 0
        self.types = {name: type for name, type in SCHEMA.items() if name != "at"}

    @property
    def name(self) -> str:
        """The name of the next operator."""
        return f"step{self.length + 1}"

    def one(self, type: str | None = None) -> str | None:
        """A random attribute, of this type if one is given; None when there is none."""
        names = [name for name, its in self.types.items() if type in (None, its)]
        return self.random.choice(names) if names else None

    def filter(self) -> None:
        name = self.one("integer")
        if name is not None and self.random.random() < 0.7:
            where = f"{name} >= {self.random.choice([1, 2, 20, 40])}"
        else:
            where = f"{self.one()} is not null"
        self.stream = self.build.filter(self.name, self.stream, where=where)

    def rename(self) -> None:
        name = self.one()
        assert name is not None
        new = f"{name}_{self.length}"
        self.types[new] = self.types.pop(name)
        self.stream = self.build.rename(self.name, self.stream, {name: new})

    def copy(self) -> None:
        name = self.one()
        assert name is not None
        new = f"{name}_{self.length}"
        self.types[new] = self.types[name]
        self.stream = self.build.copy(self.name, self.stream, {name: new})

    def count(self) -> None:
        name = self.one("text")
        groups = [] if name is None else [name]
        self.types = {**dict.fromkeys(groups, "text"), "count": "integer"}
        self.stream = self.build.count(self.name, self.stream, self._window(), groups)

    def sort(self) -> None:
        self.stream = self.build.sort(self.name, self.stream, self._window(), [f"{self.one()} desc"])

    def truncate(self) -> None:
        items = self.random.randint(1, 5)
        self.stream = self.build.truncate(self.name, self.stream, self._window(), items)

    def unique(self) -> None:
        self.stream = self.build.unique(self.name, self.stream, self._window(), [str(self.one())])

    def split(self) -> None:
        self.stream = self.random.choice(self.build.split(self.name, self.stream))

    def _window(self) -> str:
        return self.random.choice(WINDOWS)


KINDS: tuple[Callable[[_Chain], None], ...] = (
    *(_Chain.count, _Chain.filter, _Chain.rename, _Chain.copy),
    *(_Chain.sort, _Chain.split, _Chain.truncate, _Chain.unique),
)


def rush_time(at: float, seconds: float, rush: float) -> float:
    """When an event comes that would come at a time of an even flow, if there is a rush in the middle third.

    >>> [rush_time(at, 60.0, rush=4.0) for at in (0.0, 10.0, 30.0, 50.0, 60.0)]
    [0.0, 20.0, 30.0, 40.0, 60.0]
    """
    if rush == 1.0:
        return at
    passed = at / seconds * (rush + 2)
    if passed < 1:
        thirds = passed
    elif passed < 1 + rush:
        thirds = 1 + (passed - 1) / rush
    else:
        thirds = passed - rush + 1
    return thirds / 3 * seconds


def feed_events(
    catalogue: Catalogue, count: int, seconds: float, seed: int, rush: float = 1.0
) -> Iterator[Event]:
    """About `count` items of all feeds together, at random times, in order."""
    feeds = list(catalogue.sources)
    made = merge(*(_feed(name, count / len(feeds), seconds, seed, rush) for name in feeds))
    return (event for _, _, event in made)


def _feed(
    name: str, count: float, seconds: float, seed: int, rush: float
) -> Iterator[tuple[int, str, Event]]:
    random = Random(f"{seed}/{name}")
    at = 0.0
    for number in range(1_000_000_000):
        at += random.expovariate(count / seconds)
        if at >= seconds:
            return
        title = " ".join(random.choices(WORDS, k=random.randint(4, 12)))
        section, comments = random.choice(SECTIONS), random.randrange(60)
        when, id = BEGIN + round(1000 * rush_time(at, seconds, rush)), f"{name}-{number}"
        values: dict[str, Any] = {"title": title, "section": section, "comments": comments, "at": when}
        yield when, id, Event(id, f"feeds/{name}", values)


def random_events(
    catalogue: Catalogue, count: int, seconds: float, seed: int, rush: float = 1.0
) -> Iterator[Event]:
    """`count` random events for the sources that have a topic, in the order of time."""
    sources = [source for source in catalogue.sources.values() if source.topic is not None]
    random = Random(f"{seed}/made up")
    for number, at in enumerate(sorted(random.uniform(0, seconds) for _ in range(count if sources else 0))):
        source = random.choice(sources)
        values = {name: _value(type, random) for name, type in source.schema.attributes.items()}
        values[source.time] = BEGIN + round(1000 * rush_time(at, seconds, rush))
        levels = TopicFilter.parse(source.topic).levels
        topic = "/".join("any" if level == WILDCARD else level for level in levels)
        yield Event(f"e{number}", topic, values)


def _value(type: Type, random: Random) -> Any:
    match type:
        case Type.TEXT:
            return random.choice(WORDS)
        case Type.INTEGER:
            return random.randrange(1000)
        case Type.NUMBER:
            return round(random.uniform(0, 100), 2)
        case _:
            return random.random() < 0.5
