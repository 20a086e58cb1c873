"""Patterns that are asked about the same texts: all of LIKE and `regexp` on one operand in one pass.

RE2 reads a text once for a whole set of patterns, and remembers the states that it went through. Where it
does not answer for all of them, because a set is too large for it, the patterns are asked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distributary.filters.where.expression import Like, MatchesPattern
from distributary.filters.where.like import like_pattern

LONGEST = 1024
"""Longer texts (in characters) are asked about one by one: they may meet a new state at each character."""
MEMORY = 1 << 24
"""Bytes that the states of a set may take."""


class PatternSet:
    """Patterns by their place; what `find` says is what each of them says.

    >>> patterns = PatternSet([Like("name", "A%"), MatchesPattern("name", "n+$"), Like("name", "B%")])
    >>> sorted(patterns.find("Ann"))
    [0, 1]
    """

    def __init__(self, leaves: Sequence[Like | MatchesPattern]) -> None:
        import re2  # here, because few conditions need it

        options = re2.Options()
        options.log_errors, options.max_mem = False, MEMORY
        every = re2.Set.SearchSet(options)
        every.Add("")  # always found, so that an answer without it is none
        self._match: Callable[[str], list[int] | None] | None = every.Match
        try:
            for leaf in leaves:
                every.Add(_regular(leaf))
            every.Compile()
        except (re2.error, ValueError):  # too large, or no Unicode
            self._match = None

    def find(self, text: str) -> list[int] | None:
        """The places of the patterns that the text matches, in any order; None when that is not known."""
        if self._match is None or len(text) > LONGEST:
            return None
        try:
            found = self._match(text)
        except ValueError:  # no Unicode
            return None
        if not found or 0 not in found:
            return None
        return [place - 1 for place in found if place]


def _regular(leaf: Like | MatchesPattern) -> str:
    """The pattern as a regular expression that is found in the texts that it matches."""
    if isinstance(leaf, MatchesPattern):
        return leaf.pattern
    import re2

    parts = [r"(?s)\A"]
    characters = iter(_marked(leaf))
    for character in characters:
        if character in "%_":
            parts.append(".*" if character == "%" else ".")
        else:
            parts.append(re2.escape(next(characters) if character == "\\" else character))
    return "".join(parts) + r"\z"


def _marked(leaf: Like) -> str:
    pattern, escape = leaf.pattern, leaf.escape
    assert isinstance(pattern, str), "a pattern with a blank is a template's"
    return like_pattern(pattern, escape if isinstance(escape, str) else None).with_backslashes


def is_pattern(leaf: Any) -> bool:
    """Whether a leaf can be part of a set."""
    if isinstance(leaf, Like):
        return isinstance(leaf.pattern, str) and (leaf.escape is None or isinstance(leaf.escape, str))
    return isinstance(leaf, MatchesPattern)
