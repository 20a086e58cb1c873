"""PathClasses: the cases its parts were made for, each against the exact evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from distributary.filters.path.document import Document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.batch import EventBatch
from distributary.matching.path.classes import PathClasses
from distributary.matching.path.forest import grove
from distributary.matching.path.verifier import PathVerifier
from distributary.model import Event
from distributary.workloads import documents

BIB = """<bib>
<book year="1994"><title>TCP/IP</title><author><last>Stevens</last></author><price>65.95</price></book>
<book year="2000"><title>Data</title><author><last>Suciu</last></author><price>39.95</price></book>
<book year="1999"><title>Economics</title><editor><last>Gerbarg</last></editor><price>129.95</price></book>
</bib>"""


def matched(paths: list[str], *texts: str) -> list[list[str]]:
    """The paths that each document matches, in the order given."""
    index = PathClasses()
    index.add_many(range(len(paths)), map(PathFilter.parse, paths))
    return [[paths[slot] for slot in index.match(Event("e", document=text))] for text in texts]


def test_conditions_on_one_node_are_not_met_by_two_nodes_together() -> None:
    assert matched(
        ["//book[author][price > 100]", "//book[editor][price > 100]", "//book[author][editor]"], BIB
    ) == [["//book[editor][price > 100]"]]


def test_two_values_must_hold_at_one_node() -> None:
    found = matched(
        [
            "//book[@year > 1995][price < 50]",
            "//book[@year < 1995][price < 50]",
            "//book[author/last = 'Suciu' and price < 40]/title",
            "//book[author/last = 'Stevens' and price < 40]/title",
            "//book[price < 50 or price > 100][not(author/last = 'Suciu')]",
        ],
        BIB,
    )
    assert found == [
        [
            "//book[@year > 1995][price < 50]",
            "//book[author/last = 'Suciu' and price < 40]/title",
            "//book[price < 50 or price > 100][not(author/last = 'Suciu')]",
        ]
    ]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("<", [39.951, 65.95, 129.95, 200]),
        ("<=", [39.95, 39.951, 65.95, 129.95, 200]),
        (">", [-1, 39.95, 39.951, 65.95]),
        (">=", [-1, 39.95, 39.951, 65.95, 129.95]),
        ("=", [39.95, 65.95, 129.95]),
        ("!=", [-1, 39.95, 39.951, 65.95, 129.95, 200]),
    ],
)
def test_ranges_and_equalities_find_the_literals_on_their_side(relation: str, expected: list[float]) -> None:
    literals = [-1, 39.95, 39.951, 65.95, 129.95, 200]
    paths = [f"//price[. {relation} {literal}]" for literal in literals]
    assert matched(paths, BIB) == [[f"//price[. {relation} {literal}]" for literal in expected]]


def test_an_inequality_needs_one_value_that_differs() -> None:
    paths = ["//a[. != 'x']", "//a[. != 1]"]
    found = matched(
        paths,
        "<r><a>x</a><a>x</a></r>",
        "<r><a>1</a><a>1.0</a></r>",
        "<r><a>x</a><a/></r>",
        "<r><b>1</b></r>",
    )
    assert found == [["//a[. != 1]"], ["//a[. != 'x']"], paths, []]


def test_numbers_are_read_as_xpath_reads_them() -> None:
    paths = ["//a[. = 100]", "//a[. = 0]", "//a[. = 0.1]", "//a[. = 12345678901234567890]"]
    assert matched(
        paths,
        *(
            f"<a>{text}</a>"
            for text in (" 100 ", "1e2", "+100", "-0", ".10", "12345678901234567890", "0x64", "")
        ),
    ) == [[paths[0]], [], [], [paths[1]], [paths[2]], [paths[3]], [], []]


def test_the_value_of_an_element_is_all_text_below_it() -> None:
    paths = ["/r[a = 'one two']", "/r[a/text() = 'one two']", "/r[a/text() = 'one ']", "/r/*[. = 'one two']"]
    assert matched(paths, "<r><a>one <b>two</b></a></r>") == [[paths[0], paths[2], paths[3]]]


def test_documents_that_repeat_the_same_kinds_fold_into_one_summary() -> None:
    record = "<book><title>{}</title></book><book><title>{}</title><author/></book>"
    texts = ["<bib>" + record.format(1, 2) * times + "</bib>" for times in (1, 7, 30)]
    batch = EventBatch.from_events([Event(str(row), document=text) for row, text in enumerate(texts)])
    trees = grove(batch, with_text=False)
    assert trees.summaries().of_tree.tolist() == [0, 0, 0]
    # The document, bib, a book with its title, and a book with its title and author.
    assert np.diff(trees.summaries().first).tolist() == [7]
    assert np.diff(trees.summaries(shared=False).first).tolist() == [7, 7, 7]


def test_a_generated_workload_is_answered_as_by_the_exact_evaluator() -> None:
    filters = [PathFilter.parse(each.path) for each in documents.subscriptions(1_500, seed=5)]
    batch = EventBatch.from_events(list(documents.events(12, seed=5, size=3_000)))
    index, verifier = PathClasses(), PathVerifier()
    index.add_many(range(len(filters)), filters)
    verifier.add_many(range(len(filters)), filters)
    expected = np.array(
        [[selects(each, _document(batch, row)) for each in filters] for row in range(batch.rows)]
    )
    found = np.zeros_like(expected)
    found[tuple(index.match_batch(batch))] = True
    assert (found == expected).all()
    rows, slots = (np.ascontiguousarray(part, np.int32) for part in np.indices(expected.shape).reshape(2, -1))
    assert (verifier.verify(batch, rows, slots) == expected.ravel()).all()
    assert expected.any(axis=1).all()


def _document(batch: EventBatch, row: int) -> Document:
    found = batch.document(row)
    assert found is not None
    return found


def test_each_of_several_filters_that_are_the_same_is_found() -> None:
    texts = [
        "/a/b",
        "//b[c > 2]",
        "/a/b[c = 3 and d = 'x']/c",
        "//d | /a[b]",
        "/a/b[c = 3 and d = 'x' and e > 5]",
    ]
    filters = 3 * [PathFilter.parse(text) for text in texts]
    index = PathClasses()
    index.add_many(range(len(filters)), filters)
    for source in ("<a><b><c>3</c><d>x</d><e>1</e></b></a>", "<a><b><c>1</c></b></a>", "<e><d/></e>"):
        event = Event("e", document=source)
        expected = [slot for slot, filter in enumerate(filters) if filter.matches(event)]
        assert index.match(event) == expected
        assert len(expected) >= 3


def test_documents_with_more_paths_than_a_word_has_bits_are_answered_exactly() -> None:
    text = "<r>" + "".join(f"<a{n}><b>{n}</b><c{n % 3}/></a{n}>" for n in range(90)) + "</r>"
    paths = [
        "//a70[b = 70]",
        "//a70[b = 71]",
        "//a7/c1",
        "//a7[b > 5][c1]",
        "//a7[b > 7]",
        "/r/*[b = 89][c2]",
        "/r/*[b = 89][c1]",
        "/r/*[not(b < 90)]",
        "//b[. != 3]",
    ]
    assert matched(paths, text) == [[paths[place] for place in (0, 2, 3, 5, 8)]]


def test_documents_deeper_than_a_word_has_bits_are_answered_exactly() -> None:
    depth = 150
    text = "<a>" * depth + "<b k='1'>7</b>" + "</a>" * depth
    paths = [
        "//a[b = 7]/b",
        "//a//a//a//a[b > 6]",
        "//b[@k = 1][. = 7]",
        "/a//b[. = 8]",
        "/a/b[. = 7]",
        "//c//b[. = 7]",
        "//b[@k != 1]",
        "//a//a[not(b)]/a//@k",
    ]
    assert matched(paths, text) == [[paths[place] for place in (0, 1, 2, 7)]]


def test_searches_that_could_explode_do_not() -> None:
    """Twenty descendant steps over nested elements of one name: polynomial, whatever the nesting."""
    text = "<a>" * 200 + "<b>1</b>" + "</a>" * 200
    deep = "//a" * 20
    assert matched([deep + "/b", deep + "/c", deep + "[b = 1]", deep + "[b = 2]"], text) == [
        [deep + "/b", deep + "[b = 1]"]
    ]
