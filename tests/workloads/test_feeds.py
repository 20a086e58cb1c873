"""Generated feeds: repeatable, with the thesis's sizes and popularity, and the same however they are read."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.feeds import read_feed
from distributary.filters.profile import Profile
from distributary.workloads import feeds as workload
from distributary.workloads.feeds import Zipf, feeds, sources

FEW = feeds(6, seed=2, size=3000, revised=0.5)


def test_the_same_seed_gives_the_same_workload() -> None:
    for make in (workload.events, workload.subscriptions):
        assert list(make(20, seed=1, feed_count=50)) == list(make(20, seed=1, feed_count=50))
        assert list(make(20, seed=1, feed_count=50)) != list(make(20, seed=2, feed_count=50))


def test_documents_have_the_size_that_was_asked_for() -> None:
    pool = feeds(seed=1)
    sizes = [len(feed.document(0.0).encode()) for feed in pool[::7]]
    asked = [feed.size for feed in pool[::7]]
    assert sum(sizes) == pytest.approx(sum(asked), rel=0.05)
    assert sum(feed.size for feed in pool) == pytest.approx(700 * 27_700, rel=0.001)


def test_popularity_follows_zipf() -> None:
    zipf, random = Zipf(700, 0.97), Random(1)
    drawn = Counter(zipf.draw(random) for _ in range(20_000))
    for rank in (0, 1, 9):
        share = zipf.weights[rank] / sum(zipf.weights)
        assert drawn[rank] / 20_000 == pytest.approx(share, rel=0.2)
    assert zipf.weights[1] / zipf.weights[0] == pytest.approx(2**-0.97)


@pytest.mark.parametrize("feed", FEW, ids=lambda feed: str(feed.name))
def test_a_feed_loses_its_oldest_items_and_gains_new_ones(feed: workload.FeedProfile) -> None:
    before, after = feed.held(1000.0), feed.held(1000.0 + 3 * feed.every)
    assert len(before) == len(after) == feed.items
    assert [item.published for item in before] == sorted(
        (item.published or 0 for item in before), reverse=True
    )
    kept = [item.id for item in before if item.id in {one.id for one in after}]
    assert [item.id for item in before][: len(kept)] == kept
    assert 1 <= feed.items - len(kept) <= 4


@pytest.mark.parametrize("feed", FEW, ids=lambda feed: str(feed.name))
def test_what_is_read_of_a_document_is_what_the_feed_holds(feed: workload.FeedProfile) -> None:
    assert list(read_feed(feed.document(777.0)).items) == feed.held(777.0)


def test_events_are_what_comes_new_into_the_documents() -> None:
    made = list(workload.events(300, seed=2, feed_count=6, size=3000, revised=0.5))
    moments = sorted(
        (at, feed, number)
        for feed in FEW
        for number in range(-100, 300)
        for at in feed.moments(number)
        if at is not None and at > 0
    )
    for event, (at, feed, number) in zip(made, moments, strict=False):
        assert event == feed.item(number, at).event(feed.name)
        assert event.id in {item.event(feed.name).id for item in feed.held(at)}
        assert event.id not in {item.event(feed.name).id for item in feed.held(at - 1e-6)}
    assert any("Corrected" in (event.document or "") for event in made)


def test_profiles_are_feeds_unless_refined() -> None:
    plain = list(workload.subscriptions(200, seed=1, refined=0))
    assert all(set(one.filters()) == {"topic"} for one in plain)
    refined = list(workload.subscriptions(200, seed=1, refined=1, feed_count=50))
    kinds = {kind for one in refined for kind in one.filters()}
    assert kinds == {"topic", "where", "path"}
    profiles = [Profile.of(one) for one in refined[::4]]
    made = list(workload.events(100, seed=1, feed_count=50, size=4000))
    assert any(profile.matches(event) for profile in profiles for event in made)


def test_streams_have_the_rate_that_was_asked_for() -> None:
    pool = feeds(50, seed=3)
    pulled = sources(pool, 1000.0)
    assert sum(one.bytes_per_second for one in pulled) / 50 == pytest.approx(1000)
    assert all(
        one.bytes_per_second / one.items_per_second == pytest.approx(one.feed.size / one.feed.items)
        for one in [*pulled, *sources(pool, None)]
    )


def test_feeds_that_cannot_be_are_refused() -> None:
    with pytest.raises(DistributaryError, match="0 feeds of size"):
        feeds(0, seed=1)
