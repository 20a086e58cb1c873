"""Names, namespaces and entities of documents: read as XML has them, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
from typing import Any
from xml.parsers import expat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from distributary.errors import DocumentError
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.namespaces import MAX_NAME, MAX_NAMES

MEBIBYTE = 1024 * 1024
NETSCAPE = '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://127.0.0.1:9/rss.dtd">'
XHTML = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://127.0.0.1:9/strict.dtd">'
OTHER = '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">'


@pytest.mark.parametrize("declared", [NETSCAPE, OTHER, "<!DOCTYPE a [%p;]>"])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<![CDATA[a&nbsp;b&zz;]]>", "a&nbsp;b&zz;"),
        ("<!-- &nbsp; &zz; -->x", "x"),
        ("<?p &nbsp; &zz; ?>x", "x"),
        ("<![CDATA[<!-- ]]>&amp;<![CDATA[ &zz; ]]>", "<!-- & &zz; "),
    ],
)
def test_references_are_no_references_in_cdata_comments_and_instructions(
    declared: str, content: str, text: str
) -> None:
    document = parse_document(f"{declared}<a k='&lt;'>{content}</a>")
    assert (document.value(0), document.value(1)) == (text, "<")


@pytest.mark.parametrize(
    ("declared", "name", "character"),
    [
        (NETSCAPE, "nbsp", "\u00a0"),
        (NETSCAPE, "eacute", "é"),
        (XHTML, "nbsp", "\u00a0"),
        (XHTML, "rarr", "→"),
    ],
)
def test_entities_of_well_known_document_types_are_read(declared: str, name: str, character: str) -> None:
    document = parse_document(f"{declared}<a k='1&{name};2'>x&{name};y</a>")
    assert document.texts == [f"x{character}y"]
    assert document.attribute_values == [f"1{character}2"]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (f"{OTHER}<a>&nbsp;</a>", len(OTHER) + 3),
        (f"{OTHER}<a k='&nbsp;'/>", len(OTHER) + 6),
        (f"{NETSCAPE}<a>&rarr;</a>", len(NETSCAPE) + 3),
        (f"{NETSCAPE}<a><!-- &zz; -->&zz;</a>", len(NETSCAPE) + 16),
        ("<!DOCTYPE a [%p;]><a>&nbsp;</a>", 21),
        (NETSCAPE.replace(">", " [%p;]>") + "<a>&nbsp;</a>", len(NETSCAPE) + 9),
    ],
)
def test_an_entity_whose_value_cannot_be_known_is_refused_where_it_stands(text: str, position: int) -> None:
    with pytest.raises(DocumentError, match="which the document does not declare") as caught:
        parse_document(text)
    assert caught.value.position == position


@pytest.mark.parametrize("declared", ["<!ENTITY e 'x'>", "<!ENTITY e SYSTEM 'http://127.0.0.1:9/'>"])
def test_a_declared_entity_is_not_called_undeclared(declared: str) -> None:
    text = f"{OTHER[:-1]} [{declared}]><a>&e;</a>"
    with pytest.raises(DocumentError, match="declares the entity 'e'"):
        parse_document(text)


def test_comments_of_a_document_type_are_no_nodes() -> None:
    document = parse_document("<!--1--><!DOCTYPE a [<!--2--><?p 2?>]><?p 3?><a>x<!--4-->y</a><!--5-->")
    assert [(each.target, each.value.strip()) for each in document.asides] == [
        (None, "1"),
        ("p", "3"),
        (None, "4"),
        (None, "5"),
    ]


FIFTH = "😀·‿ⰀΏ٣ͱ\u200c豈aéπ中1-"
"""Characters that names may have, some of them since the fifth edition, some not at the beginning."""


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(FIFTH, min_size=1, max_size=4), min_size=1, max_size=4), st.text(FIFTH, max_size=6))
def test_names_of_the_fifth_edition_are_read_as_lxml_reads_them(names: list[str], content: str) -> None:
    text = "".join(f"<{name} {name}='{content}'>&#x4E00;&#19969;{content}" for name in names)
    text += "".join(f"</{name}>" for name in reversed(names))
    try:
        expected = etree.fromstring(text.encode())
    except etree.XMLSyntaxError:
        with pytest.raises(DocumentError):
            parse_document(text)
        return
    document = parse_document(text)
    elements = list(expected.iter())
    assert [label for label in document.labels if label[0] != "@"] == [each.tag for each in elements]
    assert document.texts == [each.text for each in elements]
    assert document.attribute_values == [each.get(each.tag) for each in elements]


def test_a_name_of_the_fifth_edition_is_refused_at_the_same_place_as_any_other() -> None:
    with pytest.raises(DocumentError, match="mismatched tag") as caught:
        parse_document("<😀>é<b></😀>")
    assert caught.value.position == 9
    assert caught.value.text == "<😀>é<b></😀>"


PREFIXES = ("", "", "p", "q", "xml", "xmlns")
URIS = ("", "urn:1", "urn:2", "http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/")


@st.composite
def namespaced_texts(draw: st.DrawFn, depth: int = 0) -> str:
    """Elements with prefixes and declarations, some of which are wrong."""
    prefix, name = draw(st.sampled_from(PREFIXES)), draw(st.sampled_from(("a", "b", "a:b")))
    tag = f"{prefix}:{name}" if prefix and draw(st.integers(0, 3)) else name.partition(":")[0]
    attributes = {}
    for _ in range(draw(st.integers(0, 3))):
        declared = draw(st.sampled_from(("xmlns", "xmlns:p", "xmlns:q", "xmlns:xml", "xmlns:xmlns")))
        attributes[declared] = draw(st.sampled_from((*URIS[:3], *URIS)))
    for _ in range(draw(st.integers(0, 2))):
        attributes[draw(st.sampled_from(("k", "p:k", "q:k", "xml:k", "xmlnsk")))] = "1"
    written = "".join(f" {each}='{value}'" for each, value in attributes.items())
    inner = "".join(draw(st.lists(namespaced_texts(depth + 1), max_size=2))) if depth < 3 else ""
    return f"<{tag}{written}>{inner}</{tag}>"


def read_by_expat(text: str) -> list[str] | None:
    """The labels of the nodes, by Expat's own namespaces; None when it refuses the document."""
    labels: list[str] = []
    parser: Any = expat.ParserCreate("utf-8", "}")
    parser.ordered_attributes = True

    def start(name: str, attributes: list[str]) -> None:
        for sign, each in (("", name), *(("@", each) for each in attributes[::2])):
            labels.append(sign + ("Q{" + each if "}" in each else each))

    parser.StartElementHandler = start
    try:
        parser.Parse(text, True)
    except expat.ExpatError:
        return None
    return labels


