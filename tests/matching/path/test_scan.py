"""Scanning documents: what is read from the bytes is what the exact reader gives, and it alone refuses."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DocumentError
from distributary.filters.path.document import MAX_ATTRIBUTES, MAX_DEPTH, Document, parse_document
from distributary.matching.batch import EventBatch
from distributary.matching.columns import Strings
from distributary.matching.frozen import unpack_texts
from distributary.matching.path.forest import Grove
from distributary.matching.path.xml import names, scan
from distributary.workloads import documents as workload

NAMES = ("a", "b", "item", "x-1._", "p:a", "q:a", "p:b", "xml:a")
ATTRIBUTES = ("k", "id", "p:k", "q:k", "xml:lang", "xmlnsx", "x")
DECLARATIONS = (
    "xmlns='u'",
    "xmlns=''",
    "xmlns:p='u'",
    "xmlns:q='u'",
    'xmlns:q="v w"',
    "xmlns:p='&#117;é'",
    "xmlns:p = 'u'",
)
VALUES = (
    "",
    "7",
    "a b",
    "\t\n",
    "\r\n",
    "\r",
    "&lt;&amp;",
    "&#10;&#x9;&#13;",
    "é",
    "😀",
    "]]>",
    ">",
    "&#x1F600;",
    "&apos;",
)
TEXTS = (
    "x",
    " 7 ",
    "é",
    "😀",
    "&gt;&quot;",
    "&#65;",
    "&#x42;",
    "\r\n",
    "\r",
    "\n\t",
    "]",
    "]]",
    ">",
    "&#13;",
    "\x7f\x85",
)
ASIDES = (
    "<!--c-->",
    "<!-- é - -->",
    "<?p q?>",
    "<?p?>",
    "<?xmlx ??>",
    "<![CDATA[]]>",
    "<![CDATA[<&\r\n]]]]>",
    "<![CDATA[é]]>",
)
OPENINGS = (
    "",
    "",
    "<?xml version='1.0'?>",
    '<?xml version="1.0" encoding="x-9" standalone="yes" ?>\r\n',
    "<?xml version = '1.0' standalone='no'?>",
    "<!--c--> <?p q?>\n",
)
FAULTS = (
    *(
        "<",
        ">",
        "&",
        "]]>",
        "--",
        "<!--",
        "-->",
        "--->",
        "<![CDATA[",
        "<?",
        "?>",
        "<?xml version='1.0'?>",
        "<?XML?>",
        "<?p??>",
        "<?p?x?>",
    ),
    *(
        "&e;",
        "&#0;",
        "&#xD800;",
        "&#xFFFF;",
        "&#x110000;",
        "&#",
        "&lt",
        "&lt ;",
        "&LT;",
        "&#X41;",
        "&#x;",
        "&#;",
    ),
    *(
        "\0",
        "\x01",
        "\ufeff",
        "\ufffe",
        "\uffff",
        "'",
        '"',
        "=",
        "/",
        ":",
        " ",
        "</a>",
        "<a>",
        "<b/>",
        "<😀/>",
        "<é/>",
    ),
    *(
        "<a:/>",
        "<:a/>",
        "<a:b:c/>",
        "<p:1/>",
        "<r:a/>",
        "<xmlns:a/>",
        "<1/>",
        "<a k/>",
        "<a k=1/>",
        "<a k='<'/>",
    ),
    *(
        "<a k='1' k='2'/>",
        "<a k='1'b='2'/>",
        "< a/>",
        "<a / >",
        "</ a>",
        "<a p:k='1' q:k='2'/>",
        "<a xmlns:p=''/>",
    ),
    *(
        "<a xmlns:p='u' xmlns:p='v'/>",
        "<a xmlns:xml='u'/>",
        "<a xmlns:xmlns='u'/>",
        "<a xmlns='" + "u" * 5000 + "'/>",
    ),
    *("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", "<a xmlns='http://www.w3.org/2000/xmlns/'/>"),
    *(
        "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns:p:q='u'/>",
        "<a xmlns:='u'/>",
        "<a xmlns:1='u'/>",
    ),
    *("<!DOCTYPE a>", "<!DOCTYPE a SYSTEM 'x'>", "<!ELEMENT a ANY>", "<" + "n" * 5000 + "/>"),
)


def element(random: Random, depth: int) -> str:
    """An element, well-formed but for prefixes without a namespace and attributes given twice."""
    name = random.choice(NAMES)
    tag = [name, *random.sample(DECLARATIONS, random.choice((0, 0, 0, 1, 2)))]
    for _ in range(random.choice((0, 0, 1, 2))):
        quote = random.choice("'\"")
        value = "".join(random.choices(VALUES, k=random.randint(0, 3)))
        tag.append(random.choice(ATTRIBUTES) + random.choice(("=", " = ")) + quote + value + quote)
    opened = random.choice((" ", "\n ")).join(tag) + random.choice(("", " "))
    if random.random() < 0.2:
        return f"<{opened}/>"
    inside = []
    for _ in range(random.randint(0, 4)):
        kinds = (
            lambda: element(random, depth + 1),
            lambda: random.choice(TEXTS),
            lambda: random.choice(ASIDES),
        )
        inside.append(random.choices(kinds, (5 if depth < 4 else 0, 5, 1))[0]())
    return f"<{opened}>{''.join(inside)}</{name}{random.choice(('', ' '))}>"


def document(random: Random) -> str:
    """A document, every other one with faults."""
    root = element(random, 0)
    if random.random() < 0.7:
        root = f"<r xmlns:p='u' xmlns:q='v'>{root}</r>"
    text = random.choice(OPENINGS) + root + random.choice(("", "\r\n", "<!--c-->", "<?p?> "))
    for _ in range(random.choice((0, 0, 1, 2))):
        place = random.randint(0, len(text))
        text = text[:place] + random.choice((*FAULTS, "")) + text[place + random.choice((0, 0, 1, 3)) :]
    return text


def batch_of(texts: list[str]) -> EventBatch:
    ids = list(map(str, range(len(texts))))
    return EventBatch.from_table(pa.table({"id": ids, "document": pa.array(texts, pa.string())}))


def trees(grove: Grove) -> dict[int, list[tuple[str, int, bytes]]]:
    """By row: the label, parent and value of every node."""
    forest, names = grove.forest, unpack_texts({"bytes": grove.letters, "offsets": grove.label_low})
    columns = (forest.label.tolist(), forest.parent.tolist(), forest.start.tolist(), forest.end.tolist())
    nodes = [
        (names[label], parent, forest.data[start:end].tobytes())
        for label, parent, start, end in zip(*columns, strict=True)
    ]
    return {
        row: nodes[forest.first[tree] : forest.first[tree + 1]]
        for tree, row in enumerate(grove.rows.tolist())
    }


def compare(texts: list[str]) -> EventBatch:
    """Read documents both ways; gives the batch."""
    batch, exact, refusals = batch_of(texts), dict[int, Document](), dict[int, str]()
    for row, text in enumerate(texts):
        try:
            exact[row] = parse_document(text)
        except DocumentError as error:
            refusals[row] = str(error)
            assert batch.document(row) is None
    assert {row: str(error) for row, error in batch.rejected.items()} == refusals
    assert exact.keys() | batch.rejected.keys() == set(range(len(texts)))
    for with_text in (False, True):
        found = trees(Grove(batch.scanned, batch.exact_documents, with_text))
        expected = trees(Grove(None, exact, with_text))
        for row, text in enumerate(texts):
            assert found.get(row) == expected.get(row), text
    return batch


def is_scanned(text: str) -> bool:
    batch = compare([text])
    assert batch.scanned is not None
    return len(batch.scanned.rows) == 1


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_both_readers_give_the_same_trees_and_verdicts(seed: int) -> None:
    random = Random(seed)
    batch = compare([document(random) for _ in range(40)])
    for row, read in batch.exact_documents.items():
        assert batch.document(row) is read


def test_most_of_what_is_accepted_is_scanned() -> None:
    random = Random(1)
    batch = compare([document(random) for _ in range(2_000)])
    assert batch.scanned is not None
    assert len(batch.scanned.rows) > 10 * len(batch.exact_documents)
    assert len(batch.scanned.rows) > 400
    assert len(batch.rejected) > 400


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_is_judged_alike(fault: str) -> None:
    whole = "<r xmlns:p='u' xmlns:q='u'><a k='1'>x</a></r>"
    compare([whole[:place] + fault + whole[place:] for place in range(len(whole) + 1)])


def test_the_documents_of_the_workload_are_scanned() -> None:
    assert all(is_scanned(event.document or "") for event in workload.events(9, seed=4))


def test_depth_and_attributes_are_scanned_up_to_their_bounds() -> None:
    nested = ("<a>" * MAX_DEPTH, "</a>" * MAX_DEPTH)
    assert is_scanned("".join(nested))
    assert not is_scanned("<a>".join(nested) + "</a>")
    attributes = [f"k{number}='{number}'" for number in range(MAX_ATTRIBUTES)]
    assert is_scanned(f"<a {' '.join(attributes)}/>")
    assert not is_scanned(f"<a {' '.join(attributes)} more='1'/>")
    assert is_scanned(f"<a xmlns:p='u' {' '.join(attributes[1:])}/>")
    assert not is_scanned(f"<a xmlns:p='u' {' '.join(attributes)}/>")


def test_what_exceeds_the_tables_of_names_takes_the_exact_reader() -> None:
    most = [f"<n{number}/>" for number in range(names.MOST_NAMES)]
    assert is_scanned("<r>" + "".join(most[1:]) + "</r>")
    assert not is_scanned("<r>" + "".join(most) + "</r>")
    assert not is_scanned(f"<{'n' * (names.LONGEST_NAME + 1)}/>")
    declared = [f"xmlns:p{number}='u{number}'" for number in range(names.MOST_DECLARED)]
    assert is_scanned(f"<a {' '.join(declared)}/>")
    assert not is_scanned(f"<a {' '.join(declared)} xmlns='u'/>")
    long = "u" * names.LONGEST_NAME
    elements = [f"<p:a{number}/>" for number in range(100)]
    assert not is_scanned(f"<a xmlns:p='{long}'>{''.join(elements)}</a>")
    compare(
        [
            f"<r{row}>" + "".join(f"<n{row}_{number}/>" for number in range(900)) + f"</r{row}>"
            for row in range(9)
        ]
    )


def test_names_mean_what_the_declarations_around_them_say() -> None:
    assert is_scanned("<a xmlns='u'><a xmlns=''><a/></a><a/><p:a xmlns:p='v' p:k='1' k='2'><p:a/></p:a></a>")
    batch = compare(
        ["<a xmlns:p='u'><p:b/></a>", "<a><p:b/></a>", "<a xmlns:p='v'><p:b/></a>", "<a><b/></a>"]
    )
    assert list(batch.rejected) == [1]


def test_bytes_that_are_no_characters_are_left_alone() -> None:
    for bad in (
        b"\xff",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
    ):
        for around in (
            b"<a>%b</a>",
            b"<a k='%b'/>",
            b"<a><!--%b--></a>",
            b"<a><?p %b?></a>",
            b"<a><![CDATA[%b]]></a>",
        ):
            text = around % bad
            texts = Strings(
                np.frombuffer(text, np.uint8), np.array([0]), np.array([len(text)]), np.array([True])
            )
            found = scan.scan(texts, texts.valid)
            assert found is not None
            assert len(found.rows) == 0
