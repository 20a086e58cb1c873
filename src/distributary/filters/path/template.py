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

from collections.abc import Iterable, Iterator
from math import prod

from distributary.filters.path import pattern
from distributary.filters.path.parse import OPERATOR_WORDS
from distributary.filters.path.pattern import Compares, LocationPath, Part, PathStep, Predicate, literal_text

Values = tuple[str | float, ...]

PLAIN_PATH = 0.2
EQUALITY = 0.1
OTHER_COMPARISON = 0.5
EXISTENCE = 0.7
"""Guesses of the share of documents that a path, and each condition it makes besides, lets pass."""

_HOLE = "\0"
"""A literal to be given, or a name; no name has this character."""
_ATTRIBUTE_HOLE = pattern.ATTRIBUTE + _HOLE
_FIXED_NAMES = OPERATOR_WORDS | {pattern.ANY_ELEMENT, pattern.TEXT}

ANONYMOUS = frozenset({pattern.ANY_ELEMENT, pattern.ANY_ATTRIBUTE, pattern.TEXT})
"""The labels that are no names."""


def comparisons_in(branches: Iterable[LocationPath]) -> list[Compares]:
    """The comparisons in the branches; their literals are the values of an opened template, in its order."""
    return [part for branch in branches for part, _ in pattern.walk(branch) if isinstance(part, Compares)]


def comparisons_within(predicate: Predicate) -> list[Compares]:
    """The comparisons in a predicate, in the same order."""
    return [part for part, _ in pattern.walk_predicate(predicate) if isinstance(part, Compares)]


class PathTemplate:
    """The branches of a path filter; with `places`, their literals stand for so many values to be given.

    Without, the branches are taken as they are, and there are no values.
    """

    __slots__ = ("_branches", "_certain", "_format", "is_pattern", "selectivity")

    def __init__(self, branches: tuple[LocationPath, ...], places: int = 0) -> None:
        self._branches = branches
        self._certain: tuple[str, ...] | None = None
        self.is_pattern = all(branch.exact is None for branch in branches)
        """Whether the branches say no more than their steps do."""
        shares = (PLAIN_PATH * _share(pattern.walk(path)) for path in branches)
        self.selectivity = 1.0 if pattern.EVERY_DOCUMENT in branches else min(1.0, sum(shares))
        """The share of events that a filter of this form is guessed to let pass."""
        written = " | ".join(map(pattern.path_text, self.branches((_HOLE,) * places)))
        self._format = written.replace("%", "%%")
        if places:
            self._format = self._format.replace(literal_text(_HOLE), "%s")

    def branches(self, values: Values) -> tuple[LocationPath, ...]:
        """The location paths with the values in them."""
        if not values:
            return self._branches
        following = iter(values)
        return tuple([pattern.rebuilt(branch, str, lambda _: next(following)) for branch in self._branches])

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
            labels = [_labels(pattern.walk(branch)) for branch in self._branches]
            needed = [{label for label, sure in each if sure} for each in labels]
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
        self.steps: tuple[tuple[pattern.Axis, str, int], ...] = tuple(
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
        self.predicate = pattern.rebuilt_predicate(predicate, _opened_label, lambda _: _HOLE)
        self.ordered = ordered
        """Which of its literals are strings that are compared as numbers, if they are numbers."""
        self.share = _share(pattern.walk_predicate(predicate))
        self.labels = tuple(_labels(pattern.walk_predicate(self.predicate)))
        """Its labels, holes among them, and whether a node that satisfies it needs them."""
        written = pattern.predicate_text(self.predicate)
        self.literals = written.count(literal_text(_HOLE))
        self.names = written.count(_HOLE) - self.literals
        self.format = written.replace(literal_text(_HOLE), "%%s").replace(_HOLE, "%s")
        self.length = len(self.format)


class Composition:
    """A path of which all names and literals are to be given: a spine and the parts that hang on it."""

    __slots__ = ("_names", "_parts", "_spine")

    is_pattern = True

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

        def named(label: str) -> str:
            return _named(label, names)

        def given(_: str | float) -> str | float:
            return next(literals)

        steps: list[PathStep] = []
        for axis, label, count in self._spine.steps:
            name = named(label)
            opened = [next(parts).predicate for _ in range(count)]
            predicates = tuple([pattern.rebuilt_predicate(each, named, given) for each in opened])
            steps.append(PathStep(axis, name, predicates))
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


def _labels(parts: Iterable[tuple[Part, bool]]) -> Iterator[tuple[str, bool]]:
    """The labels of these parts, and whether a document must have a node of that name."""
    steps = ((part, sure) for part, sure in parts if isinstance(part, PathStep))
    return ((step.label, sure and step.label not in ANONYMOUS) for step, sure in steps)


def _share(parts: Iterable[tuple[Part, bool]]) -> float:
    """How many of the documents that have the names also satisfy the predicates that are needed."""
    return prod(_predicate_share(part) for part, sure in parts if sure and not isinstance(part, PathStep))


def _predicate_share(predicate: Part) -> float:
    if not isinstance(predicate, Compares):
        return EXISTENCE
    return EQUALITY if predicate.operator == "=" else OTHER_COMPARISON


def _opened_label(label: str) -> str:
    """The label with a hole in the place of a name; operator words and wildcards stay."""
    name = label.removeprefix(pattern.ATTRIBUTE)
    if name in _FIXED_NAMES:
        return label
    return _HOLE if name == label else _ATTRIBUTE_HOLE


def _named(label: str, names: Iterator[str | float]) -> str:
    """The label with the next name in its hole, if it has one."""
    if label == _HOLE:
        return str(next(names))
    return f"{pattern.ATTRIBUTE}{next(names)}" if label == _ATTRIBUTE_HOLE else label
