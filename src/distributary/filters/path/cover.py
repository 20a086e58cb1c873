"""Which tree pattern asks for no more than another, and the patterns that stand in for several.

A pattern `wide` covers `narrow` when it can be laid over it: every step of `wide` on a step of `narrow` that
is at least as strict, a child on a child, a descendant anywhere below. That is `wide` evaluated on `narrow`
as if that were a document, set by set from the last step to the first as in `match`, in polynomial time. It
is sound (what can be laid over is contained) and not complete: `/a//*/b` is contained in `/a/*//b`, which no
laying over shows.

`and` is laid over part by part. An `or` is implied by any of its parts, and implies what all of its parts
imply. `not(p)` is implied by `not(q)` when p implies q. Of two comparisons of one node the values decide.
"""

from __future__ import annotations

from collections.abc import Iterable

from distributary.filters.path import pattern
from distributary.filters.path.match import Evaluation
from distributary.filters.path.pattern import Axis, Compares, LocationPath, Not, Or, PathStep, Predicate

Condition = tuple[str, str | float]
"""The operator and the literal of a comparison, without its path."""


def covers(wide: LocationPath, narrow: LocationPath) -> bool:
    """True only when every document in which `narrow` selects something is one in which `wide` does.

    >>> from distributary.filters.path.parse import parse_branches
    >>> wide, narrow = parse_branches("//item[date > 3] | /rss/item[@id][date > 5]/title")
    >>> covers(wide, narrow), covers(narrow, wide)
    (True, False)
    """
    return _covers(wide, narrow, _tree_of(narrow))


def without_covered(paths: Iterable[LocationPath]) -> list[LocationPath]:
    """The paths but those that another one covers; of two that cover each other the first stays."""
    kept: list[tuple[LocationPath, _Tree]] = []
    for path in paths:
        tree = _tree_of(path)
        if not any(_covers(other, path, tree) for other, _ in kept):
            kept = [(other, other_tree) for other, other_tree in kept if not _covers(path, other, other_tree)]
            kept.append((path, tree))
    return [path for path, _ in kept]


def generalise(first: LocationPath, second: LocationPath) -> LocationPath:
    """A path that covers both: step by step what they have in common, as far as the shorter one goes.

    Selecting something at the end of a path implies selecting something at each of its steps, so the common
    beginning alone covers both. It has no steps when one begins with an attribute and the other does not.
    """
    steps: list[PathStep] = []
    for one, two in zip(first.steps, second.steps, strict=False):
        label = _common_label(one.label, two.label)
        if label is None:
            break
        axis = one.axis if one.axis is two.axis else Axis.DESCENDANT
        steps.append(PathStep(axis, label, tuple(part for part in one.predicates if part in two.predicates)))
    if steps and steps[-1] == PathStep(Axis.CHILD, pattern.ANY_ELEMENT):
        # `a/*` and `a//*` ask for the same documents; the latter can be laid over more.
        steps[-1] = PathStep(Axis.DESCENDANT, pattern.ANY_ELEMENT)
    return LocationPath(tuple(steps))


def names_in(path: LocationPath) -> tuple[int, int]:
    """How much a path says: first its names, then its predicates. What says most lets the least pass."""
    names = sum(step.label not in (pattern.ANY_ELEMENT, pattern.ANY_ATTRIBUTE) for step in path.steps)
    return names, sum(len(step.predicates) for step in path.steps)


def implies_condition(given: Condition, wanted: Condition) -> bool:
    """Whether every value for which `given` holds is one for which `wanted` does, as far as is certain.

    >>> implies_condition(("<", 5.0), ("<=", 7.0)), implies_condition(("=", "x"), ("!=", 7.0))
    (True, True)
    """
    relation, literal = given
    wanted_relation, wanted_literal = wanted
    if given == wanted:
        return True
    if relation == "=" and isinstance(literal, str):
        return pattern.compares(literal, wanted_relation, wanted_literal)
    if isinstance(wanted_literal, str):
        return wanted_relation == "!=" and not pattern.compares(wanted_literal, relation, literal)
    if isinstance(literal, str) or relation == "!=":
        return False
    if relation == "=":
        return pattern.RELATIONS[wanted_relation](literal, wanted_literal)
    if wanted_relation == "!=":
        return not pattern.RELATIONS[relation](wanted_literal, literal)
    if wanted_relation[0] != relation[0]:
        return False
    inner, outer = (literal, wanted_literal) if relation[0] == "<" else (wanted_literal, literal)
    return inner < outer or (inner == outer and (relation == wanted_relation or wanted_relation[-1] == "="))


