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
comparisons of two operands, patterns, `items[*]`, bytes, decimals that no double is written as.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from math import inf, nextafter
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
from distributary.filters.where.geometry import Box, box_around, cells_of
from distributary.filters.where.like import like_pattern
from distributary.filters.where.values import Instant, TimeOfDay
from distributary.filters.where.write import operand_key

MAX_CONJUNCTIONS = 64

ALWAYS = Conjunction(())
"""The conjunction that every event satisfies."""

Values = tuple[Any, ...]
Names = tuple[str, ...]
MakeDomain = Callable[[Values], Domain]
AttributeBounds = tuple[int, tuple[tuple[str, int], ...]]
"""An attribute's number, and what it is compared with: operators and the numbers of blanks."""


class Term(NamedTuple):
    """A conjunction to be: what is said about each operand, and whether anything else is.

    What is said about an operand is an expression with `Not` above leaves alone, and `And` and `Or` flat.
    """

    said: tuple[tuple[Operand, Expression], ...]
    residual: bool = False


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
    return any(isinstance(leaf, Like) or _is_residue(leaf) for leaf in tree.leaves(expression))


def leaf_domain(leaf: Leaf, positive: bool) -> tuple[str, Domain] | None:
    """The key of a leaf's operand, and exactly the values for which the leaf (or its negation) is true.

    None for leaves that are in no domain, or not all of them, and for constants.

    >>> leaf_domain(Compare("a", ">", 5), False)[1].numbers
    (NumberRange(low=-inf, high=5, low_open=False, high_open=False),)
    """
    term = _leaf_term(leaf, positive)
    if term is None or term.residual or len(term.said) != 1:
        return None
    if isinstance(leaf, Like) and not _is_exact(leaf, ()):
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
    if _is_residue(leaf):
        return _residue(leaf, positive)
    if isinstance(leaf, tree.CompareAttributes):
        raise TypeError("a comparison of two operands is a residue")
    operand = _as_time(leaf)
    match leaf:
        case Compare(_, operator, literal) if not positive:
            return Term(((operand, Compare(operand, tree.NEGATED[operator], literal)),))
    return Term(((operand, signed),))


# Residues


def _is_residue(leaf: Leaf) -> bool:
    """Whether what the leaf says is in no domain, or not all of it."""
    if isinstance(leaf, tree.TruthConstant):
        return False
    if isinstance(leaf, (tree.CompareAttributes, tree.MatchesPattern)):
        return True
    if _is_about_places(leaf) or tree.calls(leaf, "each"):
        return True
    kinds = {type(literal) for literal in tree.literals_of(leaf)}
    if kinds & {bytes, Decimal}:
        return True
    return len(kinds) > 1 and bool(kinds & {Instant, TimeOfDay})


def _is_about_places(leaf: Any) -> bool:
    return isinstance(leaf.attribute, Computation) and leaf.attribute.function in ("within", "distance")


def _residue(leaf: Any, positive: bool) -> Term:
    """What must hold of single operands whenever the leaf (or its negation) does."""
    said: list[Expression] = []
    if isinstance(leaf, tree.CompareAttributes):
        said = [Not(tree.IsNull(operand)) for operand in (leaf.left, leaf.right)]
    elif _is_about_places(leaf) or tree.calls(leaf, "each"):
        said = _places(leaf) if positive else []
    elif isinstance(leaf, tree.MatchesPattern):
        said = [Like(leaf.attribute, "%")]
    elif isinstance(leaf, Compare) and isinstance(leaf.literal, Decimal):
        operator = leaf.operator if positive else tree.NEGATED[leaf.operator]
        said = [Compare(leaf.attribute, *_near(operator, leaf.literal))]
    else:
        said = [Not(tree.IsNull(leaf.attribute))]
    terms = [
        Term(((operand, each),))
        for each in said
        for leaf in tree.leaves(each)
        for operand in tree.operands_of(leaf)
    ]
    return Term(_all_of(terms).said, residual=True)


