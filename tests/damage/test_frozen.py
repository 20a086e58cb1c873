"""A thousand damages to frozen indexes of every kind: all are found, and none does harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from damage.damages import asked, damaged, files_below, seeds, told_with, write_files
from damage.indexes import ADDED, EVENTS, MADE, answers, example
from distributary import Matcher
from distributary.errors import DamagedError, DistributaryError
from distributary.matching import frozen

KINDS = tuple(MADE)


def damage_and_ask(seed: int, place: Path) -> None:
    """Damage an index, and hold whatever it says afterwards against what it should say."""
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    right = example(kind)
    changed, _, what = damaged(right.files, example(kind, salt=1).files, sorted(right.files), random)
    write_files(changed, place)
    with told_with(seed, f"{kind}, {what}", "tests/damage/test_frozen.py"):
        said, error = asked(lambda: answers(Matcher.open(place)))
        if error is None:
            assert said == right.answers, "a wrong answer"
        else:
            assert str(place) in str(error), "the error says which index it is"
            assert any(file in str(error) for file in right.files), "and which file"
        with pytest.raises(DistributaryError):
            Matcher.open(place, check=True)


@pytest.mark.parametrize("seed", seeds())
def test_no_damage_to_a_frozen_index_does_harm_and_all_are_found(seed: int, tmp_path: Path) -> None:
    damage_and_ask(seed, tmp_path / "index")


def test_no_damage_to_a_frozen_index_crashes_the_process(tmp_path: Path) -> None:
    """In a process of its own, whose end would tell."""
    script = (
        "import sys; from pathlib import Path; from damage.test_frozen import damage_and_ask\n"
        "for seed in range(1000, 1025): damage_and_ask(seed, Path(sys.argv[1]) / str(seed))"
    )
    tests = Path(__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=tests, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_an_undamaged_index_opens_and_answers(kind: str, tmp_path: Path) -> None:
    place = write_files(example(kind).files, tmp_path / "index")
    assert answers(Matcher.open(place, check=True)) == example(kind).answers
    assert answers(Matcher.open(place)) == example(kind).answers


@pytest.mark.parametrize("kind", KINDS)
def test_opening_reads_no_array(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not read cannot take longer for a larger index; a check is one reading."""
    place = write_files(example(kind).files, tmp_path / "index")
    read: list[str] = []
    check = frozen.FrozenArrays._check
    monkeypatch.setattr(
        frozen.FrozenArrays, "_check", lambda self, name: (read.append(name), check(self, name))
    )
    matcher = Matcher.open(place)
    assert read == []
    matcher.match(EVENTS[0])
    assert read
    assert len(read) == len(set(read)), "each array is checked once"
    unread = ("slots.", "registry.subscribers.", "registry.serial", "registry.slot_of", "slow.")
    assert not [name for name in read if name.startswith(unread)], "what matching has no use for"


@pytest.mark.parametrize("kind", KINDS)
def test_damage_to_each_array_is_found_by_who_reads_it_and_by_a_check(kind: str, tmp_path: Path) -> None:
    """The first byte of every array, its last, and the last before the next."""
    right = example(kind)
    places = list(frozen.read(write_files(right.files, tmp_path / "whole"))._places.values())
    ends = [*(place.start for place in places[1:]), len(right.files[frozen.ARRAYS])]
    found_by_asking = 0
    for place, end in zip(places, ends, strict=True):
        for at in {place.start, max(place.start, place.start + place.size - 1), end - 1}:
            content = bytearray(right.files[frozen.ARRAYS])
            content[at] ^= 0x40
            damaged_index = write_files({**right.files, frozen.ARRAYS: bytes(content)}, tmp_path / str(at))
            said, error = asked(lambda place=damaged_index: answers(Matcher.open(place)))
            assert isinstance(error, DamagedError) or said == right.answers, f"wrong answers from byte {at}"
            found_by_asking += error is not None
            with pytest.raises(DamagedError, match=r"arrays\.bin is not what was written"):
                Matcher.open(damaged_index, check=True)
    assert found_by_asking > len(places), "the questions read next to all"


def test_damage_anywhere_in_the_manifest_is_found_by_opening(tmp_path: Path) -> None:
    right = example("combined").files
    place = write_files(right, tmp_path)
    for at in (*range(64), *range(64, len(right[frozen.MANIFEST]), 29)):
        content = bytearray(right[frozen.MANIFEST])
        content[at] ^= 0x02
        (place / frozen.MANIFEST).write_bytes(content)
        with pytest.raises(DamagedError, match=r"manifest\.json"):
            frozen.read(place)


def test_every_byte_of_the_arrays_is_covered_by_a_checksum(tmp_path: Path) -> None:
    right = example("combined").files
    for at in range(0, len(right[frozen.ARRAYS]), 97):
        content = bytearray(right[frozen.ARRAYS])
        content[at] ^= 0x10
        place = write_files({**right, frozen.ARRAYS: bytes(content)}, tmp_path / str(at))
        with pytest.raises(DamagedError, match=r"arrays\.bin is not what was written"):
            Matcher.open(place, check=True)


