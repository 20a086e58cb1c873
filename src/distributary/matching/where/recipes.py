"""Recipes: what is done with the literals of all conditions of one shape, as arrays that a kernel follows.

A condition that is one conjunction of bounds on numbers and equalities with texts, by far the most common
kind, has a recipe: how its canonical text is put together, the bounds of its constraints, and what its
selectivity is guessed from. The recipe of a shape is derived from what `filters.where` knows of it (its
template and normal form); conditions without one are read and taken apart one by one.

The steps of `normal_form` that a kernel repeats here are `_range_between` and the quick way for an equality
with a text; what those leave to the general way is left here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from distributary.errors import FilterError
from distributary.filters.where.condition import shape_of
from distributary.filters.where.selectivity import LARGE, LEAST
from distributary.kernel import Bytes, Floats, Ints, Longs, inlined, kernel, sealed
from distributary.matching.columns import NUMBER, STRING
from distributary.matching.where.constraints import HIGH_OPEN, LOW_OPEN
from distributary.matching.where.cutting import NINE, TEXT, ZERO, CutTexts

OPERATORS = EQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(5)
CODES = {"=": EQUAL, "<": LESS, "<=": AT_MOST, ">": GREATER, ">=": AT_LEAST}

CONSTANT = -1
"""In place of a literal's number, for a fixed piece of the canonical text."""
NO_RECIPE = -1

REMEMBERED = 4096
"""Recipes of so many shapes are remembered; then all of them are forgotten."""


@dataclass(frozen=True, slots=True)
class ConditionRecipe:
    """What all conditions of one shape have in common; literals are known by their numbers in the text."""

    pieces: tuple[bytes | int, ...]
    """The canonical text: fixed pieces, and literals."""
    constraints: tuple[tuple[str, int, tuple[tuple[int, int], ...]], ...]
    """By ascending attribute: its name, the tag of its values, and its bounds as operators and literals."""
    selectivity: float
    spans: tuple[tuple[int, int], ...]


_recipes: dict[bytes, ConditionRecipe | None] = {}


def recipe_of(shape: bytes, text: str) -> ConditionRecipe | None:
    """The recipe of a shape, of which this is a text; None when it has none."""
    if shape not in _recipes:
        if len(_recipes) >= REMEMBERED:
            _recipes.clear()
        _recipes[shape] = _derived(shape, text)
    return _recipes[shape]


def knows_recipe(shape: bytes) -> bool:
    """Whether it was asked for the recipe of this shape before."""
    return shape in _recipes


def _derived(shape: bytes, text: str) -> ConditionRecipe | None:
    try:
        known = shape_of(text)
    except FilterError:
        return None
    marks = [byte for byte in shape if byte in (0, 1)]
    if known is None or known.places != len(marks) or known.template.has_residue:
        return None
    template, names = known.template, known.names
    pieces, bounds = template.pieces(names), template.normal_form.bounds
    if pieces is None or not bounds:
        return None
    places = range(len(marks)) if known.selection is None else known.selection
    constraints = []
    for attribute, compared in bounds:
        placed = tuple([(CODES[operator], places[index]) for operator, index in compared])
        texts = [marks[place] == TEXT for _, place in placed]
        if any(texts) and not (len(placed) == 1 and placed[0][0] == EQUAL):
            return None
        constraints.append((names[attribute], STRING if any(texts) else NUMBER, placed))
    return ConditionRecipe(
        tuple([piece.encode() if isinstance(piece, str) else places[piece] for piece in pieces]),
        tuple(sorted(constraints)),
        template.selectivity,
        tuple([(places[low], places[high]) for low, high in template.spans]),
    )


class RecipeTable(NamedTuple):
    """Recipes as a kernel reads them; the run of recipe r is from `..._first[r]` to `..._first[r + 1]`."""

    piece_first: Ints
    piece_literal: Ints
    """The number of the literal, or CONSTANT."""
    piece_offsets: Longs
    """Where the bytes of a fixed piece are in `fixed`."""
    fixed: Bytes
    constraint_first: Ints
    tag: Bytes
    bound_first: Ints
    operator: Bytes
    literal: Ints
    selectivity: Floats
    span_first: Ints
    span_low: Ints
    span_high: Ints


