"""Paths over document types in the manner of the YFilter generator: random walks down the grammar.

A walk starts at the root and takes one child after the other, at most `depth` steps. Each step may become `*`
or be reached by `//`, may carry a branch (a path of one or two steps that no more exceeds the depth), and one
may compare a value, drawn as the documents draw theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from distributary.errors import DistributaryError
from distributary.workloads.xml_types import DocumentType

DEEPEST = 32
"""A walk to a value stops here: where a grammar is recursive, it need not ever meet a leaf."""


@dataclass(frozen=True, slots=True)
class Style:
    """What paths look like; chances are between 0 and 1."""

    depth: int = 6
    """The most steps from the root, those of branches included."""
    wildcard: float = 0.1
    """The chance that a step is `*`."""
    descendant: float = 0.15
    """The chance that a step is reached by `//`."""
    branching: float = 0.35
    """The chance that a step before the last carries a branch."""
    connectives: float = 0.3
    """The share of the branches that say `and`, `or` or `not`."""
    valued: float = 0.7
    """The chance that a path compares a value; of these, one in ten compares a second one."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise DistributaryError(f"paths have at least one step, so depth {self.depth} cannot be")
        for name in ("wildcard", "descendant", "branching", "connectives", "valued"):
            if not 0 <= getattr(self, name) <= 1:
                raise DistributaryError(f"{name} is a chance, between 0 and 1, not {getattr(self, name)}")


class Walk:
    """Random walks down document types, written as paths.

    >>> from distributary.workloads.xml_types import TYPES
    >>> Walk(Random(2), Style(depth=3, wildcard=0, descendant=0, valued=0)).path(TYPES[2])
    '/bib[book/title]/book'
    """

    def __init__(self, random: Random, style: Style) -> None:
        self.random = random
        self.style = style

    def path(self, kind: DocumentType) -> str:
        """One path over a type."""
        valued = self.random.random() < self.style.valued
        labels = self._down(kind, kind.root, self.style.depth)
        values = 1 + (self.random.random() < 0.1) if valued else 0
        steps: list[str] = []
        for number, label in enumerate(labels):
            last = number == len(labels) - 1
            text = self._step(label)
            if last and all(step.startswith("*") for step in steps):
                text = label
            if not last and self.random.random() < self.style.branching:
                text += f"[{self._branch(kind, label, min(3, self.style.depth - number))}]"
            if values and (last or self.random.random() < 0.3):
                text += "".join(f"[{self._comparison(kind, label)}]" for _ in range(values))
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
        if self.random.random() < self.style.wildcard:
            return "@*" if label.startswith("@") else "*"
        return label

    def _joined(self, steps: Sequence[str], first: str, first_descendant: str) -> str:
        text = ""
        for number, step in enumerate(steps):
            deep = self.random.random() < self.style.descendant
            if number == 0:
                text += (first_descendant if deep else first) + step
            else:
                text += ("//" if deep else "/") + step
        return text

    def _relative(self, labels: Sequence[str]) -> str:
        return self._joined([self._step(label) for label in labels], "", ".//")

    def _branch(self, kind: DocumentType, label: str, depth: int) -> str:
        """One condition on the structure below a node."""
        text = self._relative(self._down(kind, label, depth)[1:])
        chance = self.random.random()
        if chance < self.style.connectives / 3:
            return f"not({text})"
        if chance < self.style.connectives:
            other = self._relative(self._down(kind, label, depth)[1:])
            return f"{text} {self.random.choice(['and', 'or'])} {other}"
        return text

    def _comparison(self, kind: DocumentType, label: str) -> str:
        labels = self._down(kind, label, 9)
        while (children := kind.children(labels[-1])) and len(labels) < DEEPEST:
            if children[0].startswith("@"):
                break
            labels.append(self.random.choice(children))
        return f"{self._relative(labels[1:]) or '.'} {kind.leaf(labels[-1]).compare(self.random)}"
