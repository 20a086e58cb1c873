"""Arrays in a directory: one file that is written once and opened by memory mapping, and a manifest.

The file holds the arrays one after another, each aligned, and the manifest says what starts where. Opening
maps it once, so it costs the same whatever the size and hardly more for many arrays than for one, and
processes that open the same directory share its pages. Who writes to an opened array gets a copy of those
pages of its own, so the file never changes and a few changes to a large index cost a few pages.

A directory is complete when its manifest exists; the manifest is written last.

Damage is found before it can do harm, and told as a `DamagedError`:

- The manifest starts with a checksum of the rest of it. It says how long the file of arrays is, and of each
  array the type, the shape, the place and the checksum. All of that is checked when a directory is opened.
- The bytes of an array are compared with its checksum when it is first taken out of `FrozenArrays`, and those
  up to the next array must be zero: reading them is what opening must not do. Whoever takes an array can rely
  on it, so a kernel that may read an array anywhere is given one that is checked from end to end. Parts that
  not every question needs are therefore taken when one does.
- What this process has checked it does not check again while the file is the same one and unchanged.

A file that is written to while it is open is beyond this: leave the directory of an open index alone.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DamagedError, DistributaryError
from distributary.kernel import Bytes, sealed
from distributary.matching.checksums import checksum

MANIFEST = "manifest.json"
ARRAYS = "arrays.bin"
FORMAT = 8
ALIGNMENT = 64

CHECKSUM = re.compile(rb'\{"checksum": ([0-9]{1,10}), ')
"""How a manifest begins; the checksum is that of what follows."""
UNCHECKED_FORMAT = re.compile(rb'\{"format": ([0-9]+), ')
"""How the manifests of formats 1 and 2 began, which had no checksums."""

REMEMBERED = 16
"""Directories of which a process remembers what it has checked."""
SETTLED_SECONDS = 2.0
"""A file that was changed more recently may be changed again within the same tick of its clock."""

ROOM, LEAST_ROOM = 8, 64
"""Room for one entry more for each so many, and for some at least."""

A = TypeVar("A", bound=np.generic)


class ArrayPlace(NamedTuple):
    """What the manifest says of an array."""

    dtype: str
    shape: list[int]
    start: int
    checksum: int

    @property
    def size(self) -> int:
        """The bytes of the array itself."""
        return np.dtype(self.dtype).itemsize * prod(self.shape)


def write(directory: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write `arrays` and the JSON description `about` into a new or empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise DistributaryError(f"{directory} is not empty; freeze into a new directory")
    places: dict[str, ArrayPlace] = {}
    with (directory / ARRAYS).open("wb") as file:
        for name, array in arrays.items():
            start = file.tell()
            content = sealed(sealed(array).reshape(-1).view(np.uint8))
            file.write(content.data)
            file.write(bytes(-file.tell() % ALIGNMENT or ALIGNMENT))  # a file needs a byte to be mapped
            places[name] = ArrayPlace(array.dtype.str, list(array.shape), start, int(checksum(content)))
        size = file.tell() or file.write(bytes(ALIGNMENT))
    rest = json.dumps({"format": FORMAT, "size": size, "arrays": places, "about": about})[1:].encode()
    partial = directory / (MANIFEST + ".partial")
    partial.write_bytes(b'{"checksum": %d, ' % crc32(rest) + rest)
    partial.rename(directory / MANIFEST)


def read(directory: Path) -> FrozenArrays:
    """The arrays of a directory, none of which is read before it is taken."""
    manifest, manifest_checksum = _manifest(directory)
    try:
        places = {str(name): ArrayPlace(*place) for name, place in manifest["arrays"].items()}
        size, about = int(manifest["size"]), dict(manifest["about"])
        _check_places(places, size)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(directory, MANIFEST, f"says what no index is like: {error!r}") from None
    return FrozenArrays(directory, places, about, _mapped(directory, size), manifest_checksum)


def _manifest(directory: Path) -> tuple[dict[str, Any], int]:
    """The manifest, which is what was written, and its checksum."""
    try:
        content = (directory / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"{directory} holds no frozen index: {MANIFEST} is missing") from None
    except OSError as error:
        raise _damaged(directory, MANIFEST, f"cannot be read: {error.strerror or error}") from None
    if old := UNCHECKED_FORMAT.match(content):
        raise DistributaryError(_other_format(directory, int(old[1])))
    start = CHECKSUM.match(content)
    if start is None or crc32(content[start.end() :]) != int(start[1]):
        raise _damaged(directory, MANIFEST, "is not what was written: the checksum does not hold")
    manifest: dict[str, Any] = json.loads(content)
    if manifest.get("format") != FORMAT:
        raise DistributaryError(_other_format(directory, manifest.get("format")))
    return manifest, int(start[1])


def _other_format(directory: Path, found: Any) -> str:
    return f"{directory} has format {found}, this version reads {FORMAT}; freeze it again"


def _check_places(places: Mapping[str, ArrayPlace], size: int) -> None:
    """ValueError unless arrays of plain numbers follow one another in a file of this size."""
    end = 0
    for name, place in places.items():
        dtype = np.dtype(place.dtype)
        if dtype.kind not in "biuf" or any(length < 0 for length in place.shape):
            raise ValueError(f"{name} is no array of numbers")
        if place.start < end or place.start % ALIGNMENT:
            raise ValueError(f"{name} is not where an array can be")
        end = place.start + place.size
    if end > size:
        raise ValueError("the arrays are longer than the file")


def _mapped(directory: Path, size: int) -> tuple[Bytes, tuple[int, ...]]:
    """The bytes of the file of arrays, and what tells it from any other or earlier one."""
    try:
        with (directory / ARRAYS).open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size != size:
                raise _damaged(
                    directory, ARRAYS, f"has {found.st_size:,} bytes, not {size:,} as it was written"
                )
            data = np.memmap(file, np.uint8, "c").view(np.ndarray)
    except OSError as error:
        raise _damaged(directory, ARRAYS, f"cannot be read: {error.strerror or error}") from None
    return data, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _damaged(directory: Path, file: str, what: str) -> DamagedError:
    return DamagedError(
        f"the frozen index in {directory} is damaged: {file} {what}; build it again from its subscriptions"
    )


class FrozenArrays(Mapping[str, NDArray[Any]]):
    """The arrays of a directory, memory-mapped and copied where they are written to; `about` describes them.

    An array is checked when it is first taken; `DamagedError` if its bytes are not those that were written.
    """

    def __init__(
        self,
        directory: Path,
        places: Mapping[str, ArrayPlace],
        about: Mapping[str, Any],
        mapped: tuple[Bytes, tuple[int, ...]],
        manifest_checksum: int,
    ) -> None:
        self.directory = directory
        self.about = about
        self._places = places
        self._data, self._file = mapped
        starts = [place.start for place in places.values()]
        # An index without filters has no arrays.
        self._ends = dict(zip(places, [*starts[1:], len(self._data)], strict=bool(places)))
        self._checked = _checked_before((*self._file, manifest_checksum))
        self._taken: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self._taken.get(name)
        if array is None:
            if name not in self._places:
                raise _damaged(self.directory, MANIFEST, f"knows no array {name!r}")
            if name not in self._checked:
                self._check(name)
            place = self._places[name]
            data = self._data[place.start : place.start + place.size]
            array = self._taken[name] = data.view(place.dtype).reshape(place.shape)
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def check(self) -> None:
        """Check all arrays that nobody has taken yet."""
        for name in self._places:
            _ = self[name]

    def _check(self, name: str) -> None:
        place, behind = self._places[name], self._ends[name]
        end = place.start + place.size
        if checksum(sealed(self._data[place.start : end])) != place.checksum or self._data[end:behind].any():
            raise _damaged(
                self.directory, ARRAYS, f"is not what was written: the checksum of {name} does not hold"
            )
        changed = max(self._file[-2:]) / 1e9
        if time.time() - changed > SETTLED_SECONDS:
            self._checked.add(name)


_remembered: OrderedDict[tuple[int, ...], set[str]] = OrderedDict()
"""The names of the arrays that this process has checked, by file and manifest."""


def _checked_before(file: tuple[int, ...]) -> set[str]:
    checked = _remembered.setdefault(file, set())
    _remembered.move_to_end(file)
    while len(_remembered) > REMEMBERED:
        _remembered.popitem(last=False)
    return checked


def with_room(array: NDArray[A], fill: int) -> NDArray[A]:
    """The array and some room behind it, so that an opened index can grow a little and copies no array."""
    room = np.full(LEAST_ROOM + len(array) // ROOM, fill, array.dtype)
    return np.concatenate([array, room])


class ArraySection(Mapping[str, NDArray[Any]]):
    """What `within` gives: none of the arrays is taken before it is asked for."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], prefix: str) -> None:
        self._arrays = arrays
        self._start = prefix + "."

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[self._start + name]

    def __contains__(self, name: object) -> bool:
        return f"{self._start}{name}" in self._arrays

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._start) for name in self._arrays if name.startswith(self._start))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def within(arrays: Mapping[str, NDArray[Any]], prefix: str) -> ArraySection:
    """The arrays whose names start with `prefix.`, under the rest of their names."""
    return ArraySection(arrays, prefix)


def under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays renamed to `prefix.name`."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def pack_texts(texts: list[str]) -> dict[str, NDArray[Any]]:
    """Texts as one buffer of UTF-8 and the offsets at which each starts and ends."""
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return {"offsets": offsets, "bytes": np.frombuffer(b"".join(encoded), np.uint8)}


def unpack_text(packed: Mapping[str, NDArray[Any]], position: int) -> str:
    """One text of `pack_texts`."""
    start, end = packed["offsets"][position], packed["offsets"][position + 1]
    return packed["bytes"][start:end].tobytes().decode()


def unpack_texts(packed: Mapping[str, NDArray[Any]]) -> list[str]:
    """All texts of `pack_texts`."""
    data = packed["bytes"].tobytes()
    offsets = packed["offsets"].tolist()
    return [data[start:end].decode() for start, end in pairwise(offsets)]
