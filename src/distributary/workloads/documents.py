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
from distributary.workloads.xml_paths import Style, Walk
from distributary.workloads.xml_types import TYPES, DocumentType

PATIENCE = 1_000
"""How many paths in a row may turn out to be known already before the generator gives up."""


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
    if size < 1 or spread < 0:
        raise DistributaryError(
            f"documents of size {size} and spread {spread} cannot be; 1 and 0 are the least"
        )
    random = Random(f"documents {seed}")
    for number in range(count):
        kind = random.choice(types)
        wanted = round(random.lognormvariate(log(size), spread)) if spread else size
        yield Event(f"e{number}", document=document(kind, random, wanted))


def document(kind: DocumentType, random: Random, size: int) -> str:
    """One document of a type."""
    parts: list[str] = []
    _write(kind, kind.root, random, size, parts)
    return "".join(parts)


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


def _write(kind: DocumentType, element: str, random: Random, size: int, parts: list[str]) -> int:
    """Append an element; returns how many characters it has."""
    children = kind.content.get(element, "").split()
    attributes = [child for child in children if child.startswith("@")]
    length = len(parts)
    parts.append(f"<{element}")
    for attribute in attributes:
        if not attribute.endswith("?") or random.random() < 0.6:
            name = attribute.rstrip("?")
            parts.append(f" {name[1:]}={quoteattr(kind.leaf(name).draw(random))}")
    parts.append(">")
    written = sum(map(len, parts[length:])) + len(element) + 3
    if len(children) == len(attributes):
        parts.append(escape(kind.leaf(element).draw(random)))
        written += len(parts[-1])
    for child in children:
        if not child.startswith("@"):
            written += _write_child(kind, child, random, size - written, parts)
    parts.append(f"</{element}>")
    return written


def _write_child(kind: DocumentType, child: str, random: Random, size: int, parts: list[str]) -> int:
    name = child.rstrip("?*+")
    if child.endswith("+"):
        written = 0
        while written < size or not written:
            written += _write(kind, name, random, 0, parts) + 1
            parts.append("\n")
        return written
    times = 1
    if child.endswith("?"):
        times = int(random.random() < 0.6)
    elif child.endswith("*"):
        times = random.randint(0, 3)
    return sum(_write(kind, name, random, size, parts) for _ in range(times))
