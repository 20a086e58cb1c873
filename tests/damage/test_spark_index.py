"""Damage to what Spark's tasks open: a base of a store stops nobody, anything else is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from damage.damages import damaged, files_below, write_files
from distributary import Event, Matcher, Subscription
from distributary.errors import DamagedError
from distributary.spark.index import build, find, plans
from distributary.store import open_store

EVENT = Event("e", topic="a/b", attributes={"price": 5})
NO_SESSION: Any = None


def subscriptions(start: int, end: int) -> list[Subscription]:
    return [
        Subscription(f"s{number}", "ann", topic="a", where=f"price > {number}")
        for number in range(start, end)
    ]


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    find._open.clear()
    yield
    find._open.clear()


@pytest.fixture
def index(tmp_path: Path) -> find.LiveIndex:
    """An index of a store of three versions, with bases of the first two."""
    store = open_store(tmp_path / "store", create=True)
    index = find.LiveIndex(None, True, store, "index", None)
    for version in (1, 2, 3):
        store.commit(subscriptions(2 * version, 2 * version + 2))
        if version < 3:
            build._build_base(NO_SESSION, index, version)
    return index


def matched_at(index: find.LiveIndex, version: int) -> list[str]:
    find._open.clear()
    return index.matcher(0, version).match(EVENT)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_base_is_removed_and_changes_no_answer(
    index: find.LiveIndex, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    base = find.base_directory(index.root, 2)
    files = files_below(base)
    other = files_below(find.base_directory(index.root, 1))
    names = sorted(name for name in files if name.startswith("part-"))
    changed, _, _ = damaged(files, other, names, Random(seed))
    for name in files:
        (base / name).unlink()
    write_files(changed, base)
    assert matched_at(index, 3) == ["s2", "s3", "s4"]
    assert "the base of version 2 is removed" in caplog.text
    assert not base.exists()
    assert find.newest_base(index.root, 3) == 1, "the whole one is still there"
    assert [path.name for path in index.root.iterdir() if not path.name.isdigit()] == []


def test_without_any_whole_base_the_log_leads_to_the_matcher(index: find.LiveIndex) -> None:
    for version in (1, 2):
        (find.part_directory(find.base_directory(index.root, version), 0) / "arrays.bin").write_bytes(b"")
    assert matched_at(index, 3) == ["s2", "s3", "s4"]
    assert find.newest_base(index.root, 3) is None
    assert not build._has_recent_base(index, 3), "so that the driver builds another"


def test_bases_that_changed_places_are_not_taken_for_each_other(index: find.LiveIndex) -> None:
    one, two = (find.base_directory(index.root, version) for version in (1, 2))
    one.rename(index.root / "swapped")
    two.rename(one)
    (index.root / "swapped").rename(two)
    assert matched_at(index, 1) == ["s2", "s3"]
    assert matched_at(index, 3) == ["s2", "s3", "s4"]


def test_a_base_from_which_a_lost_version_leads_on_is_not_recent(index: find.LiveIndex) -> None:
    index.store.compact()
    (Path(index.store.location) / "log" / f"{3:020d}.arrow").unlink()
    store = open_store(index.store.location)
    again = find.LiveIndex(None, True, store, "index", None)
    assert not build._has_recent_base(again, 3)
    build._build_base(NO_SESSION, again, 3)
    assert matched_at(again, 3) == ["s2", "s3", "s4"]


def test_a_damaged_note_about_a_base_has_no_effect(index: find.LiveIndex) -> None:
    (find.base_directory(index.root, 2) / "about.json").write_bytes(b"\xff{")
    assert build._has_recent_base(index, 3)


def test_parts_that_changed_places_are_told(tmp_path: Path) -> None:
    fixed = [
        build.single_part(
            NO_SESSION, [(None, one) for one in subscriptions(*span)], [], workspace=str(tmp_path)
        )
        for span in ((0, 2), (2, 4))
    ]
    assert [one.matcher(0, find.FIXED).match(EVENT) for one in fixed] == [["s0", "s1"], ["s2", "s3"]]
    find._open.clear()
    one, two = (Path(each.directory) for each in fixed)
    one.rename(tmp_path / "swapped")
    two.rename(one)
    with pytest.raises(DamagedError, match="holds the index 'part 0 of parts-"):
        fixed[0].matcher(0, find.FIXED)


def test_the_plan_of_a_store_is_the_one_first_kept_and_its_damage_is_told(index: find.LiveIndex) -> None:
    store = index.store
    assert plans.kept_plan(store, 8) is None
    assert plans.keep_plan(store, 8, '{"first": 1}') == '{"first": 1}'
    assert plans.keep_plan(store, 8, '{"second": 2}') == '{"first": 1}'
    place = store.workspace / "rendezvous-8.plan"
    whole = place.read_bytes()
    for at in range(len(whole)):
        content = bytearray(whole)
        content[at] ^= 4
        place.write_bytes(bytes(content))
        with pytest.raises(DamagedError, match=r"rendezvous-8\.plan .* start the streams anew"):
            plans.kept_plan(store, 8)


def test_a_matcher_of_a_base_is_the_matcher_of_the_log(index: find.LiveIndex) -> None:
    """The answers above are right because of the base, not in spite of it."""
    find._open.clear()
    opened = index.matcher(0, 2)
    assert isinstance(opened, Matcher)
    assert opened.ids() == ["s2", "s3", "s4", "s5"]
    assert hasattr(opened, "_arrays"), "it was opened, not built from the log"
