"""Structure-aware addressing: where something belongs follows from its structure (001 section 4.3.1).

Each has two signatures of the same items (see `matching.path.signature`): a short one, the *key*, which is an
address in a hypercube, and a long one, the *filter*, which rules out at every hop what the key could not. A
document that a path selects covers the path's signature in either length, so

- an event's key covers the key of every subscription that wants it, and its filter their filters;
- nothing is ever missed for its address, however short, and what is sent in vain is refused by the filter, or
  at the last by the subscription's home.

Rules:

- Both come from one pass over the items, each hashed once. No node ever parses a document again to route it.
- A path's items are those that every document it selects has. Comparisons with values, `//`, `*`, `or` and
  `not()` therefore ask for less, never for too much; filters of other kinds ask for nothing.
- What has no document (or no path) has no items: its key is 0, which every key covers. A subscription without
  a path is thus served too, at the price of being known to every vertex.
- All nodes of a system use one addressing: keys of different dimensions are different addresses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.filters.filter import Filter
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.matching.path.signature import (
    Item,
    SignatureShape,
    document_items,
    guaranteed_items,
    structure_signatures,
)
from distributary.model import Event
from distributary.overlay.hypercube import Key


class StructuralAddress(NamedTuple):
    """The address of an event or a subscription, and the bits that its longer signature sets."""

    key: Key
    filter: int


@dataclass(frozen=True)
class Addressing:
    """Keys of `dimension` bits and filters of `length` bits; a length of 0 means no filters.

    >>> from distributary.overlay.hypercube import covers
    >>> addressing = Addressing(dimension=8, length=64)
    >>> event = addressing.of_event(Event("e", document="<bib><book><title/></book></bib>"))
    >>> asked = addressing.of_filters({"path": PathFilter.parse("/bib//title")})
    >>> covers(event.key, asked.key), covers(event.filter, asked.filter)
    (True, True)
    """

    dimension: int = 12
    length: int = 1024
    hashes: int = 1

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.length < 0 or self.hashes < 1:
            raise DistributaryError(
                "an address has at least 1 bit, a filter at least 0 and an item sets at least 1, not "
                f"{self.dimension}, {self.length} and {self.hashes}"
            )

    def of_event(self, event: Event) -> StructuralAddress:
        """Where an event belongs; DocumentError when its document cannot be read."""
        return self.of_items(() if event.document is None else document_items(parse_document(event.document)))

    def of_filters(self, filters: Mapping[str, Filter]) -> StructuralAddress:
        """Where a subscription with these filters belongs."""
        path = filters.get("path")
        return self.of_items(guaranteed_items(path) if isinstance(path, PathFilter) else ())

    def of_items(self, items: Iterable[Item]) -> StructuralAddress:
        """Where a structure belongs. Keys set one bit an item: more would only fill them sooner."""
        shapes = [SignatureShape(self.dimension, 1)]
        if self.length:
            shapes.append(SignatureShape(self.length, self.hashes))
        key, *filters = structure_signatures(items, shapes)
        return StructuralAddress(key.bits, filters[0].bits if filters else 0)


def fitting_dimension(nodes: int) -> int:
    """The dimension for so many nodes: as many vertices as nodes, to the next power of two.

    Fewer would leave nodes without a vertex. More make keys tell more structures apart, but each bit more
    doubles the vertices that a subscription goes to.

    >>> fitting_dimension(4096), fitting_dimension(1000), fitting_dimension(1)
    (12, 10, 1)
    """
    return max(1, math.ceil(math.log2(nodes)))
