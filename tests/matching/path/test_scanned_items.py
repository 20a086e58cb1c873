"""Signatures from the bytes of a document: bit by bit those of the parsed document."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.filters.path.document import parse_document
from distributary.matching.blake2b import BLOCK, STATE, digest
from distributary.matching.path.scanned_items import scanned_items
from distributary.matching.path.signature import SignatureShape, document_items
from distributary.model import Event
from distributary.systems.hope.addressing import Addressing
from distributary.workloads import documents

NAMES = ["a", "b", "Ab-c.d", "p:a", "q:b"]
NUMBERS = [
    *("0", "-0", "-0.000", "00", ".0", "7", "007", "-7.50", ".5", "5.", "-.5", "0.10", "12.", "1" * 15),
    *(
        "1" * 16,
        "9007199254740993",
        "1" * 400,
        "0.0001",
        "0.00012345",
        "0.00001",
        "-0.00001",
        "3" * 9 + "." + "3" * 6,
    ),
    *("3" * 9 + "." + "3" * 7, "0" * 80 + "1", "1." + "0" * 80, "123456789012345000", "0.1234567890123456"),
]
NO_NUMBERS = ["", ".", "-", "- 5", "--5", "5-", "1.2.3", "1 2", "1e3", "+5", "x", "Infinity", "NaN"]
LONG = [
    "y" * 64,
    "y" * 65,
    "\u00e9" * 64,
    "\u00e9" * 65,
    "\U0001f600" * 64,
    "\U0001f600" * 65,
    " " * 70 + "7",
]
TEXTS = st.one_of(
    st.sampled_from([*NUMBERS, *NO_NUMBERS, *LONG, "&lt;7", "&#55;", "<![CDATA[7]]>", "<!-- - -->"]),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(lambda number: format(number, "f")),
    st.from_regex(r"[ \t\n]{0,2}-?[0-9.]{0,18}[ \t\n]{0,2}", fullmatch=True),
    st.text("ab7.- \u00e9\U0001f600", max_size=70),
)


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> str:
    name = draw(st.sampled_from(NAMES))
    values = draw(st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=2))
    attributes = "".join(f' {key}="{value}"' for key, value in values.items() if "<" not in value)
    parts = draw(st.lists(TEXTS if not depth else st.one_of(TEXTS, elements(depth - 1)), max_size=4))
    return f"<{name}{attributes}>{''.join(parts)}</{name}>"


@settings(max_examples=300, deadline=None)
@given(st.lists(elements(), max_size=3), st.integers(1, 3), st.sampled_from([0, 1, 7, 64, 256]))
@example([f"<a>{number}</a>" for number in NUMBERS], 1, 256)
@example([f"<a>{other}</a>" for other in (*NO_NUMBERS, *LONG)], 1, 256)
def test_a_document_read_from_its_bytes_has_the_address_of_the_parsed_one(
    inner: list[str], hashes: int, value_bits: int
) -> None:
    text = f"<r xmlns:p='urn:p' xmlns:q='urn:q'>{''.join(inner)}</r>"
    assert scanned_items(text, SignatureShape(64)) is not None, "the document is not plain"
    for length in (0, 512):
        addressing = Addressing(10, length, hashes, value_bits)
        expected = addressing.of_document(parse_document(text))
        assert addressing.of_event(Event("e", document=text)) == expected


@pytest.mark.parametrize("number", NUMBERS)
def test_each_number_sets_the_bits_of_the_parsed_one_alone(number: str) -> None:
    addressing = Addressing(4, 8, 1, 4096)
    text = f"<a>{number}</a>"
    expected = addressing.of_document(parse_document(text))
    assert addressing.of_event(Event("e", document=text)) == expected


def test_documents_of_the_workload_have_the_structure_and_the_address_of_the_parsed_ones() -> None:
    for event in documents.events(20, seed=7, size=5_000):
        assert event.document is not None
        found = scanned_items(event.document, None)
        assert found is not None
        assert found.structure == document_items(parse_document(event.document))
        assert Addressing().of_event(event) == Addressing().of_document(parse_document(event.document))


@pytest.mark.parametrize("labels", [3, 40, 1_000])
def test_pairs_of_few_and_of_very_many_labels_are_those_of_the_parsed_document(labels: int) -> None:
    order = [(7 * place) % labels for place in range(labels)]
    text = "<r>" + "".join(f"<l{one}><l{other} x='1'/></l{one}>" for one, other in pairwise(order)) + "</r>"
    found = scanned_items(text, None)
    assert found is not None
    assert found.structure == document_items(parse_document(text))


@pytest.mark.parametrize("text", ["<!DOCTYPE a><a>7</a>", "<\u00e9>7</\u00e9>"])
def test_what_is_not_plain_is_parsed(text: str) -> None:
    assert scanned_items(text, SignatureShape(64)) is None
    assert Addressing().of_event(Event("e", document=text)) == Addressing().of_document(parse_document(text))


@pytest.mark.parametrize("length", [*range(4), 63, *range(126, 131), 255, 256, 257, 1000])
def test_digests_are_those_of_hashlib(length: int) -> None:
    text = bytes((17 * place + length) % 256 for place in range(length))
    room = np.full(length + BLOCK, 0xFF, np.uint8)
    room[:length] = np.frombuffer(text, np.uint8)
    found = b"".join(
        int(word).to_bytes(8, "little") for word in digest(room, length, np.empty(STATE, np.uint64))
    )
    assert found == blake2b(text, digest_size=16).digest()
