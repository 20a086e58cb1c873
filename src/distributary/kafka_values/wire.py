"""The bytes before a value that name its schema, as serialisers of schema registries write them.

A value begins with the magic byte 0 and the id of its schema, 4 bytes, the highest first. Before the bytes of
a Protobuf message stands which message of the schema's file it is: the count of indexes and then each, as
zigzag varints; the first index counts the messages of the file, the next those within that one, and so on.
The one byte 0 stands for the first message of the file.

JSON may have such bytes before it as well. It is read without its schema, so they are only taken away.
"""

from __future__ import annotations

from distributary.errors import InputError

MAGIC = 0
HEADER = 5
"""Bytes of the magic byte and the id."""
DEEPEST = 32
"""Messages within each other that an index may walk down."""
LONGEST = 5
"""Bytes of a varint; an index has no more."""


def schema_id(value: bytes) -> int:
    """The id of the schema that a value was written with; InputError where it names none.

    >>> schema_id(b"\\x00\\x00\\x00\\x00\\x07...")
    7
    >>> schema_id(b'{"price": 8.4}')
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: begins with the byte 0x7b, and not with 0x00, which a schema's id follows
    """
    if len(value) < HEADER:
        raise InputError(f"has {len(value)} bytes; the magic byte and a schema's id alone are {HEADER}")
    if value[0] != MAGIC:
        raise InputError(
            f"begins with the byte 0x{value[0]:02x}, and not with 0x00, which a schema's id follows"
        )
    return int.from_bytes(value[1:HEADER], "big")


def without_schema_id(value: bytes) -> bytes:
    """A JSON object without the bytes that name its schema; any other value as it is.

    >>> without_schema_id(b'\\x00\\x00\\x00\\x00\\x07{"price": 8.4}')
    b'{"price": 8.4}'
    >>> without_schema_id(b"\\x00\\x00\\x00\\x00\\x07\\x06OTE")
    b'\\x00\\x00\\x00\\x00\\x07\\x06OTE'
    """
    return value[HEADER:] if value[:1] == b"\0" and value[HEADER : HEADER + 1] == b"{" else value


def message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its file a Protobuf value holds, and where its bytes begin.

    >>> message_indexes(b"\\x00\\x00\\x00\\x00\\x07\\x00...")
    ((0,), 6)
    >>> message_indexes(b"\\x00\\x00\\x00\\x00\\x07\\x04\\x02\\x06...")
    ((1, 3), 8)
    """
    count, at = _zigzag(value, HEADER)
    if count == 0:
        return (0,), at
    if not 0 < count <= DEEPEST:
        raise InputError(f"says that it is a message {count} deep in its file; at most {DEEPEST} is read")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        if index < 0:
            raise InputError(f"says that it is the message {index} of its file")
        indexes.append(index)
    return tuple(indexes), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    number = shift = 0
    for byte in value[at : at + LONGEST]:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise InputError("ends within the numbers that say which message of its schema it is")
