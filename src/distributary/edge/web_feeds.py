"""Web feeds over HTTP (003, section 4.6): the root of the tree polls them, and publishes what is new.

What is new is decided as in the simulator (`systems.tree.feed_application.News`). This module says when a
feed is asked, and what for.

Rules:

- One node asks: the root of the tree. A node that becomes the root begins to; an item's event is named after
  its content, so nobody gets one twice.
- A feed is asked for what has changed (`If-None-Match`, `If-Modified-Since`) every `every` seconds, or as
  much later as its answer says (`Cache-Control: max-age`, `Retry-After`), a day at most. A feed that changed
  in the second of its answer may change again within it, with the same date: it is asked for in full.
- A feed that fails is asked again after twice the time before, up to a day, with some chance in it so that
  feeds that failed together do not come back together. One that is gone for good (410) is not asked any more.
- Permanent redirections (301, 308) are remembered, others followed once; not more than `MOST_REDIRECTIONS`.
- Items count as published when the broker says that they are safe; those that are not are asked for again.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from random import Random
from urllib.parse import urljoin

from distributary.edge.web.outgoing import OutgoingError, WebAnswer, checked_address, get
from distributary.errors import DistributaryError, DocumentError
from distributary.feeds import read_feed
from distributary.model import Event
from distributary.systems.tree.feed_application import POLL_EVERY, News
from distributary.toml_files import read_toml

LONGEST_PAUSE = 86_400.0
"""Seconds after which a feed is asked again at the latest."""
MOST_REDIRECTIONS = 5
MOST_BYTES = 16 << 20
"""Of a feed's document."""
MOST_AT_ONCE = 8
"""Feeds that are asked at the same time."""
TICK = 0.5
"""Seconds between two looks at which feed is due."""


Fetch = Callable[[str, Mapping[str, str]], Awaitable[WebAnswer]]
"""Asks an address with some headers; OutgoingError when there is no answer."""
Publish = Callable[[Sequence[Event]], Awaitable[str | None]]
"""Publishes events; gives the reason why not, or None once they are safe."""


@dataclass
class WebFeed:
    """A feed, and how it has been doing."""

    name: str
    url: str
    news: News = field(default_factory=News)
    tag: str | None = None
    modified: str | None = None
    due: float = 0.0
    """When it is asked again."""
    failures: int = 0
    """In a row."""
    failing: str = ""
    """Why the latest poll failed; empty when it did not."""
    gone: bool = False
    """Whether it said that it is gone for good."""
    polls: int = 0
    published: int = 0
    unchanged: int = 0
    """Polls that found nothing changed, by the feed's own word."""
    rejected: int = 0
    """Items that could not be read."""


