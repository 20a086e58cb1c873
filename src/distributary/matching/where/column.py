"""A column of conditions: very many texts read at once, those of a known shape without an object each.

The texts are cut into shapes and literals (`cutting`), each shape has its recipe (`recipes`), and what has
none is read one by one as anywhere else. A text that is no condition is *refused*; whoever needs to know why
reads it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from distributary.errors import FilterError
from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Bytes, Floats, Ints, Longs, sealed, sealed_table
from distributary.matching.distinct import DistinctTexts
from distributary.matching.gathering import FilterColumn
from distributary.matching.index import AnyArrays, Arrays
from distributary.matching.where.cutting import CutTexts, cut
from distributary.matching.where.recipes import (
    NO_RECIPE,
    ConditionRecipe,
    RecipeTable,
    knows_recipe,
    prepare,
    recipe_of,
    recipe_table,
    write_texts,
)

WORTH_A_RECIPE = 4
"""A shape of which fewer texts are met, and none before, is read text by text."""


class ConditionColumn(FilterColumn[WhereFilter]):
    """Conditions by code, the place of their text among those given; `read` makes one."""

    def __init__(
        self,
        data: Bytes,
        cut: CutTexts,
        recipes: Ints,
        table: RecipeTable,
        names: list[str],
        texts: Arrays,
        selectivity: Floats,
        others: dict[int, WhereFilter],
        refused: list[int],
    ) -> None:
        self.data = data
        """The bytes that were cut."""
        self.cut = cut
        self.recipes = recipes
        """By code the number of the recipe in `table`, or NO_RECIPE."""
        self.table = table
        self.names = names
        """The attribute of each constraint of the table."""
        self.texts = texts
        self.selectivity = selectivity
        self.others = others
        """The filters without a recipe."""
        self.refused = refused

    @classmethod
    def read(cls, data: Bytes, starts: Longs, ends: Longs, parse: Callable[[str], WhereFilter]) -> Self:
        """Read each text `data[start:end]`; `parse` reads those that have no recipe."""

        def text(code: int) -> str:
            return data[starts[code] : ends[code]].tobytes().decode()

        parts = sealed_table(cut(data, starts, ends))
        numbers, found = _recipes(parts, text)
        table = sealed_table(recipe_table(found))
        lengths, selectivity = np.zeros(len(starts), np.int64), np.zeros(len(starts))
        prepare(table, parts, sealed(data), numbers, lengths, selectivity)
        others: dict[int, WhereFilter] = {}
        encoded: dict[int, bytes] = {}
        refused = []
        for code in np.flatnonzero(numbers == NO_RECIPE).tolist():
            try:
                others[code] = filter = parse(text(code))
            except FilterError:
                refused.append(code)
                continue
            encoded[code] = filter.text.encode()
            lengths[code], selectivity[code] = len(encoded[code]), filter.selectivity
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        texts = np.empty(int(offsets[-1]), np.uint8)
        write_texts(table, parts, sealed(data), numbers, offsets, texts)
        for code, written in encoded.items():
            texts[offsets[code] : offsets[code + 1]] = np.frombuffer(written, np.uint8)
        names = [name for recipe in found for name, _, _ in recipe.constraints]
        packed: Arrays = {"offsets": offsets, "bytes": texts}
        return cls(data, parts, numbers, table, names, packed, selectivity, others, refused)

    @classmethod
    def of_texts(cls, texts: AnyArrays, first: int, last: int) -> Self:
        """Read the packed canonical texts numbered from `first` to `last`."""
        offsets = texts["offsets"][first : last + 1]
        data = texts["bytes"][offsets[0] : offsets[-1]]
        offsets = offsets - offsets[0]
        return cls.read(data, offsets[:-1], offsets[1:], WhereFilter.parse)

    def filter(self, code: int) -> WhereFilter:
        """The filter, made of its canonical text if it has a recipe."""
        other = self.others.get(code)
        if other is not None:
            return other
        start, end = self.texts["offsets"][code : code + 2].tolist()
        return WhereFilter.parse(self.texts["bytes"][start:end].tobytes().decode())


def _recipes(parts: CutTexts, text: Callable[[int], str]) -> tuple[Ints, list[ConditionRecipe]]:
    """By text the number of its recipe, and the recipes."""
    recipes = np.full(len(parts.plain), NO_RECIPE, np.int32)
    found: list[ConditionRecipe] = []
    plain = np.flatnonzero(parts.plain)
    if not len(plain):
        return recipes, found
    distinct = DistinctTexts()
    shapes = distinct.number(parts.shapes, parts.offsets[plain], parts.offsets[plain + 1])
    counts = np.bincount(shapes)
    _, first = np.unique(shapes, return_index=True)
    of_shape = np.full(len(counts), NO_RECIPE, np.int32)
    for shape, place in enumerate(plain[first].tolist()):
        key = parts.shapes[parts.offsets[place] : parts.offsets[place + 1]].tobytes()
        if counts[shape] < WORTH_A_RECIPE and not knows_recipe(key):
            continue
        recipe = recipe_of(key, text(place))
        if recipe is not None:
            of_shape[shape] = len(found)
            found.append(recipe)
    recipes[plain] = of_shape[shapes]
    return recipes, found
