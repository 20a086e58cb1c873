"""Routes: how a path filter is entered by a document, with at most one value on the way.

A branch of a filter is a tree pattern. When a value in it must compare with a literal, its route is the chain
of that tree from the top down to the comparison (an equality where there is one). Everything that hangs off
the chain becomes a condition on the chain's nodes, an expression (see `expressions`) in which other
values count as whatever favours the filter. When no value must hold, the whole branch is such an expression.
So a route never loses a document; it is `exact` when the branch has no other value and says no more than a
pattern can, and else what it finds is checked. A branch of two values that must hold has a second chain, to
the other value, by which that check is short (see `joints`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distributary.filters.path import pattern
from distributary.filters.path.pattern import And, Compares, Exists, LocationPath, PathStep, Predicate
from distributary.matching.path import expressions as kinds
from distributary.matching.path.expressions import Comparison, Expressions
from distributary.matching.path.signature import branch_items, is_name


class RouteLink(NamedTuple):
    """One node of a chain: how it hangs below the one before, its label's code, and its condition."""

    deep: bool
    code: int
    condition: int


class EntryRoute(NamedTuple):
    """A chain, and the comparison that the value of its last node must satisfy; or an expression instead."""

    links: tuple[RouteLink, ...]
    comparison: Comparison | None
    exact: bool
    whole: int
    """The expression that holds for the document's node, when there is no chain."""
    code: int
    """A label that the document must have."""
    needs: int
    """A bit for each label that the document must have, by `label_bit`."""
    second: SecondRoute | None
    """Where the branch has two values that must hold, and nothing else is left to be checked."""


class SecondRoute(NamedTuple):
    """The chain to the second value: where it leaves the first chain, and the comparison at its end."""

    shared: int
    """How many links are those of the first chain."""
    links: tuple[RouteLink, ...]
    """The links after these."""
    comparison: Comparison


class RouteTurn(NamedTuple):
    """Where a chain leaves a path: at a step, into a predicate of it, and the turn taken in there, if any."""

    step: int
    number: int
    """Which of the predicates it is, with `and` taken apart."""
    predicate: Exists | Compares
    further: RouteTurn | None
    cost: int


_COST = {kinds.STRING_EQUAL: 0, kinds.EQUAL: 1, kinds.UNEQUAL: 3, kinds.STRING_UNEQUAL: 3}
_COST_OF_RANGE = 2
"""Which comparison a route leads to where there are several: the lowest cost."""


def route_of(branch: LocationPath, expressions: Expressions) -> EntryRoute:
    """The route of a branch."""
    turns = list(_turns(branch))
    turn = min(turns, key=lambda each: each.cost, default=None)
    values = sum(isinstance(part, Compares) for part, _ in pattern.walk(branch))
    second = None
    links: list[RouteLink] = []
    comparison = None if turn is None else _follow(branch, turn, expressions, links)
    if comparison is not None and comparison.always is None:
        exact, whole, code = values == 1, kinds.FALSE, links[-1].code
        if values == 2 and len(turns) == 2 and branch.exact is None and turn is not None:
            second = _second_route(branch, turn, turns[turns[0] is turn], expressions)
    else:
        exact = values == (comparison is not None and comparison.always is True)
        links, comparison = [], None
        whole = expressions.of_path(branch, 0, None, True)
        code = _telling_code(branch, expressions)
    exact = exact and branch.exact is None
    return EntryRoute(tuple(links), comparison, exact, whole, code, _needs(branch, expressions), second)


def label_bit(code: int) -> int:
    """The bit for a label in a word of labels; labels may share one, so a word only rules out."""
    return 1 << (code & 63)


def _needs(branch: LocationPath, expressions: Expressions) -> int:
    """The word of the labels that a document must have; the labels have their codes by now."""
    labels = [item for item in branch_items(branch) if isinstance(item, str)]
    return sum({label_bit(expressions.code(label)) for label in labels})


def _telling_code(branch: LocationPath, expressions: Expressions) -> int:
    """The root's label where the branch names it, else the last label that is a name, if there is one."""
    names = [step for step in branch.steps if is_name(step.label)]
    if names and names[0] is branch.steps[0] and names[0].axis is pattern.Axis.CHILD:
        return expressions.code(names[0].label)
    return expressions.code((names or branch.steps)[-1].label)


def _follow(
    path: LocationPath, turn: RouteTurn, expressions: Expressions, links: list[RouteLink]
) -> Comparison:
    """Append the chain that takes the turn; returns the comparison at its end."""
    links += (_link(step, expressions) for step in path.steps[: turn.step])
    here = path.steps[turn.step]
    rest = expressions.of_path(path, turn.step + 1, None, True)
    links.append(_link(here, expressions, rest, turn.predicate))
    if turn.further is not None:
        return _follow(turn.predicate.path, turn.further, expressions, links)
    assert isinstance(turn.predicate, Compares)
    links += (_link(step, expressions) for step in turn.predicate.path.steps)
    return Comparison.of(turn.predicate)


def _link(
    step: PathStep, expressions: Expressions, rest: int | None = None, taken: Predicate | None = None
) -> RouteLink:
    code = expressions.code(step.label)
    conditions = [
        expressions.of_predicate(part, code, True) for part in _conjuncts(step) if part is not taken
    ]
    if rest is not None:
        conditions.append(rest)
    return RouteLink(step.axis is pattern.Axis.DESCENDANT, code, expressions.all_of(conditions))


def _second_route(
    branch: LocationPath, turn: RouteTurn, other: RouteTurn, expressions: Expressions
) -> SecondRoute | None:
    """The chain of the other turn, below what it shares with that of the first; None if it never leads."""
    links: list[RouteLink] = []
    comparison = _follow(branch, other, expressions, links)
    shared = _shared_links(turn, other)
    rest = tuple(links[shared:])
    if comparison.always is not None or any(link.condition == kinds.FALSE for link in rest):
        return None
    return SecondRoute(shared, rest, comparison)


def _shared_links(one: RouteTurn, other: RouteTurn) -> int:
    """How many links the chains of two different turns of a path have in common."""
    if (one.step, one.number) != (other.step, other.number):
        return min(one.step, other.step) + 1
    # Both turn into the same predicate, which therefore goes on.
    assert one.further is not None
    assert other.further is not None
    return one.step + 1 + _shared_links(one.further, other.further)


def _turns(path: LocationPath) -> Iterator[RouteTurn]:
    """The turns towards all comparisons that must hold."""
    for place, step in enumerate(path.steps):
        for number, part in enumerate(_conjuncts(step)):
            if isinstance(part, Compares):
                cost = _COST.get(Comparison.of(part).relation, _COST_OF_RANGE)
                yield RouteTurn(place, number, part, None, cost)
            elif isinstance(part, Exists):
                for further in _turns(part.path):
                    yield RouteTurn(place, number, part, further, further.cost)


def _conjuncts(step: PathStep) -> Iterator[Predicate]:
    """The predicates of a step, with `and` taken apart."""
    waiting = list(reversed(step.predicates))
    while waiting:
        predicate = waiting.pop()
        if isinstance(predicate, And):
            waiting.extend(reversed(predicate.parts))
        else:
            yield predicate
