"""Asking many filters at once gives what asking them one by one gives, whatever comes and goes meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from distributary.errors import DocumentError
from distributary.filters.kinds import parse_filters
from distributary.filters.path import filter as path_filter
from distributary.model import Event, Subscription
from distributary.systems.interests import FEW, InterestIndex

PATHS = ("/a/b", "//c", "/a[b]/c", "//b[text() = 'x']")
DOCUMENTS = (None, "<a><b/></a>", "<a><b>x</b><c/></a>", "<c/>")


def some_subscription(random: Random) -> Subscription:
    kinds: dict[str, object] = {
        "topic": random.choice(["quotes", "quotes/A", "news/*/x"]),
        "where": f"price > {random.randrange(10)}",
        "path": random.choice(PATHS),
        "change": {random.choice(["price", "size"]): random.randrange(4)},
    }
    chosen = random.sample(sorted(kinds), random.randint(1, 3))
    return Subscription("s", "ann", **{kind: kinds[kind] for kind in chosen})  # type: ignore[arg-type]


def some_event(random: Random, number: int) -> Event:
    topic = random.choice([None, "quotes/A", "quotes/B", "news/1/x"])
    price = random.choice([None, "high", random.randrange(12)])
    return Event(f"e{number}", topic, {"price": price, "size": 3}, random.choice(DOCUMENTS))


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_the_owners_of_the_filters_that_pass_one_by_one(seed: int) -> None:
    random = Random(seed)
    index: InterestIndex[int, int] = InterestIndex()
    kept: dict[int, tuple[int, Subscription]] = {}
    largest = 0
    for step in range(120):
        key = random.randrange(3 * FEW)
        if key in kept and random.random() < 0.4:
            index.remove(key)
            del kept[key]
        elif random.random() < 0.7:
            kept[key] = random.randrange(6), some_subscription(random)
            index.put(key, kept[key][0], parse_filters(kept[key][1]))
        event = some_event(random, step)
        expected = {
            owner
            for owner, subscription in kept.values()
            if all(filter.matches(event) for filter in parse_filters(subscription).values())
        }
        assert index.wanting(event) == expected
        assert len(index) == len(kept)
        largest = max(largest, len(kept))
    assert largest > FEW, "the indexes were never used"


@pytest.mark.parametrize("count", [2, FEW, FEW + 1, 3 * FEW])
def test_a_document_is_read_once_an_event(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> object:
        read.append(text)
        return whole(text)

    whole = path_filter.parse_document
    monkeypatch.setattr(path_filter, "parse_document", counted)
    index: InterestIndex[int, int] = InterestIndex()
    for key in range(count):
        index.put(key, key, parse_filters(Subscription("s", "ann", path=f"/a/b{key}")))
    document = f"<a><b0/><b1/><n>{count}</n></a>"
    assert index.wanting(Event("e1", document=document)) == {0, 1}
    assert len(read) <= 1


@pytest.mark.parametrize("count", [2, 3 * FEW])
def test_a_document_that_cannot_be_read_is_told(count: int) -> None:
    index: InterestIndex[int, int] = InterestIndex()
    for key in range(count):
        index.put(key, key, parse_filters(Subscription("s", "ann", path=f"/a/b{key}")))
    with pytest.raises(DocumentError):
        index.wanting(Event("e1", document="<a>"))


def test_filters_are_indexed_as_they_come_so_that_no_event_waits_for_all_of_them() -> None:
    index: InterestIndex[int, int] = InterestIndex()
    for key in range(FEW + 1):
        assert index._index is None
        index.put(key, key, parse_filters(Subscription("s", "ann", where=f"price > {key}")))
    assert index._index is not None
