"""Messages in a stream of bytes: each is a frame, its length in four bytes and then its bytes."""

from __future__ import annotations

from collections.abc import Iterator

from distributary.live.codec import MAX_BYTES, CodecError

HEADER = 4


def frame(message: bytes) -> bytes:
    """A message as it is sent.

    >>> frame(b"abc").hex()
    '00000003616263'
    """
    return len(message).to_bytes(HEADER, "big") + message


class FrameReader:
    """Finds the frames in what arrives, however it is cut; what a frame says of its length is not believed
    beyond `most`.

    >>> reader = FrameReader()
    >>> [list(map(bytes, reader.read(piece))) for piece in (b"\\0\\0\\0\\2a", b"b\\0\\0\\0\\1c\\0", b"\\0")]
    [[], [b'ab', b'c'], []]
    """

    def __init__(self, most: int = MAX_BYTES) -> None:
        self.most = most
        """The longest frame that is accepted; CodecError for a longer one."""
        self._pieces: list[bytes] = []
        self._have = 0
        self._wanted = HEADER

    @property
    def empty(self) -> bool:
        """Whether no frame has begun."""
        return not self._have

    def read(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with these bytes."""
        place, end = 0, len(data)
        if self._have:
            have = self._have + end
            if have < self._wanted:
                self._pieces.append(data)
                self._have = have
                return
            if self._wanted > HEADER:  # only the frame that was begun is put together
                place = end - (have - self._wanted)
                first, *others = self._pieces
                yield b"".join((memoryview(first)[HEADER:], *others, memoryview(data)[:place]))
            else:
                data = b"".join((*self._pieces, data))
                end = have
        self._wanted = HEADER
        while place + HEADER <= end:
            length = int.from_bytes(data[place : place + HEADER], "big")
            if length > self.most:
                raise CodecError(f"a frame of {length:,} bytes, above {self.most:,}")
            after = place + HEADER + length
            if after > end:
                self._wanted = HEADER + length
                break
            yield data[place + HEADER : after]
            place = after
        self._pieces = [data[place:]] if place < end else []
        self._have = end - place