def recipe_table(recipes: Sequence[ConditionRecipe]) -> RecipeTable:
    """The recipes one after another."""
    pieces = [piece for recipe in recipes for piece in recipe.pieces]
    fixed = [b"" if isinstance(piece, int) else piece for piece in pieces]
    constraints = [constraint for recipe in recipes for constraint in recipe.constraints]
    bounds = [bound for _, _, compared in constraints for bound in compared]
    spans = [span for recipe in recipes for span in recipe.spans]
    return RecipeTable(
        _firsts([len(recipe.pieces) for recipe in recipes]).astype(np.int32),
        np.array([piece if isinstance(piece, int) else CONSTANT for piece in pieces], np.int32),
        _firsts([len(piece) for piece in fixed]),
        np.frombuffer(b"".join(fixed), np.uint8),
        _firsts([len(recipe.constraints) for recipe in recipes]).astype(np.int32),
        np.array([tag for _, tag, _ in constraints], np.uint8),
        _firsts([len(compared) for _, _, compared in constraints]).astype(np.int32),
        np.array([operator for operator, _ in bounds], np.uint8),
        np.array([literal for _, literal in bounds], np.int32),
        np.array([recipe.selectivity for recipe in recipes], np.float64),
        _firsts([len(recipe.spans) for recipe in recipes]).astype(np.int32),
        np.array([low for low, _ in spans], np.int32),
        np.array([high for _, high in spans], np.int32),
    )


def _firsts(sizes: Sequence[int]) -> Longs:
    firsts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.asarray(sizes, np.int64), out=firsts[1:])
    return firsts


@kernel
def prepare(
    table: RecipeTable, cut: CutTexts, data: Bytes, recipe_of_row: Ints, lengths: Longs, selectivity: Floats
) -> None:
    """Write how long the canonical text of each row is, and its selectivity.

    A row whose literal needs the general way has no recipe from here on. `data` is what was cut.
    """
    for row in range(len(recipe_of_row)):
        recipe = recipe_of_row[row]
        if recipe == NO_RECIPE:
            continue
        base = cut.first[row]
        if _needs_general_way(table, cut, data, recipe, base):
            recipe_of_row[row] = NO_RECIPE
            continue
        length = np.int64(0)
        for piece in range(table.piece_first[recipe], table.piece_first[recipe + 1]):
            literal = table.piece_literal[piece]
            if literal == CONSTANT:
                length += table.piece_offsets[piece + 1] - table.piece_offsets[piece]
            else:
                length += cut.ends[base + literal] - cut.starts[base + literal]
        lengths[row] = length
        selectivity[row] = _guess(table, cut.values, recipe, base)


@inlined
def _needs_general_way(table: RecipeTable, cut: CutTexts, data: Bytes, recipe: int, base: int) -> bool:
    """Whether a text that an attribute must equal may be a time, because it begins with a digit."""
    for constraint in range(table.constraint_first[recipe], table.constraint_first[recipe + 1]):
        if table.tag[constraint] == STRING:
            literal = base + table.literal[table.bound_first[constraint]]
            first = data[cut.starts[literal] + 1]
            if ZERO <= first <= NINE:
                return True
    return False


@inlined
def _guess(table: RecipeTable, values: Floats, recipe: int, base: int) -> Any:
    """What `selectivity.narrowed` guesses."""
    share = table.selectivity[recipe]
    first, last = table.span_first[recipe], table.span_first[recipe + 1]
    for span in range(first, last):
        low, high = values[base + table.span_low[span]], values[base + table.span_high[span]]
        size = max(abs(low), abs(high))
        if 0 < size < LARGE:
            share *= min(1.0, max(high - low, 0.0) / size)
    return max(LEAST, share) if last > first else share


