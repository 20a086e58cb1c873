"""From a condition to conjunctions of domains, which is what the indexes hold.

Negation is pushed to the leaves (De Morgan holds in three-valued logic, and the negation of a comparison is
the opposite comparison: both are unknown for the same values). After that only *true* counts: what makes an
OR true is the union of what makes its parts true, and an AND the intersection. Conditions on one attribute
fold into one domain, whatever their number; those on different attributes multiply, up to
`MAX_CONJUNCTIONS`.

All of this but the values depends on a template alone, so it is worked out once, as a `NormalForm`:
a term for each conjunction, and in it a function from the values to the domain for each attribute. A template
does not know the attributes' names either: they are numbered, and given with the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import Any

from distributary.filters.where.domain import (
    ALL_TEXTS,
    COMPARABLE,
    EVERYTHING,
    MISSING,
    NOTHING,
    PRESENT,
    Conjunction,
    Domain,
    NumberRange,
    TextRange,
    comparison,
    equal_to_any,
    equal_to_none,
    intersection,
    is_empty,
    narrows,
    texts_beginning,
    texts_not_beginning,
    union,
)
from distributary.filters.where.expression import (
    NEGATED,
    And,
    Between,
    Blank,
    Compare,
    CompareAttributes,
    Expression,
    In,
    IsNull,
    IsTruth,
    Leaf,
    Like,
    Not,
    Or,
    Truth,
    TruthConstant,
    fill,
)
from distributary.filters.where.like import like_pattern

MAX_CONJUNCTIONS = 64

Values = tuple[Any, ...]
Names = tuple[str, ...]
MakeDomain = Callable[[Values], Domain]


@dataclass(frozen=True, slots=True)
class SignedLeaf:
    """A leaf, or its negation."""

    leaf: Leaf
    positive: bool


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Tree, ...]


Tree = SignedLeaf | Every | Some
"""What is said about one attribute."""


@dataclass(frozen=True, slots=True)
class Term:
    """A conjunction to be: what is said about each attribute, and whether anything else is."""

    trees: tuple[tuple[str, Tree], ...]
    residual: bool = False


class TooManyError(Exception):
    """The disjunctive form would exceed `MAX_CONJUNCTIONS`."""


class NormalForm:
    """How the conjunctions of a template are made of values.

    When they would be too many, what remains is the one conjunction that must hold whatever else does.
    """

    __slots__ = ("_outline", "_steps")

    def __init__(self, terms: list[Term] | None, outline: Term | None) -> None:
        self._steps = None if terms is None else [_step(term) for term in terms]
        self._outline = None if outline is None else _step(outline)

    def conjunctions(self, values: Values, names: Names) -> tuple[Conjunction, ...] | None:
        """The disjunctive form; None when there is none that an index could use."""
        if self._steps is None:
            outline = self.outline(values, names)
            return outline if all(map(narrows, outline)) else None
        made = [conjunction for step in self._steps if (conjunction := step(values, names)) is not None]
        return tuple(made) if len(made) < 2 else tuple(dict.fromkeys(made))

    def outline(self, values: Values, names: Names) -> tuple[Conjunction, ...]:
        """Conjunctions of which at least one holds whenever the condition does."""
        if self._steps is not None:
            return self.conjunctions(values, names) or ()
        conjunction = None if self._outline is None else self._outline(values, names)
        return () if conjunction is None else (conjunction,)

    @property
    def is_complete(self) -> bool:
        """Whether the disjunctive form is small enough to be had."""
        return self._steps is not None

    def holds_always(self, values: Values, names: Names) -> bool:
        """Whether the condition is true for every event, as far as single attributes tell."""
        made = self.conjunctions(values, names)
        return made is not None and any(not c.domains and not c.residual for c in made)


def plan_of(expression: Expression) -> NormalForm:
    try:
        return NormalForm(_terms(expression, True), None)
    except TooManyError:
        return NormalForm(None, _necessary(expression, True))


def may_hold_always(expression: Expression) -> bool:
    """False when it is plain that some event does not pass: without these leaves, an empty event."""
    if isinstance(expression, (And, Or)):
        return any(map(may_hold_always, expression.parts))
    if isinstance(expression, Not):
        return may_hold_always(expression.part)
    return isinstance(expression, (TruthConstant, IsNull, IsTruth))


def may_have_residue(expression: Expression) -> bool:
    """Whether some part of it may be in no domain."""
    if isinstance(expression, (And, Or)):
        return any(map(may_have_residue, expression.parts))
    if isinstance(expression, Not):
        return may_have_residue(expression.part)
    return isinstance(expression, (Like, CompareAttributes))


# Terms


def _terms(expression: Expression, positive: bool) -> list[Term]:
    """The disjunctive form of an expression or of its negation."""
    match expression:
        case Not(part):
            return _terms(part, not positive)
        case And(parts) | Or(parts):
            inner = [_terms(part, positive) for part in parts]
            if isinstance(expression, And) == positive:
                return _product(inner)
            return _folded([term for terms in inner for term in terms])
    term = _leaf_term(expression, positive)
    return [] if term is None else [term]


def _leaf_term(leaf: Leaf, positive: bool) -> Term | None:
    if isinstance(leaf, TruthConstant):
        return Term(()) if leaf.truth is positive else None
    if isinstance(leaf, CompareAttributes):
        signed = SignedLeaf(leaf, positive)
        return Term(tuple((name, signed) for name in sorted({leaf.left, leaf.right})), residual=True)
    return Term(((leaf.attribute, SignedLeaf(leaf, positive)),))


def _product(factors: list[list[Term]]) -> list[Term]:
    """All ways to take one term of each factor."""
    result = [_all_of([terms[0] for terms in factors if len(terms) == 1])]
    for terms in sorted((terms for terms in factors if len(terms) != 1), key=len):
        if len(result) * len(terms) > 16 * MAX_CONJUNCTIONS:
            raise TooManyError
        result = _folded([_all_of([first, second]) for first in result for second in terms])
    return result


def _all_of(terms: list[Term]) -> Term:
    trees: dict[str, list[Tree]] = {}
    for term in terms:
        for name, tree in term.trees:
            trees.setdefault(name, []).append(tree)
    joined = tuple([(name, _combined(Every, trees[name])) for name in sorted(trees)])
    return Term(joined, any(term.residual for term in terms))


def _folded(terms: list[Term]) -> list[Term]:
    """Any of the terms: those on one and the same attribute become one, and equal ones are dropped."""
    single: dict[tuple[str, bool], list[Tree]] = {}
    others: dict[Term, None] = {}
    for term in terms:
        if len(term.trees) == 1:
            (name, tree), *_ = term.trees
            single.setdefault((name, term.residual), []).append(tree)
        else:
            others[term] = None
    folded = [Term(((name, _combined(Some, trees)),), r) for (name, r), trees in single.items()]
    if len(folded) + len(others) > MAX_CONJUNCTIONS:
        raise TooManyError
    return [*folded, *others]


def _combined(kind: type[Every] | type[Some], trees: list[Tree]) -> Tree:
    flat = [inner for tree in trees for inner in (tree.parts if isinstance(tree, kind) else (tree,))]
    distinct = tuple(dict.fromkeys(flat))
    return kind(distinct) if len(distinct) > 1 else distinct[0]


def _necessary(expression: Expression, positive: bool) -> Term | None:
    """A residual term that holds whenever the expression (or its negation) does; None when it never does."""
    match expression:
        case Not(part):
            return _necessary(part, not positive)
        case And(parts) | Or(parts):
            inner = [_necessary(part, positive) for part in parts]
            known = [term for term in inner if term is not None]
            if isinstance(expression, And) == positive:
                return _all_of(known) if len(known) == len(inner) else None
            return _any_of(known) if known else None
    term = _leaf_term(expression, positive)
    return None if term is None else Term(term.trees, residual=True)


def _any_of(terms: list[Term]) -> Term:
    by_name = [dict(term.trees) for term in terms]
    common = sorted(set(by_name[0]).intersection(*by_name))
    trees = tuple((name, _combined(Some, [each[name] for each in by_name])) for name in common)
    return Term(trees, residual=True)


# Domains


def truths(leaf: Leaf, positive: bool) -> Domain:
    """The values of the leaf's attribute for which it (or its negation) can be true.

    For a general LIKE and for comparisons of two attributes these are more than the values for which it
    is true.
    """
    match leaf:
        case Compare(_, operator, literal):
            return comparison(operator if positive else NEGATED[operator], literal)
        case Between(_, low, high):
            return _between(low, high, positive)
        case In(_, literals):
            return equal_to_any(literals) if positive else equal_to_none(literals)
        case Like():
            return _like(leaf, positive)
        case IsNull():
            return MISSING if positive else PRESENT
        case IsTruth(_, truth):
            if positive:
                return Domain(booleans=(truth,))
            return Domain(PRESENT.numbers, PRESENT.texts, (not truth,), null=True, other=True)
        case Truth():
            return Domain(booleans=(positive,))
        case CompareAttributes():
            return COMPARABLE
    raise TypeError(f"not a leaf on an attribute: {leaf!r}")


def _between(low: Any, high: Any, positive: bool) -> Domain:
    if positive:
        return intersection([comparison(">=", low), comparison("<=", high)])
    return union([comparison("<", low), comparison(">", high)])


def _like(leaf: Like, positive: bool) -> Domain:
    pattern = like_pattern(leaf.pattern, leaf.escape)
    if pattern.literal is not None:
        return comparison("=" if positive else "<>", pattern.literal)
    if positive:
        return texts_beginning(pattern.prefix)
    return texts_not_beginning(pattern.prefix) if pattern.prefix_only else Domain(texts=ALL_TEXTS)


def _is_exact(leaf: Like, values: Values) -> bool:
    """Whether the domain of this LIKE says all there is to say."""
    pattern = like_pattern(*(_value(part, values) for part in (leaf.pattern, leaf.escape)))
    return pattern.literal is not None or pattern.prefix_only


# Steps: what is done with the values


def _step(term: Term) -> Callable[[Values, Names], Conjunction | None]:
    """A function from values to the conjunction, or to None when it contradicts itself."""
    makers = [(int(number), _maker(tree)) for number, tree in term.trees]
    likes = [leaf for _, tree in term.trees for leaf in _likes(tree)]

    def make(values: Values, names: Names) -> Conjunction | None:
        domains = []
        for number, maker in makers:
            domain = maker(values)
            if domain is NOTHING or is_empty(domain):
                return None
            if not domain.other or domain != EVERYTHING:
                domains.append((names[number], domain))
        domains.sort(key=itemgetter(0))
        residual = term.residual or any(not _is_exact(leaf, values) for leaf in likes)
        return Conjunction(tuple(domains), residual)

    return make


def _likes(tree: Tree) -> list[Like]:
    if isinstance(tree, SignedLeaf):
        return [tree.leaf] if isinstance(tree.leaf, Like) else []
    return [leaf for part in tree.parts for leaf in _likes(part)]


def _maker(tree: Tree) -> MakeDomain:
    if isinstance(tree, SignedLeaf):
        return _bounded((tree,)) or _leaf_maker(tree)
    makers = [_maker(part) for part in tree.parts]
    if isinstance(tree, Some):
        return lambda values: union([make(values) for make in makers])
    return _bounded(tree.parts) or (lambda values: intersection([make(values) for make in makers]))


def _leaf_maker(signed: SignedLeaf) -> MakeDomain:
    leaf, positive = signed.leaf, signed.positive
    if isinstance(leaf, (IsNull, IsTruth, Truth, CompareAttributes)):
        fixed = truths(leaf, positive)
        return lambda values: fixed
    return lambda values: truths(fill(leaf, values), positive)  # type: ignore[arg-type]


def _bounded(parts: tuple[Tree, ...]) -> MakeDomain | None:
    """The quick way for bounds and equalities on one number; None when the parts are anything else."""
    bounds: list[tuple[str, Any]] = []
    for part in parts:
        leaf = part.leaf if isinstance(part, SignedLeaf) else None
        if isinstance(leaf, Compare) and type(leaf.literal) is Blank and isinstance(part, SignedLeaf):
            bounds.append((leaf.operator if part.positive else NEGATED[leaf.operator], leaf.literal.index))
        elif isinstance(leaf, Between) and type(leaf.low) is type(leaf.high) is Blank and part.positive:  # type: ignore[union-attr]
            bounds.extend(((">=", leaf.low.index), ("<=", leaf.high.index)))
        else:
            return None
    if any(operator == "<>" for operator, _ in bounds):
        return None
    return lambda values: _range_between(bounds, values)


def _range_between(bounds: list[tuple[str, Any]], values: Values) -> Domain:
    low, high, low_open, high_open = -inf, inf, False, False
    for operator, index in bounds:
        value = values[index]
        if value.__class__ is str:
            if operator == "=" and len(bounds) == 1 and not value.endswith("\0"):
                return Domain((), (TextRange(value, value),))
            return intersection([comparison(each, values[at]) for each, at in bounds])
        if operator[0] != "<" and (value > low or (value == low and operator == ">")):
            low, low_open = value, operator == ">"
        if operator[0] != ">" and (value < high or (value == high and operator == "<")):
            high, high_open = value, operator == "<"
    if low < high or (low == high and not low_open and not high_open):
        return Domain((NumberRange(low, high, low_open, high_open),))
    return NOTHING


def _value(literal: Any, values: Values) -> Any:
    return values[literal.index] if type(literal) is Blank else literal
