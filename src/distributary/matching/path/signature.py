"""Signatures: a document's structure as a Bloom filter, computed where the document is published.

The structure of a document is the set of its labels (attributes count as elements) and of its ordered
parent-child pairs of labels. Its signature is a vector of `length` bits in which every one of these items
has set `hashes` bits. A path filter has a signature too, made of the items that every document it selects
must have. A document can only be selected when its signature covers the filter's, so comparing two bit
vectors rules filters out without the document; what remains are candidates, never less than the truth.

Rules:

* An item is hashed once, to 128 bits that depend on nothing but its text; every bit position of every
  length derives from those (`structure_signatures`), so signatures of several lengths cost one pass. Those of
  a value derive from its checksum: a document has thousands, and `scanned_items` finds them by the byte.
* A filter's items are what is *guaranteed*: `*`, `text()` and `//` contribute no pair across them, `or`
  contributes what all its parts share, `not()` contributes nothing, a union what all its branches share.
* Values are items of their own (`document_values`, `guaranteed_values`), for those who want them: a filter
  that compares a node with `=` guarantees that some node of that label has that value.
* Signatures compare only when made with the same length and number of hashes.
* Filters add up by AND (`aggregate`): the bits that all of them ask for. OR would ask a document for the bits
  of all filters at once and lose deliveries.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

from distributary.filters.path import pattern
from distributary.filters.path.document import Document
from distributary.filters.path.filter import PathFilter, parsed_document
from distributary.filters.path.literals import number
from distributary.filters.path.pattern import And, Axis, Compares, Exists, LocationPath, Not, Or, Predicate
from distributary.model import Event

Item = str | tuple[str, ...]
"""A label, the labels of a parent and its child, or a label with a value (`value_item`)."""

LONGEST_VALUE = 64
"""Texts with more characters are no items, on either side; numbers are, however they are written."""

VALUE_PARTS = 3
"""The parts of an item that is a value: its label, what it is compared as, and how that is written."""
STEP, FIRST_FACTOR, SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64, by which a checksum becomes two hashes."""
WORD = (1 << 64) - 1

SIGNATURE_LAYOUT = 2
"""Which bits an item sets. Raised when they change, as signatures of different layouts do not compare; 1 was
before values had the bits of their checksums."""
SIGNATURE = "signature"
"""The attribute under which an event carries the signature of its document."""
_HEXADECIMAL = re.compile("[0-9a-f]+")
_NUMBER_PART = re.compile(r"[ \t\r\n]*-?[0-9.]*[ \t\r\n]*")
"""What the text nodes of a number look like."""


class SignatureShape(NamedTuple):
    """How a signature is made: its length in bits, and how many bits each item sets.

    The default is the one of section 3.3.2, chosen there for documents of about a hundred items.
    """

    length: int = 256
    hashes: int = 1


@dataclass(frozen=True, slots=True)
class Signature:
    """A bit vector that stands for a set of items.

    >>> bib = structure_signatures({"bib", "book", ("bib", "book")}, [SignatureShape(64, 2)])[0]
    >>> bib.contains(("bib", "book"))
    True
    >>> bib.covers(structure_signatures({"book"}, [SignatureShape(64, 2)])[0])
    True
    """

    shape: SignatureShape
    bits: int
    """Bit i of the vector is bit i of this number."""

    def covers(self, other: Signature) -> bool:
        """Whether every bit that `other` sets is set here."""
        self._check_shape(other)
        return not other.bits & ~self.bits

    def contains(self, item: Item) -> bool:
        """Whether the item may be in the set; False is certain."""
        wanted = _bits(item, self.shape)
        return self.bits & wanted == wanted

    def aggregate(self, *others: Signature) -> Signature:
        """One signature for several filters: a document that any of them selects covers it."""
        for other in others:
            self._check_shape(other)
        return Signature(self.shape, reduce(lambda bits, other: bits & other.bits, others, self.bits))

    @property
    def text(self) -> str:
        """As an event carries it: length, hashes, and the bits in hexadecimal; `shipped_signature` reads it.

        >>> Signature(SignatureShape(16, 1), 0b10101).text
        '16/1:15'
        """
        return f"{self.shape.length}/{self.shape.hashes}:{self.bits:x}"

    def _check_shape(self, other: Signature) -> None:
        if self.shape != other.shape:
            raise ValueError(
                f"signatures of {self.shape} and {other.shape} do not compare; make both with one shape"
            )


