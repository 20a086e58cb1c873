"""XML documents of nine types, and XPath subscriptions over them.

The types are those of Table 3.1 (see `xml_types`). A document repeats its type's record until it has the size
asked for. Paths are walks down a type in the manner of the YFilter generator (see `xml_paths`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from random import Random
from xml.sax.saxutils import escape, quoteattr

from distributary.errors import DistributaryError
from distributary.model import Event, Subscription
from distributary.workloads.options import require
from distributary.workloads.xml_paths import Style, Walk
from distributary.workloads.xml_types import TYPES, DocumentType, Leaf

WIDEST_SPREAD = 10
"""A size is then some twenty thousand times the median or its part, every third time."""
PATIENCE = 1_000
"""After how many repeated paths in a row the generator gives up."""


def events(
    count: int,
    *,
    seed: int,
    size: int = 30_000,
    spread: float = 0.0,
    types: Sequence[DocumentType] = TYPES,
) -> Iterator[Event]:
    """Events with documents of about `size` characters, the types evenly mixed.

    With a `spread`, sizes follow a log-normal distribution: `size` is the median, and `spread` the standard
    deviation of the logarithm.

    >>> event = next(events(1, seed=1, size=300))
    >>> event.id, len(event.document) < 1_000
    ('e0', True)
    """
    require("size", size, 1)
    require("spread", spread, 0, WIDEST_SPREAD)
    random = Random(f"documents {seed}")
    writers = [_Writer(kind) for kind in types]
    for number in range(count):
        writer = random.choice(writers)
        wanted = round(random.lognormvariate(log(size), spread)) if spread else size
        yield Event(f"e{number}", document=writer.write(random, wanted))


def subscriptions(
    count: int,
    *,
    seed: int,
    types: Sequence[DocumentType] = TYPES,
    depth: int = 6,
    wildcard: float = 0.1,
    descendant: float = 0.15,
    branching: float = 0.35,
    connectives: float = 0.3,
    valued: float = 0.7,
    distinct: bool = True,
) -> Iterator[Subscription]:
    """Subscriptions with paths in a style (see `xml_paths.Style`), the types evenly mixed.

    DistributaryError when they are to be distinct and there are not so many.

    >>> [s.path for s in subscriptions(2, seed=1, valued=0, branching=0)]
    ['/bib/book//@year', '/personnel/person//address/street']
    """
    random = Random(f"paths {seed}")
    walk = Walk(random, Style(depth, wildcard, descendant, branching, connectives, valued))
    known: set[str] = set()
    made = vain = 0
    while made < count:
        path = walk.path(random.choice(types))
        if distinct and path in known:
            vain += 1
            if vain > PATIENCE:
                raise DistributaryError(
                    f"{count} distinct paths cannot be made; raise depth, branching or valued"
                )
            continue
        vain = 0
        yield Subscription(f"s{made}", f"u{made % 1_000}", path=path)
        known.add(path)
        made += 1


class _Writer:
    """Writes documents of one type; its grammar is parsed once."""

    def __init__(self, kind: DocumentType) -> None:
        self.kind = kind
        self.elements: dict[str, tuple[list[tuple[str, bool, Leaf]], list[tuple[str, str]]]] = {}
        for element in kind.labels():
            parts = kind.content.get(element, "").split()
            self.elements[element] = (
                [
                    (part[1:].rstrip("?"), part.endswith("?"), kind.leaf(part.rstrip("?")))
                    for part in parts
                    if part.startswith("@")
                ],
                [(part.rstrip("?*+"), part[-1]) for part in parts if not part.startswith("@")],
            )

    def write(self, random: Random, size: int) -> str:
        parts: list[str] = []
        self._element(self.kind.root, random, size, parts)
        return "".join(parts)

    def _element(self, element: str, random: Random, size: int, parts: list[str]) -> int:
        """Append an element; returns how many characters it has."""
        attributes, children = self.elements[element]
        start = f"<{element}"
        for name, optional, leaf in attributes:
            if not optional or random.random() < 0.6:
                start += f" {name}={quoteattr(leaf.draw(random))}"
        if not children:
            text = escape(self.kind.leaf(element).draw(random))
            parts.append(f"{start}>{text}</{element}>")
            return len(parts[-1])
        parts.append(start + ">")
        written = len(start) + len(element) + 4
        for name, mark in children:
            written += self._child(name, mark, random, size - written, parts)
        parts.append(f"</{element}>")
        return written

    def _child(self, name: str, mark: str, random: Random, size: int, parts: list[str]) -> int:
        if mark == "+":
            written = 0
            while written < size or not written:
                written += self._element(name, random, 0, parts) + 1
                parts.append("\n")
            return written
        times = 1
        if mark == "?":
            times = int(random.random() < 0.6)
        elif mark == "*":
            times = random.randint(0, 3)
        return sum(self._element(name, random, size, parts) for _ in range(times))
