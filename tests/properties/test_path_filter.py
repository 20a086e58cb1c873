"""Path filters against lxml's XPath: matching, the canonical text, cover and merge."""

from __future__ import annotations

import pickle
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import FilterError
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import MAX_MERGED_BRANCHES, PathFilter, selects
from distributary.filters.path.match import path_selects
from distributary.filters.path.parse import parse_branches
from distributary.filters.path.pattern import LocationPath
from distributary.filters.path.shape import forget_shapes
from distributary.model import Event
from properties.examples import examples
from properties.full_paths import full_paths
from properties.oracle_path import ATTRIBUTES, NAMES, documents, paths, short_paths, wants

EITHER = st.one_of(short_paths(), paths(), full_paths())
"""Among short paths covering is frequent, among the others it takes every form."""


@settings(max_examples=examples(150), deadline=None)
@given(paths(), st.lists(documents(), min_size=1, max_size=3))
def test_a_filter_matches_what_xpath_selects(text: str, texts: list[str]) -> None:
    path_filter = PathFilter.parse(text)
    for document in texts:
        assert path_filter.matches(Event("e", document=document)) == wants(text, document)


@settings(max_examples=examples(150), deadline=None)
@given(full_paths(), st.lists(documents(), min_size=1, max_size=3))
def test_positions_axes_and_functions_are_those_of_xpath(text: str, texts: list[str]) -> None:
    path_filter = PathFilter.parse(text)
    for document in texts:
        assert selects(path_filter, parse_document(document)) == wants(text, document)


@settings(max_examples=examples(100), deadline=None)
@given(full_paths(), st.lists(documents(), min_size=1, max_size=3))
def test_what_a_path_implies_is_found_wherever_it_selects(text: str, texts: list[str]) -> None:
    (branch,) = PathFilter.parse(text).branches
    implied = LocationPath(branch.steps)
    for document in texts:
        assert path_selects(implied, parse_document(document)) or not wants(text, document)


@settings(max_examples=examples(75), deadline=None)
@given(st.one_of(paths(), full_paths()), documents())
def test_the_canonical_text_means_the_same_filter(text: str, document: str) -> None:
    path_filter = PathFilter.parse(text)
    again = PathFilter.parse(path_filter.text)
    assert again == path_filter
    assert again.branches == path_filter.branches
    assert hash(again) == hash(path_filter)
    assert pickle.loads(pickle.dumps(path_filter)) == path_filter
    assert wants(path_filter.text, document) == wants(text, document)


WRITTEN_LITERAL = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w-])-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)""")
LITERALS_OF_EVERY_KIND = (
    *("1", "2", "07", "5.", ".5", "-3", "-0", "-.5", "1e3", "1.5E-2", "-2e+1", "1e400", "9" * 330),
    *("'x'", '"x"', "'2'", "' -2. '", "'1e3'", "''", "'it''s'", '"it\'s"', "'\"'", "'it''s \"'", "'] | /*['"),
    *("+1", "- 1", "--1", "1.2.3", "1a", "a1", "'", "'x''", "1 -1", "Q{5}a", "\0", "\2"),
)
WRITTEN_NAME = re.compile(rf"""'[^']*'|"[^"]*"|Q\{{[^}}]*\}}|\b({"|".join((*NAMES, *ATTRIBUTES))})\b""")
NAMES_OF_EVERY_KIND = (
    *("a", "b", "x", "item", "date", "Q", "and", "or", "not", "text", "div", "mod", "union", "if", "to"),
    *("a-b", "a.b", "_x", "é", "aé", "a·", "and-b", "or.", "x-", "e5", "x1", "*", "xml:id", "p:a", "a b"),
    *("not(a)", "text()", "a()", "a (", "child", "child::a", "Q{u}a", "a[b]", "a[b[c]]", ".", "1a", ""),
    *("a | b", "%s", "\3", "\4", "x" * 500),
)
SOME_NAMES = st.lists(st.sampled_from(NAMES_OF_EVERY_KIND), min_size=1, max_size=4)
SOME_LITERALS = st.lists(st.sampled_from(LITERALS_OF_EVERY_KIND), min_size=1, max_size=4)
CHARACTERS = st.text("'\"15-.ae[]()=< |/@Q{}", max_size=1)
MUTATIONS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), CHARACTERS), max_size=2)


