"""Entities of a document whose type declaration stands elsewhere: what is known, and what is missing.

Nothing is ever fetched, so what an external declaration says is unknown, but for a few that everybody knows:
the types of XHTML and of Netscape's RSS 0.91, told by their public identifiers, declare the entities of HTML
(`&nbsp;`, `&eacute;`). These are read. The value of any other entity that the document does not declare
cannot be known, and Expat would drop a reference to it in silence; so it is looked for here, outside of
comments, CDATA sections and processing instructions, where `&` is a character like any other.
"""

from __future__ import annotations

import re
from functools import cache
from html.entities import name2codepoint

PREDEFINED = frozenset({"lt", "gt", "amp", "quot", "apos"})

_XHTML = (
    "-//W3C//DTD XHTML 1.0 Strict//EN",
    "-//W3C//DTD XHTML 1.0 Transitional//EN",
    "-//W3C//DTD XHTML 1.0 Frameset//EN",
    "-//W3C//DTD XHTML 1.1//EN",
    "-//W3C//DTD XHTML Basic 1.0//EN",
    "-//W3C//DTD XHTML Basic 1.1//EN",
)
_RSS = ("-//Netscape Communications//DTD RSS 0.91//EN",)
_LATIN_1 = range(160, 256)

# In a well-formed document `<` stands in no attribute's value, so the first three are what they look like.
_REFERENCE = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|&([^#;][^;]*);", re.DOTALL)


@cache
def known_entities(public_id: str | None) -> dict[str, int]:
    """The entities that the document type of that public identifier declares, as code points.

    >>> known_entities("-//Netscape Communications//DTD RSS 0.91//EN")["nbsp"], known_entities("mine")
    (160, {})
    """
    if public_id is None:
        return {}
    public_id = " ".join(public_id.split())
    if public_id in _XHTML:
        return {name: code for name, code in name2codepoint.items() if name not in PREDEFINED}
    if public_id in _RSS:
        return {name: code for name, code in name2codepoint.items() if code in _LATIN_1}
    return {}


@cache
def entity_declarations(public_id: str | None) -> str:
    """The same, as a document type declaration writes them."""
    return "".join(f'<!ENTITY {name} "&#{code};">' for name, code in known_entities(public_id).items())


def find_unknown_reference(text: str, start: int, known: dict[str, int]) -> re.Match[str] | None:
    """The first reference in a well-formed document to an entity that is not known; its name is group 1.

    `start` is where the document type declaration ends.

    >>> find_unknown_reference("<a><!-- &x; --><![CDATA[&y;]]>&lt;&z;</a>", 0, {})[1]
    'z'
    """
    for found in _REFERENCE.finditer(text, start):
        name = found[1]
        if name is not None and name not in PREDEFINED and name not in known:
            return found
    return None
