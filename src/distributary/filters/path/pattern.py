"""Tree patterns: the parsed form of a path filter, which all path indexes read.

A path filter is a union of location paths. A location path is a chain of steps; each step says how it hangs
below the one before (as a child, or as a descendant at any depth), what node it accepts, and which
predicates that node must satisfy. A path that may match anywhere has a first step on the descendant axis,
so one that does not start with `/` needs no marking of its own.

Labels: an element is written by its name (`item`, or `Q{uri}item` in a namespace), an attribute by `@name`,
a text node by `text()`; `*` accepts every element and `@*` every attribute. Attributes and text nodes count
as children of their element, so `a//@id` is the attributes of `a` and of everything below it. Nothing comes
after a step that selects attributes or text nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from operator import is_not
from typing import Any

from distributary.filters.connectives import And as And
from distributary.filters.connectives import Not as Not
from distributary.filters.connectives import Or as Or
from distributary.filters.path.literals import literal_text as literal_text
from distributary.filters.path.literals import number as number
from distributary.filters.path.xpath import XPath, is_everything, xpath_text


class Axis(Enum):
    """How a step hangs below the one before it."""

    CHILD = "/"
    DESCENDANT = "//"


@dataclass(frozen=True, slots=True)
class PathStep:
    """One node of the pattern, with the axis that connects it to the node before it."""

    axis: Axis
    label: str
    predicates: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class LocationPath:
    """Steps from the document (or, inside a predicate, from the node that carries the predicate).

    Inside a predicate the steps may be empty: the path `.`, the node itself.
    """

    steps: tuple[PathStep, ...]
    exact: XPath | None = None
    """The path itself, where the steps say less: each document that it selects has what the steps ask for,
    and whether it does is for `evaluate` to decide. Only branches of a filter have this, no path in a
    predicate."""


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


Predicate = Exists | Compares | And["Predicate"] | Or["Predicate"] | Not["Predicate"]
Part = PathStep | Exists | Compares
"""What a path is made of, connectives aside."""

ATTRIBUTE = "@"
TEXT = "text()"
ANY_ELEMENT = "*"
ANY_ATTRIBUTE = "@*"

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EQUALITIES = ("=", "!=")
"""The relations that compare a string with a string; the others compare numbers."""


def is_element(label: str) -> bool:
    """Whether a step with this label selects elements, which alone have something below them."""
    return label[0] != ATTRIBUTE and label != TEXT


def accepts(wanted: str, label: str) -> bool:
    """Whether a step that asks for `wanted` accepts a node (or all that a step selects) of that label."""
    if wanted == ANY_ELEMENT:
        return is_element(label)
    if wanted == ANY_ATTRIBUTE:
        return label[0] == ATTRIBUTE
    return wanted == label


EVERY_DOCUMENT = LocationPath((PathStep(Axis.CHILD, ANY_ELEMENT),))
"""The path `/*`: every document has a root element. What else selects something in every document and is
plainly written so (`//*`, `/`, `//node()`) is read as this path."""


def is_all_embracing(path: LocationPath) -> bool:
    """Whether a path plainly selects something in every document: it has no step, or is `/*` or `//*`."""
    if path.exact is not None:
        return is_everything(path.exact)
    return not path.steps or (
        len(path.steps) == 1 and path.steps[0].label == ANY_ELEMENT and not path.steps[0].predicates
    )


def compares(value: str, relation: str, literal: str | float) -> bool:
    """Whether a node of that string-value compares so with the literal, by the rules of XPath 1.0.

    >>> compares("10", "<", 9.0), compares("10", "=", "10.0"), compares("ten", "!=", 10.0)
    (False, False, True)
    """
    if isinstance(literal, str):
        if relation in EQUALITIES:
            return RELATIONS[relation](value, literal)
        literal = number(literal)
    return RELATIONS[relation](number(value), literal)


def walk(path: LocationPath, sure: bool = True) -> Iterator[tuple[Part, bool]]:
    """Every part of a path, in the order of its text, and whether the path selects nothing without it.

    A predicate comes after the steps of the path in it. What is below `or` and `not` counts as not needed.
    """
    for step in path.steps:
        yield step, sure
        for predicate in step.predicates:
            yield from walk_predicate(predicate, sure)


def walk_predicate(predicate: Predicate, sure: bool = True) -> Iterator[tuple[Part, bool]]:
    """The same for a predicate and the nodes that satisfy it."""
    match predicate:
        case Exists(path) | Compares(path):
            yield from walk(path, sure)
            yield predicate, sure
        case Not(part):
            yield from walk_predicate(part, False)
        case And(parts) | Or(parts):
            for part in parts:
                yield from walk_predicate(part, sure and isinstance(predicate, And))


Relabel = Callable[[str], str]
Replace = Callable[[str | float], str | float]


def rebuilt(path: LocationPath, label: Relabel, literal: Replace) -> LocationPath:
    """The path with every label and every literal changed by these functions, in the order of its text.

    What stays as it was stays the same object, so that filters that are alike share it.
    """
    steps: list[PathStep] = []
    changed = False
    for step in path.steps:
        name = label(step.label)
        predicates = step.predicates
        if predicates:
            predicates = tuple([rebuilt_predicate(part, label, literal) for part in predicates])
        if name is not step.label or any(map(is_not, predicates, step.predicates)):
            step = PathStep(step.axis, name, predicates)
            changed = True
        steps.append(step)
    return LocationPath(tuple(steps), path.exact) if changed else path


def rebuilt_predicate(predicate: Predicate, label: Relabel, literal: Replace) -> Predicate:
    """The same for a predicate."""
    # Told apart by class, the most frequent first: this runs for every filter that is put into an index.
    if isinstance(predicate, Compares):
        path = rebuilt(predicate.path, label, literal)
        return Compares(path, predicate.operator, literal(predicate.literal))
    if isinstance(predicate, Exists):
        path = rebuilt(predicate.path, label, literal)
        return predicate if path is predicate.path else Exists(path)
    if isinstance(predicate, Not):
        part = rebuilt_predicate(predicate.part, label, literal)
        return predicate if part is predicate.part else Not(part)
    parts = tuple([rebuilt_predicate(part, label, literal) for part in predicate.parts])
    return type(predicate)(parts) if any(map(is_not, parts, predicate.parts)) else predicate


def path_text(path: LocationPath, *, inside: bool = False) -> str:
    """The canonical text of a path; `inside` a predicate it starts at the node that carries it.

    >>> path_text(LocationPath((PathStep(Axis.DESCENDANT, "item"), PathStep(Axis.CHILD, "@id"))))
    '//item/@id'
    """
    if path.exact is not None:
        return xpath_text(path.exact)
    if not path.steps:
        return "."
    written = "".join(
        step.axis.value + step.label + "".join(f"[{predicate_text(part)}]" for part in step.predicates)
        for step in path.steps
    )
    if not inside:
        return written
    return written[1:] if path.steps[0].axis is Axis.CHILD else "." + written


def predicate_text(predicate: Predicate) -> str:
    """The canonical text of a predicate, without its brackets."""
    match predicate:
        case Exists(path):
            return path_text(path, inside=True)
        case Compares(path, relation, literal):
            return f"{path_text(path, inside=True)} {relation} {literal_text(literal)}"
        case Not(part):
            return f"not({predicate_text(part)})"
        case And(parts):
            return " and ".join(
                f"({predicate_text(part)})" if isinstance(part, Or) else predicate_text(part)
                for part in parts
            )
        case Or(parts):
            return " or ".join(map(predicate_text, parts))
