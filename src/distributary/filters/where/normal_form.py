"""From a condition to conjunctions of domains, which is what the indexes hold.

The steps, in the order of this module:

1. Negation is pushed to the leaves. De Morgan holds in three-valued logic, and the negation of a comparison
   is the opposite comparison: both are unknown for the same values.
2. After that only *true* counts: what makes an OR true is the union of what makes its parts true, and an AND
   the intersection. Conditions on one attribute fold into one domain, whatever their number; those on
   different attributes multiply, up to `MAX_CONJUNCTIONS`. The outcome is a list of `Term`s.
3. Each term becomes a function from values to a conjunction.

All of this but the values depends on a template alone, so it is worked out once, as a `NormalForm`. A
template does not know the attributes' names either: they are numbered, and given with the values.

An operation is an attribute to all this, one with its text as its name (see `write.operand_key`): whoever
holds the event computes it. What has no domain of its own is a *residue*, which is left to evaluation:
comparisons of two operands, patterns, `items[*]`, bytes, decimals that no double is written as. A conjunction
names the conditions that are its residue, so that whoever has checked its domains need evaluate no others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from distributary.filters.where import domain as sets
from distributary.filters.where import expression as tree
from distributary.filters.where.domain import Conjunction, Domain
from distributary.filters.where.expression import (
    And,
    Blank,
    Compare,
    Computation,
    Expression,
    Leaf,
    Like,
    Not,
    Operand,
    Or,
    argument_of,
)
from distributary.filters.where.geometry import cells_of
from distributary.filters.where.like import like_pattern
from distributary.filters.where.residue import implied, in_box, is_exact, is_residue, residue_maker
from distributary.filters.where.values import Instant, TimeOfDay
from distributary.filters.where.write import operand_key

MAX_CONJUNCTIONS = 64
CACHED_NAMES = 64
"""Names under which an operation of a template is remembered."""

ALWAYS = Conjunction(())
"""The conjunction that every event satisfies."""

Values = tuple[Any, ...]
Names = tuple[str, ...]
MakeDomain = Callable[[Values], Domain]
AttributeBounds = tuple[int, tuple[tuple[str, int], ...]]
"""An attribute's number, and what it is compared with: operators and the numbers of blanks."""


class Term(NamedTuple):
    """A conjunction to be: what is said about each operand, and what else must hold.

    What is said about an operand is an expression with `Not` above leaves alone, and `And` and `Or` flat. The
    residue is None when nothing less than the whole condition tells.
    """

    said: tuple[tuple[Operand, Expression], ...]
    residue: tuple[Expression, ...] | None = ()


class TooManyError(Exception):
    """The disjunctive form would exceed `MAX_CONJUNCTIONS`."""


class NormalForm:
    """How the conjunctions of a template are made of values.

    When they would be too many, what remains is the one conjunction that must hold whatever else does.
    """

    __slots__ = ("_makers", "_may_hold_always", "_outline", "bounds")

    def __init__(self, expression: Expression) -> None:
        self._may_hold_always = _may_hold_always(expression)
        self._makers: list[Callable[[Values, Names], Conjunction | None]] | None = None
        self._outline: Callable[[Values, Names], Conjunction | None] | None = None
        self.bounds: tuple[AttributeBounds, ...] | None = None
        """Where the form is one conjunction of nothing but bounds: those of each attribute it names."""
        try:
            terms = _terms(expression, True)
            self._makers = [_conjunction_maker(term) for term in terms]
            if len(terms) == 1 and not self._may_hold_always:
                self.bounds = _bounds_in(terms[0])
        except TooManyError:
            outline = _necessary(expression, True)
            self._outline = None if outline is None else _conjunction_maker(outline)

    def conjunctions(self, values: Values, names: Names) -> tuple[Conjunction, ...] | None:
        """The disjunctive form; None when there is none that an index could use.

        That of a condition that is true for every event is `ALWAYS` alone, that of a contradiction is empty.
        """
        if self._makers is None:
            outline = self.outline(values, names)
            return outline if all(map(sets.narrows, outline)) else None
        made = [conjunction for make in self._makers if (conjunction := make(values, names)) is not None]
        if self._may_hold_always and ALWAYS in made:
            return (ALWAYS,)
        return tuple(made) if len(made) < 2 else tuple(dict.fromkeys(made))

    def outline(self, values: Values, names: Names) -> tuple[Conjunction, ...]:
        """Conjunctions of which at least one holds whenever the condition does."""
        if self._makers is not None:
            return self.conjunctions(values, names) or ()
        conjunction = None if self._outline is None else self._outline(values, names)
        return () if conjunction is None else (conjunction,)

    @property
    def is_complete(self) -> bool:
        """Whether the disjunctive form is small enough to be had."""
        return self._makers is not None

    def holds_always(self, values: Values, names: Names) -> bool:
        """Whether the condition is true for every event, as far as single attributes tell."""
        return self._may_hold_always and self.conjunctions(values, names) == (ALWAYS,)


