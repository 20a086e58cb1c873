"""Subscription ids of three parts, packed into one number (004 section 3, Figure 3).

From the highest bits to the lowest: c1, the node where the subscription belongs; c2, which of that node's
subscriptions it is; c3, on how many attributes it is filed. c1 takes as many bits as identifiers of the ring
have, c2 as many as the subscriptions that a node may have at once call for, c3 as many as the number of
attributes of the schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle


class Identifier(NamedTuple):
    """What a subscription id says."""

    node: Address
    number: int
    attributes: int


@dataclass(frozen=True)
class IdentifierLayout:
    """How wide the three parts are.

    >>> layout = IdentifierLayout(Circle(3), outstanding=8, attributes=7)
    >>> f"{layout.pack(Identifier(node=4, number=3, attributes=5)):09b}"
    '100011101'
    >>> layout.unpack(0b100011101)
    Identifier(node=4, number=3, attributes=5)
    """

    circle: Circle
    outstanding: int
    """How many subscriptions a node may have at once."""
    attributes: int
    """How many attributes there are."""

    def __post_init__(self) -> None:
        if self.outstanding < 1 or self.attributes < 1:
            raise DistributaryError("subscription ids need at least one subscription and one attribute")

    @property
    def number_bits(self) -> int:
        """Bits of c2: for a million subscriptions, 20."""
        return (self.outstanding - 1).bit_length()

    @property
    def attribute_bits(self) -> int:
        """Bits of c3, whose largest value is the number of attributes."""
        return self.attributes.bit_length()

    def pack(self, identifier: Identifier) -> int:
        """An identifier as one number; an error names the part that does not fit."""
        node, number, attributes = identifier
        limits = (self.circle.size, self.outstanding, self.attributes + 1)
        if not all(0 <= part < limit for part, limit in zip(identifier, limits, strict=True)):
            raise DistributaryError(
                f"{identifier} does not fit: its parts must be below {limits[0]}, {limits[1]} and {limits[2]}"
            )
        return (node << self.number_bits | number) << self.attribute_bits | attributes

    def unpack(self, packed: int) -> Identifier:
        """The identifier that was packed into a number."""
        attributes = packed & ((1 << self.attribute_bits) - 1)
        rest = packed >> self.attribute_bits
        return Identifier(rest >> self.number_bits, rest & ((1 << self.number_bits) - 1), attributes)
