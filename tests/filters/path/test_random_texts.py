"""Random and mutated documents and paths: each is read or refused by an error of ours, and soon.

Accepted paths are evaluated on accepted documents. `make chaos` tries a million of each.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import NoReturn

import pytest

from distributary.errors import DocumentError, FilterError
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.filter import PathFilter, selects

SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
COUNTS = [5_000, pytest.param(1_000_000, marks=pytest.mark.chaos)]
MOST_SECONDS = 20
"""For one small text, on a machine with much else to do."""

XML_PIECES = (
    *(
        "<a>",
        "</a>",
        "<b k='1'>",
        "</b>",
        "<c/>",
        "<p:d xmlns:p='u'/>",
        "<p:d/>",
        "<😀/>",
        "x",
        " 7 ",
        "&lt;",
        "&#65;",
    ),
    *(
        "&e;",
        "&nbsp;",
        "&",
        "<",
        ">",
        "]]>",
        "<![CDATA[&z;]]>",
        "<!--&z;-->",
        "<!--",
        "-->",
        "<?p q?>",
        "<?",
        "?>",
    ),
    *(
        "<!DOCTYPE a SYSTEM 'x'>",
        "<!DOCTYPE a [",
        "]>",
        "<!ENTITY e 'x'>",
        "<!ENTITY % p 'x'>",
        "%p;",
        "<!ELEMENT a ANY>",
    ),
    *(
        "<!ATTLIST a k CDATA 'x'>",
        "<?xml version='1.0'?>",
        "<?xml version='1.1' encoding='x'?>",
        "xmlns='u'",
        "xmlns:p=''",
    ),
    *(
        "\0",
        "\ud800",
        "\ufeff",
        "\ufffe",
        "é",
        "\u0301",
        "😀",
        "'",
        '"',
        "=",
        "/",
        ":",
        "xml:lang='en'",
        "\r\n",
        " ",
    ),
)
PATH_PIECES = (
    *(
        "a",
        "b",
        "*",
        "@k",
        "@*",
        "text()",
        "node()",
        "comment()",
        "processing-instruction('p')",
        "/",
        "/",
        "//",
        "[",
        "]",
    ),
    *(
        "[",
        "]",
        "(",
        ")",
        "..",
        ".",
        "|",
        "=",
        "!=",
        "<",
        ">=",
        "and",
        "or",
        "not(",
        "1",
        "2.5",
        "'x'",
        '"',
        "'",
        "-",
        "+",
    ),
    *(
        "last()",
        "position()",
        "count(",
        "contains(",
        ",",
        "string(",
        "name()",
        "sum(",
        "lang('en')",
        "mod",
        "div",
        "$x",
    ),
    *(
        "ancestor::",
        "following::",
        "preceding-sibling::",
        "self::",
        "descendant-or-self::",
        "namespace::",
        "child::",
    ),
    *(
        "Q{u}a",
        "Q{",
        "}",
        "p:a",
        ":",
        "::",
        "(:",
        ":)",
        " ",
        "\n",
        "\0",
        "\ud800",
        "é",
        "😀",
        "if (",
        "for $x in",
        "=>",
        "!",
    ),
    *(
        "id(",
        "true()",
        "1e400",
        "9" * 40,
        "to",
        "function(",
        "{",
        "#",
        "eq",
        "is",
        "instance of",
        "xs:date",
        "?",
        "||",
    ),
)
WHOLE_DOCUMENTS = (
    "<a k='1'><b>x</b><b k='2'>7<!--c--><?p q?></b><c><a><b/></a></c></a>",
    "<!DOCTYPE a SYSTEM 'x'><a xmlns:p='u'><p:b p:k='1' k='2'/>x<![CDATA[y]]></a>",
)
WHOLE_PATHS = (
    "//a[b = 'x' and not(@k < 3)]/c//text()",
    "a[2]/following-sibling::b[last()]/../@k",
    "/a/b[contains(., 'x') or count(../b) > 1][position() mod 2 = 1]",
    "(//b | //c)[1]/ancestor::*[2]",
)


def random_text(random: Random, pieces: tuple[str, ...], whole: tuple[str, ...]) -> str:
    """Pieces in any order, or a whole text with some pieces put in and some characters left out."""
    if random.random() < 0.4:
        return "".join(random.choices(pieces, k=random.randint(1, 12)))
    text = random.choice(whole)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        place = random.randint(0, len(text))
        text = text[:place] + random.choice((*pieces, "")) + text[place + random.choice((0, 0, 1, 4)) :]
    return text


def unsaid() -> NoReturn:
    raise AssertionError("an error says what is wrong")


def read_document(text: str) -> Document | None:
    try:
        return parse_document(text)
    except DocumentError as error:
        return None if str(error) else unsaid()


def read_path(text: str) -> PathFilter | None:
    try:
        return PathFilter.parse(text)
    except FilterError as error:
        return None if str(error) else unsaid()


@pytest.mark.parametrize("count", COUNTS)
def test_random_documents_and_paths_raise_nothing_but_our_errors(count: int) -> None:
    random = Random(SEED)
    documents = [parse_document(text) for text in WHOLE_DOCUMENTS]
    read = {"documents": 0, "paths": 0, "pairs": 0}
    slowest = 0.0
    for number in range(count):
        begun = time.process_time()
        document = read_document(random_text(random, XML_PIECES, WHOLE_DOCUMENTS))
        path = read_path(random_text(random, PATH_PIECES, WHOLE_PATHS))
        if document is not None:
            read["documents"] += 1
            documents[number % 2] = document
        if path is not None:
            read["paths"] += 1
            assert read_path(path.text) == path
            read["pairs"] += sum(selects(path, each) in (True, False) for each in documents)
        slowest = max(slowest, time.process_time() - begun)
    print(f"{count} of each, {read}, the slowest took {slowest:.3f} s")
    assert min(read.values()) > count / 50
    assert slowest < MOST_SECONDS