def _near(operator: str, literal: Decimal) -> tuple[str, float]:
    """A comparison with a double near the decimal, which holds whenever that with the decimal does."""
    double = float(literal)
    if operator in ("=", "<>") or not -inf < double < inf:
        return "<=", inf
    towards = -inf if operator[0] == ">" else inf
    for _ in range(4):
        double = nextafter(double, towards)
    return operator[0] + "=", double


def _places(leaf: Any) -> list[Expression]:
    """The latitudes and longitudes where a leaf about a distance can hold at all."""
    if not _is_about_places(leaf):
        return []
    function, arguments = leaf.attribute.function, leaf.attribute.arguments
    if function != "distance" or not isinstance(leaf, Compare) or leaf.operator not in ("<", "<=", "="):
        return []
    centre = [
        each for each in arguments[2:] if isinstance(each, (int, Decimal)) and not isinstance(each, bool)
    ]
    names = [each.name for each in arguments[:2] if isinstance(each, tree.AttributeReference)]
    if len(names) < 2 or len(centre) < 2 or not isinstance(leaf.literal, (int, float)):
        return []
    return _in_box(names, box_around(float(centre[0]), float(centre[1]), leaf.literal))


def _in_box(names: list[str], box: Box) -> list[Expression]:
    bounds = (box.south, box.north), (box.west, box.east)
    return [tree.Between(name, low, high) for name, (low, high) in zip(names, bounds, strict=True)]


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
            Term(((each.attribute, each),)) for each in _in_box(names, box) if isinstance(each, tree.Between)
        ]
        terms.append(Term(_all_of(said).said, residual=not is_inside))
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
    return Term(joined, any(term.residual for term in terms))


def _folded(terms: list[Term]) -> list[Term]:
    """Any of the terms: those on one and the same attribute become one, and equal ones are dropped."""
    single: dict[tuple[Operand, bool], list[Expression]] = {}
    others: dict[Term, None] = {}
    for term in terms:
        if len(term.said) == 1:
            (name, part), *_ = term.said
            single.setdefault((name, term.residual), []).append(part)
        else:
            others[term] = None
    folded = [
        Term(((name, _distinct(tree.disjunction_of(parts))),), residual)
        for (name, residual), parts in single.items()
    ]
    if len(folded) + len(others) > MAX_CONJUNCTIONS:
        raise TooManyError
    return [*folded, *others]


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
    return None if term is None else Term(term.said, residual=True)


def _any_of(terms: list[Term]) -> Term:
    by_name = [dict(term.said) for term in terms]
    common = sorted(set(by_name[0]).intersection(*by_name), key=operand_key)
    said = tuple((name, _distinct(tree.disjunction_of([each[name] for each in by_name]))) for name in common)
    return Term(said, residual=True)


# From a term to what is done with the values


def _conjunction_maker(term: Term) -> Callable[[Values, Names], Conjunction | None]:
    """A function from values to the conjunction, or to None when it contradicts itself."""
    makers = [(_namer(operand), _domain_maker(said)) for operand, said in term.said]
    likes = [leaf for _, said in term.said for leaf in tree.leaves(said) if isinstance(leaf, Like)]

    def make(values: Values, names: Names) -> Conjunction | None:
        domains = []
        for name_of, maker in makers:
            domain = maker(values)
            if domain is sets.NOTHING or sets.is_empty(domain):
                return None
            if not domain.other or domain != sets.EVERYTHING:
                domains.append((name_of(names), domain))
        domains.sort(key=itemgetter(0))
        residual = term.residual or any(not _is_exact(leaf, values) for leaf in likes)
        return Conjunction(tuple(domains), residual)

    return make


def _namer(operand: Operand) -> Callable[[Names], str]:
    """A function from the attributes' names to the name of an operand."""
    if isinstance(operand, str):
        number = int(operand)
        return lambda names: names[number]
    return lambda names: operand_key(tree.renamed(operand, lambda number: names[int(number)]))


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
    return None if term.residual else tuple(found)


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


def _is_exact(leaf: Like, values: Values) -> bool:
    """Whether the domain of this LIKE says all there is to say."""
    pattern = like_pattern(*(tree.value_of(part, values) for part in (leaf.pattern, leaf.escape)))
    return pattern.literal is not None or pattern.prefix_only
