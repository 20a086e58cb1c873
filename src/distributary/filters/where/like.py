"""LIKE patterns: `%` stands for any text, `_` for any one character, and the case matters.

A pattern is cut at its `%` into segments that must occur in the text in this order, the first at its start
and the last at its end. Taking each middle segment at its leftmost place is always right, so a text of n
characters is decided in O(n * pattern) steps; a backtracking regular expression would not promise that.
"""

from __future__ import annotations

import re
from functools import lru_cache

from distributary.errors import FilterError


class LikePattern:
    """A pattern, ready to be matched.

    >>> LikePattern("wi_d%m/s").matches("wind speed, m/s")
    True
    >>> LikePattern("100!%", "!").literal
    '100%'
    """

    __slots__ = ("_lengths", "_segments", "literal", "prefix", "prefix_only")

    literal: str | None
    """The one text that matches, when the pattern has no wildcard."""
    prefix: str
    """What every matching text begins with."""
    prefix_only: bool
    """Whether every text that begins with `prefix` matches."""

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        segments = _segments(pattern, escape)
        first = segments[0]
        fixed = first.index(None) if None in first else len(first)
        self.prefix = "".join(character for character in first[:fixed] if character is not None)
        whole = fixed == len(first)
        self.literal = self.prefix if whole and len(segments) == 1 else None
        self.prefix_only = whole and len(segments) == 2 and not segments[1]
        self._lengths = [len(segment) for segment in segments]
        self._segments = [
            re.compile("".join("." if c is None else re.escape(c) for c in segment), re.DOTALL)
            for segment in segments
        ]

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        first, *middle = self._segments
        if not middle:
            return first.fullmatch(text) is not None
        last = middle.pop()
        place, end = self._lengths[0], len(text) - self._lengths[-1]
        if end < place or not first.match(text) or not last.match(text, end):
            return False
        for segment in middle:
            found = segment.search(text, place, end)
            if found is None:
                return False
            place = found.end()
        return True


@lru_cache(maxsize=4096)
def like_pattern(pattern: str, escape: str | None = None) -> LikePattern:
    """The pattern, from a cache; FilterError when the escape character is misused."""
    return LikePattern(pattern, escape)


def _segments(pattern: str, escape: str | None) -> list[list[str | None]]:
    """The pattern cut at each `%`; None stands for `_`."""
    if escape is not None and len(escape) != 1:
        raise FilterError(f"the escape of LIKE must be one character, not {escape!r}", field="where")
    segments: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise FilterError(
                    f"the LIKE pattern {pattern!r} ends with its escape character; double it", field="where"
                )
            segments[-1].append(following)
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(None if character == "_" else character)
    return segments
