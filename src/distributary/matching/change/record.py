"""What tolerances remember of one topic, as bytes that can be kept anywhere and read by any matcher.

A record is a format byte, then a section for each attribute: the lengths of its name and of its list as two
little-endian uint32, the name, and the list: one (serial int64, value float64) for each subscription,
ascending by serial. Equal memories give equal bytes. 16 bytes for each value, a few for each attribute.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError

FORMAT = b"\x01"
_SECTION = struct.Struct("<II")
_ENTRY = np.dtype([("serial", "<i8"), ("value", "<f8")])


class Remembered(NamedTuple):
    """Values last delivered, as columns. Topics and attributes are places in the lists they came with."""

    names: list[str]
    serials: NDArray[np.int64]
    attributes: NDArray[np.int32]
    topics: NDArray[np.int32]
    values: NDArray[np.float64]


def pack(remembered: Remembered, topics: int) -> list[bytes | None]:
    """A record for each of so many topics; None for those of which nothing is remembered."""
    records: list[bytes | None] = [None] * topics
    if not len(remembered.values):
        return records
    names = [name.encode() for name in remembered.names]
    by_name = sorted(range(len(names)), key=names.__getitem__)
    ranks = np.empty(len(names), np.int32)
    ranks[by_name] = np.arange(len(names), dtype=np.int32)
    attributes = ranks[remembered.attributes]
    order = np.lexsort((remembered.serials, attributes, remembered.topics))
    entries = np.empty(len(order), _ENTRY)
    entries["serial"] = remembered.serials[order]
    entries["value"] = remembered.values[order]
    data = memoryview(entries.tobytes())
    attributes, topic_of = attributes[order], remembered.topics[order]
    opens = np.ones(len(order), np.bool_)
    opens[1:] = (attributes[1:] != attributes[:-1]) | (topic_of[1:] != topic_of[:-1])
    starts = np.flatnonzero(opens)
    sections: dict[int, list[bytes | memoryview]] = {}
    for start, end, attribute, topic in zip(
        starts.tolist(),
        [*starts[1:].tolist(), len(order)],
        attributes[starts].tolist(),
        topic_of[starts].tolist(),
        strict=True,
    ):
        name = names[by_name[attribute]]
        sections.setdefault(topic, [FORMAT]).extend(
            (_SECTION.pack(len(name), end - start), name, data[start * 16 : end * 16])
        )
    for topic, parts in sections.items():
        records[topic] = b"".join(parts)
    return records


def unpack(records: Sequence[bytes | None]) -> Remembered:
    """The columns of all records; topics are the places of the records."""
    names: dict[str, int] = {}
    parts: list[bytes] = []
    about: list[tuple[int, int, int]] = []
    for topic, record in enumerate(records):
        if record is None:
            continue
        if record[:1] != FORMAT:
            raise DistributaryError(
                f"the memory of a topic starts with {bytes(record[:1])!r}, not {FORMAT!r}; "
                "it was not written by `Matcher.recall` of this version"
            )
        at = 1
        while at < len(record):
            length, count = _SECTION.unpack_from(record, at)
            at += _SECTION.size
            name = bytes(record[at : at + length]).decode()
            start, at = at + length, at + length + count * _ENTRY.itemsize
            parts.append(record[start:at])
            about.append((names.setdefault(name, len(names)), topic, count))
    entries = np.frombuffer(b"".join(parts), _ENTRY)
    columns = np.array(about, np.int64).reshape(-1, 3)
    return Remembered(
        list(names),
        np.ascontiguousarray(entries["serial"], np.int64),
        np.repeat(columns[:, 0], columns[:, 2]).astype(np.int32),
        np.repeat(columns[:, 1], columns[:, 2]).astype(np.int32),
        np.ascontiguousarray(entries["value"], np.float64),
    )
