"""Properties of where filters: parsing, matching, conjunctions, cover and merge, against the oracle."""

from __future__ import annotations

import pickle
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.errors import FilterError
from distributary.filters.where import condition
from distributary.filters.where.domain import Conjunction, contains_value
from distributary.filters.where.evaluate import evaluate
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event
from properties.examples import examples
from properties.oracle_where import attribute_maps, conditions, wants

maps = st.lists(attribute_maps(), min_size=1, max_size=6)


def passes(filter: WhereFilter, attributes: dict) -> bool:
    return filter.matches(Event("e", attributes=attributes))


def satisfies(conjunction: Conjunction, attributes: dict) -> bool:
    return all(contains_value(domain, attributes.get(name)) for name, domain in conjunction.domains)


@settings(max_examples=examples(100), deadline=None)
@given(conditions(), maps)
def test_evaluates_as_the_oracle_does(text, events):
    filter = WhereFilter.parse(text)
    for attributes in events:
        assert evaluate(filter.expression, attributes) is wants(text, attributes)
        assert passes(filter, attributes) is (wants(text, attributes) is True)


@settings(max_examples=examples(100), deadline=None)
@given(conditions(), maps)
def test_conjunctions_hold_exactly_when_the_condition_does(text, events):
    filter = WhereFilter.parse(text)
    conjunctions = filter.conjunctions
    if conjunctions is None:
        assert filter.slow
        return
    for attributes in events:
        satisfied = [c for c in conjunctions if satisfies(c, attributes)]
        left_open = [c for c in satisfied if c.residual and not c.residue]
        decided = [c for c in satisfied if c not in left_open]
        passed = [c for c in decided if all(wants(part, attributes) is True for part in c.residue)]
        expected = wants(text, attributes) is True
        assert passed or left_open if expected else not passed


@settings(max_examples=examples(100), deadline=None)
@given(conditions(12))
def test_canonical_text_reads_back_as_the_same_filter(text):
    filter = WhereFilter.parse(text)
    again = WhereFilter.parse(filter.text)
    assert again == filter
    assert again.text == filter.text
    assert again.expression == filter.expression
    assert again.conjunctions == filter.conjunctions
    assert hash(again) == hash(filter)
    assert pickle.loads(pickle.dumps(filter)) == filter


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(conditions(3), min_size=2, max_size=2), maps)
def test_cover_is_never_wrong(texts, events):
    first, second = map(WhereFilter.parse, texts)
    assert first.covers(first)
    if first.covers(second):
        for attributes in events:
            assert wants(texts[0], attributes) is True or wants(texts[1], attributes) is not True


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(conditions(4), min_size=2, max_size=4), maps)
def test_merge_lets_pass_what_either_does(texts, events):
    filters = [WhereFilter.parse(text) for text in texts]
    merged: WhereFilter | None = filters[0]
    for filter in filters[1:]:
        merged = merged.merge(filter) if merged is not None else None
    if merged is None:
        return
    assert WhereFilter.parse(merged.text) == merged
    for text, filter in zip(texts, filters, strict=True):
        assert all(passes(merged, e) for e in events if wants(text, e) is True), filter


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(conditions(2).filter(lambda text: "like" not in text), min_size=2, max_size=2), maps)
def test_merge_of_small_conditions_is_their_union(texts, events):
    first, second = map(WhereFilter.parse, texts)
    merged = first.merge(second)
    if any(c.residual for f in (first, second) for c in f.conjunctions or ()):
        return
    for attributes in events:
        expected = any(wants(text, attributes) is True for text in texts)
        assert (merged is None or passes(merged, attributes)) is (expected or merged is None)


@settings(max_examples=examples(100), deadline=None)
@given(conditions(4), conditions(4))
def test_a_cached_shape_reads_as_an_unknown_one(text, other):
    def read() -> tuple:
        filter = WhereFilter.parse(text)
        return filter.text, filter.expression, filter.conjunctions

    condition.forget_shapes()
    anew = read()
    WhereFilter.parse(other)
    assert read() == anew