class _Tree:
    """A pattern as a document: numbered nodes, each with what is certain of it. Node 0 is where it starts."""

    def __init__(self) -> None:
        self.labels: list[str] = [""]
        self.axes: list[Axis] = [Axis.CHILD]
        self.parents: list[int] = [-1]
        self.conditions: list[list[Condition]] = [[]]
        self.alternatives: list[list[Or[Predicate] | Not[Predicate]]] = [[]]

    def grow(self, node: int, path: LocationPath) -> int:
        """Hang a path's steps below a node; the node of its last step."""
        for step in path.steps:
            self.labels.append(step.label)
            self.axes.append(step.axis)
            self.parents.append(node)
            self.conditions.append([])
            self.alternatives.append([])
            node = len(self.labels) - 1
            for predicate in step.predicates:
                self.impose(node, predicate)
        return node

    def impose(self, node: int, predicate: Predicate) -> None:
        match predicate:
            case pattern.Exists(path):
                self.grow(node, path)
            case Compares(path, relation, literal):
                self.conditions[self.grow(node, path)].append((relation, literal))
            case pattern.And(parts):
                for part in parts:
                    self.impose(node, part)
            case _:
                self.alternatives[node].append(predicate)


class _Layover(Evaluation):
    """Patterns laid over one tree. `known` remembers implications between predicates, by identity."""

    def __init__(self, tree: _Tree, known: dict[tuple[int, int], bool]) -> None:
        self.tree = tree
        self.known = known

    def accepted(self, label: str) -> set[int]:
        labels = self.tree.labels
        return {node for node in range(1, len(labels)) if pattern.accepts(label, labels[node])}

    def above(self, axis: Axis, nodes: set[int]) -> set[int]:
        tree = self.tree
        if axis is Axis.CHILD:
            return {tree.parents[node] for node in nodes if tree.axes[node] is Axis.CHILD}
        found: set[int] = set()
        for node in nodes:
            while node > 0 and (node := tree.parents[node]) not in found:
                found.add(node)
        return found

    def comparing(self, comparison: Compares, nodes: set[int]) -> set[int]:
        wanted = comparison.operator, comparison.literal
        given = self.tree.conditions
        return {node for node in nodes if any(implies_condition(each, wanted) for each in given[node])}

    def holding(self, predicate: Predicate, nodes: set[int]) -> set[int]:
        """Those of the nodes for which the predicate certainly holds.

        That a predicate does not certainly hold is no proof of `not`: only an alternative can imply that.
        """
        held = set() if isinstance(predicate, Not) else super().holding(predicate, nodes)
        alternatives = self.tree.alternatives
        return held | {
            node
            for node in nodes - held
            if any(self.alternative_implies(each, predicate) for each in alternatives[node])
        }

    def alternative_implies(self, given: Or[Predicate] | Not[Predicate], wanted: Predicate) -> bool:
        if isinstance(given, Or):
            return all(self.implies(part, wanted) for part in given.parts)
        return isinstance(wanted, Not) and self.implies(wanted.part, given.part)

    def implies(self, given: Predicate, wanted: Predicate) -> bool:
        key = (id(given), id(wanted))
        if key not in self.known:
            tree = _Tree()
            tree.impose(0, given)
            self.known[key] = 0 in _Layover(tree, self.known).holding(wanted, {0})
        return self.known[key]


def _tree_of(path: LocationPath) -> _Tree:
    tree = _Tree()
    tree.grow(0, path)
    return tree


def _covers(wide: LocationPath, narrow: LocationPath, tree: _Tree) -> bool:
    """Whether `wide` covers `narrow`, whose tree this is.

    Of a path that says more than its pattern, nothing is certain but that it covers itself; and what it lets
    through, its pattern lets through.
    """
    if pattern.is_all_embracing(wide):
        return True
    if wide.exact is not None:
        return wide.exact == narrow.exact
    return 0 in _Layover(tree, {}).contexts(wide)


def _common_label(first: str, second: str) -> str | None:
    if first == second:
        return first
    if pattern.is_element(first) and pattern.is_element(second):
        return pattern.ANY_ELEMENT
    return (
        pattern.ANY_ATTRIBUTE
        if pattern.accepts(pattern.ANY_ATTRIBUTE, first) and pattern.accepts(pattern.ANY_ATTRIBUTE, second)
        else None
    )