def rewritten(text: str, literals: list[str], mutations: list[tuple[int, int, str]]) -> str:
    """The text with other literals, in turn, and with some characters replaced by others."""
    following = iter(literals * len(text))
    text = WRITTEN_LITERAL.sub(lambda _: next(following), text)
    for place, width, characters in mutations:
        text = text[:place] + characters + text[place + width :]
    return text


def renamed(text: str, names: list[str]) -> str:
    """The text with other names, in turn."""
    following = iter(names * len(text))
    return WRITTEN_NAME.sub(lambda found: next(following) if found[1] else found[0], text)


def outcome(text: str) -> object:
    try:
        path_filter = PathFilter.parse(text)
    except FilterError as error:
        return error.reason, error.text, error.position
    assert path_filter == PathFilter(parse_branches(text))
    return path_filter.text, path_filter.branches, path_filter.selectivity


def check_alone_and_after(wanted: str, others: list[str]) -> None:
    forget_shapes()
    alone = outcome(wanted)
    forget_shapes()
    for other in others:
        outcome(other)
    assert outcome(wanted) == alone


@settings(max_examples=examples(100), deadline=None)
@given(paths(), SOME_LITERALS, SOME_LITERALS, MUTATIONS)
def test_reading_by_shape_is_parsing_anew(
    text: str, known: list[str], asked: list[str], mutations: list[tuple[int, int, str]]
) -> None:
    """Whatever texts of one shape, or nearly, were read before, a text means what it means on its own."""
    others = [text, rewritten(text, known, []), rewritten(text, known, mutations)]
    for wanted in (text, rewritten(text, asked, []), rewritten(text, asked, mutations)):
        check_alone_and_after(wanted, others)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(paths(), min_size=1, max_size=3), SOME_NAMES, SOME_NAMES, SOME_LITERALS, MUTATIONS)
def test_reading_by_pieces_is_parsing_anew(
    texts: list[str],
    known: list[str],
    asked: list[str],
    literals: list[str],
    mutations: list[tuple[int, int, str]],
) -> None:
    """The same when the texts read before have other names, or share some predicates or steps only."""
    text = texts[0]
    others = [*texts, renamed(text, known), rewritten(text, literals, mutations)]
    for wanted in (renamed(text, asked), rewritten(renamed(text, asked), literals, mutations)):
        check_alone_and_after(wanted, others)


@settings(max_examples=examples(75), deadline=None)
@given(EITHER, EITHER, st.lists(documents(), min_size=1, max_size=3))
def test_what_a_covered_filter_matches_the_covering_one_matches(
    wide: str, narrow: str, texts: list[str]
) -> None:
    if PathFilter.parse(wide).covers(PathFilter.parse(narrow)):
        for document in texts:
            assert wants(wide, document) or not wants(narrow, document)


@settings(max_examples=examples(75), deadline=None)
@given(paths())
def test_a_filter_covers_itself(text: str) -> None:
    assert PathFilter.parse(text).covers(PathFilter.parse(text))


@settings(max_examples=examples(50), deadline=None)
@given(EITHER, EITHER, st.lists(documents(), min_size=1, max_size=3))
def test_a_merged_filter_matches_what_either_matches(first: str, second: str, texts: list[str]) -> None:
    merged = PathFilter.parse(first).merge(PathFilter.parse(second))
    assert merged is not None
    for document in texts:
        if wants(first, document) or wants(second, document):
            assert wants(merged.text, document)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(short_paths(), min_size=20, max_size=40, unique=True),
    st.lists(documents(), min_size=1, max_size=3),
)
def test_merging_many_filters_stays_small_and_sound(texts: list[str], events: list[str]) -> None:
    merged: PathFilter | None = PathFilter.parse(texts[0])
    for text in texts[1:]:
        merged = merged.merge(PathFilter.parse(text)) if merged is not None else None
    if merged is None:
        return
    assert len(merged.branches) <= MAX_MERGED_BRANCHES
    assert PathFilter.parse(merged.text) == merged
    for document in events:
        if any(wants(text, document) for text in texts):
            assert selects(merged, parse_document(document))