class WebFeeds:
    """Polls feeds and publishes what is new, while `is_root` says that this node should."""

    def __init__(
        self,
        feeds: Mapping[str, str],
        fetch: Fetch,
        publish: Publish,
        is_root: Callable[[], bool],
        *,
        now: Callable[[], float],
        random: Random,
        every: float = POLL_EVERY,
        note: Callable[[str], None] = lambda note: None,
    ) -> None:
        if not every > 0:
            raise DistributaryError(f"feeds cannot be polled every {every:g} seconds; give a time above 0")
        self._note = note
        self.feeds = [WebFeed(name, url) for name, url in feeds.items()]
        for feed in self.feeds:
            checked_address(feed.url)
        self._fetch, self._publish, self._is_root = fetch, publish, is_root
        self._now, self._random, self._every = now, random, every

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            await self.poll_due()
            await asyncio.sleep(TICK)

    async def poll_due(self) -> None:
        """Ask the feeds that are due, a few at a time."""
        if not self._is_root():
            return
        room = asyncio.Semaphore(MOST_AT_ONCE)
        now = self._now()

        async def ask(feed: WebFeed) -> None:
            async with room:
                await self.poll(feed)

        await asyncio.gather(*(ask(feed) for feed in self.feeds if feed.due <= now and not feed.gone))

    async def poll(self, feed: WebFeed) -> None:
        """Ask one feed, and publish what is new."""
        feed.polls += 1
        try:
            answer = await self._answer(feed)
            if answer.status == 304:
                feed.unchanged += 1
            else:
                await self._take(feed, answer)
        except Exception as error:  # Whatever a site answers: the other feeds are asked all the same.
            known = isinstance(error, OutgoingError | DocumentError)
            self._fail(feed, str(error) if known else f"{type(error).__name__}: {error}")
        else:
            if feed.failing:
                self._note(f"feed {feed.name!r} answers again")
            feed.failures, feed.failing = 0, ""
            feed.due = self._now() + min(LONGEST_PAUSE, max(self._every, _fresh_seconds(answer.headers)))

    async def _answer(self, feed: WebFeed) -> WebAnswer:
        """The answer of a feed, after redirections; OutgoingError for a status that is none of use."""
        asked = {"if-none-match": feed.tag, "if-modified-since": feed.modified}
        headers = {name: value for name, value in asked.items() if value}
        url, permanent = feed.url, True
        for _ in range(MOST_REDIRECTIONS + 1):
            answer = await self._fetch(url, headers)
            if answer.status not in (301, 302, 303, 307, 308) or "location" not in answer.headers:
                break
            permanent = permanent and answer.status in (301, 308)
            url = urljoin(url, answer.headers["location"])
            checked_address(url)
            if permanent:
                feed.url = url
        else:
            raise OutgoingError(f"more than {MOST_REDIRECTIONS} redirections")
        if answer.status == 410:
            feed.gone = True
            raise OutgoingError("the feed is gone for good")
        if answer.status not in (200, 304):
            feed.due = self._now() + min(LONGEST_PAUSE, _seconds(answer.headers.get("retry-after", "")))
            raise OutgoingError(f"answered with status {answer.status}")
        return answer

    async def _take(self, feed: WebFeed, answer: WebAnswer) -> None:
        read = read_feed(answer.body)
        before = copy.deepcopy(feed.news)
        new = [item.event(feed.name) for item in feed.news.take(read.items)]
        reason = await self._publish(new) if new else None
        if reason is not None:
            feed.news = before
            raise OutgoingError(f"what is new could not be published: {reason}")
        feed.published += len(new)
        feed.rejected += len(read.rejected)
        feed.tag, feed.modified = answer.headers.get("etag"), _settled_date(answer.headers)

    def _fail(self, feed: WebFeed, reason: str) -> None:
        if feed.failing != reason:
            self._note(f"feed {feed.name!r} at {feed.url}: {reason}")
        feed.failures += 1
        feed.failing = reason
        pause = min(LONGEST_PAUSE, self._every * 2.0 ** min(feed.failures, 20))
        feed.due = max(feed.due, self._now() + pause * self._random.uniform(0.5, 1.0))


def _settled_date(headers: Mapping[str, str]) -> str | None:
    """When a feed changed last, if any later change has another date (RFC 9110, section 8.8.2.2).

    >>> changed = "Wed, 18 Nov 2026 06:00:00 GMT"
    >>> _settled_date({"last-modified": changed, "date": "Wed, 18 Nov 2026 06:00:01 GMT"}) == changed
    True
    >>> _settled_date({"last-modified": changed, "date": changed})
    """
    try:
        changed = parsedate_to_datetime(headers["last-modified"])
        answered = parsedate_to_datetime(headers["date"])
        return headers["last-modified"] if (answered - changed).total_seconds() >= 1 else None
    except (KeyError, ValueError, TypeError):  # not told, no dates, or one of them without a zone
        return None


def _fresh_seconds(headers: Mapping[str, str]) -> float:
    """How long an answer stays as it is, by its own word."""
    for part in headers.get("cache-control", "").split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "max-age":
            return _seconds(value)
    return 0.0


def _seconds(text: str) -> float:
    """A number of seconds; 0 for what is none.

    >>> _seconds("120"), _seconds("soon"), _seconds("-5")
    (120.0, 0.0, 0.0)
    """
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def read_feed_list(path: Path) -> dict[str, str]:
    """The feeds of a TOML file: names, whose levels are levels of the topic, and addresses.

    DistributaryError when it is no such file.
    """
    record = read_toml(path)
    wrong = [name for name, url in record.items() if not isinstance(url, str) or not name.strip("/")]
    if wrong or not record:
        told = f"{wrong[0]!r} has none" if wrong else "it has no feed"
        raise DistributaryError(
            f'{path}: each line names a feed and its address: "local/harbour" = "https://..."; {told}'
        )
    for name, url in record.items():
        try:
            checked_address(url)
        except OutgoingError as error:
            raise DistributaryError(f"{path}: {name}: {error}") from None
    return dict(record)


def fetching(private: bool) -> Fetch:
    """Asks over HTTP; addresses of this machine and private networks only where that is allowed."""
    return partial(get, private=private, most=MOST_BYTES)
