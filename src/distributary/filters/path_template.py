"""Path filters without their literals: what all filters of one shape share.

A million filters are held at once, and most differ from many others in the literals of their comparisons
alone. So a filter is a `Template` and the values that fill it; text and branches are derived when asked for.
Parts of a pattern that hold no literal are the same objects in all filters of a template.

Values come in the order in which the canonical text writes them: the literals inside a path before the one
the path is compared with. Filling a template takes time in proportion to its steps and predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from operator import is_not

from distributary.filters.pattern import (
    And,
    Compares,
    Exists,
    LocationPath,
    Not,
    Or,
    Predicate,
    Step,
    literal_text,
    path_text,
)

Values = tuple[str | float, ...]

PLAIN_PATH = 0.2
EQUALITY = 0.1
OTHER_COMPARISON = 0.5
EXISTENCE = 0.7
"""Guesses of the share of documents that a path, and each condition it makes besides, lets pass."""

_HOLE = "\0"


def comparisons_in(branches: tuple[LocationPath, ...]) -> list[Compares]:
    """The comparisons in the branches; their literals are the values of an opened template, in its order."""
    found: list[Compares] = []
    for branch in branches:
        _comparisons(branch, found)
    return found


class Template:
    """The branches of a path filter; with `places`, their literals stand for so many values to be given.

    Without, the branches are taken as they are, and there are no values.
    """

    __slots__ = ("_branches", "_format", "selectivity")

    def __init__(self, branches: tuple[LocationPath, ...], places: int = 0) -> None:
        self._branches = branches
        self.selectivity = min(1.0, sum(PLAIN_PATH * _share(path) for path in branches))
        """The share of events that a filter of this form is guessed to let pass."""
        written = " | ".join(map(path_text, self.branches((_HOLE,) * places)))
        self._format = written.replace("%", "%%")
        if places:
            self._format = self._format.replace(literal_text(_HOLE), "%s")

    def branches(self, values: Values) -> tuple[LocationPath, ...]:
        """The location paths with the values in them."""
        if not values:
            return self._branches
        following = iter(values)
        return tuple([_filled(branch, following) for branch in self._branches])

    def text(self, values: Values) -> str:
        """The canonical text with the values in it.

        >>> from distributary.filters.pattern_parser import parse_branches
        >>> Template(parse_branches("a[b=1 and 'x'=c]"), 2).text((2.5, "y"))
        '//a[b = 2.5 and c = "y"]'
        """
        return self._format % tuple([literal_text(value) for value in values])

    @property
    def length(self) -> int:
        """At least the length of the text when all values are empty strings."""
        return len(self._format)


def _share(path: LocationPath) -> float:
    """How many of the documents with the path's names also satisfy its predicates."""
    return prod(_predicate_share(part) for step in path.steps for part in step.predicates)


def _predicate_share(predicate: Predicate) -> float:
    match predicate:
        case Exists(path):
            return EXISTENCE * _share(path)
        case Compares(path, relation, _):
            return (EQUALITY if relation == "=" else OTHER_COMPARISON) * _share(path)
        case And(parts):
            return prod(map(_predicate_share, parts))
        case _:
            return 1.0


def _comparisons(path: LocationPath, found: list[Compares]) -> None:
    """Add the comparisons in a path, in the order in which the canonical text has their literals."""
    for step in path.steps:
        for predicate in step.predicates:
            _comparisons_within(predicate, found)


def _comparisons_within(predicate: Predicate, found: list[Compares]) -> None:
    match predicate:
        case Exists(path):
            _comparisons(path, found)
        case Compares(path, _, _):
            _comparisons(path, found)
            found.append(predicate)
        case Not(part):
            _comparisons_within(part, found)
        case And(parts) | Or(parts):
            for part in parts:
                _comparisons_within(part, found)


def _filled(path: LocationPath, values: Iterator[str | float]) -> LocationPath:
    """The path with the next values as its literals; the same path when it has none."""
    changed = False
    steps: list[Step] = []
    for step in path.steps:
        if step.predicates:
            predicates = tuple([_filled_predicate(part, values) for part in step.predicates])
            if any(map(is_not, predicates, step.predicates)):
                step = Step(step.axis, step.label, predicates)
                changed = True
        steps.append(step)
    return LocationPath(tuple(steps)) if changed else path


def _filled_predicate(predicate: Predicate, values: Iterator[str | float]) -> Predicate:
    # Told apart by class, the most frequent first: this runs for every filter that is put into an index.
    if isinstance(predicate, Compares):
        path = _filled(predicate.path, values)
        return Compares(path, predicate.operator, next(values))
    if isinstance(predicate, Exists):
        path = _filled(predicate.path, values)
        return predicate if path is predicate.path else Exists(path)
    if isinstance(predicate, Not):
        part = _filled_predicate(predicate.part, values)
        return predicate if part is predicate.part else Not(part)
    parts = tuple([_filled_predicate(part, values) for part in predicate.parts])
    return type(predicate)(parts) if any(map(is_not, parts, predicate.parts)) else predicate
