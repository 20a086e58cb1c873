"""The web feeds of section 4.6 of the XPORT thesis, and clients with profiles over their items.

The thesis took 700 RSS feeds, 19 MB in all and 27.7 KB each on average; a client's profile is one of them,
drawn by Zipf's law with the exponent 0.97. Its feeds are not available. Here are as many, made up:

- A feed holds its latest items, and is as large as its share of a log-normal distribution with that mean.
- Feeds publish at paces of their own, from an item every few minutes to a few a day, at random moments. Some
  items are changed later, once: what they say is then not what they said.
- What a feed holds at a moment depends on the seed, the feed and the moment alone: it may be polled at
  any time, by anybody, twice.
- How popular a feed is has nothing to do with its size and pace.

The thesis says nothing of paces and changes: those are ours. For its stream queries (section 5.5) every feed
is pulled at the same interval, by which the streams have 3.2 KB a second on average: see `sources`.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import exp, log
from random import Random
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.feeds import TOPIC, FeedItem, write_feed
from distributary.model import Event, Subscription
from distributary.workloads.xml_types import VOCABULARY

FEEDS, SKEW, MEAN_BYTES = 700, 0.97, 27_700
"""Feeds, exponent of their popularity, and their mean size (section 4.6)."""
STREAM_RATE = 3_200.0
"""Bytes a second of a feed as a stream, on average (section 5.5)."""
SPREAD = 0.8
"""Of sizes: the standard deviation of their logarithm."""
PACES = (300.0, 28_800.0)
"""Mean seconds between the items of the busiest and of the calmest feed."""
HELD = (8, 30)
"""The fewest and the most items that a feed holds; small feeds hold fewer, but at least 2."""
REVISED = 0.1
"""The share of items that are changed later."""
START = 1_167_609_600
"""The start of time, in seconds since 1970: the beginning of 2007."""

SECTIONS = ("arts", "business", "local", "politics", "science", "sports", "technology", "world")
CATEGORIES = 40
AUTHORS = 200
FRAME_BYTES = 265
"""About how many bytes an item has besides its text."""


class Moments(NamedTuple):
    """When an item is published and, if ever, changed; in seconds since `START`."""

    published: float
    changed: float | None


@dataclass(frozen=True, slots=True)
class FeedProfile:
    """One feed; the first of a pool is the most popular.

    >>> feed = feeds(3, seed=1)[0]
    >>> feed.topic, feed.items, feed.document(60.0) == feed.document(60.5)
    ('feeds/local/feed0', 23, True)
    """

    number: int
    name: str
    size: int
    """The mean size of its document in bytes."""
    items: int
    """How many items its document has."""
    every: float
    """Mean seconds between two items."""
    offset: float
    seed: int
    revised: float = REVISED

    @property
    def topic(self) -> str:
        """The topic of its items."""
        return f"{TOPIC}/{self.name}"

    def document(self, at: float) -> str:
        """The document that a poll gets at a time since `START`: the latest items, the newest first."""
        return write_feed(self.name, self.held(at))

    def held(self, at: float) -> list[FeedItem]:
        """The items of that document."""
        number = int((at - self.offset) // self.every)
        newest = number if self.moments(number).published <= at else number - 1
        return [self.item(one, at) for one in range(newest, newest - self.items, -1)]

    def moments(self, number: int) -> Moments:
        """The times of an item; items from before `START` have negative numbers."""
        random = Random(f"moments {self.seed} {self.number} {number}")
        published = self.offset + self.every * (number + random.random())
        changed = published + self.every * random.uniform(0, self.items / 2)
        return Moments(published, changed if random.random() < self.revised else None)

    def item(self, number: int, at: float) -> FeedItem:
        """An item as it reads at a time."""
        random = Random(f"item {self.seed} {self.number} {number}")
        published, changed = self.moments(number)
        wanted = self.size / self.items * random.uniform(0.5, 1.5) - FRAME_BYTES
        text = _text(random, max(20, round(wanted)))
        categories = {f"tag{self._own(random, CATEGORIES)}" for _ in range(random.randint(0, 2))}
        return FeedItem(
            f"{self.name}/{number}",
            " ".join(random.choices(VOCABULARY, k=random.randint(3, 8))),
            f"Author {self._own(random, AUTHORS)}" if random.random() < 0.8 else "",
            tuple(sorted(categories)),
            text if changed is None or at < changed else f"Corrected. {text}",
            f"http://feeds.example/{self.name}/{number}",
            START + int(published),
        )

    def _own(self, random: Random, count: int) -> int:
        """One of five numbers below `count` that are typical of this feed."""
        return (self.number * 7 + random.randrange(5)) % count


@lru_cache(maxsize=8)
def feeds(
    count: int = FEEDS, *, seed: int, size: int = MEAN_BYTES, spread: float = SPREAD, revised: float = REVISED
) -> tuple[FeedProfile, ...]:
    """A pool of feeds with that mean size; DistributaryError when a parameter is out of range.

    >>> pool = feeds(seed=1)
    >>> len(pool), round(sum(feed.size for feed in pool) / 1e6, 1)
    (700, 19.4)
    """
    if count < 1 or size < 1 or spread < 0 or not 0 <= revised <= 1:
        raise DistributaryError(
            f"{count} feeds of size {size}, spread {spread} and changed share {revised} cannot be; "
            "1, 1, 0 and 0 are the least, and 1 the largest share"
        )
    random = Random(f"feeds {seed}")
    drawn = [random.lognormvariate(0.0, spread) for _ in range(count)]
    scale = size * count / sum(drawn)
    return tuple(_feed(random, number, drawn[number] * scale, seed, revised) for number in range(count))


def _feed(random: Random, number: int, size: float, seed: int, revised: float) -> FeedProfile:
    least, most = (log(pace) for pace in PACES)
    every = exp(random.uniform(least, most))
    name = f"{random.choice(SECTIONS)}/feed{number}"
    items = min(random.randint(*HELD), max(2, int(size / (2 * FRAME_BYTES))))
    return FeedProfile(
        number, name, max(1, round(size)), items, every, random.uniform(0, every), seed, revised
    )


def events(
    count: int,
    *,
    seed: int,
    feed_count: int = FEEDS,
    size: int = MEAN_BYTES,
    revised: float = REVISED,
) -> Iterator[Event]:
    """New and changed items of all feeds, in the order of time from `START` on.

    >>> event = next(events(1, seed=1))
    >>> event.topic, sorted(event.attributes)[:4]
    ('feeds/business/feed634', ['author', 'bytes', 'category', 'feed'])
    """
    pool = feeds(feed_count, seed=seed, size=size, revised=revised)
    due = [entry for feed in pool for entry in _from_the_beginning(feed)]
    heapify(due)
    for _ in range(count):
        at, feed_number, number = heappop(due)
        feed = pool[feed_number]
        published, changed = feed.moments(number)
        if at == published:
            heappush(due, (feed.moments(number + 1).published, feed_number, number + 1))
            if changed is not None:
                heappush(due, (changed, feed_number, number))
        yield feed.item(number, at).event(feed.name)


def _from_the_beginning(feed: FeedProfile) -> Iterator[tuple[float, int, int]]:
    """The first item after `START`, and the later changes of the items published before."""
    first = next(number for number in range(-2, 2) if feed.moments(number).published > 0)
    yield feed.moments(first).published, feed.number, first
    for number in range(first - feed.items, first):
        changed = feed.moments(number).changed
        if changed is not None and changed > 0:
            yield changed, feed.number, number


def subscriptions(
    count: int,
    *,
    seed: int,
    feed_count: int = FEEDS,
    skew: float = SKEW,
    refined: float = 0.5,
    size: int = MEAN_BYTES,
) -> Iterator[Subscription]:
    """Clients with one profile each: a feed, and for a share of them only some of its items, or a section.

    With `refined=0` a profile is a feed, as in the thesis.

    >>> [subscription.filters() for subscription in subscriptions(2, seed=1, refined=0)]
    [{'topic': 'feeds/politics/feed0/#'}, {'topic': 'feeds/politics/feed0/#'}]
    """
    random = Random(f"clients {seed}")
    pool = feeds(feed_count, seed=seed, size=size)
    popular = Zipf(len(pool), skew)
    for number in range(count):
        feed = pool[popular.draw(random)]
        wish = _refined(random, feed) if random.random() < refined else {"topic": f"{feed.topic}/#"}
        yield Subscription.from_record({"id": f"s{number}", "subscriber": f"client{number}", **wish})


def _refined(random: Random, feed: FeedProfile) -> dict[str, str]:
    """A filter on the items of this feed, derived from one of its items."""
    item = feed.item(-random.randint(1, feed.items), 0.0)
    topic = f"{feed.topic}/#"
    word = item.title.split()[0]
    category = item.categories[0] if item.categories else "tag0"
    return random.choice(
        [
            {"topic": topic, "where": f"author = '{item.author}' or author is null"},
            {"topic": topic, "where": f"category = '{category}' or title like '%{word}%'"},
            {"topic": topic, "path": f"/rss/channel/item[category='{category}' or not(category)]/title"},
            {"topic": topic, "path": "/rss/channel/item[author]"},
            {"topic": topic, "where": f"bytes < {feed.size // feed.items}"},
            {"topic": feed.topic.rpartition("/")[0], "path": f"//item[category='{category}']"},
            {"where": f"title like '{word}%'"},
        ]
    )


class FeedStream(NamedTuple):
    """A feed as a stream with its rates."""

    feed: FeedProfile
    items_per_second: float
    bytes_per_second: float


def sources(pool: Sequence[FeedProfile], rate: float | None = STREAM_RATE) -> list[FeedStream]:
    """Feeds as streams for queries: each is pulled whole, at the interval that makes the mean rate `rate`
    bytes a second. With None, a stream has new items only.

    >>> streams = sources(feeds(seed=1))
    >>> round(sum(stream.bytes_per_second for stream in streams) / len(streams))
    3200
    """
    if rate is None:
        return [FeedStream(one, 1 / one.every, one.size / one.items / one.every) for one in pool]
    interval = sum(feed.size for feed in pool) / len(pool) / rate
    return [FeedStream(one, one.items / interval, one.size / interval) for one in pool]


class Zipf:
    """Random numbers from 0 on by Zipf's law: the n-th has the weight 1 / n ** skew."""

    def __init__(self, count: int, skew: float) -> None:
        self.weights = [(rank + 1) ** -skew for rank in range(count)]
        self._sums = list(accumulate(self.weights))

    def draw(self, random: Random) -> int:
        """Draw a number."""
        return min(bisect(self._sums, random.random() * self._sums[-1]), len(self._sums) - 1)


@cache
def _prose() -> str:
    """A long text, from which items take pieces."""
    return " ".join(Random(11).choices(VOCABULARY, k=40_000))


def _text(random: Random, size: int) -> str:
    """`size` characters of prose, starting with a whole word."""
    prose = _prose()
    start = prose.index(" ", random.randrange(len(prose) // 2)) + 1
    whole, rest = divmod(size, len(prose) - start)
    return prose[start:] * whole + prose[start : start + rest].rstrip()