@settings(max_examples=examples(60), deadline=None)
@given(conditions(3), st.permutations(["a", "b", "c", "A", "wind.speed"]), maps)
def test_names_fill_a_cached_shape_as_they_would_be_read(text, renamed, events):
    WhereFilter.parse(text)
    renaming = dict(zip(["a", "b", "c", "A", "wind.speed"], renamed, strict=True))
    pieces = re.split(r"('(?:[^']|'')*'|\"[^\"]*\"|(?<![\w.])(?:wind\.speed|[abcA])(?!\w))", text)
    changed = "".join(renaming.get(piece, piece) for piece in pieces)
    filter = WhereFilter.parse(changed)
    for attributes in events:
        assert evaluate(filter.expression, attributes) is wants(changed, attributes)
        assert passes(filter, attributes) is (wants(changed, attributes) is True)
    known = filter.text, filter.expression, filter.conjunctions
    condition.forget_shapes()
    again = WhereFilter.parse(changed)
    assert (again.text, again.expression, again.conjunctions) == known


@settings(max_examples=examples(60), deadline=None)
@given(conditions(3), st.data())
def test_literals_fill_a_cached_shape_as_they_would_be_read(text, data):
    WhereFilter.parse(text)
    pieces = condition.split_literals(text)
    for place in range(1, len(pieces), 2):
        same = st.sampled_from(["'x'", "'a%'", "''''"] if pieces[place][0] == "'" else ["7", "-1.5", "3e3"])
        pieces[place] = data.draw(same) if data.draw(st.booleans()) else pieces[place]
    changed = "".join(pieces)
    filter = parsed_or_error(changed)
    condition.forget_shapes()
    again = parsed_or_error(changed)
    if isinstance(filter, FilterError):
        assert str(again) == str(filter)
    else:
        assert again.expression == filter.expression


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="ab01.'\"()<>=!-,% \n/*e+", max_size=30))
def test_any_text_is_a_filter_or_an_error(text):
    filter = parsed_or_error(text)
    if isinstance(filter, FilterError):
        assert filter.field == "where"
        assert filter.position is None or 0 <= filter.position <= len(text)
    else:
        assert WhereFilter.parse(filter.text) == filter


def parsed_or_error(text: str) -> WhereFilter | FilterError:
    try:
        return WhereFilter.parse(text)
    except FilterError as error:
        return error


WORDS = [
    *("(", ")", ",", "=", "<", ">=", "<>", "and", "or", "not", "in", "between", "like", "is", "null", "true"),
    *("false", "escape", "a", "b", "'x'", "5", "-2", "!", ".", ";", "--", '"', "'"),
    *("abs(", "(1, 2)", "+", "\0", "\1", "\2", "\x020;"),
]
RESERVED = ["select", "case", "as", "exists", "distinct"]


@settings(max_examples=examples(100), deadline=None)
@given(conditions(4), st.data())
def test_a_mutated_condition_is_a_filter_or_an_error(text, data):
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 4))
        text = (
            text[:place]
            + " " * cut
            + data.draw(st.sampled_from(WORDS + RESERVED))
            + " " * cut
            + text[place + cut :]
        )
    filter = parsed_or_error(text)
    if isinstance(filter, FilterError):
        return
    assert WhereFilter.parse(filter.text) == filter
    assert filter.conjunctions is not None or filter.slow


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=9), maps)
@example(["null", "+", "null"], [{}])
@example(["a", "+", "5", "=", "b"], [{"a": 1, "b": 6}, {"a": "x", "b": 6}, {"a": True, "b": 6}, {"a": 1e308}])
@example(["abs(", "a", ")", "<", "5"], [{"a": -4}, {"a": "x"}, {"a": -7.5}, {}])
def test_words_in_any_order_are_read_as_the_oracle_reads_them_or_refused(words, events):
    text = " ".join(words)
    filter = parsed_or_error(text)
    if isinstance(filter, FilterError):
        return
    for attributes in events:
        assert evaluate(filter.expression, attributes) is wants(text, attributes)
