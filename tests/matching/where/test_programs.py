"""Programs and sets of patterns say of a row what its conditions say, and leave the rest to the exact way."""

from __future__ import annotations

import random
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pytest

from distributary import Event
from distributary.errors import FilterError
from distributary.filters.where.evaluate import evaluate
from distributary.filters.where.expression import Like, MatchesPattern
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import Instant
from distributary.matching.where import groups, patterns
from distributary.matching.where.formulas import Formulas
from distributary.matching.where.groups import HardValueError
from distributary.matching.where.patterns import PatternSet
from distributary.matching.where.rows import RowFormulas

ARGUMENTS = ["a", "b", "c", "0", "1", "2", "-3", "7", "1000", "cast(c as double)"]
LARGE = "4503599627370497"
SIGNS = ["+", "-", "*", "/", "%"]
INTEGERS = [0, 1, -1, 2, 3, -7, 1000, 2**26 + 1, 2**52 + 1, -(2**53) + 1]
OTHERS = [0.0, -0.0, 0.5, -2.5, 1e-300, 1.7e308, 2.0**53, None, None]
ODD = [2**53, -(10**400), float("inf"), float("nan"), Decimal("0.1"), Decimal(10) ** 30, True, "7", (1,)]


def random_operand(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return LARGE if rng.random() < 0.02 else rng.choice(ARGUMENTS)
    one, other = random_operand(rng, depth - 1), random_operand(rng, depth - 1)
    if rng.random() < 0.6:
        return f"({one} {rng.choice(SIGNS)} {other})"
    return rng.choice(
        [
            f"abs({one})",
            f"floor({one})",
            f"ceil({one})",
            f"(- {one})",
            f"coalesce({one}, {other})",
            f"coalesce({one})",
            f"nullif({one}, {other})",
        ]
    )


def random_condition(rng: random.Random) -> WhereFilter:
    operand, other = random_operand(rng, 3), random_operand(rng, 2)
    text = rng.choice(
        [
            f"{operand} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {rng.choice([-3, 0, 1, 2.5, 10**9])}",
            f"{operand} between {rng.choice([-5, 0])} and {rng.choice([0, 3, 10**6])}",
            f"{operand} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {other}",
            f"not ({operand} {rng.choice(['<', '='])} {other})",
            f"{operand} is null",
            f"{operand} is not distinct from {other}",
        ]
    )
    return WhereFilter.parse(text)


def random_conditions(rng: random.Random, count: int) -> list[WhereFilter]:
    found: list[WhereFilter] = []
    while len(found) < count:
        with suppress(FilterError):  # some have no attribute
            found.append(random_condition(rng))
    return found


def held(formulas: RowFormulas, attributes: dict) -> list[int] | None:
    """The formulas that hold for these attributes; None when they are not for kernels."""
    try:
        found = formulas.holding(lambda names: [attributes.get(name) for name in names], lambda: Instant(0))
    except HardValueError:
        return None
    return found.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_programs_compute_what_conditions_say(seed, monkeypatch):
    rng = random.Random(seed)
    filters = random_conditions(rng, 12)
    formulas = RowFormulas(
        Formulas([one.expression for one in filters]), np.arange(len(filters), dtype=np.int32)
    )
    exact_ways = []
    exact = groups.PredicateGroup.encoded
    monkeypatch.setattr(
        groups.PredicateGroup,
        "encoded",
        lambda group, *given: exact_ways.append(group in formulas._without_program) or exact(group, *given),
    )
    by_program = unfit = 0
    for _ in range(100):
        choice = rng.choice([INTEGERS[:6], INTEGERS[:6], INTEGERS + OTHERS, INTEGERS + OTHERS + ODD])
        attributes = {name: value for name in "abc" if (value := rng.choice(choice)) is not None}
        exact_ways.clear()
        found = held(formulas, attributes)
        by_program += not any(exact_ways)
        unfit += any(exact_ways)
        event = Event("e", attributes=attributes)
        if found is not None:
            expected = [place for place, one in enumerate(filters) if one.matches(event)]
            assert found == expected, (attributes, [filters[at].text for at in {*found} ^ {*expected}])
    assert by_program > 5, "the programs were hardly ever run"
    assert unfit > 5, "all rows were for programs"


def test_attributes_that_are_no_numbers_after_all_take_the_exact_way():
    filters = [
        WhereFilter.parse(text) for text in ("a > 1", "a + b > 2", "a = b", "a is null", "a like '%7%'")
    ]
    formulas = RowFormulas(Formulas([one.expression for one in filters]), np.arange(5, dtype=np.int32))
    assert held(formulas, {"a": 3, "b": 3}) == [0, 1, 2]
    assert held(formulas, {"a": "17", "b": "17"}) == [2, 4]
    assert held(formulas, {"b": 3}) == [3]
    assert held(formulas, {"a": 10**400, "b": 10**400}) == [0, 1, 2]


PIECES = ["a", "B", ".", "%", "_", "\\", "!", "é", "\n", "(", "", "aa", "$", "^", "日"]
REGULAR = ["a+$", "^[aB]", "(?i)b", "a.a", r"\.", "é", "^$", "", "[^a]", r"(?m)^a", "日?B"]


@pytest.mark.parametrize("seed", range(4))
def test_a_set_of_patterns_finds_what_each_finds(seed):
    rng = random.Random(seed)
    leaves: list[Like | MatchesPattern] = [MatchesPattern("t", pattern) for pattern in REGULAR]
    for _ in range(60):
        escape = rng.choice([None, "!", "\\"])
        pieces = [rng.choice(PIECES) for _ in range(rng.randrange(6))]
        if escape is not None:
            pieces = [escape + piece[0] if rng.random() < 0.3 and piece else piece for piece in pieces]
            pieces = [piece for piece in pieces if piece != escape]
        leaves.append(Like("t", "".join(pieces), escape))
    texts = ["", *("".join(rng.choice(PIECES) for _ in range(rng.randrange(8))) for _ in range(200))]
    patterns_of_all = PatternSet(leaves)
    for text in texts:
        found = patterns_of_all.find(text)
        assert found is not None
        assert sorted(found) == [at for at, leaf in enumerate(leaves) if evaluate(leaf, {"t": text})], text


def test_patterns_that_a_set_does_not_answer_for_are_asked_one_by_one(monkeypatch):
    texts = ["t like 'a%'", "t not like '%b'", "t regexp 'a+'", "t not regexp 'c'", "lower(t) like 'a%'"]
    filters = [WhereFilter.parse(text) for text in texts]

    def found(value: object) -> list[int] | None:
        formulas = RowFormulas(Formulas([one.expression for one in filters]), np.arange(5, dtype=np.int32))
        return held(formulas, {"t": value})

    long = "a" * (patterns.LONGEST + 1)
    expected = [found(value) for value in ("ab", "Ac", "a", long, 7, None, ("ab",))]
    assert expected == [[0, 2, 3, 4], [1, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [], [], []]
    monkeypatch.setattr(patterns, "MEMORY", 100)  # too little for any set
    assert PatternSet([Like("t", "a%")]).find("ab") is None
    assert [found(value) for value in ("ab", "Ac", "a", long, 7, None, ("ab",))] == expected


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a * b = c * c", False),
        ("a * b = e", False),
        ("floor(d) * b = e", False),
        ("floor(d) * 2 = 2 * a", True),
    ],
)
def test_integers_that_a_double_does_not_hold_are_left_to_the_exact_way(text, holds):
    formulas = RowFormulas(Formulas([WhereFilter.parse(text).expression]), np.zeros(1, np.int32))
    large = 2**27  # large + 1 times large - 1 is odd and above 2^53
    row = {"a": large + 1, "b": large - 1, "c": large, "d": large + 1.5, "e": 2.0**54}
    assert held(formulas, row) == [0] * holds