def _may_hold_always(expression: Expression) -> bool:
    """False when it is plain that some event does not pass: without these leaves, an empty event."""
    telling = (tree.TruthConstant, tree.IsNull, tree.IsTruth)
    return any(isinstance(leaf, telling) for leaf in tree.leaves(expression))


def may_have_residue(expression: Expression) -> bool:
    """Whether some part of it may be in no domain."""
    return any(isinstance(leaf, Like) or is_residue(leaf) for leaf in tree.leaves(expression))


def leaf_domain(leaf: Leaf, positive: bool) -> tuple[str, Domain] | None:
    """The key of a leaf's operand, and exactly the values for which the leaf (or its negation) is true.

    None for leaves that are in no domain, or not all of them, and for constants.

    >>> leaf_domain(Compare("a", ">", 5), False)[1].numbers
    (NumberRange(low=-inf, high=5, low_open=False, high_open=False),)
    """
    term = _leaf_term(leaf, positive)
    if term is None or term.residue != () or len(term.said) != 1:
        return None
    if isinstance(leaf, Like) and not is_exact(leaf, ()):
        return None
    ((operand, said),) = term.said
    return operand_key(operand), _domain_maker(said)(())


# From an expression to terms


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
    cells = _cell_terms(expression) if positive else None
    if cells is not None:
        return cells
    term = _leaf_term(expression, positive)
    return [] if term is None else [term]


def _leaf_term(leaf: Leaf, positive: bool) -> Term | None:
    signed: Expression = leaf if positive else Not(leaf)
    if isinstance(leaf, tree.TruthConstant):
        return Term(()) if leaf.truth is positive else None
    if is_residue(leaf):
        return _residue_term(leaf, positive)
    if isinstance(leaf, tree.CompareAttributes):
        raise TypeError("a comparison of two operands is a residue")
    operand = _as_time(leaf)
    match leaf:
        case Compare(_, operator, literal) if not positive:
            return Term(((operand, Compare(operand, tree.NEGATED[operator], literal)),))
    return Term(((operand, signed),))


def _residue_term(leaf: Leaf, positive: bool) -> Term:
    """What must hold of single operands whenever the leaf (or its negation) does, and the leaf as residue."""
    terms = [
        Term(((operand, each),))
        for each in implied(leaf, positive)
        for one in tree.leaves(each)
        for operand in tree.operands_of(one)
    ]
    return Term(_all_of(terms).said, (leaf if positive else Not(leaf),))


def _cell_terms(leaf: Leaf) -> list[Term] | None:
    """A term for each cell of a polygon, those within it without residue; None for every other leaf."""
    if not isinstance(leaf, tree.Truth) or isinstance(leaf.attribute, str):
        return None
    function, arguments = leaf.attribute.function, leaf.attribute.arguments
    names = [each.name for each in arguments[:2] if isinstance(each, tree.AttributeReference)]
    if function != "within" or len(set(names)) < 2:
        return None
    terms = []
    for box, is_inside in cells_of(arguments[2]):
        said = [
            Term(((each.attribute, each),)) for each in in_box(names, box) if isinstance(each, tree.Between)
        ]
        terms.append(Term(_all_of(said).said, () if is_inside else (leaf,)))
    return terms


def _as_time(leaf: Any) -> Operand:
    """What a leaf is about; where it is compared with a time, that is the operand read as one."""
    kinds = {type(literal) for literal in tree.literals_of(leaf)}
    reader = "as_timestamp" if Instant in kinds else "as_time" if TimeOfDay in kinds else None
    operand: Operand = leaf.attribute
    if reader is None or (isinstance(operand, Computation) and operand.function == reader):
        return operand
    return Computation(reader, (argument_of(operand),))


