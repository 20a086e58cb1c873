"""What can happen to files, drawn from a seed: each damage changes at least one byte, name or length.

A thing that is stored is a mapping from file name to content here, so that a damage is a plain function and
the original is never touched. `DISTRIBUTARY_SEED` chooses which `make chaos` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TypeVar

from distributary.errors import DistributaryError
from replay import chaos_seeds

T = TypeVar("T")
Files = dict[str, bytes]
Damage = Callable[[Files, Mapping[str, bytes], str, Random], str]
"""Takes the files, those of another thing of the same kind, the file to damage and a source of randomness."""

FEW, MANY = 30, 1000
"""Damages in the ordinary tests, and those of which `make chaos` draws some, or with FULL=1 runs all."""


def seeds(few: int = FEW, many: int = MANY) -> list[object]:
    """The seeds of the damages, as parameters of a test."""
    first = 10_000 * int(os.environ.get("DISTRIBUTARY_SEED", "1"))
    return [*range(few), *chaos_seeds(first, many)]


def files_below(place: Path) -> Files:
    """All files of a directory by their path in it."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()
    }


def write_files(files: Mapping[str, bytes], place: Path) -> Path:
    """Write the files, and return the directory."""
    for name, content in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place


def flip(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """A single bit."""
    content = bytearray(files[name])
    at, bit = random.randrange(len(content)), random.randrange(8)
    content[at] ^= 1 << bit
    files[name] = bytes(content)
    return f"bit {bit} of byte {at}"


def several_flips(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """Two to twenty bits in different bytes."""
    content = bytearray(files[name])
    places = random.sample(range(len(content)), min(len(content), random.randrange(2, 21)))
    for at in places:
        content[at] ^= 1 << random.randrange(8)
    files[name] = bytes(content)
    return f"bits of bytes {places}"


def overwrite(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """A run of bytes that reads as zeroes, ones or anything, as an unreadable sector does."""
    content = files[name]
    start = random.randrange(len(content))
    length = random.choice((1, 8, 64, 512, 4096))
    kept = content[start : start + length]
    filled = random.choice((bytes(len(kept)), b"\xff" * len(kept), random.randbytes(len(kept))))
    if filled == kept:
        return flip(files, other, name, random)
    files[name] = content[:start] + filled + content[start + len(kept) :]
    return f"bytes {start} to {start + len(kept)}"


def truncate(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """The end is missing, or everything."""
    length = random.choice((0, random.randrange(len(files[name])), len(files[name]) - 1))
    files[name] = files[name][:length]
    return f"cut to {length}"


def append(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """Something follows the end."""
    files[name] += random.choice((b"\0", random.randbytes(random.randrange(1, 200)), files[name]))
    return f"now {len(files[name])} bytes"


def move_within(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """Two blocks of a file have changed places."""
    content = files[name]
    size = max(1, min(64, len(content) // 2))
    one, two = (
        sorted(random.sample(range(0, len(content) - size + 1, size), 2)) if len(content) > 1 else (0, 0)
    )
    first, second = content[one : one + size], content[two : two + size]
    if first == second:
        return flip(files, other, name, random)
    files[name] = content[:one] + second + content[one + size : two] + first + content[two + size :]
    return f"the blocks at {one} and {two}"


def remove(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """The file is gone."""
    del files[name]
    return "gone"


def swap(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """Another file of the same directory has its name, and the other way round."""
    names = [one for one in files if one != name and files[one] != files[name]]
    if not names:
        return flip(files, other, name, random)
    with_ = random.choice(names)
    files[name], files[with_] = files[with_], files[name]
    return f"swapped with {with_}"


def exchange(files: Files, other: Mapping[str, bytes], name: str, random: Random) -> str:
    """The file of that name of another thing of the same kind."""
    if other.get(name, files[name]) == files[name]:
        return flip(files, other, name, random)
    files[name] = other[name]
    return "that of another"


DAMAGES: tuple[Damage, ...] = (
    flip,
    flip,
    flip,
    several_flips,
    overwrite,
    truncate,
    append,
    move_within,
    remove,
    swap,
    exchange,
)


def damaged(
    files: Mapping[str, bytes], other: Mapping[str, bytes], names: list[str], random: Random
) -> tuple[Files, str, str]:
    """The files with one damage to one of the names, that name, and what was done to it."""
    changed = dict(files)
    name, damage = random.choice(names), random.choice(DAMAGES)
    told = damage(changed, other, name, random)
    assert changed != dict(files), f"{damage.__name__} has changed nothing"
    return changed, name, f"{damage.__name__} of {name}: {told}"


def asked(question: Callable[[], T]) -> tuple[T | None, DistributaryError | None]:
    """The answer, or the error with which it was refused; any other exception is a defect."""
    try:
        return question(), None
    except DistributaryError as error:
        return None, error


@contextmanager
def told_with(seed: int, what: str, test: str) -> Iterator[None]:
    """Say with a failure which damage it was, and how to do it again."""
    try:
        yield
    except BaseException as error:
        first = os.environ.get("DISTRIBUTARY_SEED", "1")
        marker = f"DISTRIBUTARY_SEED={first} pytest -m chaos" if seed >= 10_000 else "pytest"
        error.add_note(f"seed {seed}, {what}; again: {marker} {test} -k '{seed}'")
        raise