@kernel
def write_texts(
    table: RecipeTable, cut: CutTexts, data: Bytes, recipe_of_row: Ints, offsets: Longs, texts: Bytes
) -> None:
    """Write the canonical text of each row that has a recipe to its place."""
    for row in range(len(recipe_of_row)):
        recipe = recipe_of_row[row]
        if recipe == NO_RECIPE:
            continue
        base, to = cut.first[row], offsets[row]
        for piece in range(table.piece_first[recipe], table.piece_first[recipe + 1]):
            literal = table.piece_literal[piece]
            if literal == CONSTANT:
                for at in range(table.piece_offsets[piece], table.piece_offsets[piece + 1]):
                    texts[to] = table.fixed[at]
                    to += 1
            else:
                for at in range(cut.starts[base + literal], cut.ends[base + literal]):
                    texts[to] = data[at]
                    to += 1


class ConditionRows(NamedTuple):
    """Constraints of conjunctions, one piece each: those of conjunction c end before `ends[c]`."""

    owner: Ints
    """The place, among the rows that were asked for, of the condition that the conjunction is."""
    ends: Ints
    constraint: Ints
    """Which constraint of the table of recipes it is."""
    low: Floats
    """Of a text, the number of the literal."""
    high: Floats
    bounds: Bytes


def constraints_of(table: RecipeTable, cut: CutTexts, recipe_of_row: Ints, rows: Ints) -> ConditionRows:
    """The constraints of these rows, which have recipes; rows that no event can pass have none."""
    sizes = np.diff(table.constraint_first)[recipe_of_row[rows]]
    room = int(sizes.sum())
    out = ConditionRows(
        np.empty(len(rows), np.int32),
        np.empty(len(rows), np.int32),
        np.empty(room, np.int32),
        np.empty(room),
        np.empty(room),
        np.empty(room, np.uint8),
    )
    conjunctions, constraints = _constraints(
        table, sealed(cut.first), sealed(cut.values), sealed(recipe_of_row), sealed(rows), out
    )
    by_conjunction, by_constraint = slice(conjunctions), slice(constraints)
    return ConditionRows(
        out.owner[by_conjunction],
        out.ends[by_conjunction],
        out.constraint[by_constraint],
        out.low[by_constraint],
        out.high[by_constraint],
        out.bounds[by_constraint],
    )


@kernel
def _constraints(
    table: RecipeTable, first: Ints, values: Floats, recipe_of_row: Ints, rows: Ints, out: ConditionRows
) -> tuple[int, int]:
    conjunctions, filled = 0, 0
    for place in range(len(rows)):
        row = rows[place]
        recipe, base, begin = recipe_of_row[row], first[row], filled
        possible = True
        for constraint in range(table.constraint_first[recipe], table.constraint_first[recipe + 1]):
            out.constraint[filled] = constraint
            if table.tag[constraint] == STRING:
                literal = base + table.literal[table.bound_first[constraint]]
                out.low[filled] = out.high[filled] = literal
                out.bounds[filled] = 0
            else:
                low, high, bounds = _range(table, values, constraint, base)
                possible &= low < high or (low == high and bounds == 0)
                out.low[filled], out.high[filled], out.bounds[filled] = low, high, bounds
            filled += 1
        if not possible:
            filled = begin
            continue
        out.owner[conjunctions] = place
        out.ends[conjunctions] = filled
        conjunctions += 1
    return conjunctions, filled


@inlined
def _range(table: RecipeTable, values: Floats, constraint: int, base: int) -> Any:
    """The range between all bounds of one attribute, as `normal_form._range_between` finds it."""
    low, high = -np.inf, np.inf
    low_open, high_open = 0, 0
    for bound in range(table.bound_first[constraint], table.bound_first[constraint + 1]):
        operator, value = table.operator[bound], values[base + table.literal[bound]]
        below = operator in (LESS, AT_MOST)
        above = operator in (GREATER, AT_LEAST)
        if not below and (value > low or (value == low and operator == GREATER)):
            low, low_open = value, LOW_OPEN if operator == GREATER else 0
        if not above and (value < high or (value == high and operator == LESS)):
            high, high_open = value, HIGH_OPEN if operator == LESS else 0
    return low, high, np.uint8(low_open | high_open)
