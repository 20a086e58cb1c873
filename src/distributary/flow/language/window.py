"""Windows: finite pieces of a stream, by time or by number of items.

A time window covers [k * slide, k * slide + size) milliseconds for a whole k, so windows are the same for
every query and every arrival. A count window covers `size` items in stream order, and the next begins `slide`
items later; only full ones count. The slide is never larger than the size: no item falls between windows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from distributary.errors import InputError
from distributary.flow.language.schema import MAX_TIME

UNITS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
SHORT_UNITS = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
AMOUNT = re.compile(r"(?:([0-9]{1,16})\s*)?([a-z]+)")

MAX_OVERLAP = 100_000
"""How many windows an item may be in."""


@dataclass(frozen=True)
class _SlidingWindow:
    """How long a window is, and how far after it the next one begins."""

    size: int
    slide: int

    @property
    def tumbling(self) -> bool:
        """Whether the windows do not overlap."""
        return self.size == self.slide


@dataclass(frozen=True)
class TimeWindow(_SlidingWindow):
    """Windows by time; size and slide in milliseconds.

    >>> list(TimeWindow(60_000, 20_000).starts(65_000))
    [20000, 40000, 60000]
    """

    def starts(self, time: int) -> range:
        """The starts of the windows that a time is in, earliest first."""
        first = (time - self.size) // self.slide * self.slide + self.slide
        last = time - time % self.slide
        return range(first, last + 1, self.slide)

    @property
    def text(self) -> str:
        """The one way in which it is written."""
        every = "" if self.tumbling else f" every {write_duration(self.slide)}"
        return write_duration(self.size) + every


@dataclass(frozen=True)
class CountWindow(_SlidingWindow):
    """Windows of so many items, in stream order."""

    @property
    def text(self) -> str:
        """The one way in which it is written."""
        return f"{self.size} items" + ("" if self.tumbling else f" every {self.slide}")


Window = TimeWindow | CountWindow


def parse_window(text: str) -> Window:
    """A window from its text.

    >>> parse_window("1 hour every 10 minutes")
    TimeWindow(size=3600000, slide=600000)
    >>> parse_window("100 items every 10")
    CountWindow(size=100, slide=10)
    """
    if not isinstance(text, str):
        raise _refusal(f"must be a text, not {text!r}")
    return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Window:
    size, has_slide, slide = text.strip().lower().partition(" every ")
    if items := re.fullmatch(r"([0-9]{1,9})\s+items?", size.strip()):
        count = int(items[1])
        step = count
        if has_slide:
            stepped = re.fullmatch(r"([0-9]{1,9})(?:\s+items?)?", slide.strip())
            if stepped is None:
                raise _refusal(f"cannot be understood: {text!r}")
            step = int(stepped[1])
        return CountWindow(count, _checked_slide(count, step, text))
    length = parse_duration(size, field="window")
    step = parse_duration(slide, field="window") if has_slide else length
    if length > _checked_slide(length, step, text) * MAX_OVERLAP:
        raise _refusal(f"has more than {MAX_OVERLAP} windows over one another: {text!r}")
    return TimeWindow(length, step)


def _checked_slide(size: int, slide: int, text: str) -> int:
    if slide < 1 or size < 1:
        raise _refusal(f"must have a size and a slide above 0: {text!r}")
    if slide > size:
        raise _refusal(f"slides further than it is long, so items would be left out: {text!r}")
    return slide


def _refusal(reason: str) -> InputError:
    return InputError(
        f"{reason}; windows are written as '10 minutes', '1 hour every 10 minutes', '100 items' "
        "or '100 items every 10'",
        field="window",
    )


def parse_duration(given: str | int, field: str = "within") -> int:
    """Milliseconds from a text such as '5 seconds', or from a whole number of them.

    >>> parse_duration("5 seconds"), parse_duration("1h"), parse_duration("minute"), parse_duration(20)
    (5000, 3600000, 60000, 20)
    """
    total: int | None = None
    if isinstance(given, int) and not isinstance(given, bool):
        total = given
    elif isinstance(given, str) and (found := AMOUNT.fullmatch(given.strip().lower())):
        unit = SHORT_UNITS.get(found[2], found[2].removesuffix("s"))
        if unit in UNITS:
            total = int(found[1] or 1) * UNITS[unit]
    if total is None:
        reason = f"{given!r} is no duration; write for example '500 milliseconds', '5 seconds', '1 hour'"
        raise InputError(reason, field=field)
    if not 0 <= total <= MAX_TIME:
        raise InputError(f"{given!r} must lie between 0 and {MAX_TIME} milliseconds", field=field)
    return total


def write_duration(milliseconds: int) -> str:
    """The duration in the largest unit that divides it.

    >>> write_duration(90_000), write_duration(3_600_000)
    ('90 seconds', '1 hour')
    """
    for unit, length in reversed(UNITS.items()):
        if milliseconds and milliseconds % length == 0:
            count = milliseconds // length
            return f"{count} {unit}" + ("" if count == 1 else "s")
    return f"{milliseconds} milliseconds"
