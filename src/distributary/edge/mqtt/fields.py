"""The smallest parts of packets: numbers, texts and bytes with their lengths."""

from __future__ import annotations

from distributary.edge.mqtt.packets import bad_packet

MOST_VARIABLE = 268_435_455
"""The greatest number that a variable byte integer holds."""


def variable_integer(number: int) -> bytes:
    """A number as MQTT writes lengths: seven bits a byte, the lowest first.

    >>> variable_integer(0), variable_integer(127), variable_integer(321).hex()
    (b'\\x00', b'\\x7f', 'c102')
    """
    if number < 128:
        return bytes((number,))
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def text_bytes(text: str) -> bytes:
    """A text with its length; ValueError for one that is too long for MQTT."""
    encoded = text.encode()
    if len(encoded) > 65_535:
        raise ValueError("a text of MQTT has at most 65,535 bytes")
    return len(encoded).to_bytes(2, "big") + encoded


class PacketReader:
    """Reads a packet's body from front to back; MqttError where it is shorter than it says."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = start
        self._end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """How many bytes are not read."""
        return self._end - self._at

    def _take(self, count: int) -> bytes:
        at = self._at
        if count > self._end - at:
            raise bad_packet("the packet is shorter than what it says is in it")
        self._at = at + count
        return self._data[at : at + count]

    def byte(self) -> int:
        """A number of one byte."""
        return self._take(1)[0]

    def two(self) -> int:
        """A number of two bytes."""
        return int.from_bytes(self._take(2), "big")

    def four(self) -> int:
        """A number of four bytes."""
        return int.from_bytes(self._take(4), "big")

    def variable_integer(self) -> int:
        """A number of one to four bytes, in the shortest form."""
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                if shift and not byte:
                    raise bad_packet("a variable byte integer is longer than it must be")
                return number
            shift += 7
            if shift > 21:
                raise bad_packet("a variable byte integer has more than four bytes")

    def binary(self) -> bytes:
        """Bytes with their length."""
        return self._take(self.two())

    def text(self) -> str:
        """A text with its length: UTF-8, no U+0000."""
        try:
            text = str(self._take(self.two()), "utf-8")
        except UnicodeDecodeError as error:
            raise bad_packet("a text is not UTF-8") from error
        if "\0" in text:
            raise bad_packet("a text holds U+0000")
        return text

    def rest(self) -> bytes:
        """All that is left."""
        return self._take(self.left)

    def part(self, length: int) -> PacketReader:
        """A reader of the next so many bytes, which this one passes over."""
        if length > self.left:
            raise bad_packet("the packet is shorter than what it says is in it")
        start = self._at
        self._at += length
        return PacketReader(self._data, start, self._at)

    def finish(self) -> None:
        """Refuse bytes that nobody has read."""
        if self.left:
            raise bad_packet("the packet is longer than what is in it")
