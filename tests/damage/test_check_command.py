"""`distributary subscriptions check` finds damage to any array of an index, wherever the index is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from damage.damages import write_files
from damage.indexes import MADE, example
from distributary.cli.main import main
from distributary.matching import frozen
from distributary.model import Subscription
from distributary.store import open_store
from distributary.store.checked import write_checked


def check(directory: Path) -> int:
    return main(["subscriptions", "--store", str(directory), "check"])


def damages(index: Path) -> Iterator[str]:
    """Damage one array after another, each by itself, and tell its name."""
    arrays = index / frozen.ARRAYS
    whole = arrays.read_bytes()
    for name, place in frozen.read(index)._places.items():
        content = bytearray(whole)
        content[place.start] ^= 0x40  # of an empty array, what is behind it
        arrays.write_bytes(content)
        yield name
    arrays.write_bytes(whole)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The only part of a base of a store, which is at `tmp_path`."""
    store = open_store(tmp_path / "store", create=True)
    store.commit([Subscription("s1", "ann", topic="a")])
    return write_files(
        example("combined").files, store.workspace / "index-family" / f"{1:020d}" / "part-00000"
    )


@pytest.mark.parametrize("kind", MADE)
def test_damage_to_every_array_of_a_frozen_index_is_told(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = write_files(example(kind).files, tmp_path / "index")
    for name in damages(index):
        assert check(index) == 1
        assert f"the checksum of {name} does not hold" in capsys.readouterr().err
    assert check(index) == 0
    assert "nothing is damaged" in capsys.readouterr().err


def test_damage_to_every_array_of_a_base_of_a_store_is_told(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in damages(base):
        assert check(tmp_path / "store") == 1
        told = capsys.readouterr().err
        assert f"the checksum of {name} does not hold" in told
        assert "what is registered at the newest version, 1, is whole" in told
    assert check(tmp_path / "store") == 0
    assert "nothing is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("file", [frozen.MANIFEST, frozen.ARRAYS])
def test_a_file_that_is_missing_or_cut_is_told(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the second of two parts, so that the first is not the only one read."""
    for part in ("part-00000", "part-00001"):
        index = write_files(example("topics").files, tmp_path / "index" / part)
    os.truncate(index / file, 100)
    assert check(tmp_path / "index") == 1
    assert file in capsys.readouterr().err
    (index / file).unlink()
    assert check(tmp_path / "index") == 1
    assert "part-00001" in capsys.readouterr().err


def test_a_base_that_is_being_built_is_no_damage(base: Path, tmp_path: Path) -> None:
    (base / frozen.MANIFEST).unlink()
    assert check(tmp_path / "store") == 1
    base.parent.rename(base.parent.with_name("building-1"))
    assert check(tmp_path / "store") == 0


def test_repair_removes_damaged_bases_and_no_others(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_files(example("topics").files, base.parent.with_name(f"{2:020d}") / "part-00000")
    (base / frozen.ARRAYS).write_bytes(b"")
    assert main(["subscriptions", "--store", str(tmp_path / "store"), "repair"]) == 0
    told = capsys.readouterr().err
    assert str(base.parent) in told
    assert "nothing was damaged" not in told
    assert not base.parent.exists()
    assert other.exists()
    assert check(tmp_path / "store") == 0


def test_damage_to_a_plan_is_told_and_left_to_the_user(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(tmp_path / "store")
    plan = store.workspace / "rendezvous-8.plan"
    with plan.open("wb") as stream:
        write_checked(stream, {"store": store.identity, "capacity": 8}, lambda inner: inner.write(b"{}"))
    assert check(tmp_path / "store") == 0
    plan.write_bytes(b"[" + plan.read_bytes()[1:])
    assert check(tmp_path / "store") == 1
    assert "rendezvous-8.plan" in capsys.readouterr().err
    assert main(["subscriptions", "--store", str(tmp_path / "store"), "repair"]) == 1
    assert "start the streams anew" in capsys.readouterr().err
    assert plan.exists()
