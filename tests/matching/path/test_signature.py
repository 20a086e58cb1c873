"""Signatures: structure, lengths, estimates, and how they add up."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.matching.path.signature import (
    Item,
    Signature,
    SignatureShape,
    document_items,
    document_signature,
    false_positive_estimate,
    guaranteed_items,
    optimal_hashes,
    path_signature,
    shape_for,
    structure_signatures,
)

BOOK = """
<book year="2003">
  <title>Event matching</title>
  <author><first>Ada</first><last>Yu</last></author>
  <publisher><name>CUHK</name></publisher>
</book>
"""

labels = st.sampled_from(["a", "b", "c", "@id", "ab", "Q{u}a"])
items: st.SearchStrategy[set[Item]] = st.sets(st.one_of(labels, st.tuples(labels, labels)), max_size=20)
shapes = st.builds(SignatureShape, st.integers(1, 1024), st.integers(1, 6))


def test_the_structure_has_every_element_and_every_parent_child_pair_as_in_figure_3_5() -> None:
    """Eight nodes (attributes count) and seven ordered pairs, like the figure's e1 to e8 and r1 to r7."""
    structure = document_items(parse_document(BOOK))
    assert {item for item in structure if isinstance(item, str)} == {
        *("book", "@year", "title", "author", "first", "last", "publisher", "name")
    }
    assert {item for item in structure if isinstance(item, tuple)} == {
        ("book", "@year"),
        ("book", "title"),
        ("book", "author"),
        ("author", "first"),
        ("author", "last"),
        ("book", "publisher"),
        ("publisher", "name"),
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/book[author/last]/title", {"book", "author", "last", "title", "ba", "al", "bt"}),
        ("/book//last", {"book", "last"}),
        ("/book/*/last", {"book", "last"}),
        ("/book/@year", {"book", "@year", "b@"}),
        ("//author[first or last]", {"author"}),
        ("//author[first or (first and last)]", {"author", "first", "af"}),
        ("//author[not(first)]", {"author"}),
        ("//author[first = 'Ada']/text()", {"author", "first", "af"}),
        ("/book/title | /book/author", {"book"}),
        ("/book/title | /book/title[. = 'x']", {"book", "title", "bt"}),
    ],
)
def test_a_filter_asks_only_for_what_is_guaranteed(path: str, expected: set[str]) -> None:
    short = {
        ("book", "author"): "ba",
        ("author", "last"): "al",
        ("author", "first"): "af",
        ("book", "title"): "bt",
        ("book", "@year"): "b@",
    }
    found = guaranteed_items(PathFilter.parse(path))
    assert {short[item] if isinstance(item, tuple) else item for item in found} == expected


def test_the_order_of_a_pair_matters() -> None:
    published = document_signature(parse_document("<a><b/></a>"), 1024)
    assert published.covers(path_signature(PathFilter.parse("//a/b"), 1024))
    assert not published.covers(path_signature(PathFilter.parse("//b/a"), 1024))


@given(items, st.lists(shapes, min_size=1, max_size=4))
def test_several_lengths_from_one_pass_equal_each_on_its_own(
    found: set[Item], wanted: list[SignatureShape]
) -> None:
    together = structure_signatures(found, wanted)
    assert together == tuple(structure_signatures(found, [shape])[0] for shape in wanted)
    for signature in together:
        assert all(signature.contains(item) for item in found)
        assert signature.bits < 1 << signature.shape.length


@given(items, items, shapes)
def test_the_signature_of_both_sets_covers_each(
    one: set[Item], other: set[Item], shape: SignatureShape
) -> None:
    first, second, both = (structure_signatures(each, [shape])[0] for each in (one, other, one | other))
    assert both.bits == first.bits | second.bits
    assert both.covers(first)
    assert first.covers(first.aggregate(second))


def test_aggregating_by_or_would_lose_deliveries_and_and_does_not() -> None:
    title = path_signature(PathFilter.parse("/book/title"))
    author = path_signature(PathFilter.parse("/book/author"))
    published = document_signature(parse_document("<book><title/></book>"))
    assert published.covers(title)
    assert not published.covers(Signature(title.shape, title.bits | author.bits))
    assert published.covers(title.aggregate(author))


def test_signatures_of_different_shapes_do_not_compare() -> None:
    short, long = (path_signature(PathFilter.parse("/a/b"), length) for length in (64, 128))
    with pytest.raises(ValueError, match="one shape"):
        short.covers(long)


def test_bits_do_not_depend_on_the_process() -> None:
    program = (
        "from distributary.matching.path.signature import *;"
        "print(structure_signatures({'a', ('a', 'b')}, [SignatureShape(256, 3)])[0].bits)"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    expected = structure_signatures({"a", ("a", "b")}, [SignatureShape(256, 3)])[0].bits
    assert printed == {f"{expected}\n"}


@pytest.mark.parametrize("hashes", [1, 2, 4])
@pytest.mark.parametrize("length", [128, 256, 1024])
def test_absent_items_appear_present_about_as_often_as_estimated(length: int, hashes: int) -> None:
    """Equation 7.2 with the 93 items of section 3.3.4, averaged over seeded structures."""
    random = Random(93)
    appeared = asked = 0
    for _ in range(40):
        present = {f"in{random.getrandbits(60)}" for _ in range(93)}
        signature = structure_signatures(present, [SignatureShape(length, hashes)])[0]
        appeared += sum(signature.contains(f"out{random.getrandbits(60)}") for _ in range(500))
        asked += 500
    estimate = false_positive_estimate(hashes, 93, length)
    assert appeared / asked == pytest.approx(estimate, rel=0.15, abs=0.002)


def test_the_best_number_of_hashes_is_next_to_the_quotient_and_least() -> None:
    for length, count in [(256, 93), (1024, 93), (64, 200), (512, 50)]:
        best = optimal_hashes(length, count)
        estimates = {hashes: false_positive_estimate(hashes, count, length) for hashes in range(1, 40)}
        assert estimates[best] == min(estimates.values())
    assert optimal_hashes(256, 93) == 2


@example(count=1, rate=0.75)
@given(st.integers(1, 200), st.floats(0.02, 0.98))
def test_the_shape_for_a_rate_is_the_shortest_that_meets_it(count: int, rate: float) -> None:
    def least(length: int) -> float:
        return min(false_positive_estimate(hashes, count, length) for hashes in range(1, 12))

    shape = shape_for(count, rate)
    assert false_positive_estimate(shape.hashes, count, shape.length) <= rate
    assert all(least(shorter) > rate for shorter in range(1, shape.length))


@pytest.mark.parametrize(("count", "rate"), [(0, 0.5), (10, 0.0), (10, 1.0)])
def test_no_shape_is_for_nothing_or_for_a_rate_that_cannot_be(count: int, rate: float) -> None:
    with pytest.raises(ValueError, match="a shape is for"):
        shape_for(count, rate)