def _product(factors: list[list[Term]]) -> list[Term]:
    """All ways to take one term of each factor."""
    result = [_all_of([terms[0] for terms in factors if len(terms) == 1])]
    for terms in sorted((terms for terms in factors if len(terms) != 1), key=len):
        if len(result) * len(terms) > 16 * MAX_CONJUNCTIONS:
            raise TooManyError
        result = _folded([_all_of([first, second]) for first in result for second in terms])
    return result


def _all_of(terms: list[Term]) -> Term:
    said: dict[Operand, list[Expression]] = {}
    for term in terms:
        for operand, part in term.said:
            said.setdefault(operand, []).append(part)
    ordered = sorted(said, key=operand_key)
    joined = tuple([(operand, _distinct(tree.conjunction_of(said[operand]))) for operand in ordered])
    residues = [term.residue for term in terms if term.residue is not None]
    known = len(residues) == len(terms)
    return Term(joined, tuple(dict.fromkeys(chain.from_iterable(residues))) if known else None)


def _folded(terms: list[Term]) -> list[Term]:
    """Any of the terms: those on one and the same attribute become one, and equal ones are dropped."""
    single: dict[tuple[Operand, bool], list[Term]] = {}
    others: dict[Term, None] = {}
    for term in terms:
        if len(term.said) == 1:
            (name, _), *_ = term.said
            single.setdefault((name, term.residue == ()), []).append(term)
        else:
            others[term] = None
    folded = [_alternatives(name, several) for (name, _), several in single.items()]
    if len(folded) + len(others) > MAX_CONJUNCTIONS:
        raise TooManyError
    return [*folded, *others]


def _alternatives(operand: Operand, terms: list[Term]) -> Term:
    """Any of these terms on one operand, as one: all of them have a residue, or none has."""
    if len(terms) == 1:
        return terms[0]
    said = _distinct(tree.disjunction_of([part for term in terms for _, part in term.said]))
    wholes = [
        tree.conjunction_of([*(part for _, part in term.said), *term.residue])
        for term in terms
        if term.residue
    ]
    if not wholes:
        return Term(((operand, said),), terms[0].residue)
    residue = (_distinct(tree.disjunction_of(wholes)),) if len(wholes) == len(terms) else None
    return Term(((operand, said),), residue)


def _distinct(expression: Expression) -> Expression:
    """The expression with no part twice."""
    if not isinstance(expression, (And, Or)):
        return expression
    parts = tuple(dict.fromkeys(expression.parts))
    return type(expression)(parts) if len(parts) > 1 else parts[0]


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
    return None if term is None else Term(term.said, None)


def _any_of(terms: list[Term]) -> Term:
    by_name = [dict(term.said) for term in terms]
    common = sorted(set(by_name[0]).intersection(*by_name), key=operand_key)
    said = tuple((name, _distinct(tree.disjunction_of([each[name] for each in by_name]))) for name in common)
    return Term(said, None)


# From a term to what is done with the values


def _conjunction_maker(term: Term) -> Callable[[Values, Names], Conjunction | None]:
    """A function from values to the conjunction, or to None when it contradicts itself."""
    makers = [(_namer(operand), _domain_maker(said)) for operand, said in term.said]
    parts = [part for _, said in term.said for part in (said.parts if isinstance(said, And) else (said,))]
    residue = residue_maker(parts, term.residue)

    def make(values: Values, names: Names) -> Conjunction | None:
        domains = []
        for name_of, maker in makers:
            domain = maker(values)
            if domain is sets.NOTHING or sets.is_empty(domain):
                return None
            if not domain.other or domain != sets.EVERYTHING:
                domains.append((name_of(names), domain))
        domains.sort(key=itemgetter(0))
        return Conjunction(tuple(domains), *residue(values, names))

    return make


def _namer(operand: Operand) -> Callable[[Names], str]:
    """A function from the attributes' names to the name of an operand."""
    if isinstance(operand, str):
        number = int(operand)
        return lambda names: names[number]
    return lru_cache(CACHED_NAMES)(
        lambda names: operand_key(tree.renamed(operand, lambda number: names[int(number)]))
    )


