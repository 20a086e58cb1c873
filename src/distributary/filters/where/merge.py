"""Fewer and wider conjunctions, and the condition that says what conjunctions say.

Merging filters needs both: the union of two filters is the list of their conjunctions, which must stay short
however many filters are merged, and it must be written down as a condition again. Everything here widens
or keeps what the conjunctions let pass; nothing narrows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import inf

from distributary.filters.where import domain as sets
from distributary.filters.where import expression as tree
from distributary.filters.where.domain import EVERYTHING, Conjunction, Domain, NumberRange, TextRange
from distributary.filters.where.expression import Compare, Expression, Literal, Not, Operand, Or
from distributary.filters.where.parse import operand_of

MAX_MERGED = 16

Domains = tuple[tuple[str, Domain], ...]


def generalised(conjunctions: Sequence[Conjunction], ranges: int) -> list[Conjunction] | None:
    """At most `MAX_MERGED` conjunctions that let pass at least what these do.

    None when nothing short of everything would do. No domain has more than `ranges` ranges of a type, and
    nothing is residual: what was in no domain is let pass.
    """
    joined = _contained_dropped(_joined_exactly([c.domains for c in conjunctions]))
    joined.sort(key=_order)
    while len(joined) > MAX_MERGED:
        at = max(range(1, len(joined)), key=lambda i: _likeness(joined[i - 1], joined[i]))
        joined[at - 1 : at + 1] = [_hull(joined[at - 1], joined[at])]
    bounded = _contained_dropped([_bounded(domains, ranges) for domains in _joined_exactly(joined)])
    return None if () in bounded else [Conjunction(domains) for domains in bounded]


def hull(conjunctions: Sequence[Conjunction]) -> Conjunction | None:
    """One conjunction, of one range of a type each, that lets pass at least what these do.

    None when that is everything.
    """
    domains = _bounded(reduce(_hull, [conjunction.domains for conjunction in conjunctions]), 1)
    return Conjunction(domains) if domains else None


def described(conjunctions: Sequence[Conjunction]) -> Expression:
    """A condition that is true for exactly what the conjunctions let pass, residuals aside.

    >>> described([Conjunction((("a", Domain((NumberRange(5, low_open=True),))),))])
    Compare(attribute='a', operator='>', literal=5)
    """
    parts = [
        tree.conjunction_of([described_domain(name, domain) for name, domain in conjunction.domains])
        for conjunction in conjunctions
    ]
    return tree.disjunction_of(parts)


def described_domain(name: str, domain: Domain) -> Expression:
    """A condition on one attribute (or operation, see `operand_of`) that is true for the values of the
    domain.

    It is true for no others, but for what texts and times take one another for.
    """
    operand = operand_of(name)
    if domain.other:
        # Only IS NOT NULL and IS NOT TRUE or FALSE let such values pass, so all numbers and texts are in too.
        absent = [
            Not(tree.IsTruth(operand, truth)) for truth in (True, False) if truth not in domain.booleans
        ]
        return tree.conjunction_of([*([] if domain.null else [Not(tree.IsNull(operand))]), *absent])
    points: list[Literal] = [r.low for r in domain.numbers if r.low == r.high]
    points += [r.low for r in domain.texts if r.low == r.high]
    points += domain.booleans
    parts: list[Expression] = []
    if points:
        parts.append(
            Compare(operand, "=", points[0]) if len(points) == 1 else tree.In(operand, tuple(points))
        )
    parts += _described_numbers(operand, [r for r in domain.numbers if r.low != r.high])
    parts += [_described_texts(operand, r) for r in domain.texts if r.low != r.high]
    for kind, field in sets.TIMES.items():
        parts += _described_times(operand, getattr(domain, field), kind)
    if domain.null:
        parts.append(tree.IsNull(operand))
    return tree.disjunction_of(parts)


# Domains of one conjunction


def _bounded(domains: Domains, ranges: int) -> Domains:
    """The domains with few ranges; those that hold everything are left out."""
    few = ((name, sets.widened(domain, ranges)) for name, domain in domains)
    return tuple([(name, domain) for name, domain in few if domain != EVERYTHING])


def _joined_exactly(conjunctions: Sequence[Domains]) -> list[Domains]:
    """Join conjunctions that differ in one attribute's domain only, which loses nothing."""
    current = list(dict.fromkeys(conjunctions))
    names = sorted({name for domains in current for name, _ in domains})
    for name in names:
        groups: dict[Domains, list[Domain]] = {}
        others: list[Domains] = []
        for domains in current:
            mine = [domain for each, domain in domains if each == name]
            if mine:
                rest = tuple([pair for pair in domains if pair[0] != name])
                groups.setdefault(rest, []).append(mine[0])
            else:
                others.append(domains)
        for rest, alternatives in groups.items():
            domain = sets.union(alternatives)
            others.append(rest if domain == EVERYTHING else tuple(sorted((*rest, (name, domain)), key=_name)))
        current = list(dict.fromkeys(others))
    return current


