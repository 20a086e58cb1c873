"""LIKE patterns: `%` stands for any text, `_` for any one character, and the case matters.

A pattern is cut at its `%` into segments that must occur in the text in this order, the first at its start
and the last at its end. Taking each middle segment at its leftmost place is always right, so nothing is tried
twice: a text of n characters costs O(n) without `_`, and O(n * pattern / 64) with it.
"""

from __future__ import annotations

from functools import lru_cache

from distributary.errors import FilterError

MAX_PATTERN = 1 << 15
"""A longer pattern (in characters) is refused."""


class LikePattern:
    """A pattern, ready to be matched.

    >>> LikePattern("wi_d%m/s").matches("wind speed, m/s")
    True
    >>> LikePattern("100!%", "!").literal
    '100%'
    """

    __slots__ = ("_segments", "literal", "prefix", "prefix_only", "with_backslashes")

    literal: str | None
    """The one text that matches, when the pattern has no wildcard."""
    prefix: str
    """What every matching text begins with."""
    prefix_only: bool
    """Whether every text that begins with `prefix` matches."""
    with_backslashes: str
    """The same pattern with a backslash as its escape."""

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        segments = _segments(pattern, escape)
        first = segments[0]
        fixed = first.index(None) if None in first else len(first)
        self.prefix = "".join(character for character in first[:fixed] if character is not None)
        whole = fixed == len(first)
        self.literal = self.prefix if whole and len(segments) == 1 else None
        self.prefix_only = whole and len(segments) == 2 and not segments[1]
        self._segments = [LikeSegment(segment) for segment in segments]
        marked = [_escaped(segment, "\\", "%_\\") for segment in segments]
        self.with_backslashes = "%".join(marked)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        first, *middle = self._segments
        if not middle:
            return len(text) == first.length and first.stands_at(text, 0)
        last = middle.pop()
        place, end = first.length, len(text) - last.length
        if end < place or not first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        for segment in middle:
            found = segment.find(text, place, end)
            if found < 0:
                return False
            place = found + segment.length
        return True


class LikeSegment:
    """What stands between two `%`: characters, None for any one. Found in O(text * length / 64) at most.

    A segment without `_` is a plain text. One with `_` is found by Shift-And: bit i of a state says that the
    first i + 1 characters of the segment end at the current place.
    """

    __slots__ = ("_any", "_masks", "_text", "length")

    def __init__(self, characters: list[str | None]) -> None:
        self.length = len(characters)
        self._text: str | None = None
        self._any = 0
        self._masks: dict[str, int] = {}
        if None not in characters:
            self._text = "".join(filter(None, characters))
            return
        for place, character in enumerate(characters):
            if character is None:
                self._any |= 1 << place
            else:
                self._masks[character] = self._masks.get(character, 0) | 1 << place

    def stands_at(self, text: str, place: int) -> bool:
        """Whether the text has the segment at this place, which is not too near its end."""
        if self._text is not None:
            return text.startswith(self._text, place)
        return self.find(text, place, place + self.length) == place

    def find(self, text: str, start: int, end: int) -> int:
        """The first place of the segment between two places of the text, or -1."""
        if self._text is not None:
            return text.find(self._text, start, end)
        state, last = 0, 1 << (self.length - 1)
        for place in range(start, end):
            state = (state << 1 | 1) & (self._masks.get(text[place], 0) | self._any)
            if state & last:
                return place - self.length + 1
        return -1


def lowered(pattern: str, escape: str | None = None) -> tuple[str, str | None]:
    """The pattern in lower case, with its escape: what `lower(text)` is compared with for ILIKE.

    >>> lowered("A!%B%", "!")
    ('a!%b%', '!')
    """
    if escape is None:
        return pattern.lower(), None
    marked = [_escaped(part, "!", "%_!").lower() for part in _segments(pattern, escape)]
    return "%".join(marked), "!"


def _escaped(segment: list[str | None], escape: str, special: str) -> str:
    """A segment as a pattern has it, with this escape before the characters that are special."""
    return "".join(
        "_" if character is None else escape + character if character in special else character
        for character in segment
    )


@lru_cache(maxsize=4096)
def like_pattern(pattern: str, escape: str | None = None) -> LikePattern:
    """The pattern, from a cache; FilterError when the escape character is misused."""
    return LikePattern(pattern, escape)


def _segments(pattern: str, escape: str | None) -> list[list[str | None]]:
    """The pattern cut at each `%`; None stands for `_`."""
    if len(pattern) > MAX_PATTERN:
        raise FilterError(f"a LIKE pattern of more than {MAX_PATTERN} characters", field="where")
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
