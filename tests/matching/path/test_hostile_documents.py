"""Documents that are meant to do harm: each is read or set aside by itself, in bounded time and memory.

`pytest -s` prints the table of docs/input.md.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest

from distributary import Matcher, Subscription
from distributary.filters.path import document as document_module
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.matcher import RejectedInput

MEBIBYTE = 1024 * 1024
MOST_SECONDS = 60
"""Generous: the slowest take about two seconds alone on a slow core; what was quadratic took minutes."""
MOST_BYTES_A_CHARACTER = 600
"""The memory that reading and matching may need beyond the first 64 MiB."""

ASKED = (
    *(
        "//a[b]/c",
        "/r/a1",
        "//a[. = 1]",
        "//a[. > 5]/@k",
        "//*[. = 'x']",
        "//a//a//b[not(c)]",
        "/r/*[text()]",
    ),
    *(
        "//@k3",
        "//a[@k5 = 1]",
        "//a[2]",
        "//b/ancestor::a[2]",
        "//a[following-sibling::*[1]/@k]",
        "//a[count(*) > 2]",
    ),
    *("//*[contains(., 'zzz')]", "//a/following::b[1]", "//a[normalize-space() = '1']"),
    *(f"//a{at}[. = {at}]" for at in range(100)),
    *(f"//a[. = {at}]" for at in range(100)),
    *(f"/r[a{at}]/a{at + 1}" for at in range(100)),
)


def elements(each: str, count: int) -> str:
    return "<r>" + "".join(each.format(at) for at in range(count)) + "</r>"


def deep(inner: str, depth: int) -> str:
    return "<a>" * depth + inner + "</a>" * depth


LAUGHS = "".join(f"<!ENTITY l{at} '{f'&l{at - 1};' * 10}'>" for at in range(1, 10))
HOSTILE: dict[str, tuple[Callable[[], str], str]] = {
    "5,000 different names": (lambda: elements("<a{}/>", 5_000), ""),
    "5,000 different attributes": (lambda: elements("<a k{}='1'/>", 5_000), ""),
    "2,500 kinds of children": (lambda: elements("<a><b{}/></a>", 2_500), ""),
    "5,000 different values": (lambda: elements("<a>{}</a>", 5_000), ""),
    "5,000 equal elements": (lambda: elements("<a>1</a>", 5_000), ""),
    "25 branches 200 deep": (lambda: "<r>" + deep("<b/>", 200) * 25 + "</r>", ""),
    "a text of 1 MB, 250 deep": (lambda: deep("x" * 1_000_000, 250), ""),
    "a namespace of 87,000 characters": (
        lambda: f"<r xmlns='{'u' * 87_000}'>" + "<a/>" * 21_000 + "</r>",
        "a namespace's URI has 87000 characters",
    ),
    "10,000 names in a namespace of 4,000 characters": (
        lambda: f"<r xmlns='{'u' * 4_000}'>" + elements("<a{}/>", 10_000)[3:],
        "different names of more than",
    ),
    "5,000 prefixes": (lambda: elements("<a xmlns:p{0}='u{0}'/>", 5_000), ""),
    "a prefix declared 250 levels above": (
        lambda: "".join(f"<a xmlns:p{at}='u'>" for at in range(250)) + "<p0:b/>" * 5_000 + "</a>" * 250,
        "",
    ),
    "50,000 comments": (lambda: "<r>" + "<!---->" * 50_000 + "</r>", ""),
    "names of the fifth edition": (lambda: "<😀>" + "<b/>😀" * 5_000 + "</😀>", ""),
    "ten thousand million laughs": (
        lambda: f"<!DOCTYPE r [<!ENTITY l0 'lol'>{LAUGHS}]><r>&l9;</r>",
        "declares the entity 'l0'",
    ),
    "an external entity": (
        lambda: "<!DOCTYPE r [<!ENTITY e SYSTEM 'file:///etc/hostname'>]><r>&e;</r>",
        "declares the entity 'e'",
    ),
    "100,000 levels": (lambda: deep("", 100_000), "nested more than"),
    "100,000 attributes of one element": (
        lambda: "<r " + " ".join(f"k{at}='1'" for at in range(100_000)) + "/>",
        "more than 1000 attributes",
    ),
    "600,000 elements": (lambda: elements("<b/>", 600_000), "more than 500000 elements"),
    "20 MB": (lambda: "<r>" + "x" * 20_000_000 + "</r>", "at most 16777216"),
}


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    made = Matcher([Subscription(f"s{at}", "ann", path=text) for at, text in enumerate(ASKED)])
    made.match_batch(pa.table({"id": ["e"], "document": ["<r><a>1</a></r>"]}))
    return made


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_read_or_set_aside_alone(name: str, matcher: Matcher) -> None:
    make, refused = HOSTILE[name]
    text = make()
    innocent = "<r><a>1</a><a1>1</a1></r>"
    expected = matcher.match_batch(pa.table({"id": ["e"], "document": [innocent]}))
    table = pa.table({"id": ["before", "hostile", "after"], "document": [innocent, text, innocent]})
    rejected: list[RejectedInput] = []
    tracemalloc.start()
    begun = time.process_time()
    try:
        found = matcher.match_batch(table, rejected=rejected)
        seconds, peak = time.process_time() - begun, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for id in ("before", "after"):
        rows = found.filter(pa.compute.equal(found["event_id"], id))
        assert rows["subscription_id"].to_pylist() == expected["subscription_id"].to_pylist()
    outcome = "read" if not rejected else rejected[0].error.reason
    size, memory = f"{len(text) / 1000:,.0f} kB", f"{peak / MEBIBYTE:.0f} MB"
    print(f"| {name} | {size} | {outcome[:60]} | {seconds:.2f} s | {memory} |")
    assert len(rejected) == bool(refused)
    assert refused in outcome
    assert seconds < MOST_SECONDS
    assert peak < 64 * MEBIBYTE + MOST_BYTES_A_CHARACTER * len(text)


def test_a_document_that_takes_all_memory_is_set_aside_alone(
    matcher: Matcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = document_module._read

    def failing(text: str) -> Document:
        if "large" in text:
            raise MemoryError
        return read(text)

    monkeypatch.setattr(document_module, "_read", failing)
    small = "<r><a1/></r>"
    table = pa.table({"id": ["1", "2", "3"], "document": [small, "<!DOCTYPE large><large/>", small]})
    rejected: list[RejectedInput] = []
    found = matcher.match_batch(table, rejected=rejected)
    assert set(found["event_id"].to_pylist()) == {"1", "3"}
    assert ["more memory" in each.error.reason for each in rejected] == [True]
    assert len(parse_document("<r/>")) == 1


@pytest.mark.parametrize(
    "each", ["<a{}/>", "<a k{}='1'/>", "<a><b{}/></a>"], ids=["elements", "attributes", "kinds"]
)
def test_many_different_names_are_matched_in_linear_time(each: str) -> None:
    """60,000 names took a minute when each was looked for among its siblings, and take about a second."""
    patterns = [text for text in ASKED if PathFilter.parse(text).is_pattern]
    matcher = Matcher([Subscription(f"s{at}", "ann", path=text) for at, text in enumerate(patterns)])
    matcher.match_batch(pa.table({"id": ["e"], "document": ["<r><a>1</a></r>"]}))
    table = pa.table({"id": ["e"], "document": [elements(each, 60_000)]})
    begun = time.process_time()
    matcher.match_batch(table)
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    "path",
    [
        "//*[contains(//., 'x')]",
        "//a[starts-with(//a/@k, name())]",
        "//*[. = //c]",
        "//*[string-length(.) > //b]",
        "//*[count(//a) > 1000000]",
        "//*[sum(//a) + string-length(.) < 0]",
        "//a[@k != //a/@k]",
    ],
)
def test_what_an_absolute_path_selects_is_found_once_for_all_nodes(path: str) -> None:
    """4,000 elements took 0.6 s when each looked again, and 100,000 would have taken minutes."""
    document = parse_document(elements("<a k='1'>1</a>", 100_000))
    begun = time.process_time()
    assert not selects(PathFilter.parse(path), document)
    assert time.process_time() - begun < 20
