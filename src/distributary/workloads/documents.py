"""XML documents of nine types, and XPath subscriptions over them.

The types bear the names of Table 3.1 and have as many elements and attributes as it gives; the element
names, their nesting and the values are our own. A document repeats its type's record until it has the size
asked for. Paths are made in the manner of the YFilter generator: a walk down a type from its root, in which
each step may become `*` or be reached by `//`, may carry branches, and may end in a comparison with a value
drawn as the documents draw theirs. Paths are distinct.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from xml.sax.saxutils import escape, quoteattr

from distributary.model import Event, Subscription

SYLLABLES = [onset + vowel for onset in "bdklmnrst" for vowel in "aeio"]
WORDS = 2_000
PATIENCE = 1_000
"""How many paths in a row may turn out to be known already before the generator gives up."""


def _vocabulary() -> tuple[list[str], list[float]]:
    """Words of two to four syllables, the most frequent first, with cumulative Zipf weights."""
    random = Random(7)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words.setdefault("".join(random.choices(SYLLABLES, k=random.randint(2, 4))).capitalize())
    return list(words), list(accumulate(1.0 / (rank + 10) for rank in range(WORDS)))


VOCABULARY, _WEIGHTS = _vocabulary()


@dataclass(frozen=True, slots=True)
class Text:
    """Leaves that hold words."""

    words: int = 1

    def draw(self, random: Random) -> str:
        return " ".join(_word(random) for _ in range(self.words))

    def compare(self, random: Random) -> str:
        """An operator and a literal."""
        operator = "!=" if random.random() < 0.05 else "="
        return f"{operator} '{self.draw(random)}'"


@dataclass(frozen=True, slots=True)
class Number:
    """Leaves that hold numbers between two bounds, with so many digits after the point."""

    low: float
    high: float
    digits: int = 0

    def draw(self, random: Random) -> str:
        return f"{random.uniform(self.low, self.high):.{self.digits}f}"

    def compare(self, random: Random) -> str:
        """Half of the comparisons are ranges, whose literals lie towards the selective end."""
        if random.random() < 0.5:
            return f"= {self.draw(random)}"
        share = random.random() ** 3
        if random.random() < 0.5:
            literal = self.low + (self.high - self.low) * share * 0.5
            return f"{random.choice(['<', '<='])} {literal:.{self.digits}f}"
        literal = self.high - (self.high - self.low) * share * 0.5
        return f"{random.choice(['>', '>='])} {literal:.{self.digits}f}"


Leaf = Text | Number
WORD = Text()
TITLE = Text(3)
YEAR = Number(1950, 2012)
DAY = Number(1, 28)
PHONE = Number(2_000_000, 9_999_999)
MONEY = Number(1, 500, 2)


@dataclass(frozen=True, slots=True)
class DocumentType:
    """A document type: what each element contains. A name without content here is a leaf.

    A child is written `name` (once), `name?` (perhaps), `name*` (none to three) or `name+` (the record that
    is repeated until the document is large enough). `@name` is an attribute.
    """

    name: str
    root: str
    content: Mapping[str, str]
    leaves: Mapping[str, Leaf] = field(default_factory=dict)

    def children(self, element: str) -> list[str]:
        return [child.rstrip("?*+") for child in self.content.get(element, "").split()]

    def labels(self) -> set[str]:
        return {self.root, *(child for element in self.content for child in self.children(element))}

    def leaf(self, label: str) -> Leaf:
        return self.leaves.get(label, WORD)


TYPES: tuple[DocumentType, ...] = (
    DocumentType(
        "SigmodRecord",
        "SigmodRecord",
        {
            "SigmodRecord": "issue+",
            "issue": "volume number articles",
            "articles": "article article article*",
            "article": "title initPage endPage? authors",
            "authors": "author author*",
            "author": "@position",
        },
        {
            "volume": Number(1, 40),
            "number": Number(1, 4),
            "title": TITLE,
            "initPage": Number(1, 400),
            "endPage": Number(1, 400),
            "@position": Number(0, 5),
        },
    ),
    DocumentType(
        "actors",
        "actors",
        {
            "actors": "actor+",
            "actor": "name filmography?",
            "name": "first last",
            "filmography": "movie movie*",
            "movie": "title year?",
        },
        {"title": TITLE, "year": YEAR},
    ),
    DocumentType(
        "bib",
        "bib",
        {
            "bib": "book+",
            "book": "@year title author* editor? publisher price isbn?",
            "author": "last first?",
            "editor": "last first affiliation?",
            "publisher": "name address?",
        },
        {
            "@year": YEAR,
            "title": TITLE,
            "price": MONEY,
            "isbn": Number(10_000, 99_999),
        },
    ),
    DocumentType(
        "club",
        "club",
        {
            "club": "name location activities members",
            "location": "city country",
            "activities": "activity activity*",
            "members": "member+",
            "member": "nickname age? email? joined",
        },
        {"age": Number(16, 80), "joined": YEAR},
    ),
    DocumentType(
        "department",
        "department",
        {
            "department": "deptname people",
            "people": "faculty* staff* student+",
            "faculty": "name phone? email office?",
            "staff": "name phone? office",
            "student": "name email? address? gpa",
            "name": "firstname lastname",
            "address": "street city state? zip",
        },
        {"phone": PHONE, "zip": Number(10_000, 99_999), "gpa": Number(1, 4, 2), "office": Number(100, 900)},
    ),
    DocumentType(
        "movies",
        "movies",
        {
            "movies": "movie+",
            "movie": "title year director country? genres? cast?",
            "genres": "genre genre*",
            "cast": "performer performer*",
            "performer": "actor role?",
        },
        {"title": TITLE, "year": YEAR},
    ),
    DocumentType(
        "personal",
        "personnel",
        {
            "personnel": "person+",
            "person": "@id name email* phone? address? job",
            "name": "family given",
            "address": "street city zip?",
            "job": "position salary? since?",
        },
        {
            "@id": Number(1, 9_999),
            "phone": PHONE,
            "zip": Number(10_000, 99_999),
            "salary": Number(900, 9_000),
            "since": YEAR,
        },
    ),
    DocumentType(
        "profile",
        "profiles",
        {
            "profiles": "profile+",
            "profile": "name gender? birthday education? interests occupation? contact",
            "name": "first last",
            "education": "degree school?",
            "interests": "interest interest*",
            "occupation": "title income?",
            "contact": "email phone?",
        },
        {"birthday": YEAR, "income": Number(900, 9_000), "phone": PHONE},
    ),
    DocumentType(
        "quote",
        "quotes",
        {
            "quotes": "quote+",
            "quote": "symbol company? price change? volume range? date",
            "range": "high low open?",
        },
        {
            "price": MONEY,
            "change": Number(-9, 9, 2),
            "volume": Number(100, 99_999),
            "high": MONEY,
            "low": MONEY,
            "open": MONEY,
            "date": DAY,
        },
    ),
)


def events(
    count: int, *, seed: int, size: int = 30_000, types: Sequence[DocumentType] = TYPES
) -> Iterator[Event]:
    """Events whose documents have about `size` characters, the types evenly mixed.

    >>> event = next(events(1, seed=1, size=300))
    >>> event.id, len(event.document) < 1_000
    ('e0', True)
    """
    random = Random(f"documents {seed}")
    for number in range(count):
        yield Event(f"e{number}", document=document(random.choice(types), random, size))


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
    valued: float = 0.7,
) -> Iterator[Subscription]:
    """Subscriptions with distinct paths.

    A path has at most `depth` steps. A step is `*` with probability `wildcard`, reached by `//` with
    `descendant`, and carries a branch with `branching`. A path compares a value with probability `valued`;
    of these, one in ten compares a second one. ValueError when so many distinct ones cannot be found.

    >>> [s.path for s in subscriptions(2, seed=1, valued=0, branching=0)]
    ['/bib/book//@year', '/personnel/person//address/street']
    """
    walk = _Walk(Random(f"paths {seed}"), depth, wildcard, descendant, branching)
    known: set[str] = set()
    vain = 0
    while len(known) < count:
        path = walk.path(walk.random.choice(types), walk.random.random() < valued)
        if path in known:
            vain += 1
            if vain > PATIENCE:
                raise ValueError(f"{count} distinct paths cannot be made; raise depth, branching or valued")
            continue
        vain = 0
        yield Subscription(f"s{len(known)}", f"u{len(known) % 1_000}", path=path)
        known.add(path)


def _word(random: Random) -> str:
    return VOCABULARY[bisect(_WEIGHTS, random.random() * _WEIGHTS[-1], hi=WORDS - 1)]


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


class _Walk:
    """Random walks down a document type, written as paths."""

    def __init__(
        self, random: Random, depth: int, wildcard: float, descendant: float, branching: float
    ) -> None:
        self.random = random
        self.depth = depth
        self.wildcard = wildcard
        self.descendant = descendant
        self.branching = branching

    def path(self, kind: DocumentType, valued: bool) -> str:
        labels = self._down(kind, kind.root, self.depth)
        values = 0
        if valued:
            values = 2 if self.random.random() < 0.1 else 1
        steps: list[str] = []
        for number, label in enumerate(labels):
            text = self._step(label)
            if number == len(labels) - 1 and all(step.startswith("*") for step in steps):
                text = label
            if label is not labels[-1] and self.random.random() < self.branching:
                text += f"[{self._branch(kind, label)}]"
            if values and (number == len(labels) - 1 or self.random.random() < 0.3):
                text += self._comparisons(kind, label, values)
                values = 0
            steps.append(text)
        return self._joined(steps, "/", "//")

    def _down(self, kind: DocumentType, label: str, depth: int) -> list[str]:
        """Labels from `label` down to some descendant."""
        labels = [label]
        while len(labels) < depth and (children := kind.children(labels[-1])):
            if len(labels) > 1 and self.random.random() < 0.2:
                break
            labels.append(self.random.choice(children))
        return labels

    def _step(self, label: str) -> str:
        if self.random.random() < self.wildcard:
            return "@*" if label.startswith("@") else "*"
        return label

    def _joined(self, steps: Sequence[str], first: str, first_descendant: str) -> str:
        text = ""
        for number, step in enumerate(steps):
            deep = self.random.random() < self.descendant
            if number == 0:
                text += (first_descendant if deep else first) + step
            else:
                text += ("//" if deep else "/") + step
        return text

    def _relative(self, labels: Sequence[str]) -> str:
        return self._joined([self._step(label) for label in labels], "", ".//")

    def _branch(self, kind: DocumentType, label: str) -> str:
        """One condition on the structure below a node."""
        text = self._relative(self._down(kind, label, 3)[1:])
        chance = self.random.random()
        if chance < 0.1:
            return f"not({text})"
        if chance < 0.3:
            other = self._relative(self._down(kind, label, 3)[1:])
            return f"{text} {self.random.choice(['and', 'or'])} {other}"
        return text

    def _comparisons(self, kind: DocumentType, label: str, count: int) -> str:
        return "".join(f"[{self._comparison(kind, label)}]" for _ in range(count))

    def _comparison(self, kind: DocumentType, label: str) -> str:
        labels = self._down(kind, label, 9)
        while kind.children(labels[-1]) and not kind.children(labels[-1])[0].startswith("@"):
            labels.append(self.random.choice(kind.children(labels[-1])))
        compare: Callable[[Random], str] = kind.leaf(labels[-1]).compare
        return f"{self._relative(labels[1:]) or '.'} {compare(self.random)}"
