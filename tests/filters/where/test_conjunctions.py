"""The disjunctive form of where filters: domains, what folds, what is residual, and what explodes."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.where import domain as sets
from distributary.filters.where.domain import ALL_TEXTS, Conjunction, Domain, NumberRange, TextRange
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event

where = WhereFilter.parse


def domain_of(text: str) -> Domain:
    """The one domain of a condition on one attribute."""
    (conjunction,) = where(text).conjunctions
    assert not conjunction.residual
    ((_, domain),) = conjunction.domains
    return domain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 5", Domain((NumberRange(5, inf, True),))),
        ("a between 1 and 2", Domain((NumberRange(1, 2),))),
        ("a = 5 and a >= 5", Domain((NumberRange(5, 5),))),
        ("a <> 5", Domain((NumberRange(-inf, 5, False, True), NumberRange(5, inf, True)))),
        ("not a <> 5", Domain((NumberRange(5, 5),))),
        ("not (a < 5 or a > 7)", Domain((NumberRange(5, 7),))),
        ("a < 5 or a >= 5", Domain((NumberRange(),))),
        ("a <= 5 or a > 5 and a < 9", Domain((NumberRange(-inf, 9, False, True),))),
        ("a in (1, 2) or a > 10", Domain((NumberRange(1, 1), NumberRange(2, 2), NumberRange(10, inf, True)))),
        ("a = 'x' or a = 5", Domain((NumberRange(5, 5),), (TextRange("x", "x"),))),
        ("a like 'abc'", Domain(texts=(TextRange("abc", "abc"),))),
        ("a like 'abc%'", Domain(texts=(TextRange("abc", "abd", False, True),))),
        ("a like '%'", Domain(texts=ALL_TEXTS)),
        ("a not like 'b%'", Domain(texts=(TextRange("", "b", False, True), TextRange("c")))),
        ("a > 'x'", Domain(texts=(TextRange("x", None, True),))),
        ("a >= 'x\0'", Domain(texts=(TextRange("x", None, True),))),
        ("a like '\U0010ffff%'", Domain(texts=(TextRange("\U0010ffff"),))),
        ("a like '\ud7ff%'", Domain(texts=(TextRange("\ud7ff", "\ue000", False, True),))),
        ("a", Domain(booleans=(True,))),
        ("a <> true", Domain(booleans=(False,))),
        ("a is null or a = 1", Domain((NumberRange(1, 1),), null=True)),
        ("a is not null", sets.PRESENT),
        ("a is not null and a < 'x'", Domain(texts=(TextRange("", "x", False, True),))),
    ],
)
def test_conditions_on_one_attribute_are_one_domain(text, expected):
    assert domain_of(text) == expected


def test_different_attributes_multiply():
    conjunctions = where("(a = 1 or b = 2) and (c = 3 or d = 4)").conjunctions
    names = [[name for name, _ in conjunction.domains] for conjunction in conjunctions]
    assert sorted(names) == [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]


def test_contradictions_are_dropped():
    conjunctions = where("(a = 1 or b = 2) and (a = 3 or b = 4)").conjunctions
    assert [[name for name, _ in conjunction.domains] for conjunction in conjunctions] == [["a", "b"]] * 2


@pytest.mark.parametrize("text", ["a like 'ab%c'", "a like 'ab_'", "a like 'ab%c%'"])
def test_a_general_like_keeps_its_prefix_and_is_residual(text):
    (conjunction,) = where(text).conjunctions
    prefix = Domain(texts=(TextRange("ab", "ac", False, True),))
    assert conjunction == Conjunction((("a", prefix),), residual=True, residue=(text,))
    assert where(text).slow is None


@pytest.mark.parametrize(
    ("text", "residue"),
    [
        ("name like '%-app-%' and env = 'prod' and number = '7'", ["name like '%-app-%'"]),
        ("a < b and c = 1 and d not like '%x'", ["a < b", "d not like '%x'"]),
        ("a like 'x%' and b regexp 'y+'", ["b regexp 'y+'"]),
        ("b > 3 and (a like '%x' or a like 'y%')", ["a like '%x' or a like 'y%'"]),
        ("(a = b or c = b) and c = 2", ["a = b", "c = b"]),
        ("a = 1", []),
    ],
)
def test_a_residue_is_what_no_domain_says(text, residue):
    assert sorted({part for one in where(text).conjunctions for part in one.residue}) == sorted(residue)


@pytest.mark.parametrize("text", ["a like '%x'", "a not like 'a%b'", "a < b", "a = b or c = 1"])
def test_what_bounds_nothing_is_slow(text):
    assert "bounds no attribute" in where(text).slow


def test_a_bounded_attribute_beside_a_residual_is_not_slow():
    assert where("a < b and c = 1").slow is None
    assert where("a like '%x' and a > 'b'").slow is None


PAIRS = " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(10))


def test_an_exploding_condition_is_matched_exactly_and_said_to_be_slow():
    filter = where(PAIRS)
    assert filter.conjunctions is None
    assert "64 conjunctions" in filter.slow
    event = {f"{'ab'[i % 2]}{i}": 1 for i in range(10)}
    assert filter.matches(Event("e", attributes=event))
    assert not filter.matches(Event("e", attributes={**event, "a0": 2}))
    assert where(filter.text) == filter


def test_an_exploding_condition_keeps_the_bound_that_always_holds():
    filter = where(f"{PAIRS} and price between 1 and 2")
    assert filter.conjunctions == (Conjunction((("price", Domain((NumberRange(1, 2),))),), residual=True),)
    assert filter.slow is None


def test_many_alternatives_on_one_attribute_do_not_explode():
    text = " or ".join(f"a > {i} and a < {i + 0.5}" for i in range(200))
    assert len(domain_of(text).numbers) == 200
    text = " and ".join(f"(a < {i} or a > {i + 0.5})" for i in range(200))
    assert len(domain_of(text).numbers) == 201


# Cover


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a > 5", "a > 6"),
        ("a > 5", "a > 6 and b = 1"),
        ("a >= 5 or b = 1", "a = 5"),
        ("a <> 5", "a in (1, 2)"),
        ("a not in (1, 2)", "a not in (1, 2, 3)"),
        ("a like 'x%'", "a like 'xy%'"),
        ("a like 'x%'", "a like 'xy%z'"),
        ("a is not null", "a = 'x'"),
        ("a is not null", "a < b"),
        ("a > 1 and a < 5 or a >= 5", "a > 2"),
        ("a like '%x'", "b = 1 and a like '%x'"),
        ("a like '%x' or b = 1", "a like '%x'"),
        ("a = 1", "a = 1 and a = 2"),
        (f"({PAIRS}) or b = 1", "b = 1"),
        ("price > 0", f"{PAIRS} and price between 1 and 2"),
    ],
)
def test_covers(wide, narrow):
    assert where(wide).covers(where(narrow))
    if where(narrow).conjunctions:
        assert where(wide) == where(narrow) or not where(narrow).covers(where(wide))


@pytest.mark.parametrize(
    ("first", "second"),
    [("a > 5", "a >= 5"), ("a <> 5", "a = 'x'"), ("a = 1", "b = 1"), ("a like '%x'", "a = 'x'")],
)
def test_does_not_cover(first, second):
    assert not where(first).covers(where(second))


# Merge


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("a > 5", "a > 6", "a > 5"),
        ("a = 1", "a = 2", "a in (1, 2)"),
        ("a between 1 and 3", "a between 2 and 5", "a between 1 and 5"),
        ("a = 1 and b = 2", "a = 3 and b = 2", "a in (1, 3) and b = 2"),
        ("a = 1", "b = 'x'", "a = 1 or b = 'x'"),
        ("a < 5", "a >= 5", "a < 0 or a >= 0"),
        ("a < 5", "a > 5", "a <> 5"),
        ("a not in (1, 2)", "a = 1", "a <> 2"),
        ("a like 'x%'", "a = true", "a = true or a like 'x%'"),
        ("a >= ''", "a is null", "a >= '' or a is null"),
        ("a is not null", "a is null", None),
        ("a is not true", "a = true", None),
        ("a like '%x'", "b = 1", "a like '%x' or b = 1"),
        ("a is not null and a is not true", "a is null", "a is not true"),
    ],
)
def test_merge(first, second, merged):
    found = where(first).merge(where(second))
    assert (None if found is None else found.text) == merged


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("a = 1 or a = 7", "a between 1 and 7"),
        ("a = 1 and b = 2 or a = 3 and c > 4", "a between 1 and 3"),
        ("a > 5 and a < 9", "a > 5 and a < 9"),
        ("a = 1 or b = 2", None),
        ("a like '%x'", "a >= ''"),
        ("a in ('k1', 'k9') and b > c", "a >= 'k1' and a <= 'k9' and b is not null and c is not null"),
    ],
)
def test_an_outline_is_one_range_of_what_all_alternatives_bound(text, wide):
    found = where(text).widened()
    assert (None if found is None else found.text) == (None if wide is None else where(wide).text)
    assert found is None or found.covers(where(text))


def test_a_merge_of_many_stays_small_and_sound():
    filters = [where(f"kind = 'k{i}' and size > {i} and place{i % 5} = {i}") for i in range(100)]
    merged: WhereFilter | None = filters[0]
    for filter in filters[1:]:
        assert merged is not None
        merged = merged.merge(filter)
    assert merged is not None
    assert len(merged.conjunctions) <= 16
    for i, filter in enumerate(filters):
        assert merged.covers(filter)
        attributes = {"kind": f"k{i}", "size": i + 1, f"place{i % 5}": i}
        assert merged.matches(Event("e", attributes=attributes))
    assert not merged.matches(Event("e", attributes={"kind": "k1", "size": 0}))


def test_a_merge_of_many_values_closes_the_narrowest_gaps():
    merged: WhereFilter | None = where("a = 1000")
    for value in range(100):
        assert merged is not None
        merged = merged.merge(where(f"a = {value}"))
    assert merged is not None
    assert len(merged.conjunctions[0].domains[0][1].numbers) <= 64
    assert not merged.matches(Event("e", attributes={"a": 500}))


def test_a_merge_of_unrelated_conditions_ends_in_everything():
    merged: WhereFilter | None = where("a0 = 1")
    for i in range(1, 20):
        merged = merged.merge(where(f"a{i} = 1")) if merged is not None else None
    assert merged is None


# Sets

literals = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 2**53, 2**53 + 2, "", "a", "ab", "b", "a\0"]),
    st.booleans(),
    st.none(),
)
comparisons = st.builds(sets.comparison, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), literals)
simple = st.one_of(
    comparisons,
    st.lists(literals, max_size=4).map(sets.equal_to_any),
    st.lists(literals, max_size=4).map(sets.equal_to_none),
    st.sampled_from(["", "a", "ab"]).map(sets.texts_beginning),
    st.sampled_from(["", "a", "ab"]).map(sets.texts_not_beginning),
    st.sampled_from([sets.PRESENT, sets.MISSING, sets.NOTHING, sets.EVERYTHING]),
)
domains = st.recursive(
    simple,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(sets.union),
        st.lists(parts, min_size=1, max_size=3).map(sets.intersection),
    ),
    max_leaves=4,
)
NUMBERS = [-inf, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 2**53, 2**53 + 2, inf]
POINTS = [
    *(None, (), True, False, -4, 7, 2**53 + 1, 2**60, *NUMBERS),
    *((low + high) / 2 for low, high in pairwise(NUMBERS[1:-2])),
    *("", "\0", "a", "a\0", "a\0\0", "aa", "ab", "ab\0", "ac", "ad", "b", "b\0", "c"),
]
"""Every bound that the domains above can have, and a value between any two."""


def members(domain: Domain) -> list[bool]:
    return [sets.contains_value(domain, point) for point in POINTS]


@settings(max_examples=150, deadline=None)
@given(st.lists(domains, min_size=1, max_size=4))
def test_union_and_intersection_are_those_of_sets(parts):
    rows = [members(domain) for domain in parts]
    assert members(sets.union(parts)) == [any(column) for column in zip(*rows, strict=True)]
    assert members(sets.intersection(parts)) == [all(column) for column in zip(*rows, strict=True)]
    for domain in parts:
        assert sets.is_within(domain, sets.union(parts))
        assert sets.is_within(sets.intersection(parts), domain)
        widened = sets.widened(domain, 1)
        assert sets.is_within(domain, widened)
        assert len(widened.numbers) <= 1
        assert len(widened.texts) <= 1


@settings(max_examples=150, deadline=None)
@given(domains, domains)
def test_within_is_exact_and_the_form_is_unique(first, second):
    inside = all(there or not here for here, there in zip(members(first), members(second), strict=True))
    assert sets.is_within(first, second) == inside
    if members(first) == members(second):
        assert first == second
