"""Conditions read by their shape are those read anew, whichever literals were met before."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import FilterError
from distributary.filters.where.condition import forget_shapes
from distributary.filters.where.filter import WhereFilter
from properties.examples import examples

SHAPES = [
    "array_contains(tags, {}) and a > {}",
    "name like {} escape {} and a = {}",
    "x is distinct from {} and y = {}",
    "case when a > {} then {} else b end = {}",
    "a + {} > {}",
    "items[{}] = {} and a < {}",
    "name ilike {} and b in ({}, {})",
    "{} = {} or a = {}",
    "a between {} and b or b = {}",
    "a is not {} or a = {}",
    "name regexp {} and name <> {}",
    "distance(a, b, {}, {}) < {} and c = {}",
    "cast({} as bigint) = a and b = {}",
    "(a > {} and b = {}) is true and c = {}",
    "a < now() - interval {} and b = {}",
    "t > timestamp {} and b = {}",
    "a = {} and b = {}",
]
LITERALS = st.sampled_from(
    ["1", "2", "0.5", "-1", "1e3", "1.0", "0.1000000000000000000001", "'a'", "'b%'", "'!'", "'1 day'", "'x+'"]
)


def read(text: str) -> Any:
    """What a text means, or why it does not."""
    try:
        filter = WhereFilter.parse(text)
    except FilterError as error:
        return str(error)
    return filter.text, filter.expression, filter.conjunctions


@given(st.sampled_from(SHAPES), st.lists(st.lists(LITERALS, min_size=4, max_size=4), min_size=2, max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_what_was_read_before_makes_no_difference(shape: str, literals: list[list[str]]) -> None:
    texts = [shape.format(*each) for each in literals]
    anew = []
    for text in texts:
        forget_shapes()
        anew.append(read(text))
    forget_shapes()
    assert [read(text) for text in [*texts, *texts]] == [*anew, *anew]


def test_an_escape_that_is_none_is_refused_though_the_shape_is_known() -> None:
    assert WhereFilter.parse("name like 'a!%' escape '!'").text == "name like 'a!%' escape '!'"
    assert "escape" in read("name like 'a!%' escape '!!'").lower()