def structure_signatures(items: Iterable[Item], shapes: Sequence[SignatureShape]) -> tuple[Signature, ...]:
    """The signatures of one set of items in several shapes, hashing each item once."""
    vectors = [0] * len(shapes)
    for item in items:
        for which, shape in enumerate(shapes):
            vectors[which] |= _bits(item, shape)
    return tuple(Signature(shape, bits) for shape, bits in zip(shapes, vectors, strict=True))


def document_signature(document: Document, length: int = 256, hashes: int = 1) -> Signature:
    """What a publisher computes and ships with the document."""
    return structure_signatures(document_items(document), [SignatureShape(length, hashes)])[0]


def signed(event: Event, length: int = 256, hashes: int = 1) -> Event:
    """The event with the signature of its document as the attribute `signature`; what a publisher sends.

    An event without a document stays as it is; DocumentError when the document cannot be read.

    >>> signed(Event("e", document="<a/>"), length=8).attributes
    {'signature': '8/1:80'}
    """
    if event.document is None:
        return event
    text = document_signature(parsed_document(event.document), length, hashes).text
    return replace(event, attributes={**event.attributes, SIGNATURE: text})


def shipped_signature(text: object, shape: SignatureShape) -> Signature | None:
    """What `Signature.text` wrote, if it has this shape; None for anything else.

    >>> shipped_signature("8/1:10", SignatureShape(8, 1))
    Signature(shape=SignatureShape(length=8, hashes=1), bits=16)
    >>> shipped_signature("8/1:-1", SignatureShape(8, 1)), shipped_signature("8/2:10", SignatureShape(8, 1))
    (None, None)
    """
    if not isinstance(text, str):
        return None
    made, _, digits = text.partition(":")
    if made != f"{shape.length}/{shape.hashes}" or not _HEXADECIMAL.fullmatch(digits):
        return None
    fits = len(digits) <= (shape.length + 3) // 4 and not int(digits, 16) >> shape.length
    return Signature(shape, int(digits, 16)) if fits else None


def path_signature(path_filter: PathFilter, length: int = 256, hashes: int = 1) -> Signature:
    """What every document that the filter selects covers.

    >>> asked = path_signature(PathFilter.parse("/bib//last"), length=64)
    >>> asked.contains("last"), asked.contains(("bib", "last"))
    (True, False)
    """
    return structure_signatures(guaranteed_items(path_filter), [SignatureShape(length, hashes)])[0]


def document_items(document: Document) -> set[Item]:
    """The labels of a document and its parent-child pairs."""
    labels = document.labels
    pairs = zip(labels, document.class_parents, strict=True)
    return {*labels, *((labels[parent], label) for label, parent in pairs if parent >= 0)}


def guaranteed_items(path_filter: PathFilter) -> set[Item]:
    """The labels and parent-child pairs that every document the filter selects has.

    >>> sorted(map(str, guaranteed_items(PathFilter.parse("/bib//book[@id]/*/last"))))
    ["('book', '@id')", '@id', 'bib', 'book', 'last']
    """
    return set.intersection(*map(branch_items, path_filter.branches))


def document_values(document: Document) -> set[Item]:
    """The values of a document with the labels of their nodes: as texts, and as numbers where they are.

    >>> from distributary.filters.path.document import parse_document
    >>> sorted(document_values(parse_document("<a id='x'> 7</a>")))
    [('@id', 'text', 'x'), ('a', 'number', '7.0'), ('a', 'text', ' 7')]
    """
    lengths = [0, *accumulate(map(len, document.texts))]
    items: set[Item] = set()
    for node, path_class in enumerate(document.classes):
        start, end = document.text_starts[node], document.text_ends[node]
        is_short = end < 0 or lengths[end] - lengths[start] <= LONGEST_VALUE
        if is_short or all(map(_NUMBER_PART.fullmatch, document.texts[start:end])):
            items |= _value_items(document.labels[path_class], document.value(node))
    return items


def guaranteed_values(path_filter: PathFilter) -> set[Item]:
    """The values that every document the filter selects has, with the labels of their nodes.

    >>> sorted(guaranteed_values(PathFilter.parse("/bib/book[@id = 7 and not(year = 3)][a = 'x' or b]")))
    [('@id', 'number', '7.0')]
    """
    return set.intersection(*(branch_items(branch, values=True) for branch in path_filter.branches))


def value_item(label: str, value: str | float) -> Item | None:
    """The item that a node of that label has when it equals a text or a number; None if it is no item.

    >>> value_item("price", -0.0), value_item("name", "x" * 65)
    (('price', 'number', '0.0'), None)
    """
    if isinstance(value, str):
        return (label, "text", value) if len(value) <= LONGEST_VALUE else None
    return label, "number", repr(value + 0.0)


