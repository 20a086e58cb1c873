"""Documents: their flat form, their values, and everything dangerous refused early."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DocumentError
from distributary.filters.path.document import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_NODES,
    Document,
    parse_document,
)
from properties.oracle_path import documents

MEBIBYTE = 1024 * 1024


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """The block allocates less than `limit` bytes at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_the_structure_is_the_elements_and_the_parent_child_pairs() -> None:
    """A document of eight elements and seven relationship pairs, as 001 Figure 3.5 counts them."""
    document = parse_document(
        "<book year='2001'><title>T</title><author><first>A</first><last>B</last></author>"
        "<publisher><name>P</name></publisher></book>"
    )
    assert document.labels == ["book", "@year", "title", "author", "first", "last", "publisher", "name"]
    assert list(document.relationships()) == [
        ("book", "@year"),
        ("book", "title"),
        ("book", "author"),
        ("author", "first"),
        ("author", "last"),
        ("book", "publisher"),
        ("publisher", "name"),
    ]


def test_nodes_on_the_same_path_share_a_class() -> None:
    document = parse_document("<r><i k='1'/><i><i/></i><i k='2'/></r>")
    assert document.labels == ["r", "i", "@k", "i"]
    assert document.class_parents == [-1, 0, 1, 1]
    assert document.classes == [0, 1, 2, 1, 3, 1, 2]
    assert document.parents == [-1, 0, 1, 0, 3, 0, 5]
    assert document.nodes_by_label() == {"r": [0], "i": [1, 3, 4, 5], "@k": [2, 6]}


def test_names_in_a_namespace_are_written_with_their_uri() -> None:
    document = parse_document("<a xmlns='urn:n' xmlns:p='urn:m' p:k='1' k='2' xml:lang='en'><p:b/></a>")
    assert document.labels == [
        "Q{urn:n}a",
        "@Q{urn:m}k",
        "@k",
        "@Q{http://www.w3.org/XML/1998/namespace}lang",
        "Q{urn:m}b",
    ]


def test_a_value_is_all_text_below_and_comments_split_text_nodes() -> None:
    document = parse_document("<a>x<!-- no -->y<b k='v'>z<![CDATA[<w>]]>&amp;</b><?no no?>&#33;</a>")
    assert document.texts == ["x", "y", "z<w>&", "!"]
    assert document.text_parents == [0, 0, 1, 0]
    assert [document.value(node) for node in range(3)] == ["xyz<w>&!", "z<w>&", "v"]


@pytest.mark.parametrize(
    "text",
    [
        "<?xml version='1.0' encoding='utf-16'?><a>é</a>",
        "<?xml version='1.0' encoding='no-such-encoding'?><a>é</a>",
        "\ufeff<a>é</a>",
        "\n <a>é</a>",
        "<!DOCTYPE a [<!ELEMENT a ANY><!ATTLIST a k CDATA #IMPLIED>]><a>é</a>",
        "<!DOCTYPE a PUBLIC '-//X//Y//EN' 'http://127.0.0.1:9/none.dtd'><a>&#233;</a>",
    ],
)
def test_the_prolog_does_not_change_what_is_read(text: str) -> None:
    document = parse_document(text)
    assert (document.labels, document.texts) == (["a"], ["é"])


def test_a_document_survives_pickling() -> None:
    document = pickle.loads(pickle.dumps(parse_document("<a k='1'>x</a>")))
    assert (document.labels, document.value(0), document.value(1)) == (["a", "@k"], "x", "1")


def test_a_text_node_arrives_whole_however_long() -> None:
    document = parse_document("<a>" + "é" * 100_000 + "</a>")
    assert document.texts == ["é" * 100_000]


def test_reading_leaves_nothing_for_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        parse_document("<a><b k='1'>x</b></a>")
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("<a>é</b>", 6),
        ("<a/><b/>", 4),
        (" <?xml version='1.0'?><a/>", 1),
        ("<a>\r\r\né<b k='1' k='1'/></a>", 16),
        ("<p:a/>", 0),
        ("<a>&none;</a>", 3),
        ("<a>\ud800</a>", 3),
        ("<a>\0</a>", 3),
    ],
)
def test_a_malformed_document_is_refused_where_it_is_wrong(text: str, position: int) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_document(text)
    assert caught.value.position == position


LAUGHS = "".join(f"<!ENTITY l{at} '{f'&l{at - 1};' * 10}'>" for at in range(1, 10))


