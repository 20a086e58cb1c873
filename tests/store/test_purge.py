"""A subscriber who is purged is in no version any more, and all others are what they were."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.store import SubscriptionStore, open_store
from distributary.store import purge as purging
from distributary.store.purge import NEW_LOG, OLD_LOG, PURGED, finish_purge, purge_subscriber

NAMES = ["ann", "bob", "cy"]


def fill(store: SubscriptionStore, seed: int) -> None:
    """Commit additions and removals of several subscribers, whose ids tell who they are."""
    random, registered = Random(seed), dict[str, Subscription]()
    store.create()
    for step in range(8):
        gone = random.sample(sorted(registered), min(len(registered), random.randrange(3)))
        made = [
            Subscription(f"{name} {step} {number}", name, topic=f"{name}/{step}", change={"price": 1.0})
            for number, name in enumerate(random.choices(NAMES, k=random.randrange(1, 4)))
        ]
        store.commit(made, gone)
        registered = {one.id: one for one in [*registered.values(), *made] if one.id not in gone}


def others(store: SubscriptionStore, version: int) -> list[tuple[int, Subscription]]:
    return [pair for pair in store.subscriptions(version) if pair[1].subscriber not in ("ann", PURGED)]


@pytest.mark.parametrize("seed", range(3))
def test_a_purged_subscriber_is_in_no_version_and_others_are_what_they_were(
    store: SubscriptionStore, seed: int
) -> None:
    fill(store, seed)
    newest = store.version()
    before = {version: others(store, version) for version in range(newest + 1)}
    times = [store.committed(version) for version in range(1, newest + 1)]
    serials = [life.serial for life in store.lives("ann")]
    bound = store.bind("stream", 3)
    assert serials, "the seed gives her something"
    store.compact()
    assert purge_subscriber(store, "ann") == len(serials)
    assert {version: others(store, version) for version in range(newest + 1)} == before
    assert [store.committed(version) for version in range(1, newest + 1)] == times
    assert store.lives("ann") == []
    assert [life.serial for life in store.lives(PURGED)] == serials, "so nothing else has moved"
    assert all(life.until_version is not None for life in store.lives(PURGED))
    assert store.bind("stream", 3) == bound
    for version, table in store.log(0, store.version()):
        assert "ann" not in str(table.to_pylist()), version
    assert purge_subscriber(store, "ann") == 0
    store.commit([Subscription("new", "ann", topic="A")])
    assert [life.subscription.id for life in store.lives("ann")] == ["new"]


def test_no_file_of_a_directory_has_the_name_any_more(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    store.commit(
        [Subscription("s1", "a name like no other", topic="A"), Subscription("s2", "bob", topic="B")]
    )
    store.compact()
    purge_subscriber(store, "a name like no other")
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"a name like no other" in path.read_bytes()]


@pytest.mark.parametrize("moment", ["whole", "moved"])
def test_a_purge_that_was_killed_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    place = tmp_path / "store"
    store = open_store(place, create=True)
    store.commit([Subscription("s1", "ann", topic="A"), Subscription("s2", "bob", topic="B")])
    with monkeypatch.context() as patch:
        patch.setattr(purging, "finish_purge", lambda path: None)
        purge_subscriber(store, "ann")
    assert (place / NEW_LOG / "whole").exists()
    if moment == "moved":
        (place / "log").rename(place / OLD_LOG)
    assert purge_subscriber(open_store(place), "nobody") == 0
    assert open_store(place).lives("ann") == []
    assert not (place / OLD_LOG).exists()
    assert not (place / NEW_LOG).exists()
    finish_purge(place)
    assert [one.id for _, one in open_store(place).subscriptions()] == ["s2"]


def test_a_store_that_was_repaired_is_not_purged(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", create=True)
    store.commit([Subscription("s1", "ann", topic="A")])
    (tmp_path / "store" / "rescued").mkdir(exist_ok=True)
    (tmp_path / "store" / "rescued" / "0.arrow").touch()
    with pytest.raises(DistributaryError, match="was repaired"):
        purge_subscriber(store, "ann")