def _value_items(label: str, value: str) -> set[Item]:
    found = [value_item(label, value)]
    if (as_number := number(value)) == as_number:
        found.append(value_item(label, as_number))
    return {item for item in found if item is not None}


def false_positive_estimate(hashes: int, items: int, length: int) -> float:
    """How likely an absent item appears present: (1 - e^(-kn/m))^k, equation 7.2.

    >>> round(false_positive_estimate(1, 93, 256), 3)
    0.305
    """
    return float((1.0 - math.exp(-hashes * items / length)) ** hashes)


def optimal_hashes(length: int, items: int) -> int:
    """The number of hashes with the lowest estimate: one of the two integers next to (m/n) ln 2.

    >>> optimal_hashes(256, 93)
    2
    """
    below = max(1, math.floor(length / max(items, 1) * math.log(2)))
    return min(below, below + 1, key=lambda hashes: false_positive_estimate(hashes, items, length))


def shape_for(items: int, rate: float) -> SignatureShape:
    """The shortest shape, with as many hashes as serve it best, whose estimate for so many items is at most
    `rate`.

    >>> shape_for(93, 0.25)
    SignatureShape(length=269, hashes=2)
    """
    if items < 1 or not 0 < rate < 1:
        raise ValueError(f"a shape is for at least one item and a rate in (0, 1), not {items} and {rate}")

    def meets(length: int) -> bool:
        return false_positive_estimate(optimal_hashes(length, items), items, length) <= rate

    long_enough = 1
    while not meets(long_enough):
        long_enough *= 2
    length = bisect_left(range(long_enough), True, lo=max(1, long_enough // 2), key=meets)
    return SignatureShape(length, optimal_hashes(length, items))


@lru_cache(maxsize=1 << 16)
def _hashed(item: Item) -> tuple[int, int]:
    """Two 64-bit hashes of an item. NUL stands in no XML text, so a pair is never taken for a label."""
    text = (item if isinstance(item, str) else "\0".join(item)).encode("utf-8", "surrogatepass")
    if len(item) == VALUE_PARTS and not isinstance(item, str):
        checksum = crc32(text)
        return _mixed(checksum + STEP), _mixed(checksum + 2 * STEP) | 1
    digest = blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1


def _mixed(number: int) -> int:
    """64 bits that all depend on all bits of a number (the finaliser of SplitMix64)."""
    number = (number & WORD) ^ (number & WORD) >> 30
    number = number * FIRST_FACTOR & WORD
    number = (number ^ number >> 27) * SECOND_FACTOR & WORD
    return number ^ number >> 31


@lru_cache(maxsize=1 << 16)
def _bits(item: Item, shape: SignatureShape) -> int:
    """The bits an item sets: double hashing, reduced to the length."""
    first, second = _hashed(item)
    bits = 0
    for turn in range(shape.hashes):
        bits |= 1 << ((first + turn * second) & WORD) % shape.length
    return bits


def is_name(label: str) -> bool:
    """Whether a label is a name, and not a wildcard or `text()`."""
    return label not in (pattern.ANY_ELEMENT, pattern.ANY_ATTRIBUTE, pattern.TEXT)


def branch_items(path: LocationPath, context: str | None = None, *, values: bool = False) -> set[Item]:
    """The labels and parent-child pairs (or the values) of every document in which it selects something.

    `context` is the label of the node from which it selects; None: the document, or an unknown label.
    """
    items: set[Item] = set()
    parent = context
    for step in path.steps:
        name = step.label if is_name(step.label) else None
        if name is not None and not values:
            items.add(name)
            if step.axis is Axis.CHILD and parent is not None:
                items.add((parent, name))
        for predicate in step.predicates:
            items |= _predicate_items(predicate, name, values)
        parent = name
    return items


def _predicate_items(predicate: Predicate, context: str | None, values: bool) -> set[Item]:
    match predicate:
        case Exists(path):
            return branch_items(path, context, values=values)
        case Compares(path, relation, literal):
            items = branch_items(path, context, values=values)
            last = path.steps[-1].label if path.steps else context
            if values and relation == "=" and last is not None and is_name(last):
                items |= {item for item in [value_item(last, literal)] if item is not None}
            return items
        case And(parts):
            return set().union(*(_predicate_items(part, context, values) for part in parts))
        case Or(parts):
            return set.intersection(*(_predicate_items(part, context, values) for part in parts))
        case Not(_):
            return set()
