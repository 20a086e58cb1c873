"""A document by itself is matched as it is in a batch, whichever reader reads it, in several segments too."""

from __future__ import annotations

import pytest

from distributary import Event, Matcher, Subscription
from distributary.errors import DocumentError
from distributary.filters.path.filter import PathFilter
from distributary.matching.batch import EventBatch
from distributary.matching.path.classes import PathClasses
from distributary.matching.path.forest import planted
from distributary.matching.single import SingleEvent

PATHS = (
    "/a",
    "//b[. = 'x']",
    "//b/text()",
    "//b[text() = 'x' and @k = 7]",
    "//@k[. > 5]",
    "//b[2]",
    "/a[c/d]/b",
    "//*[. = 123456789012345678]",
    "//*[. < 123456789012345678]",
    "//Q{urn:u}b",
    "//b[. != 'x']",
    "//è",
)
PLAIN = (
    "<a/>",
    "<a><b>x</b><b k='7'>x</b></a>",
    "<a><b>y</b><c><d/></c></a>",
    "<b xmlns='urn:u'>x</b>",
    "<a xmlns:p='urn:u'><p:b k='5.5'/></a>",
    "<z><y><x>7</x></y></z>",
)
LONG_NUMBER = "<a><b>123456789012345678</b><b>x</b></a>"
"""A kernel reads it, but not its number."""
NOT_PLAIN = ("<!DOCTYPE a><a><b>x</b></a>", "<a><è>x</è><b>x</b></a>")


@pytest.fixture(scope="module")
def index() -> PathClasses:
    """Half of the paths in one segment and half in another, of which one filter is removed."""
    made = PathClasses()
    half = len(PATHS) // 2
    for slots in (range(half), range(half, len(PATHS))):
        for slot in slots:
            made.add(slot, PathFilter.parse(PATHS[slot]))
        list(made.segments())
    made.add(len(PATHS), PathFilter.parse("/a"))
    list(made.segments())
    made.remove(len(PATHS))
    return made


@pytest.mark.parametrize("text", [*PLAIN, LONG_NUMBER, *NOT_PLAIN])
def test_alone_and_in_a_batch_the_same_is_found(index: PathClasses, text: str) -> None:
    event = Event("e", document=text)
    together = index.match_batch(EventBatch.from_events([Event("f", document="<q/>"), event]))
    expected = sorted(together.slots[together.rows == 1].tolist())
    assert index.match(event) == expected
    assert expected == [slot for slot, path in enumerate(PATHS) if PathFilter.parse(path).matches(event)]


def test_what_a_kernel_cannot_read_takes_the_other_way() -> None:
    for text in PLAIN:
        assert planted(SingleEvent(Event("e", document=text)), True) is not None
    for text in (LONG_NUMBER, *NOT_PLAIN):
        assert planted(SingleEvent(Event("e", document=text)), True) is None


def test_a_tree_is_made_once_for_all_segments() -> None:
    single = SingleEvent(Event("e", document="<a>x</a>"))
    assert planted(single, True) is planted(single, True)
    assert planted(single, True) is not planted(single, False)


def test_a_malformed_document_is_refused_whoever_is_subscribed() -> None:
    matcher = Matcher([Subscription("s", "ann", topic="A")])
    with pytest.raises(DocumentError):
        matcher.match(Event("e", "A", document="<a></b>"))
    assert matcher.match(Event("e", "A", document="<a></a>")) == ["s"]
