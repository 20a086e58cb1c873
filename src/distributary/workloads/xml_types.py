"""Document types, each a small grammar held as data: what an element contains, how often, and which values.

`TYPES` are the nine of Table 3.1, under its names and with as many elements and attributes as it gives; the
element names, their nesting and the values are our own. A grammar says of an element what it contains
wherever it stands, as a document type definition does, and `dtd` writes it as one.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
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

    def dtd(self) -> str:
        """The grammar as a document type definition.

        >>> print(DocumentType("note", "note", {"note": "@day? to+ body?"}).dtd())
        <!ELEMENT note (to+, body?)>
        <!ATTLIST note day CDATA #IMPLIED>
        <!ELEMENT body (#PCDATA)>
        <!ELEMENT to (#PCDATA)>
        """
        return "\n".join(self._declarations())

    def _declarations(self) -> Iterator[str]:
        for element in (*self.content, *sorted(self.labels() - set(self.content))):
            if element.startswith("@"):
                continue
            parts = self.content.get(element, "").split()
            children = ", ".join(part for part in parts if not part.startswith("@"))
            yield f"<!ELEMENT {element} ({children or '#PCDATA'})>"
            for part in parts:
                if part.startswith("@"):
                    presence = "#IMPLIED" if part.endswith("?") else "#REQUIRED"
                    yield f"<!ATTLIST {element} {part[1:].rstrip('?')} CDATA {presence}>"


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
        {"@year": YEAR, "title": TITLE, "price": MONEY, "isbn": Number(10_000, 99_999)},
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