@pytest.mark.parametrize(
    "declarations",
    [
        f"<!ENTITY l0 'lol'>{LAUGHS}",
        f"<!ENTITY l9 '{'x' * 100_000}'>",
        "<!ENTITY l9 SYSTEM 'file:///etc/hostname'>",
        "<!ENTITY l9 SYSTEM 'http://127.0.0.1:9/'>",
        "<!ENTITY l9 PUBLIC 'x' 'http://127.0.0.1:9/'>",
        "<!ENTITY % p SYSTEM 'http://127.0.0.1:9/'>%p;",
        "<!ENTITY % p '<!ENTITY l9 \"x\">'>%p;",
        "%p;<!ENTITY l9 'x'>",
        f"<!ATTLIST a k CDATA '{'x' * 100_000}'>",
    ],
    ids=["laughs", "quadratic", "file", "http", "public", "parameter", "nested", "undeclared", "default"],
)
def test_what_a_type_declaration_would_add_is_never_expanded(declarations: str) -> None:
    text = f"<!DOCTYPE a [{declarations}]><a>{'&l9;' * 10_000}</a>"
    with memory_below(2 * MEBIBYTE), pytest.raises(DocumentError):
        parse_document(text)


@pytest.mark.parametrize("declared", ["<!ENTITY e SYSTEM '{}'>", "<!ENTITY % e SYSTEM '{}'>%e;"])
def test_an_external_entity_is_not_read(tmp_path: Path, declared: str) -> None:
    secret = tmp_path / "secret.dtd"
    secret.write_text("<!ENTITY e 'the secret'>")
    with pytest.raises(DocumentError, match="declares the entity 'e'"):
        parse_document(f"<!DOCTYPE a [{declared.format(secret.as_uri())}]><a>&e;</a>")
    with pytest.raises(DocumentError, match="refers to the entity 'e'"):
        parse_document(f"<!DOCTYPE a SYSTEM '{secret.as_uri()}'><a k='&e;'/>")


def test_an_external_type_declaration_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.dtd").write_text("<!ATTLIST a k CDATA 'the secret'>")
    document = parse_document(f"<!DOCTYPE a SYSTEM '{(tmp_path / 'a.dtd').as_uri()}'><a/>")
    assert document.labels == ["a"]


def test_depth_is_bounded() -> None:
    deepest = "<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH
    assert len(parse_document(deepest).classes) == MAX_DEPTH
    with memory_below(4 * MEBIBYTE), pytest.raises(DocumentError, match="nested"):
        parse_document(f"<a>{deepest}</a>")
    with memory_below(4 * MEBIBYTE), pytest.raises(DocumentError, match="nested"):
        parse_document("<a>" * 10_000)


def test_attributes_of_an_element_are_bounded() -> None:
    attributes = [f"k{at}='{at}'" for at in range(MAX_ATTRIBUTES)]
    assert len(parse_document(f"<a {' '.join(attributes)}/>").classes) == 1 + MAX_ATTRIBUTES
    with pytest.raises(DocumentError, match="attributes"):
        parse_document(f"<a {' '.join(attributes)} more='1'/>")


def test_nodes_are_bounded() -> None:
    with memory_below(128 * MEBIBYTE), pytest.raises(DocumentError, match=f"more than {MAX_NODES}"):
        parse_document("<a>" + "<b/>" * MAX_NODES + "</a>")


def test_a_document_that_is_too_long_is_refused_unread() -> None:
    text = "<a " + "k='1' " * (100 * MEBIBYTE // 6) + "/>"
    assert len(text) > MAX_LENGTH
    with memory_below(MEBIBYTE), pytest.raises(DocumentError, match="characters"):
        parse_document(text)


def outcome(text: str) -> Document | DocumentError:
    try:
        return parse_document(text)
    except DocumentError as error:
        return error


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=60), st.text("<>/!?[]&;%'\"= abx:-\n", max_size=60)))
def test_any_text_is_a_document_or_an_error(text: str) -> None:
    assert str(outcome(text))


@settings(max_examples=200, deadline=None)
@given(documents(), st.data())
def test_a_mutated_document_is_a_document_or_an_error(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    middle = data.draw(
        st.sampled_from(["", "<", "&x;", "]]>", "<!DOCTYPE a [", "\0", "<a>", "'", text[start:end] * 2])
    )
    assert str(outcome(text[:start] + middle + text[end:]))
