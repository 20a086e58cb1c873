"""Arrays in a directory: one file that is written once and opened by memory mapping, and a manifest.

The file holds the arrays one after another, each aligned, and the manifest says what starts where. Opening
maps it once, so it costs the same whatever the size and hardly more for many arrays than for one, and
processes that open the same directory share its pages. Who writes to an opened array gets a copy of those
pages of its own, so the file never changes and a few changes to a large index cost a few pages.

A directory is complete when its manifest exists; the manifest is written last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary.kernel import Bytes

MANIFEST = "manifest.json"
ARRAYS = "arrays.bin"
FORMAT = 2
ALIGNMENT = 64

ROOM, LEAST_ROOM = 8, 64
"""Room for one entry more for each so many, and for some at least."""

A = TypeVar("A", bound=np.generic)


def write(directory: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write `arrays` and the JSON description `about` into a new or empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise DistributaryError(f"{directory} is not empty; freeze into a new directory")
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    with (directory / ARRAYS).open("wb") as file:
        for name, array in arrays.items():
            file.write(bytes(-file.tell() % ALIGNMENT))
            places[name] = (array.dtype.str, array.shape, file.tell())
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        file.write(bytes(ALIGNMENT))  # a file without a byte cannot be mapped
    partial = directory / (MANIFEST + ".partial")
    partial.write_text(json.dumps({"format": FORMAT, "arrays": places, "about": about}))
    partial.rename(directory / MANIFEST)


def read(directory: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays, memory-mapped and copied where they are written to, and the description."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
    except FileNotFoundError:
        raise DistributaryError(f"{directory} holds no frozen index: {MANIFEST} is missing") from None
    if manifest["format"] != FORMAT:
        raise DistributaryError(
            f"{directory} has format {manifest['format']}, this version reads {FORMAT}; freeze it again"
        )
    data = np.memmap(directory / ARRAYS, np.uint8, "c").view(np.ndarray)
    arrays = {name: _array(data, *place) for name, place in manifest["arrays"].items()}
    return arrays, manifest["about"]


def _array(data: Bytes, kind: str, shape: list[int], start: int) -> NDArray[Any]:
    dtype = np.dtype(kind)
    return data[start : start + dtype.itemsize * prod(shape)].view(dtype).reshape(shape)


def with_room(array: NDArray[A], fill: int) -> NDArray[A]:
    """The array and some room behind it, so that an opened index can grow a little and copies no array."""
    room = np.full(LEAST_ROOM + len(array) // ROOM, fill, array.dtype)
    return np.concatenate([array, room])


def within(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start with `prefix.`, under the rest of their names."""
    start = prefix + "."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


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
