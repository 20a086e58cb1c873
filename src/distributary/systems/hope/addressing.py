"""Structure-aware addressing: keys and filters of events and subscriptions from their structure (001, 4.3.1).

Each has two signatures of the same items (see `matching.path.signature`): a short one, the *key*, which is an
address in a hypercube, and a long one, the *filter*, which is compared at every hop and is more selective. A
document that a path selects covers the path's signature in either length, so

- an event's key covers the key of every subscription that matches it, and its filter their filters;
- no event is missed because of its address, however short; needless messages are stopped by the filter, or at
  last by the subscription's home.

Rules:

- Both come from one pass over the items, each hashed once. No node parses a document again to route it, and
  the publisher reads it from its bytes where that is possible (`matching.path.scanned_items`).
- A path's items are those that every document it selects has. `//`, `*`, `or` and `not()` add fewer items,
  never too many; filters of other kinds add none.
- Values have bits of the filter for themselves (section 6.2): a path that compares a node with `=` guarantees
  that value, a document has all its values. However many those are, the bits of the structure do not fill up.
  Keys are of structure alone.
- Without a document (or a path) there are no items: the key is 0, which every key covers. A subscription
  without a path is thus served too, at the price of being known to every vertex.
- All nodes of a system use one addressing: keys of different dimensions are different addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from distributary.errors import DistributaryError
from distributary.filters.filter import Filter
from distributary.filters.path.document import Document
from distributary.filters.path.filter import PathFilter, parsed_document
from distributary.matching.path.signature import (
    Item,
    SignatureShape,
    document_items,
    document_values,
    guaranteed_items,
    guaranteed_values,
    structure_signatures,
)
from distributary.model import Event
from distributary.overlay.hypercube import Key
from distributary.systems.kernel_use import KERNELS


class StructuralAddress(NamedTuple):
    """The address of an event or a subscription, and the bits that its longer signature sets."""

    key: Key
    filter: int


@dataclass(frozen=True)
class Addressing:
    """Keys of `dimension` bits, filters of `length` bits for the structure and `value_bits` for values.

    A length of 0 means no filters at all, and value bits of 0 that they say nothing of values.

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
    value_bits: int = 256

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.length < 0 or self.hashes < 1 or self.value_bits < 0:
            raise DistributaryError(
                "an address has at least 1 bit, a filter at least 0, for values too, and an item sets at "
                f"least 1, not {self.dimension}, {self.length}, {self.value_bits} and {self.hashes}"
            )

    def of_event(self, event: Event) -> StructuralAddress:
        """The address of an event; DocumentError when its document cannot be parsed."""
        if event.document is None:
            return self.of_items(())
        if KERNELS.withheld:
            return self.of_document(parsed_document(event.document))
        from distributary.matching.path.scanned_items import scanned_items

        shape = SignatureShape(self.value_bits, self.hashes) if self.has_values else None
        scanned = scanned_items(event.document, shape)
        if scanned is None:
            return self.of_document(parsed_document(event.document))
        address = self.of_items(scanned.structure, scanned.values)
        return address._replace(filter=address.filter | scanned.bits << self.length)

    def of_document(self, document: Document) -> StructuralAddress:
        """The address of an event with this document: what `of_event` finds without parsing it."""
        return self.of_items(document_items(document), document_values(document) if self.has_values else ())

    def of_filters(self, filters: Mapping[str, Filter]) -> StructuralAddress:
        """The address of a subscription with these filters."""
        path = filters.get("path")
        if not isinstance(path, PathFilter):
            return self.of_items(())
        return self.of_items(guaranteed_items(path), guaranteed_values(path) if self.has_values else ())

    @property
    def has_values(self) -> bool:
        """Whether filters say something of values."""
        return bool(self.length and self.value_bits)

    def of_items(self, items: Iterable[Item], values: Iterable[Item] = ()) -> StructuralAddress:
        """The address of a structure, with the values that its filter is to show.

        Keys set one bit for each item: more would only fill them sooner.
        """
        shapes = [SignatureShape(self.dimension, 1)]
        if self.length:
            shapes.append(SignatureShape(self.length, self.hashes))
        key, *filters = structure_signatures(items, shapes)
        if not self.has_values:
            return StructuralAddress(key.bits, filters[0].bits if filters else 0)
        (shown,) = structure_signatures(values, [SignatureShape(self.value_bits, self.hashes)])
        return StructuralAddress(key.bits, filters[0].bits | shown.bits << self.length)


def fitting_dimension(nodes: int) -> int:
    """The dimension for a number of nodes: as many vertices as nodes, rounded up to a power of two.

    Fewer would leave nodes without a vertex. More make keys tell more structures apart, but each bit more
    doubles the vertices that a subscription goes to.

    >>> fitting_dimension(4096), fitting_dimension(1000), fitting_dimension(1)
    (12, 10, 1)
    """
    return max(1, (nodes - 1).bit_length())