def _domain_maker(said: Expression) -> MakeDomain:
    """A function from values to the domain of one attribute."""
    if isinstance(said, Or):
        makers = [_domain_maker(part) for part in said.parts]
        return lambda values: sets.union([make(values) for make in makers])
    bounded = _bounded(said.parts if isinstance(said, And) else (said,))
    if bounded is not None:
        return bounded
    if isinstance(said, And):
        makers = [_domain_maker(part) for part in said.parts]
        return lambda values: sets.intersection([make(values) for make in makers])
    if isinstance(said, Not):
        return lambda values: _truths(tree.fill(said.part, values), False)
    return lambda values: _truths(tree.fill(said, values), True)


def _bounded(parts: tuple[Expression, ...]) -> MakeDomain | None:
    """The quick way for bounds and equalities on one number; None when the parts are anything else."""
    bounds = _bounds_of(parts)
    return None if bounds is None else lambda values: _range_between(bounds, values)


def _bounds_in(term: Term) -> tuple[AttributeBounds, ...] | None:
    """The bounds of each attribute of a term; None when it says anything else."""
    found = []
    for operand, said in term.said:
        bounds = _bounds_of(said.parts if isinstance(said, And) else (said,))
        if bounds is None or not isinstance(operand, str):
            return None
        found.append((int(operand), tuple(bounds)))
    return tuple(found) if term.residue == () else None


def _bounds_of(parts: tuple[Expression, ...]) -> list[tuple[str, int]] | None:
    """The comparisons with blanks that the parts are; None when they are anything else."""
    bounds: list[tuple[str, int]] = []
    for part in parts:
        match part:
            case Compare(_, operator, Blank(index)) if operator != "<>":
                bounds.append((operator, index))
            case tree.Between(_, Blank(low), Blank(high)):
                bounds.extend(((">=", low), ("<=", high)))
            case _:
                return None
    return bounds


def _range_between(bounds: list[tuple[str, int]], values: Values) -> Domain:
    low, high, low_open, high_open = -inf, inf, False, False
    for operator, index in bounds:
        value = values[index]
        if value.__class__ is str:
            # Quick for equality with a text that is no time, and with no NUL at its end.
            if operator == "=" and len(bounds) == 1 and value[-1:] != "\0" and not value[:1].isdigit():
                return Domain((), (sets.TextRange(value, value),))
            return sets.intersection([sets.comparison(each, values[at]) for each, at in bounds])
        if operator[0] != "<" and (value > low or (value == low and operator == ">")):
            low, low_open = value, operator == ">"
        if operator[0] != ">" and (value < high or (value == high and operator == "<")):
            high, high_open = value, operator == "<"
    if low < high or (low == high and not low_open and not high_open):
        return Domain((sets.NumberRange(low, high, low_open, high_open),))
    return sets.NOTHING


def _truths(leaf: Expression, positive: bool) -> Domain:
    """The values of the leaf's attribute for which it (or its negation) can be true.

    For a general LIKE these are more than the values for which it is true.
    """
    match leaf:
        case Compare(_, operator, literal):
            return sets.comparison(operator, literal)
        case tree.Between(_, low, high) if positive:
            return sets.intersection([sets.comparison(">=", low), sets.comparison("<=", high)])
        case tree.Between(_, low, high):
            return sets.union([sets.comparison("<", low), sets.comparison(">", high)])
        case tree.In(_, literals):
            return sets.equal_to_any(literals) if positive else sets.equal_to_none(literals)
        case Like():
            return _like(leaf, positive)
        case tree.IsNull():
            return sets.MISSING if positive else sets.PRESENT
        case tree.IsTruth(_, truth) if not positive:
            return replace(sets.EVERYTHING, booleans=(not truth,))
        case tree.IsTruth(_, truth):
            return Domain(booleans=(truth,))
        case tree.Truth():
            return Domain(booleans=(positive,))
    raise TypeError(f"not a leaf on an attribute: {leaf!r}")


def _like(leaf: Like, positive: bool) -> Domain:
    pattern = like_pattern(leaf.pattern, leaf.escape)
    if pattern.literal is not None:
        return sets.comparison("=" if positive else "<>", pattern.literal)
    if positive:
        return sets.texts_beginning(pattern.prefix)
    return sets.texts_not_beginning(pattern.prefix) if pattern.prefix_only else Domain(texts=sets.ALL_TEXTS)