def test_what_was_checked_is_checked_again_when_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "SETTLED_SECONDS", -1.0)
    right = example("topics").files
    place = write_files(right, tmp_path / "index")
    Matcher.open(place, check=True)
    content = bytearray(right[frozen.ARRAYS])
    content[0] ^= 1
    (place / frozen.ARRAYS).unlink()
    write_files({frozen.ARRAYS: bytes(content)}, place)
    with pytest.raises(DamagedError):
        Matcher.open(place, check=True)


def test_what_was_checked_a_while_after_it_was_written_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write_files(example("topics").files, tmp_path / "index")
    read: list[str] = []
    check = frozen.FrozenArrays._check
    monkeypatch.setattr(
        frozen.FrozenArrays, "_check", lambda self, name: (read.append(name), check(self, name))
    )
    Matcher.open(place, check=True)
    once = len(read)
    Matcher.open(place, check=True)
    assert len(read) == 2 * once, "it may be written to within the same tick of the clock"
    monkeypatch.setattr(frozen, "SETTLED_SECONDS", -1.0)
    Matcher.open(place, check=True)
    Matcher.open(place, check=True)
    assert len(read) == 3 * once


def test_an_index_without_checksums_is_refused_with_what_to_do(tmp_path: Path) -> None:
    manifest = {"format": 2, "arrays": {}, "about": {}}
    place = write_files({"manifest.json": json.dumps(manifest).encode(), "arrays.bin": b"0"}, tmp_path)
    with pytest.raises(
        DistributaryError, match=f"has format 2, this version reads {frozen.FORMAT}; freeze it again"
    ):
        Matcher.open(place)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("arrays", {"a": ["<i4", [4], 8, 0]}, "not where an array can be"),
        ("arrays", {"a": ["<i4", [-4], 0, 0]}, "no array of numbers"),
        ("arrays", {"a": ["|O", [4], 0, 0]}, "no array of numbers"),
        ("arrays", {"a": ["?!", [4], 0, 0]}, "what no index is like"),
        ("arrays", {"a": ["<i4", [1000], 0, 0]}, "longer than the file"),
        ("arrays", {"a": ["<i4", [4], 0]}, "what no index is like"),
        ("arrays", {"b": ["<i4", [4], 0, 0], "a": ["<i4", [4], 0, 0]}, "not where an array can be"),
        ("arrays", [], "what no index is like"),
        ("size", None, "what no index is like"),
        ("about", None, "what no index is like"),
    ],
)
def test_a_manifest_that_says_what_cannot_be_is_refused(
    key: str, value: object, said: str, tmp_path: Path
) -> None:
    """Even when its checksum holds, as when another program has written it."""
    manifest = {"format": frozen.FORMAT, "size": 64, "arrays": {}, "about": {}, key: value}
    rest = json.dumps(manifest)[1:].encode()
    content = b'{"checksum": %d, ' % crc32(rest) + rest
    place = write_files({"manifest.json": content, "arrays.bin": bytes(64)}, tmp_path)
    with pytest.raises(DamagedError, match=said):
        frozen.read(place)


@pytest.mark.parametrize("missing", ["registry.slot_of", "slots.digests", "change.counts", "slow.ids.bytes"])
def test_an_index_that_lacks_an_array_says_so(missing: str, tmp_path: Path) -> None:
    whole = frozen.read(write_files(example("combined").files, tmp_path / "whole"))
    kept = {name: array for name, array in whole.items() if name != missing}
    frozen.write(tmp_path / "less", kept, whole.about)
    with pytest.raises(DamagedError, match=f"manifest.json knows no array '{missing}'"):
        answers(Matcher.open(tmp_path / "less"))


def test_an_index_is_not_taken_for_another_of_another_label(tmp_path: Path) -> None:
    Matcher([ADDED]).freeze(tmp_path / "index", label="part 3")
    assert len(Matcher.open(tmp_path / "index", label="part 3")) == 1
    assert len(Matcher.open(tmp_path / "index")) == 1
    with pytest.raises(DamagedError, match="holds the index 'part 3', not 'part 4'"):
        Matcher.open(tmp_path / "index", label="part 4")


def test_a_directory_in_place_of_a_file_is_told(tmp_path: Path) -> None:
    for name in (frozen.MANIFEST, frozen.ARRAYS):
        place = write_files(example("topics").files, tmp_path / name)
        (place / name).unlink()
        (place / name).mkdir()
        with pytest.raises(DamagedError, match=f"{name} cannot be read"):
            Matcher.open(place)
    assert files_below(tmp_path / frozen.MANIFEST).keys() == {frozen.ARRAYS}
