"""PathAutomaton: prefixes are shared, and go with their last filter."""

from __future__ import annotations

from distributary.filters.path.filter import PathFilter
from distributary.matching.path.automaton import PathAutomaton
from distributary.model import Event


def states(index: PathAutomaton) -> int:
    return sum(1 for _ in index._states())


def test_filters_with_equal_prefixes_share_states_until_the_last_one_goes() -> None:
    index = PathAutomaton()
    index.add(0, PathFilter.parse("/a/b/c"))
    assert states(index) == 4
    index.add(1, PathFilter.parse("/a/b/d"))
    index.add(2, PathFilter.parse("/a/b//c[x]"))
    assert states(index) == 7
    index.remove(0)
    assert states(index) == 6
    index.remove(2)
    index.remove(1)
    assert states(index) == 1


def test_removing_a_filter_leaves_one_with_the_same_trunk() -> None:
    index = PathAutomaton()
    for slot in (0, 1):
        index.add(slot, PathFilter.parse("//a/*/@id | //b"))
    event = Event("e", document="<r><a><x id='1'/></a></r>")
    assert index.match(event) == [0, 1]
    index.remove(0)
    assert index.match(event) == [1]


def test_a_trunk_alone_does_not_decide_a_filter_with_predicates_or_text() -> None:
    index = PathAutomaton()
    index.add_many(range(3), map(PathFilter.parse, ["/a/b[c]", "/a/b/text()", "/a/b//text()"]))
    assert index.match(Event("e", document="<a><b/></a>")) == []
    assert index.match(Event("e", document="<a><b><c/></b></a>")) == [0]
    assert index.match(Event("e", document="<a><b><c>x</c></b></a>")) == [0, 2]
    assert index.match(Event("e", document="<a><b>x</b></a>")) == [1, 2]
