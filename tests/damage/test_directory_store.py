"""A thousand damages to a store in a directory: no answer is wrong, all are found, and the store goes on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from damage.damages import Files, asked, damaged, files_below, seeds, told_with, write_files
from distributary import Subscription
from distributary.errors import DamagedError, DistributaryError
from distributary.store import SubscriptionStore, open_store
from distributary.store.repair import find_damage, repair

NEWEST = 14
STREAM = "a/stream"
NEEDED = ("log/", "rescued/", "workspace/snapshots/")
"""What the live sets are read from."""


@dataclass(frozen=True)
class StoreExample:
    """The files of a store, and what it answers to each question."""

    files: Files
    answers: dict[str, Any]


@cache
def example(salt: int = 0) -> StoreExample:
    """A store of some versions, with snapshots and bindings; another salt, another store of that shape."""
    with tempfile.TemporaryDirectory() as place:
        store = open_store(Path(place) / "store", create=True)
        for version in range(1, NEWEST + 1):
            added = [
                Subscription(f"s{version}-{row}", "ann" if row else "bob", where=f"price > {version + salt}")
                for row in range(3)
            ]
            store.commit(added, [f"s{version - 2}-1"] if version > 2 else [], replace=True)
            if version in (5, 10):
                store.compact()
            store.bind(STREAM, version)
        answers = {name: question() for name, question in questions(store).items()}
        return StoreExample(files_below(Path(place) / "store"), answers)


def questions(store: SubscriptionStore) -> dict[str, Callable[[], Any]]:
    """Everything that a reader can ask of a store."""
    asking: dict[str, Callable[[], Any]] = {
        "version": store.version,
        "live": lambda: store.table().to_pylist(),
        "bound": lambda: store.bound(STREAM),
        "bind": lambda: [store.bind(STREAM, batch) for batch in (1, 7, NEWEST)],
        "lives": lambda: store.lives("ann"),
        "committed": lambda: [store.committed(version) for version in range(1, NEWEST + 1)],
    }
    for version in range(NEWEST + 1):
        asking[f"live at {version}"] = lambda at=version: store.table(at).to_pylist()
    for version in range(1, NEWEST + 1):
        asking[f"changes of {version}"] = lambda at=version: list(store.changes(at - 1, at))
    return asking


def damage_and_ask(seed: int, place: Path) -> None:
    """Damage a store, and hold whatever it says afterwards against what it should say."""
    random = Random(seed)
    right = example()
    names = sorted(name for name in right.files if not name.startswith("newest/"))
    changed, name, what = damaged(right.files, example(salt=1).files, names, random)
    write_files(changed, place)
    with told_with(seed, what, "tests/damage/test_directory_store.py"):
        gone = name not in changed
        if gone and name.startswith("bound/"):
            return  # a batch of which nothing says that it was ever bound
        store = open_store(place)
        found = find_damage(store)
        assert found or (gone and "snapshots/" in name), "the damage was not found"
        touched = sorted(each for each in names if changed.get(each) != right.files[each])
        assert [f"log/{version:020d}.arrow" for version in found.lost] == [
            each for each in touched if each.startswith("log/")
        ], "not all that is said to be lost is lost, or the other way round"
        errors = check_answers(store, right)
        if name.startswith("log/"):
            assert errors, "a version is lost, and nobody was told"
        check_repair(store, right)


def check_answers(
    store: SubscriptionStore, right: StoreExample, told: object = None
) -> list[DistributaryError]:
    """See that every answer is right or refused with a sentence that says what is damaged."""
    errors = []
    for question, ask in questions(store).items():
        said, error = asked(ask)
        if error is None:
            assert said == right.answers[question], f"a wrong answer: {question} {told or ''}"
        else:
            assert isinstance(error, DamagedError)
            assert str(store.location) in str(error)
            assert "repair" in str(error)
            errors.append(error)
    return errors


def check_repair(store: SubscriptionStore, right: StoreExample) -> None:
    """See that a repaired store is whole, tells what it told before and goes on."""
    found = repair(store)
    again = open_store(store.location)
    assert not find_damage(again)
    assert again.version() == NEWEST
    if found.certain == NEWEST:
        assert again.table().to_pylist() == right.answers["live"]
    ids = [one.id for _, one in again.subscriptions()]
    assert len(ids) == len(set(ids)), "an id names two subscriptions"
    assert again.commit([Subscription("after", "ann", topic="a")]) == NEWEST + 1
    assert [one.id for _, one in again.subscriptions()] == [*ids, "after"]
    assert again.bound(STREAM).items() <= right.answers["bound"].items()


@pytest.mark.parametrize("seed", seeds())
def test_no_damage_to_a_store_does_harm_and_all_are_found(seed: int, tmp_path: Path) -> None:
    damage_and_ask(seed, tmp_path / "store")


@pytest.mark.parametrize("seed", seeds(few=10, many=200))
def test_several_damages_at_once_and_again_after_a_repair_do_no_harm(seed: int, tmp_path: Path) -> None:
    random, place = Random(seed), tmp_path / "store"
    right, other = example(), example(salt=1).files
    write_files(right.files, place)
    told = []
    with told_with(seed, "several", "tests/damage/test_directory_store.py"):
        for _ in range(2):
            whole = files_below(place)
            files = {name: content for name, content in whole.items() if name.startswith(NEEDED) and content}
            kept = {name: content for name, content in whole.items() if name not in files}
            for _ in range(random.randrange(2, 6)):
                files, _, what = damaged(files, other, sorted(files), random)
                files = {name: content for name, content in files.items() if content}
                told.append(what)
            shutil.rmtree(place)
            write_files({**kept, **files}, place)
            store = open_store(place)
            found, unreadable = asked(lambda store=store: find_damage(store))
            if unreadable is not None:
                assert "identity" in str(unreadable), told
                return
            check_answers(store, right, told)
            repair(store)
            again = open_store(place)
            assert not find_damage(again), told
            ids = [one.id for _, one in again.subscriptions()]
            assert len(ids) == len(set(ids)), told
            if found is not None and found.certain == NEWEST == found.newest:
                assert again.table().to_pylist() == right.answers["live"], told
            else:
                right = StoreExample(right.files, {**right.answers, "live": again.table().to_pylist()})
                right.answers[f"live at {NEWEST}"] = right.answers["live"]


def test_no_damage_to_a_store_crashes_the_process(tmp_path: Path) -> None:
    """In a process of its own, whose end would tell."""
    script = (
        "import sys; from pathlib import Path; from damage.test_directory_store import damage_and_ask\n"
        "for seed in range(1000, 1025): damage_and_ask(seed, Path(sys.argv[1]) / str(seed))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_files(example().files, tmp_path / "store")


def log_file(place: Path, version: int) -> Path:
    return place / "log" / f"{version:020d}.arrow"


def test_a_whole_store_says_what_it_said_and_has_no_damage(place: Path) -> None:
    store = open_store(place)
    assert check_answers(store, example()) == []
    assert not find_damage(store)
    assert not repair(store)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (3, "what version 3 changed is lost, and with it what was registered at versions 3 to 4"),
        (5, "what version 5 changed is lost. "),
        (12, "what version 12 changed is lost, and with it what was registered at versions 12 to 14"),
        (NEWEST, "what version 14 changed is lost, and with it what was registered at versions 14 to 14"),
    ],
)
def test_a_removed_log_file_is_told_with_the_versions_that_are_lost(
    version: int, said: str, place: Path
) -> None:
    log_file(place, version).unlink()
    store = open_store(place)
    assert store.version() == NEWEST
    with pytest.raises(DamagedError, match=said):
        list(store.changes(0, NEWEST))
    assert find_damage(store).lost == (version,)


def test_what_a_snapshot_tells_is_not_lost_with_the_log_before_it(place: Path) -> None:
    log_file(place, 7).unlink()
    store = open_store(place)
    assert store.table().to_pylist() == example().answers["live"]
    assert store.commit([Subscription("more", "ann", topic="a")]) == NEWEST + 1
    with pytest.raises(DamagedError, match="versions 7 to 9"):
        store.table(8)


def test_nothing_is_committed_upon_what_is_lost(place: Path) -> None:
    log_file(place, NEWEST).unlink()
    store = open_store(place)
    with pytest.raises(DamagedError, match="version 14 changed is lost"):
        store.commit([Subscription("more", "ann", topic="a")])
    assert not log_file(place, NEWEST).exists()
    assert not log_file(place, NEWEST + 1).exists()


def test_a_process_that_is_running_does_not_write_a_removed_version_anew(place: Path) -> None:
    store = open_store(place)
    assert store.version() == NEWEST
    open_store(place).commit([Subscription("more", "ann", topic="a")])
    log_file(place, NEWEST + 1).unlink()
    with pytest.raises(DamagedError, match="version 15 changed is lost"):
        store.commit([Subscription("other", "ann", topic="a")])


def test_a_history_put_together_from_two_is_told(place: Path, tmp_path: Path) -> None:
    """Both files are whole and of the same store and version, but the next continues only one of them."""
    backup = write_files(example().files, tmp_path / "backup")
    for where, topic in ((place, "a"), (backup, "b")):
        store = open_store(where)
        store.commit([Subscription("more", "ann", topic=topic)])
        store.commit([Subscription("again", "ann", topic=topic)])
    log_file(backup, NEWEST + 1).rename(log_file(place, NEWEST + 1))
    store = open_store(place)
    with pytest.raises(DamagedError, match="does not continue version 15"):
        store.table()
    assert find_damage(store).lost == (NEWEST + 2,)


def test_a_damaged_snapshot_is_set_aside_and_made_again(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for snapshot in (place / "workspace" / "snapshots").iterdir():
        snapshot.write_bytes(snapshot.read_bytes()[:-50])
    store = open_store(place)
    assert store.table().to_pylist() == example().answers["live"]
    assert "snapshot is set aside" in caplog.text
    assert sorted(path.suffix for path in (place / "workspace" / "snapshots").iterdir()) == [".damaged"] * 2
    store.compact()
    assert not find_damage(open_store(place))


def test_a_lost_description_is_told_and_written_again(place: Path) -> None:
    identity = open_store(place).identity
    (place / "store.json").unlink()
    store = open_store(place)
    with pytest.raises(DamagedError, match=r"store\.json is missing"):
        store.version()
    with pytest.raises(DamagedError, match=r"store\.json is missing"):
        store.commit([Subscription("more", "ann", topic="a")])
    assert repair(store).lost == ()
    assert open_store(place).identity == identity


def test_repairing_keeps_what_later_versions_say(place: Path) -> None:
    """Version 12 removed s10-1 and added three; what 13 and 14 did still holds."""
    log_file(place, 12).write_bytes(b"")
    store = open_store(place)
    found = repair(store)
    assert (found.lost, found.certain, found.newest) == ((12,), 11, NEWEST)
    assert "lost: what version 12 changed" in str(found)
    live = {one.id for _, one in store.subscriptions()}
    whole = {row["id"] for row in example().answers["live"]}
    assert live == whole - {"s12-0", "s12-1", "s12-2"} | {"s10-1"}
    assert [path.name.split(".")[0] for path in (place / "damaged").iterdir()] == ["log-00000000000000000012"]
    with pytest.raises(DamagedError, match="versions 12 to 13"):
        store.table(13)


def test_a_store_without_checksums_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write_files({"store.json": b'{"format": 1, "identity": "abc"}'}, tmp_path)
    with pytest.raises(DistributaryError, match=r"of format 1; this version .* knows 2: export"):
        open_store(tmp_path).version()


def test_a_database_is_left_to_itself(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="in a database"):
        find_damage(open_store(f"sqlite:///{tmp_path}/store.db"))
