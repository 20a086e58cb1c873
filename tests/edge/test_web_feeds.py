"""Feeds over HTTP: what is asked, when, and that every item is published once whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.edge.web.outgoing import OutgoingError, WebAnswer, get
from distributary.edge.web_feeds import LONGEST_PAUSE, WebFeeds, read_feed_list
from distributary.errors import DistributaryError
from distributary.feeds import FeedItem, write_feed
from distributary.model import Event

URL = "http://feeds.example/harbour"


class Site:
    """A web site with one feed, which knows conditional requests, and does what it is told to."""

    def __init__(self) -> None:
        self.items: list[FeedItem] = []
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.answers: list[WebAnswer | OutgoingError] = []
        """What it answers first, in place of the feed."""

    async def fetch(self, url: str, headers: Mapping[str, str]) -> WebAnswer:
        self.asked.append((url, dict(headers)))
        if self.answers:
            first = self.answers.pop(0)
            if isinstance(first, OutgoingError):
                raise first
            return first
        tag = f'"{len(self.items)}"'
        if headers.get("if-none-match") == tag:
            return WebAnswer(304, {"etag": tag}, b"")
        return WebAnswer(200, {"etag": tag}, write_feed("harbour", self.items[::-1]).encode())


class World:
    """A site, a poller of it, what was published, and a clock."""

    def __init__(self, every: float = 60) -> None:
        self.site, self.time = Site(), 0.0
        self.published: list[Event] = []
        self.notes: list[str] = []
        self.refuse = self.away = False
        self.feeds = WebFeeds(
            {"harbour": URL},
            self.site.fetch,
            self._publish,
            lambda: not self.away,
            now=lambda: self.time,
            random=Random(1),
            every=every,
            note=self.notes.append,
        )
        [self.feed] = self.feeds.feeds

    async def _publish(self, events: Sequence[Event]) -> str | None:
        if self.refuse:
            return "no room"
        self.published += events
        return None

    def poll(self, seconds: float = 60) -> None:
        """Let time pass, and ask whatever is due."""
        self.time += seconds
        asyncio.run(self.feeds.poll_due())

    @property
    def titles(self) -> list[str]:
        return [str(event.attributes["title"]) for event in self.published]


def test_new_items_are_published_in_their_order_and_once() -> None:
    world = World()
    world.site.items = [FeedItem("1", "Rain"), FeedItem("2", "Wind")]
    world.poll()
    world.poll()
    world.site.items.append(FeedItem("3", "Fog"))
    world.poll()
    assert world.titles == ["Rain", "Wind", "Fog"]
    assert (world.feed.published, world.feed.unchanged) == (3, 1)


def test_a_feed_is_asked_for_what_has_changed() -> None:
    world = World()
    world.poll()
    world.poll()
    assert [headers for _, headers in world.site.asked] == [{}, {"if-none-match": '"0"'}]


def test_a_feed_is_not_asked_before_its_time_nor_before_its_answer_is_out_of_date() -> None:
    world = World(every=60)
    world.site.answers = [WebAnswer(304, {"cache-control": "public, max-age=600"}, b"")]
    world.poll()
    world.poll(599)
    assert len(world.site.asked) == 1
    world.poll(1)
    assert len(world.site.asked) == 2
    world.poll(59)
    assert len(world.site.asked) == 2


def test_a_feed_that_fails_is_asked_less_and_less_and_recovers() -> None:
    world = World(every=60)
    asked_at = []
    for step in [60] * 100 + [3600] * 700:
        before = len(world.site.asked)
        world.site.answers = [OutgoingError("no route")]
        world.poll(step)
        if len(world.site.asked) > before:
            asked_at.append(world.time)
    pauses = [later - earlier for earlier, later in pairwise(asked_at)]
    assert all(30 <= pause <= LONGEST_PAUSE + 3600 for pause in pauses)
    assert pauses[0] <= 180
    assert min(pauses[12:]) >= LONGEST_PAUSE / 2
    assert "no route" in world.feed.failing
    world.site.answers = []
    world.site.items = [FeedItem("1", "Rain")]
    world.poll(LONGEST_PAUSE)
    assert world.titles == ["Rain"]
    assert world.feed.failing == ""


def test_a_site_that_says_when_to_come_again_is_obeyed() -> None:
    world = World(every=60)
    world.site.answers = [WebAnswer(503, {"retry-after": "3600"}, b"")]
    world.poll()
    world.poll(3599)
    assert len(world.site.asked) == 1
    world.poll(1)
    assert len(world.site.asked) == 2


def test_a_feed_that_is_gone_is_not_asked_again() -> None:
    world = World()
    world.site.answers = [WebAnswer(410, {}, b"")]
    world.poll()
    world.poll(10 * LONGEST_PAUSE)
    assert len(world.site.asked) == 1
    assert world.feed.gone


def test_permanent_redirections_are_remembered_and_others_are_not() -> None:
    world = World()
    world.site.answers = [
        WebAnswer(308, {"location": "/new"}, b""),
        WebAnswer(302, {"location": "/tmp"}, b""),
    ]
    world.poll()
    world.poll()
    base = "http://feeds.example"
    assert [url for url, _ in world.site.asked] == [URL, f"{base}/new", f"{base}/tmp", f"{base}/new"]


@pytest.mark.parametrize(
    ("location", "reason"),
    [("/again", "redirections"), ("file:///etc/passwd", "http"), ("http://[", "Invalid IPv6 URL")],
)
def test_redirections_without_end_or_elsewhere_fail(location: str, reason: str) -> None:
    world = World()
    world.site.answers = [WebAnswer(302, {"location": location}, b"")] * 10
    world.poll()
    assert reason in world.feed.failing
    assert len(world.site.asked) <= 6


def test_a_name_that_no_host_can_have_is_not_found() -> None:
    with pytest.raises(OutgoingError, match="is not found"):
        asyncio.run(get(f"http://{'a' * 64}.example/", {}, private=True, most=1))


def test_what_is_wrong_with_a_feed_is_told_once_and_when_it_is_mended() -> None:
    world = World()
    world.site.answers = [OutgoingError("no answer"), OutgoingError("no answer"), OutgoingError("refused")]
    for _ in range(5):
        world.poll(LONGEST_PAUSE)
    assert world.notes == [
        f"feed 'harbour' at {URL}: no answer",
        f"feed 'harbour' at {URL}: refused",
        "feed 'harbour' answers again",
    ]


def test_what_is_no_feed_is_told_and_asked_for_again() -> None:
    world = World()
    world.site.answers = [WebAnswer(200, {"etag": "x"}, b"<html/>")]
    world.poll()
    assert "no feed" in world.feed.failing
    world.site.items = [FeedItem("1", "Rain")]
    world.poll(LONGEST_PAUSE)
    assert world.titles == ["Rain"]


def test_items_that_could_not_be_published_are_published_later() -> None:
    world = World()
    world.site.items = [FeedItem("1", "Rain")]
    world.refuse = True
    world.poll()
    assert "no room" in world.feed.failing
    world.refuse = False
    world.poll(LONGEST_PAUSE)
    world.poll(LONGEST_PAUSE)
    assert world.titles == ["Rain"]


def test_only_the_root_asks() -> None:
    world = World()
    world.away = True
    world.poll()
    assert world.site.asked == []
    world.away = False
    world.poll()
    assert len(world.site.asked) == 1


STEPS = st.lists(st.sampled_from(["item", "fail", "503", "garbage", "refuse", "poll", "moved"]), max_size=40)


@given(STEPS)
def test_whatever_happens_every_item_is_published_once_and_in_order(steps: list[str]) -> None:
    world, made = World(), 0
    for step in steps:
        if step == "item":
            made += 1
            world.site.items.append(FeedItem(str(made), f"Item {made}"))
            continue
        trouble = {
            "fail": OutgoingError("no route"),
            "503": WebAnswer(503, {}, b""),
            "garbage": WebAnswer(200, {"etag": "bad"}, b"<rss"),
            "moved": WebAnswer(307, {"location": "/elsewhere"}, b""),
        }
        world.site.answers = [trouble[step]] if step in trouble else []
        world.refuse = step == "refuse"
        world.poll(LONGEST_PAUSE)
    world.site.answers, world.refuse = [], False
    world.poll(LONGEST_PAUSE)
    assert world.titles == [f"Item {number}" for number in range(1, made + 1)]


def test_a_list_of_feeds_is_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "feeds.toml"
    file.write_text(f'"local/harbour" = "{URL}"\n')
    assert read_feed_list(file) == {"local/harbour": URL}
    for text, reason in (("", "no feed"), ("a = 5\n", "'a' has none"), ('a = "ftp://x/"\n', "a: ")):
        file.write_text(text)
        with pytest.raises(DistributaryError, match=reason):
            read_feed_list(file)
