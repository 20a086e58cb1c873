"""The circle of identifiers that a ring lives on: whole numbers modulo a power of two."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from distributary.errors import DistributaryError


@dataclass(frozen=True)
class Circle:
    """Identifiers of so many bits, in clockwise order.

    >>> circle = Circle(3)
    >>> circle.clockwise(6, 1), circle.distance(1, 6), circle.between(0, 6, 1)
    (3, 3, True)
    """

    bits: int
    size: int = field(init=False, repr=False, compare=False)
    mask: int = field(init=False, repr=False, compare=False)
    """The largest identifier; to take a number modulo the size is to cut it with this."""

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 160:
            raise DistributaryError(f"a circle has 1 to 160 bits, as many as SHA-1 gives, not {self.bits}")
        object.__setattr__(self, "size", 1 << self.bits)
        object.__setattr__(self, "mask", self.size - 1)

    def add(self, identifier: int, steps: int) -> int:
        """The identifier so many steps clockwise; anticlockwise with negative steps."""
        return (identifier + steps) & self.mask

    def clockwise(self, start: int, end: int) -> int:
        """How far it is from start to end, going clockwise."""
        return (end - start) & self.mask

    def distance(self, one: int, other: int) -> int:
        """How far it is the shorter way round."""
        clockwise = (other - one) & self.mask
        return min(clockwise, self.size - clockwise)

    def between(self, identifier: int, start: int, end: int) -> bool:
        """Whether it lies strictly between, going clockwise from start; all but start when start is end."""
        mask = self.mask
        return 0 < (identifier - start) & mask < ((end - start - 1) & mask) + 1

    def up_to(self, identifier: int, start: int, end: int) -> bool:
        """Whether it lies in (start, end], going clockwise; everything does when start is end."""
        mask = self.mask
        return (identifier - start - 1) & mask <= (end - start - 1) & mask

    def hash(self, text: str) -> int:
        """Where a text belongs: the leading bits of its SHA-1."""
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).digest()
        return int.from_bytes(digest, "big") >> (160 - self.bits)
