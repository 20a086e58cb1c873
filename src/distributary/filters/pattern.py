"""Tree patterns: the parsed form of a path filter, which all path indexes read.

A path filter is a union of location paths. A location path is a chain of steps; each step says how it hangs
below the one before (as a child, or as a descendant at any depth), what node it accepts, and which
predicates that node must satisfy. A path that may match anywhere has a first step on the descendant axis,
so one that does not start with `/` needs no marking of its own.

Labels: an element is written by its name (`item`, or `Q{uri}item` in a namespace), an attribute by `@name`,
a text node by `text()`; `*` accepts every element and `@*` every attribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Axis(Enum):
    CHILD = "/"
    DESCENDANT = "//"


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the pattern, with the axis that connects it to the node before it."""

    axis: Axis
    label: str
    predicates: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class LocationPath:
    """Steps from the document (or, inside a predicate, from the node that carries the predicate).

    Inside a predicate the steps may be empty: the path `.`, the node itself.
    """

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """The path selects at least one node."""

    path: LocationPath


@dataclass(frozen=True, slots=True)
class Compares:
    """Some node the path selects has a value that compares so with the literal, by the rules of XPath 1.0."""

    path: LocationPath
    operator: str
    literal: str | float


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


Predicate = Exists | Compares | And | Or | Not
