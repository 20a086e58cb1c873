"""PathBloom: what it counts, and what it does with signatures that came with the documents."""

from __future__ import annotations

import pytest

from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.matching.path.bloom import PathBloom, Preselection
from distributary.matching.path.signature import document_signature
from distributary.model import Event

PATHS = ["/a/b", "/a/c", "/a/b[. = 'x']", "/a[b]/b/d"]
TEXT = "<a><b>y</b></a>"


def index_of(paths: list[str], **shape: int) -> PathBloom:
    index = PathBloom(**shape)
    index.add_many(range(len(paths)), map(PathFilter.parse, paths))
    return index


def test_candidates_and_false_positives_are_counted() -> None:
    index = index_of(PATHS, length=1024)
    assert index.match(Event("e", document=TEXT)) == [0]
    # The signature cannot know values: [. = 'x'] passes it and fails the check.
    assert index.statistics == Preselection(pairs=4, candidates=2, matches=1)
    assert index.statistics.false_positives == 1
    assert index.statistics.rate == pytest.approx(1 / 3)
    index.match(Event("e", document=TEXT))
    assert index.statistics.pairs == 8


def test_longer_signatures_leave_no_more_candidates_on_average() -> None:
    paths = [f"/r/a{number}/b{number % 7}" for number in range(300)]
    document = (
        "<r>" + "".join(f"<a{number}><b{number % 7}/></a{number}>" for number in range(0, 60, 2)) + "</r>"
    )
    candidates = []
    for length in (64, 256, 1024, 4096):
        index = index_of(paths, length=length)
        assert index.match(Event("e", document=document)) == list(range(0, 60, 2))
        candidates.append(index.statistics.candidates)
    assert candidates == sorted(candidates, reverse=True)
    assert candidates[0] > candidates[-1]


def test_pre_selection_needs_no_document() -> None:
    index = index_of(PATHS, length=1024)
    rows, slots = index.candidates([document_signature(parse_document(TEXT), 1024)])
    assert (rows.tolist(), slots.tolist()) == ([0, 0], [0, 2])


def test_removed_filters_are_no_candidates() -> None:
    index = index_of(PATHS, length=1024)
    index.match(Event("e", document=TEXT))
    index.remove(0)
    signature = document_signature(parse_document(TEXT), 1024)
    assert index.candidates([signature]).slots.tolist() == [2]
    assert index.match(Event("e", document=TEXT)) == []


def test_a_signature_of_another_shape_is_refused() -> None:
    index = index_of(PATHS, length=128)
    with pytest.raises(ValueError, match="length=128"):
        index.candidates([document_signature(parse_document(TEXT), 256)])
