"""Document types, each a small grammar held as data: what an element contains, how often, and which values.

`TYPES` are the nine of Table 3.1, under its names and with as many elements and attributes as it gives; the
element names, their nesting (xml_types.toml) and the values (`LEAVES`) are our own. A grammar says of an
element what it contains wherever it stands, as a document type definition does.
"""

from __future__ import annotations

import tomllib
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
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
LEAVES: Mapping[str, Leaf] = {
    "title": Text(3),
    **dict.fromkeys(("year", "@year", "joined", "since", "birthday"), Number(1950, 2012)),
    **dict.fromkeys(("price", "high", "low", "open"), Number(1, 500, 2)),
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
"""What leaves of these labels hold in every type but those of `OWN_LEAVES`; all others hold a word."""
OWN_LEAVES: Mapping[str, Mapping[str, Leaf]] = {
    "SigmodRecord": {"volume": Number(1, 40)},
    "profile": {"title": WORD},
    "quote": {"volume": Number(100, 99_999)},
}


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


def _table_3_1() -> tuple[DocumentType, ...]:
    text = (files("distributary.workloads") / "xml_types.toml").read_text(encoding="utf-8")
    return tuple(
        DocumentType(name, next(iter(content)), content, {**LEAVES, **OWN_LEAVES.get(name, {})})
        for name, content in tomllib.loads(text).items()
    )


TYPES = _table_3_1()
