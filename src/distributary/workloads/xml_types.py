"""Document types, each a small grammar held as data: what an element contains, how often, and which values.

`TYPES` are the nine of Table 3.1, under its names and with as many elements and attributes as it gives; the
element names, their nesting and the values are our own. A grammar says of an element what it contains
wherever it stands, as a document type definition does.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

SYLLABLES = [onset + vowel for onset in "bdklmnrst" for vowel in "aeio"]
WORDS = 2_000


def _vocabulary() -> tuple[list[str], list[float]]:
    """Words of two to four syllables, the most frequent first, with cumulative Zipf weights."""
    random = Random(7)
    words: dict[str, None] = {}
    while len(words) < WORDS:
        words.setdefault("".join(random.choices(SYLLABLES, k=random.randint(2, 4))).capitalize())
    return list(words), list(accumulate(1.0 / (rank + 10) for rank in range(WORDS)))


VOCABULARY, _WEIGHTS = _vocabulary()


def _word(random: Random) -> str:
    return VOCABULARY[bisect(_WEIGHTS, random.random() * _WEIGHTS[-1], hi=WORDS - 1)]


@dataclass(frozen=True, slots=True)
class Text:
    """Leaves that hold words."""

    words: int = 1

    def draw(self, random: Random) -> str:
        """A text of a few words."""
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
        """A number of the range, as text."""
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


@dataclass(frozen=True, slots=True)
class ObservedElement:
    """Leaves that hold one of the values met in documents; none when no value met is fit for a literal."""

    values: tuple[str, ...] = ()

    def draw(self, random: Random) -> str:
        """One of the observed values."""
        return random.choice(self.values) if self.values else ""

    def compare(self, random: Random) -> str:
        """A comparison with one of the observed values."""
        if not self.values:
            return "!= ''"
        value = self.draw(random)
        quote = '"' if "'" in value else "'"
        return f"{'!=' if random.random() < 0.05 else '='} {quote}{value}{quote}"


Leaf = Text | Number | ObservedElement
WORD = Text()
MONEY = Number(1, 500, 2)
LEAVES: Mapping[str, Leaf] = {
    "title": Text(3),
    **dict.fromkeys(("year", "@year", "joined", "since", "birthday"), Number(1950, 2012)),
    **dict.fromkeys(("price", "high", "low", "open"), MONEY),
    **dict.fromkeys(("salary", "income"), Number(900, 9_000)),
    **dict.fromkeys(("zip", "isbn"), Number(10_000, 99_999)),
    **dict.fromkeys(("initPage", "endPage"), Number(1, 400)),
    "number": Number(1, 4),
    "@position": Number(0, 5),
    "age": Number(16, 80),
    "phone": Number(2_000_000, 9_999_999),
    "gpa": Number(1, 4, 2),
    "office": Number(100, 900),
    "@id": Number(1, 9_999),
    "change": Number(-9, 9, 2),
    "date": Number(1, 28),
}
"""What leaves of these labels hold in every type, unless it says otherwise; all others hold a word."""


@dataclass(frozen=True, slots=True)
class DocumentType:
    """A document type: what each element contains. A name without content here is a leaf.

    A child is written `name` (once), `name?` (perhaps), `name*` (none to three) or `name+` (the record that
    is repeated until the document is large enough). `@name` is an attribute.
    """

    name: str
    root: str
    content: Mapping[str, str]
    leaves: Mapping[str, Leaf] = field(default_factory=lambda: LEAVES)

    def children(self, element: str) -> list[str]:
        """The elements that may stand in an element."""
        return [child.rstrip("?*+") for child in self.content.get(element, "").split()]

    def labels(self) -> set[str]:
        """All elements and attributes."""
        return {self.root, *(child for element in self.content for child in self.children(element))}

    def leaf(self, label: str) -> Leaf:
        """What a leaf of that label holds."""
        return self.leaves.get(label, WORD)

    def pairs(self) -> set[tuple[str, str]]:
        """The labels of parents and their children."""
        return {(element, child) for element in self.content for child in self.children(element)}


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
        {**LEAVES, "volume": Number(1, 40)},
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
        {**LEAVES, "title": WORD},
    ),
    DocumentType(
        "quote",
        "quotes",
        {
            "quotes": "quote+",
            "quote": "symbol company? price change? volume range? date",
            "range": "high low open?",
        },
        {**LEAVES, "volume": Number(100, 99_999)},
    ),
)
