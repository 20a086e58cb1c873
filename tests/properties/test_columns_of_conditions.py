"""Conditions read by the column against the plain reader: texts, constraints, guesses, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import FilterError
from distributary.filters.where import condition
from distributary.filters.where.filter import WhereFilter
from distributary.matching import frozen
from distributary.matching.where import column as columns
from distributary.matching.where import cutting, recipes
from distributary.matching.where.collecting import ConditionGatherer
from distributary.matching.where.column import ConditionColumn
from distributary.matching.where.constraints import FlatConditions
from properties.examples import examples

NUMBERS = [
    *("0", "1", "7", "10", "0.5", "8.30", "8.300", "100.00", "3.0", "0.0001", "0.00001", "0.00", "1.10"),
    *("-1", "-0", "-0.0", "-2.50", "- 3", "007", "00.5", ".5", "5.", "1e3", "1E-2", "1.5e300", "--2"),
    *("123456789012345", "1234567890123456", "12345678.1234567", "12345678.12345678", "0.123456789012345"),
    *(
        "9007199254740993",
        "99999999999999.9",
        "0.1000000000000000055",
        "1e400",
        "1_000",
        "0x10",
        "1.2.3",
        "1a",
    ),
]
TEXTS = [
    "''",
    "'x'",
    "'it''s'",
    "'2026-06-01'",
    "'12:30'",
    "'9'",
    "'a b'",
    "'ä'",
    "'\n'",
    "'\t'",
    "'",
    "'a\0'",
]
NAMES = ["a", "b", "wind.speed", "_x1", '"odd name"', "ä", "date", "a1", "b.c.d", "in"]
OPERATORS = ["=", "<", "<=", ">", ">=", "<>", "!="]
SPACES = ["", " ", "  ", "\n", "\t", "\r"]
WORDS = [
    "and",
    "or",
    "AND",
    "not",
    "like",
    "in",
    "is null",
    "between",
    "(",
    ")",
    ",",
    "true",
    "-",
    "+",
    ";",
    "--",
]

literals = st.sampled_from(NUMBERS) | st.sampled_from(TEXTS)
comparisons = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(NAMES),
    st.sampled_from(SPACES),
    st.sampled_from(OPERATORS),
    st.sampled_from(SPACES),
    literals,
)
betweens = st.builds("{} between {} and {}".format, st.sampled_from(NAMES), literals, literals)
mirrored = st.builds("{} {} {}".format, literals, st.sampled_from(OPERATORS), st.sampled_from(NAMES))
bounds = st.builds(
    "a {} {}".format,
    st.sampled_from(["=", "<", "<=", ">", ">="]),
    st.sampled_from(["1", "1.0", "2", "-1.50"]),
)
plain = st.lists(comparisons | betweens | mirrored, min_size=1, max_size=4).map(" and ".join) | st.lists(
    bounds, min_size=2, max_size=3
).map(" and ".join)
garbled = st.lists(
    literals | st.sampled_from(NAMES) | st.sampled_from(OPERATORS) | st.sampled_from(WORDS), max_size=8
).flatmap(lambda parts: st.sampled_from(["", " "]).map(lambda space: space.join(parts)))
conditions = plain | plain | plain | garbled


@pytest.fixture(autouse=True)
def every_shape_is_worth_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "WORTH_A_RECIPE", 1)


def read(texts: list[str]) -> ConditionColumn:
    packed = frozen.pack_texts(texts)
    return ConditionColumn.of_texts(packed, 0, len(texts))


def parsed(text: str) -> WhereFilter | None:
    try:
        return WhereFilter.parse(text)
    except FilterError:
        return None


def taken(flat: FlatConditions, positions: int) -> list[Any]:
    """What is said by each filter, whatever the order of attributes and texts is."""
    texts = frozen.unpack_texts({"offsets": flat.texts.offsets, "bytes": flat.texts.data})
    said: list[Any] = [[] for _ in range(positions)]
    for number, owner in enumerate(flat.owner.tolist()):
        constraints = []
        for at in range(flat.start[number], flat.start[number + 1]):
            attribute = flat.attribute[at]
            names = texts[flat.texts.first[attribute] : flat.texts.first[attribute + 1]]
            pieces = []
            for piece in range(flat.piece_start[at], flat.piece_start[at + 1]):
                low, high, tag = float(flat.low[piece]), float(flat.high[piece]), int(flat.tag[piece])
                bounds = [_named(bound, names) if tag == 2 else bound.hex() for bound in (low, high)]
                pieces.append((tag, *bounds))
            constraints.append((flat.names[attribute], pieces))
        said[owner].append((int(flat.flags[number]), constraints))
    return said


def _named(rank: float, names: list[str]) -> Any:
    """A rank as the texts it lies between, which depend on nothing else that is collected."""
    if not np.isfinite(rank):
        return rank
    return names[int(rank) // 2] if int(rank) % 2 else ("before", names[int(rank) // 2 :][:1])


@settings(max_examples=examples(400))
@given(st.lists(conditions, max_size=6))
def test_a_column_says_what_each_condition_says(texts: list[str]) -> None:
    found = read(texts)
    filters = [parsed(text) for text in texts]
    assert sorted(found.refused) == [code for code, filter in enumerate(filters) if filter is None]
    for code, filter in enumerate(filters):
        if filter is not None:
            assert frozen.unpack_text(found.texts, code) == filter.text
            assert found.filter(code) == filter
            assert found.selectivity[code] == filter.selectivity
            if found.recipes[code] != recipes.NO_RECIPE:
                assert filter.slow is None


@settings(max_examples=examples(300))
@given(st.lists(plain, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_constraints_by_recipe_are_those_of_the_conjunctions(texts: list[str], random: Any) -> None:
    texts = [text for text in texts if parsed(text) is not None]
    codes = np.array(random.sample(range(len(texts)), len(texts)), np.int32)
    by_column, one_by_one = ConditionGatherer(), ConditionGatherer()
    by_column.take(codes + 10, read(texts), codes)
    order = (by_column.slots() - 10).tolist()
    for code in order:
        one_by_one.add(code + 10, WhereFilter.parse(texts[code]))
    assert by_column.slots().tolist() == one_by_one.slots().tolist()
    assert frozen.unpack_texts(by_column.texts()) == frozen.unpack_texts(one_by_one.texts())
    flat = by_column.flat()
    assert sorted(flat.owner.tolist()) == flat.owner.tolist(), "the verifier relies on it"
    assert taken(flat, len(texts)) == taken(one_by_one.flat(), len(texts))


@settings(max_examples=examples(300))
@given(conditions)
def test_plain_texts_are_cut_as_the_reader_cuts_them(text: str) -> None:
    packed = frozen.pack_texts([text])
    cut = cutting.cut(packed["bytes"], packed["offsets"][:-1], packed["offsets"][1:])
    if cut.plain[0]:
        key, values = condition._cut(text)
        assert cut.shapes.tobytes().decode() == key
        numbers = [value for value in values if not isinstance(value, str)]
        is_text = [text[start] == "'" for start in cut.starts.tolist()]
        assert len(is_text) == len(values)
        assert [
            value for value, text_ in zip(cut.values.tolist(), is_text, strict=True) if not text_
        ] == numbers


def test_common_conditions_have_recipes() -> None:
    common = [
        "price > 8.3 and price < 8.7",
        "symbol = 'OTE' and price between 8.30 and 9 and volume >= 1000",
        "temperature < -2.5",
        "wind.speed >= 10",
        "8.3 < price",
    ]
    found = read(common)
    assert (found.recipes != recipes.NO_RECIPE).all()
    others = [
        "a like 'x%'",
        "a in (1, 2)",
        "a < 'x'",
        "a = 1 or b = 2",
        "a <> 1",
        "a = '2026-01-01'",
        "a + 1 > 2",
    ]
    assert (read(others).recipes == recipes.NO_RECIPE).all()


def test_a_shape_that_is_met_seldom_is_read_text_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "WORTH_A_RECIPE", 4)
    monkeypatch.setattr(recipes, "_recipes", {})
    assert (read(["seldom > 1"] * 3).recipes == recipes.NO_RECIPE).all()
    assert (read(["seldom > 1"] * 4).recipes != recipes.NO_RECIPE).all()
    assert (read(["seldom > 1"] * 3).recipes != recipes.NO_RECIPE).all(), "its recipe is known by now"
