"""Path filters as they are meant: lxml's own XPath 1.0, and strategies over a small vocabulary."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st
from lxml import etree

from properties.full_paths import full_paths

NAMES = ("a", "b", "c", "d")
ATTRIBUTES = ("id", "k", "a")
NAMESPACE = "urn:n"
WORDS = ("1", "2", "10", "2.5", "-3", " 2 ", "x", "y", "x y", "1x", ".5", "5.", "")
LITERALS = ("1", "2", "10", "2.5", "-3", ".5", "'x'", "'y'", '"x y"', "'2'", "' 2 '", "''", '"1x"')
RELATIONS = ("=", "!=", "<", "<=", ">", ">=")
AXES = ("", "", "descendant::", "child::", "descendant-or-self::node()/", "./")

EVERY_DOCUMENT = (
    *("/*", "//*", "*", "/", ".", "//.", "//node()", "/node()", "/descendant::*", ".//.", "/self::node()"),
    *("/* | /a/b", "b[2] | //*"),
)
"""Paths that select something in every document, as they may be written."""

LAST_STEPS = (
    *("", "", "", "/@id", "//@k", "/@*", "/text()", "//text()", "/attribute::a"),
    f"/@Q{{{NAMESPACE}}}id",
)


def wants(path_text: str, document_text: str) -> bool:
    """Whether the path selects a node; one that does not start with `/` may do so from anywhere."""
    return bool(_compiled(path_text)(_tree(document_text)))


@lru_cache(maxsize=256)
def _tree(text: str) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    return etree.ElementTree(etree.fromstring(text.encode(), parser))


@lru_cache(maxsize=256)
def _compiled(text: str) -> Any:
    """The path as XPath 1.0, which has prefixes in the place of `Q{uri}`."""
    prefixes: dict[str, str] = {}

    def bound(found: re.Match[str]) -> str:
        if found[1] is not None:
            return prefixes.setdefault(found[1], f"n{len(prefixes)}") + ":"
        return "\0" if found[0] == "|" else found[0]

    branches = re.sub(r"""'[^']*'|"[^"]*"|Q\{([^}]*)\}|\|""", bound, text).split("\0")
    anywhere = [path if path.strip()[0] in "/(" else "//" + path.strip() for path in branches]
    # As a truth, for lxml leaves the document's own node out of what a path selects.
    return etree.XPath(
        f"boolean({' | '.join(anywhere)})",
        namespaces={prefix: uri for uri, prefix in prefixes.items()} or None,
    )


def documents() -> st.SearchStrategy[str]:
    """Small XML texts in which names repeat along and across paths, with values, comments and namespaces."""
    leaves = st.one_of(
        st.sampled_from(WORDS).map(escape),
        st.sampled_from(("<!--c-->", "<?p 1?>", "<![CDATA[x]]>", "&#50;", "\n")),
    )
    content = st.recursive(leaves, _element_texts, max_leaves=14)
    return _element_texts(content)


def _element_texts(content: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names, words, contents = st.sampled_from(NAMES), st.sampled_from(WORDS), st.lists(content, max_size=4)
    attributes = st.lists(st.sampled_from(ATTRIBUTES), max_size=2, unique=True)

    @st.composite
    def build(draw: st.DrawFn) -> str:
        name = draw(names)
        spaced = draw(st.integers(0, 9)) == 0
        tag = f"p:{name}" if spaced else name
        opening = f'{tag} xmlns:p="{NAMESPACE}"' if spaced else tag
        for attribute in draw(attributes):
            opening += f" {attribute}={quoteattr(draw(words))}"
        if spaced and draw(st.booleans()):
            opening += ' p:id="1" xml:lang="x"'
        return f"<{opening}>{''.join(draw(contents))}</{tag}>"

    return build()


def paths() -> st.SearchStrategy[str]:
    """Texts of path filters: twigs of every form, paths that say more, and now and then a union."""
    either = st.one_of(_branches(), _branches(), full_paths())
    union = st.lists(either, min_size=2, max_size=3).map(" | ".join)
    return st.one_of(*[_branches()] * 5, full_paths(), union, st.sampled_from(EVERY_DOCUMENT))


def short_paths() -> st.SearchStrategy[str]:
    """Paths of two or three names, perhaps with one condition: many of them at once stay quick to make."""
    names = st.sampled_from(NAMES)
    step = st.tuples(st.sampled_from(("/", "/", "//")), names).map("".join)
    last = st.sampled_from(("", "", "/@id", "[@k > 1]", "[b]", "[not(c)]", "/text()"))
    return st.tuples(step, step, st.one_of(st.just(""), step), last).map("".join)


def _branches() -> st.SearchStrategy[str]:
    return st.tuples(st.sampled_from(("/", "//", "", "")), _steps(_predicates())).map("".join)


def _labels() -> st.SearchStrategy[str]:
    names = st.sampled_from(NAMES)
    return st.one_of(names, names, names, st.just("*"), names.map(lambda name: f"Q{{{NAMESPACE}}}{name}"))


def _steps(predicates: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    labels, axes, separators = _labels(), st.sampled_from(AXES), st.sampled_from(("/", "/", "//"))
    last = st.sampled_from(LAST_STEPS)
    conditions = st.lists(predicates, max_size=1)

    @st.composite
    def build(draw: st.DrawFn) -> str:
        written = ""
        for at in range(draw(st.integers(1, 3))):
            written += (draw(separators) if at else "") + draw(axes) + draw(labels)
            written += "".join(f"[{part}]" for part in draw(conditions))
        return written + draw(last)

    return build()


def _predicates() -> st.SearchStrategy[str]:
    return st.recursive(_simple_predicates(), _nested_predicates, max_leaves=4)


def _simple_predicates() -> st.SearchStrategy[str]:
    inner = st.one_of(
        _labels(),
        _labels().map(".//{}".format),
        st.sampled_from(
            ("@id", "@k", "@*", "text()", ".//@a", ".//text()", "a/b", "b//c", "*/@id", "b/text()")
        ),
    )
    compared = st.one_of(inner, st.just("."))
    literal, relation = st.sampled_from(LITERALS), st.sampled_from(RELATIONS)
    return st.one_of(
        inner,
        st.tuples(compared, relation, literal).map(" ".join),
        st.tuples(literal, relation, compared).map(" ".join),
    )


def _nested_predicates(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        inner.map("not({})".format),
        st.tuples(inner, inner).map("({0[0]}) and ({0[1]})".format),
        st.tuples(inner, inner).map("{0[0]} or {0[1]}".format),
        _steps(inner),
    )
