"""Path filters without their literals and names: what all filters of one shape share.

A million filters are held at once, and most differ from many others in names and in the literals of their
comparisons alone. So a filter is a template and the values that fill it; text and branches are derived when
asked for. There are two kinds of template:

- A `Composition` is one path whose names and literals are all left out. It is put together from a `Spine`
  (the steps) and `PredicateTemplate`s (the predicates on them), of which there are few, so it is very small.
- A `PathTemplate` is any filter; its names are fixed, and its literals may be left out. Parts of a pattern
  that hold no literal are the same objects in all filters of a template.

Values are the names, if these are left out, and then the literals, each in the order in which the canonical
text writes them: the literals inside a path before the one the path is compared with. Filling a template
takes time in proportion to its steps and predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from operator import is_not

from distributary.filters.path.parse import OPERATOR_WORDS
from distributary.filters.path.pattern import (
    ANY_ATTRIBUTE,
    ANY_ELEMENT,
    ATTRIBUTE,
    TEXT,
    And,
    Axis,
    Compares,
    Exists,
    LocationPath,
    Not,
    Or,
    PathStep,
    Predicate,
    literal_text,
    path_text,
    predicate_text,
)

Values = tuple[str | float, ...]

PLAIN_PATH = 0.2
EQUALITY = 0.1
OTHER_COMPARISON = 0.5
EXISTENCE = 0.7
"""Guesses of the share of documents that a path, and each condition it makes besides, lets pass."""

_HOLE = "\0"
"""A literal to be given, or a name; no name has this character."""
_ATTRIBUTE_HOLE = ATTRIBUTE + _HOLE
_FIXED_NAMES = OPERATOR_WORDS | {ANY_ELEMENT, TEXT}

ANONYMOUS = frozenset({ANY_ELEMENT, ANY_ATTRIBUTE, TEXT})
"""The labels that are no names."""


def comparisons_in(branches: tuple[LocationPath, ...]) -> list[Compares]:
    """The comparisons in the branches; their literals are the values of an opened template, in its order."""
    found: list[Compares] = []
    for branch in branches:
        _comparisons(branch, found)
    return found


def comparisons_within(predicate: Predicate) -> list[Compares]:
    """The comparisons in a predicate, in the same order."""
    found: list[Compares] = []
    _comparisons_within(predicate, found)
    return found


class PathTemplate:
    """The branches of a path filter; with `places`, their literals stand for so many values to be given.

    Without, the branches are taken as they are, and there are no values.
    """

    __slots__ = ("_branches", "_certain", "_format", "selectivity")

    def __init__(self, branches: tuple[LocationPath, ...], places: int = 0) -> None:
        self._branches = branches
        self._certain: tuple[str, ...] | None = None
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

        >>> from distributary.filters.path.parse import parse_branches
        >>> PathTemplate(parse_branches("a[b=1 and 'x'=c]"), 2).text((2.5, "y"))
        '//a[b = 2.5 and c = "y"]'
        """
        return self._format % tuple([literal_text(value) for value in values])

    def certain_labels(self, values: Values) -> tuple[str, ...]:
        """The labels that every branch needs; literals make no difference to them."""
        if self._certain is None:
            needed = [{label for label, sure in labels_in(branch) if sure} for branch in self._branches]
            self._certain = tuple(sorted(set.intersection(*needed)))
        return self._certain

    @property
    def length(self) -> int:
        """At least the length of the text when all values are empty strings."""
        return len(self._format)


class Spine:
    """The steps of a path without their names, and how many predicates each has."""

    __slots__ = ("format", "length", "names", "steps")

    def __init__(self, path: LocationPath) -> None:
        self.steps: tuple[tuple[Axis, str, int], ...] = tuple(
            (step.axis, _opened_label(step.label), len(step.predicates)) for step in path.steps
        )
        written = "".join(axis.value + label + "[%s]" * count for axis, label, count in self.steps)
        self.names = written.count(_HOLE)
        self.format = written.replace(_HOLE, "%%s")
        """Takes the formats of the predicates; what comes out takes the names, and then the literals."""
        self.length = len(self.format)


class PredicateTemplate:
    """A predicate without its names and literals."""

    __slots__ = ("format", "labels", "length", "literals", "names", "ordered", "predicate", "share")

    def __init__(self, predicate: Predicate, ordered: tuple[int, ...] = ()) -> None:
        self.predicate = _opened(predicate)
        self.ordered = ordered
        """Which of its literals are strings that are compared as numbers, if they are numbers."""
        self.share = _predicate_share(predicate)
        self.labels = tuple(labels_within(self.predicate))
        """Its labels, holes among them, and whether a node that satisfies it needs them."""
        written = predicate_text(self.predicate)
        self.literals = written.count(literal_text(_HOLE))
        self.names = written.count(_HOLE) - self.literals
        self.format = written.replace(literal_text(_HOLE), "%%s").replace(_HOLE, "%s")
        self.length = len(self.format)


