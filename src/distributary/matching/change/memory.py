"""What tolerances remember: the values last delivered, as columns, and as bytes that any matcher can read.

A record holds what is remembered of one topic. It is a format byte, then a section for each attribute: the
lengths of its name and of its list as two little-endian uint32, the name, and the list: one (serial int64,
value float64) for each subscription, ascending by serial. Equal memories give equal bytes. A record takes 16
bytes for each value, and a few for each attribute.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DamagedError, DistributaryError
from distributary.kernel import Floats, Ints
from distributary.matching import frozen
from distributary.matching.index import Arrays

FORMAT = b"\x01"
DAMAGED = "the memory of a topic is not what `Matcher.recall` gave: keep its bytes as they are"
_SECTION = struct.Struct("<II")
_ENTRY = np.dtype([("serial", "<i8"), ("value", "<f8")])
_FROZEN = ("slots", "attributes", "topics", "values")


class LastValues(NamedTuple):
    """Values last delivered, as columns: one row for each owner, attribute and topic.

    Owners are slots within an index, and serials of registrations in a record. Attributes are places in
    `names`; topics are places in the list of topics or records that the values came with.
    """

    names: list[str]
    owners: NDArray[Any]
    attributes: Ints
    topics: Ints
    values: Floats

    @classmethod
    def room(cls, names: list[str], count: int) -> LastValues:
        """Columns for so many values, to be filled in."""
        owners, attributes, topics = np.empty((3, count), np.int32)
        return cls(names, owners, attributes, topics, np.empty(count))

    def to_arrays(self) -> Arrays:
        """The columns as an index writes them; owners are slots."""
        columns: Arrays = dict(zip(_FROZEN, self[1:], strict=True))
        return {**frozen.under("names", frozen.pack_texts(self.names)), **columns}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LastValues:
        """What `to_arrays` gave."""
        names = frozen.unpack_texts(frozen.within(arrays, "names"))
        return cls(names, *(arrays[name] for name in _FROZEN))

    def chosen(self, rows: slice | NDArray[np.int64]) -> LastValues:
        """These rows alone."""
        names, owners, attributes, topics, values = self
        return LastValues(names, owners[rows], attributes[rows], topics[rows], values[rows])


def pack(remembered: LastValues, topics: int) -> list[bytes | None]:
    """A record for each of so many topics; None for those of which nothing is remembered."""
    records: list[bytes | None] = [None] * topics
    if not len(remembered.values):
        return records
    names = [name.encode() for name in remembered.names]
    by_name = sorted(range(len(names)), key=names.__getitem__)
    attributes = np.argsort(by_name)[remembered.attributes]
    order = np.lexsort((remembered.owners, attributes, remembered.topics))
    entries = np.empty(len(order), _ENTRY)
    entries["serial"] = remembered.owners[order]
    entries["value"] = remembered.values[order]
    data = memoryview(entries.tobytes())
    attributes, topic_of = attributes[order], remembered.topics[order]
    opens = np.ones(len(order), np.bool_)
    opens[1:] = (attributes[1:] != attributes[:-1]) | (topic_of[1:] != topic_of[:-1])
    starts = np.flatnonzero(opens)
    ends = np.append(starts[1:], len(order))
    sections: dict[int, list[bytes | memoryview]] = {}
    for start, end, attribute, topic in np.column_stack(
        (starts, ends, attributes[starts], topic_of[starts])
    ).tolist():
        name = names[by_name[attribute]]
        sections.setdefault(topic, [FORMAT]).extend(
            (_SECTION.pack(len(name), end - start), name, data[start * 16 : end * 16])
        )
    for topic, parts in sections.items():
        records[topic] = b"".join(parts)
    return records


def written(topics: Iterable[Iterable[tuple[int, str, float]]]) -> list[bytes | None]:
    """A record for each topic, from the serials, attributes and values remembered of it."""
    listed = [list(values) for values in topics]
    rows = [(topic, *value) for topic, values in enumerate(listed) for value in values]
    names = sorted({name for _, _, name, _ in rows})
    columns = LastValues(
        names,
        np.array([serial for _, serial, _, _ in rows], np.int64),
        np.array([names.index(name) for _, _, name, _ in rows], np.int32),
        np.array([topic for topic, _, _, _ in rows], np.int32),
        np.array([value for _, _, _, value in rows], np.float64),
    )
    return pack(columns, len(listed))


def unpack(records: Sequence[bytes | None]) -> LastValues:
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
        for name, entries_of in _sections(record):
            parts.append(entries_of)
            number = names.setdefault(name, len(names))
            about.append((number, topic, len(entries_of) // _ENTRY.itemsize))
    entries = np.frombuffer(b"".join(parts), _ENTRY)
    attributes, topics, counts = np.array(about, np.int64).reshape(-1, 3).T
    return LastValues(
        list(names),
        np.ascontiguousarray(entries["serial"], np.int64),
        np.repeat(attributes, counts).astype(np.int32),
        np.repeat(topics, counts).astype(np.int32),
        np.ascontiguousarray(entries["value"], np.float64),
    )


def _sections(record: bytes) -> Iterator[tuple[str, bytes]]:
    """The name and the list of each attribute of a record; `DamagedError` when they do not fill it."""
    at = 1
    while at < len(record):
        try:
            length, count = _SECTION.unpack_from(record, at)
            start = at + _SECTION.size + length
            name = bytes(record[at + _SECTION.size : start]).decode()
        except (struct.error, UnicodeDecodeError):
            raise DamagedError(DAMAGED) from None
        at = start + count * _ENTRY.itemsize
        if at > len(record):
            raise DamagedError(DAMAGED)
        yield name, record[start:at]