def _contained_dropped(conjunctions: Sequence[Domains]) -> list[Domains]:
    kept: list[Domains] = []
    for domains in sorted(conjunctions, key=len):
        if not any(sets.contains(Conjunction(wide), Conjunction(domains)) for wide in kept):
            kept = [k for k in kept if not sets.contains(Conjunction(domains), Conjunction(k))]
            kept.append(domains)
    return kept


def _hull(first: Domains, second: Domains) -> Domains:
    """What both constrain, each attribute to what either allows."""
    given = dict(second)
    return tuple([(name, sets.union([domain, given[name]])) for name, domain in first if name in given])


def _likeness(first: Domains, second: Domains) -> int:
    """How much the hull of two conjunctions keeps, less what it loses."""
    names, others = {name for name, _ in first}, {name for name, _ in second}
    return 2 * len(names & others) - len(names ^ others)


def _order(domains: Domains) -> tuple[object, ...]:
    """Like conjunctions next to one another."""
    lows = [
        (d.numbers[0].low if d.numbers else inf, d.texts[0].low if d.texts else "", d.booleans, d.null)
        for _, d in domains
    ]
    return [name for name, _ in domains], lows


def _name(pair: tuple[str, Domain]) -> str:
    return pair[0]


# Conditions of one attribute


def _described_numbers(operand: Operand, ranges: list[NumberRange]) -> list[Expression]:
    if tuple(ranges) == sets.ALL_NUMBERS:
        return [Or((Compare(operand, "<", 0), Compare(operand, ">=", 0)))]
    holes: list[Literal] = [r.high for r in ranges[:-1]]
    whole = (
        len(ranges) > 1
        and ranges[0].low == -inf
        and ranges[-1].high == inf
        and all(a.high == b.low and a.high_open and b.low_open for a, b in pairwise(ranges))
    )
    if whole:
        return [Compare(operand, "<>", holes[0]) if len(holes) == 1 else Not(tree.In(operand, tuple(holes)))]
    return [_described_range(operand, r) for r in ranges]


def _described_range(operand: Operand, range_: NumberRange) -> Expression:
    if -inf < range_.low and range_.high < inf and not range_.low_open and not range_.high_open:
        return tree.Between(operand, range_.low, range_.high)
    return _described_bounds(operand, range_, range_.low > -inf, range_.high < inf)


def _described_times(operand: Operand, ranges: tuple[NumberRange, ...], kind: type) -> list[Expression]:
    """Conditions for ranges of nanoseconds, with literals of that kind of time."""
    if ranges == sets.ALL_NUMBERS:
        return [Or((Compare(operand, "<", kind(0)), Compare(operand, ">=", kind(0))))]
    parts: list[Expression] = []
    for range_ in ranges:
        bounds: list[Expression] = []
        if range_.low > -inf:
            bounds.append(Compare(operand, ">" if range_.low_open else ">=", kind(range_.low)))
        if range_.high < inf:
            bounds.append(Compare(operand, "<" if range_.high_open else "<=", kind(range_.high)))
        parts.append(
            Compare(operand, "=", kind(range_.low))
            if range_.low == range_.high
            else tree.conjunction_of(bounds)
        )
    return parts


def _described_texts(operand: Operand, range_: TextRange) -> Expression:
    plain = range_.low and not set("%_") & set(range_.low)
    if plain and sets.texts_beginning(range_.low).texts == (range_,):
        return tree.Like(operand, range_.low + "%")
    has_low = range_.low != "" or range_.low_open or range_.high is None
    return _described_bounds(operand, range_, has_low, range_.high is not None)


def _described_bounds(
    operand: Operand, range_: NumberRange | TextRange, has_low: bool, has_high: bool
) -> Expression:
    bounds: list[Expression] = []
    if has_low:
        bounds.append(Compare(operand, ">" if range_.low_open else ">=", range_.low))
    if has_high:
        bounds.append(Compare(operand, "<" if range_.high_open else "<=", range_.high))
    return tree.conjunction_of(bounds)