class Composition:
    """A path of which all names and literals are to be given: a spine and the parts that hang on it."""

    __slots__ = ("_names", "_parts", "_spine")

    def __init__(self, spine: Spine, parts: tuple[PredicateTemplate, ...]) -> None:
        self._spine = spine
        self._parts = parts
        self._names = spine.names + sum([part.names for part in parts])

    @property
    def selectivity(self) -> float:
        """The share of events that a filter of this form is guessed to let pass."""
        return PLAIN_PATH * prod([part.share for part in self._parts])

    def branches(self, values: Values) -> tuple[LocationPath, ...]:
        """The location path, alone in a tuple, with the values in it."""
        names, literals = iter(values), iter(values[self._names :])
        parts = iter(self._parts)
        steps: list[PathStep] = []
        for axis, label, count in self._spine.steps:
            name = _named(label, names)
            predicates = [_given(next(parts).predicate, names, literals) for _ in range(count)]
            steps.append(PathStep(axis, name, tuple(predicates)))
        return (LocationPath(tuple(steps)),)

    def certain_labels(self, values: Values) -> tuple[str, ...]:
        """The labels without which the path selects nothing, but for those that all parts of an `or` need."""
        names = iter(values)
        parts = iter(self._parts)
        found: set[str] = set()
        for _, label, count in self._spine.steps:
            found.add(_named(label, names))
            for _ in range(count):
                for inner, sure in next(parts).labels:
                    name = _named(inner, names)
                    if sure:
                        found.add(name)
        return tuple(sorted(found - ANONYMOUS))

    def text(self, values: Values) -> str:
        """The canonical text with the values in it.

        >>> from distributary.filters.path.parse import parse_branches
        >>> path = parse_branches("/a[b = 1]/@c")[0]
        >>> predicate = PredicateTemplate(path.steps[0].predicates[0])
        >>> Composition(Spine(path), (predicate,)).text(("x", "y", "z", 2.5))
        '/x[y = 2.5]/@z'
        """
        written = self._spine.format % tuple([part.format for part in self._parts]) % values[: self._names]
        return written % tuple([literal_text(value) for value in values[self._names :]])

    @property
    def length(self) -> int:
        """At least the length of the text when all values are empty strings."""
        return self._spine.length + sum([part.length for part in self._parts])


def labels_in(path: LocationPath, sure: bool = True) -> Iterator[tuple[str, bool]]:
    """The labels of a path in the order of its text, each with whether the path selects nothing without it.

    What stands below `or` and `not` counts as not needed.
    """
    for step in path.steps:
        yield step.label, sure and step.label not in ANONYMOUS
        for predicate in step.predicates:
            yield from labels_within(predicate, sure)


def labels_within(predicate: Predicate, sure: bool = True) -> Iterator[tuple[str, bool]]:
    """The same for a predicate and the nodes that satisfy it."""
    match predicate:
        case Exists(path) | Compares(path, _, _):
            yield from labels_in(path, sure)
        case And(parts):
            for part in parts:
                yield from labels_within(part, sure)
        case Or(parts):
            for part in parts:
                yield from labels_within(part, False)
        case Not(part):
            yield from labels_within(part, False)


def _opened_label(label: str) -> str:
    name = label.removeprefix(ATTRIBUTE)
    if name in _FIXED_NAMES:
        return label
    return _HOLE if name == label else _ATTRIBUTE_HOLE


def _opened_path(path: LocationPath) -> LocationPath:
    return LocationPath(
        tuple(
            PathStep(step.axis, _opened_label(step.label), tuple(map(_opened, step.predicates)))
            for step in path.steps
        )
    )


def _opened(predicate: Predicate) -> Predicate:
    """The predicate with holes for its names and literals."""
    match predicate:
        case Exists(path):
            return Exists(_opened_path(path))
        case Compares(path, relation, _):
            return Compares(_opened_path(path), relation, _HOLE)
        case Not(part):
            return Not(_opened(part))
        case And(parts) | Or(parts):
            return type(predicate)(tuple(map(_opened, parts)))


def _named(label: str, names: Iterator[str | float]) -> str:
    if label == _HOLE:
        return str(next(names))
    return f"{ATTRIBUTE}{next(names)}" if label == _ATTRIBUTE_HOLE else label


def _given_path(
    path: LocationPath, names: Iterator[str | float], literals: Iterator[str | float]
) -> LocationPath:
    """The path with the next names and literals in its holes."""
    steps: list[PathStep] = []
    for step in path.steps:
        name = _named(step.label, names)
        predicates = [_given(part, names, literals) for part in step.predicates]
        steps.append(PathStep(step.axis, name, tuple(predicates)))
    return LocationPath(tuple(steps))


def _given(predicate: Predicate, names: Iterator[str | float], literals: Iterator[str | float]) -> Predicate:
    # Told apart by class, the most frequent first: this runs for every filter that is put into an index.
    if isinstance(predicate, Compares):
        path = _given_path(predicate.path, names, literals)
        return Compares(path, predicate.operator, next(literals))
    if isinstance(predicate, Exists):
        return Exists(_given_path(predicate.path, names, literals))
    if isinstance(predicate, Not):
        return Not(_given(predicate.part, names, literals))
    return type(predicate)(tuple([_given(part, names, literals) for part in predicate.parts]))


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
    steps: list[PathStep] = []
    for step in path.steps:
        if step.predicates:
            predicates = tuple([_filled_predicate(part, values) for part in step.predicates])
            if any(map(is_not, predicates, step.predicates)):
                step = PathStep(step.axis, step.label, predicates)
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
