"""What a condition says that is in no domain: its *residue*, which is left to evaluation.

Which leaves are residues, what they imply for single operands, and the residue of a conjunction as texts of
conditions. A LIKE is a residue or not depending on its pattern, which a template does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import inf, nextafter
from typing import Any

from distributary.filters.where import expression as tree
from distributary.filters.where.expression import Compare, Computation, Expression, Leaf, Like, Not
from distributary.filters.where.geometry import Box, box_around
from distributary.filters.where.like import like_pattern
from distributary.filters.where.values import Instant, TimeOfDay
from distributary.filters.where.write import write

MAX_RESIDUE = 4000
"""Characters of a residue that is written down; a longer one is not told from the whole condition."""
CACHED_RESIDUES = 256
"""Residues of a template that are remembered: many conditions differ in other literals alone."""

Values = tuple[Any, ...]
Names = tuple[str, ...]
Residue = tuple[bool, tuple[str, ...]]
"""Whether there is any, and its conditions (see `domain.Conjunction`)."""


def is_residue(leaf: Leaf) -> bool:
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


def implied(leaf: Any, positive: bool) -> list[Expression]:
    """What must hold of single operands whenever the leaf, a residue, is true (or false)."""
    if isinstance(leaf, tree.CompareAttributes):
        return [Not(tree.IsNull(operand)) for operand in (leaf.left, leaf.right)]
    if _is_about_places(leaf) or tree.calls(leaf, "each"):
        return _places(leaf) if positive else []
    if isinstance(leaf, tree.MatchesPattern):
        return [Like(leaf.attribute, "%")]
    if isinstance(leaf, Compare) and isinstance(leaf.literal, Decimal):
        return [
            _near(leaf.attribute, leaf.operator if positive else tree.NEGATED[leaf.operator], leaf.literal)
        ]
    return [Not(tree.IsNull(leaf.attribute))]


def _near(operand: Any, operator: str, literal: Decimal) -> Expression:
    """A comparison with a double near the decimal, which holds whenever that with the decimal does.

    Where there is none, that the operand is a number. It is said by comparisons that can be written down: no
    literal stands for infinity.
    """
    double = float(literal)
    if operator in ("=", "<>") or not -inf < double < inf:
        return tree.disjunction_of([Compare(operand, "<", 0), Compare(operand, ">=", 0)])
    towards = -inf if operator[0] == ">" else inf
    for _ in range(4):
        double = nextafter(double, towards)
    return Compare(operand, operator[0] + "=", double)


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
    return in_box(names, box_around(float(centre[0]), float(centre[1]), leaf.literal))


def in_box(names: list[str], box: Box) -> list[Expression]:
    """That the attributes with these names, a latitude and a longitude, are within a box."""
    bounds = (box.south, box.north), (box.west, box.east)
    return [tree.Between(name, low, high) for name, (low, high) in zip(names, bounds, strict=True)]


def residue_maker(
    parts: Sequence[Expression], always: tuple[Expression, ...] | None
) -> Callable[[Values, Names], Residue]:
    """A function from values to the residue of a conjunction of these parts.

    `always` are the parts that are residues whatever the values; None when they are not known.
    """
    likes = [
        (part, found)
        for part in parts
        if (found := [leaf for leaf in tree.leaves(part) if isinstance(leaf, Like)])
    ]
    blanks = sorted(
        {blank for part in (*(part for part, _ in likes), *(always or ())) for blank in tree.blanks_in(part)}
    )
    known: dict[Any, Residue] = {}

    def make(values: Values, names: Names) -> Residue:
        if always is None:
            return True, ()
        if not always and not likes:
            return False, ()
        chosen = [values[blank] for blank in blanks]
        key = (names, tuple(chosen), tuple(map(type, chosen)))
        made = known.get(key)
        if made is None:
            inexact = [part for part, found in likes if not all(is_exact(leaf, values) for leaf in found)]
            made = _written((*inexact, *always), values, names)
            if len(known) == CACHED_RESIDUES:
                known.clear()
            known[key] = made
        return made

    return make


def _written(parts: tuple[Expression, ...], values: Values, names: Names) -> Residue:
    texts = [
        write(
            tree.rebuilt(part, lambda literal: tree.value_of(literal, values), lambda name: names[int(name)])
        )
        for part in parts
    ]
    is_short = sum(map(len, texts)) <= MAX_RESIDUE and max(map(tree.depth, parts), default=0) < tree.MAX_DEPTH
    return bool(parts), tuple(dict.fromkeys(texts)) if is_short else ()


def is_exact(leaf: Like, values: Values) -> bool:
    """Whether the domain of this LIKE says all there is to say."""
    pattern = like_pattern(*(tree.value_of(part, values) for part in (leaf.pattern, leaf.escape)))
    return pattern.literal is not None or pattern.prefix_only