@settings(max_examples=500, deadline=None)
@given(namespaced_texts())
def test_namespaces_are_those_that_expat_finds(text: str) -> None:
    expected = read_by_expat(text)
    document: Document | None
    try:
        document = parse_document(text)
    except DocumentError:
        document = None
    found = None if document is None else [document.label(node) for node in range(len(document))]
    assert found == expected


def test_a_prefix_does_not_tell_nodes_apart() -> None:
    document = parse_document("<r xmlns:p='u' xmlns:q='u'><p:a/><q:a/></r>")
    assert document.nodes_by_label() == {"r": [0], "Q{u}a": [1, 2]}
    assert [document.prefixes[each] for each in document.classes] == ["", "p", "q"]


@pytest.mark.parametrize(
    "text",
    [
        f"<a xmlns='{'u' * (MAX_NAME + 1)}'/>",
        f"<{'a' * (MAX_NAME + 1)}/>",
        f"<a {'a' * (MAX_NAME + 1)}='1'/>",
        "<r xmlns='{}'>{}</r>".format(
            "u" * MAX_NAME, "".join(f"<a{at}/>" for at in range(MAX_NAMES // MAX_NAME))
        ),
        "<r xmlns:p='{}'>{}</r>".format(
            "u" * MAX_NAME, "".join(f"<a p:a{at}='1'/>" for at in range(MAX_NAMES // MAX_NAME))
        ),
    ],
    ids=[
        "long URI",
        "long name",
        "long attribute",
        "many names in a long URI",
        "many attributes in a long URI",
    ],
)
def test_names_are_bounded(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="characters"):
            parse_document(text)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_NAMES
    finally:
        tracemalloc.stop()


def test_a_long_uri_is_written_once_however_many_nodes_are_in_its_namespace() -> None:
    uri, count = "u" * MAX_NAME, 50_000
    text = f"<r xmlns:p='{uri}'>" + "<p:a p:k='1'/>" * count + "</r>"
    tracemalloc.start()
    try:
        document = parse_document(text)
        assert tracemalloc.get_traced_memory()[1] < 64 * MEBIBYTE
    finally:
        tracemalloc.stop()
    assert len(document) == 1 + 2 * count
    assert sum(map(len, document.labels)) < 3 * MAX_NAME


def test_running_out_of_memory_is_an_error_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> Document:
        raise MemoryError

    monkeypatch.setattr("distributary.filters.path.document._read", fail)
    with pytest.raises(DocumentError, match="more memory"):
        parse_document("<a/>")
