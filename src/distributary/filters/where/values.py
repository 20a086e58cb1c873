"""Values of attributes and literals: their kinds, how two of them compare, and how times are read and
written.

Two values compare only when they are of one *kind*; otherwise the comparison is unknown. The kinds:

- NUMBER: integers of any size, doubles (and floats, which are doubles), decimals. Integers and decimals are
  compared exactly, an integer and a double too. A decimal that meets a double is rounded to the nearest
  double, as in every SQL. A literal with a fraction is a decimal. NaN is of no kind.
- TEXT, ordered by code point. BOOLEAN, false before true. BINARY, ordered byte by byte.
- INSTANT: dates and timestamps in one order, a date at its midnight. A timestamp without a zone is in UTC.
- TIME: a time of day. DURATION: a length of time.

The one thing that is coerced: an INSTANT or a TIME that meets a text reads it as ISO 8601 (JSON has no
times); a text that is none makes the comparison unknown. Everything else, a missing value and NaN among it,
has no kind and compares with nothing.

Times are counted in nanoseconds, in whole numbers, so that nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import inf, nextafter
from operator import eq, ge, gt, le, lt, ne
from typing import Any

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

PLAIN_DIGITS = 15
"""Decimals of so many digits are all different doubles."""

SECOND = 1_000_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND

EPOCH = datetime(1970, 1, 1)
EPOCH_IN_UTC = EPOCH.replace(tzinfo=UTC)
EPOCH_DAY = EPOCH.toordinal()
FIRST, LAST = (date.min.toordinal() - EPOCH_DAY) * DAY, (date.max.toordinal() - EPOCH_DAY + 1) * DAY - 1
"""The first and the last nanosecond of the years 1 to 9999, within which all instants lie."""


class Kind(Enum):
    """What values compare with one another."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "a boolean"
    INSTANT = "a timestamp"
    TIME = "a time"
    DURATION = "an interval"
    BINARY = "binary"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A date or a timestamp: nanoseconds since 1970 began in UTC.

    >>> str(Instant(86_400_000_000_001))
    '1970-01-02 00:00:00.000000001'
    """

    nanoseconds: int

    @property
    def day(self) -> date:
        """The date in UTC."""
        return date.fromordinal(self.nanoseconds // DAY + EPOCH_DAY)

    def __str__(self) -> str:
        of_day = self.nanoseconds % DAY
        return f"{self.day.isoformat()}" + (f" {TimeOfDay(of_day)}" if of_day else "")


@dataclass(frozen=True, slots=True, order=True)
class TimeOfDay:
    """Nanoseconds since midnight.

    >>> str(TimeOfDay(3_600_500_000_000))
    '01:00:00.5'
    """

    nanoseconds: int

    def __str__(self) -> str:
        seconds, fraction = divmod(self.nanoseconds, SECOND)
        written = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return written + (f".{fraction:09}".rstrip("0") if fraction else "")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds.

    >>> str(Duration(90 * SECOND))
    '90 seconds'
    """

    nanoseconds: int

    def __str__(self) -> str:
        for unit, length in (("day", DAY), ("hour", HOUR), ("minute", MINUTE)):
            if self.nanoseconds and self.nanoseconds % length == 0:
                return f"{self.nanoseconds // length} {unit}s"
        seconds, fraction = divmod(abs(self.nanoseconds), SECOND)
        sign = "-" if self.nanoseconds < 0 else ""
        return f"{sign}{seconds}" + (f".{fraction:09}".rstrip("0") if fraction else "") + " seconds"


@dataclass(frozen=True, slots=True)
class Months:
    """An interval of calendar months: it can be added to an instant, and compares with nothing."""

    months: int

    def __str__(self) -> str:
        return f"{self.months} months"


@dataclass(frozen=True, slots=True)
class Several:
    """The values that `items[*].price` gives: a predicate on them is true when it is true of any."""

    values: tuple[Any, ...]


_KINDS: dict[type, Kind] = {
    int: Kind.NUMBER,
    Decimal: Kind.NUMBER,
    str: Kind.TEXT,
    bool: Kind.BOOLEAN,
    Instant: Kind.INSTANT,
    TimeOfDay: Kind.TIME,
    Duration: Kind.DURATION,
    bytes: Kind.BINARY,
}

_PLAIN = frozenset((_KINDS.keys() - {Decimal}) | {float, type(None), list, tuple, dict})
"""The types of values that `plain` gives back as they are, most of what comes; arrays and maps are told apart
by the operations on them."""


def kind_of(value: Any) -> Kind | None:
    """The kind of a plain value; None for what compares with nothing.

    >>> kind_of(2.5), kind_of(float("nan"))
    (<Kind.NUMBER: 'a number'>, None)
    """
    if type(value) is float:
        return Kind.NUMBER if value == value else None
    return _KINDS.get(type(value))


def plain(value: Any) -> Any:
    """The value as one of the types of this module: what NumPy, datetime and others wrap is taken out.

    >>> plain(datetime(1970, 1, 1, 0, 0, 1))
    Instant(nanoseconds=1000000000)
    """
    found = type(value)
    if found in _PLAIN:
        return value
    if found is Decimal:
        return _finite(value)
    if found is datetime:
        return instant_of(value)
    for known, convert in _CONVERSIONS:
        if isinstance(value, known):
            return convert(value)
    if found.__module__ == "numpy":
        return _from_numpy(value)
    return value


def _finite(value: Decimal) -> Decimal | float:
    return value if value.is_finite() else float(value)


def instant_of(moment: datetime) -> Instant:
    """The instant of a datetime; one without a zone is in UTC. Pandas' nanoseconds are kept."""
    passed = moment - (EPOCH if moment.utcoffset() is None else EPOCH_IN_UTC)
    whole = (passed.days * 86400 + passed.seconds) * SECOND + passed.microseconds * 1000
    if not FIRST <= whole <= LAST:
        raise OverflowError(f"{moment} is not in the years 1 to 9999 in UTC")
    return Instant(whole + int(getattr(moment, "nanosecond", 0)))


def _time_of(value: time) -> TimeOfDay:
    return TimeOfDay(
        ((value.hour * 60 + value.minute) * 60 + value.second) * SECOND + value.microsecond * 1000
    )


def _duration_of(value: timedelta) -> Duration:
    return Duration((value.days * 86400 + value.seconds) * SECOND + value.microseconds * 1000)


def _from_numpy(value: Any) -> Any:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in "Mm" and kind:
        nanoseconds = int(
            value.astype(f"{'datetime64' if kind == 'M' else 'timedelta64'}[ns]").astype("int64")
        )
        if nanoseconds == -(2**63):  # NaT
            return None
        return Instant(nanoseconds) if kind == "M" else Duration(nanoseconds)
    return plain(value.item()) if kind in "biuf" and kind and not getattr(value, "ndim", 0) else value


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (bool, bool),
    (int, int),
    (float, float),
    (str, str),
    (Decimal, lambda value: _finite(Decimal(value))),
    (datetime, instant_of),
    (date, lambda value: Instant((value.toordinal() - EPOCH_DAY) * DAY)),
    (time, lambda value: _time_of(value) if value.tzinfo is None else value),
    (timedelta, _duration_of),
    ((bytes, bytearray, memoryview), bytes),
)
"""What else holds a value of these types; asked in this order."""


# Comparisons


def compare(left: Any, operator: str, right: Any) -> bool | None:
    """The comparison of two values; None when they do not compare.

    >>> compare(2**53 + 1, ">", 2.0**53), compare(Decimal("0.35"), "=", 0.35), compare(1, "=", "1")
    (True, True, None)
    """
    left, right = plain(left), plain(right)
    kind, other = kind_of(left), kind_of(right)
    if kind is None or other is None:
        return None
    if kind is Kind.NUMBER and other is Kind.NUMBER:
        if type(left) is Decimal and type(right) is float:
            left = nearest_double(left)
        elif type(left) is float and type(right) is Decimal:
            right = nearest_double(right)
    elif kind is not other:
        if kind is Kind.TEXT and other in READERS:
            left = READERS[other](left)
        elif other is Kind.TEXT and kind in READERS:
            right = READERS[kind](right)
        else:
            return None
        if left is None or right is None:
            return None
    return OPERATORS[operator](left, right)


def compare_with_literal(value: Any, operator: str, literal: Any) -> bool | None:
    """The comparison of a value with a literal, of which a fraction is a decimal.

    >>> compare_with_literal(Decimal("0.3500000000000000001"), "=", 0.35)
    False
    """
    found = type(value)
    if found is float or found is type(literal):  # by far the most
        if found is float and type(literal) in (float, int):
            return OPERATORS[operator](value, literal) if value == value else None
        if found is str or found is int or found is bool:
            return OPERATORS[operator](value, literal)
    if type(literal) is float and isinstance(value, Decimal):
        literal = exact(literal)
    return compare(value, operator, literal)


def exact(literal: int | float | Decimal) -> Decimal:
    """The decimal that a literal of a condition writes: of a double, the shortest that denotes it.

    >>> exact(0.35)
    Decimal('0.35')
    """
    return Decimal(repr(literal)) if type(literal) is float else Decimal(literal)


def nearest_double(value: Decimal) -> float | Decimal:
    """The nearest double; the decimal itself beyond their range, where it is larger than all but infinity."""
    double = float(value)
    return double if -inf < double < inf else value


def moved_double(value: Decimal) -> float:
    """A double that compares with every number of 15 digits or fewer as the decimal does.

    Between two such numbers lie several doubles. The nearest one will do, unless it is one of them.
    """
    double = float(value)
    if not -inf < double < inf:
        return double
    written = exact(double)
    if written == value or len(written.normalize().as_tuple().digits) > PLAIN_DIGITS:
        return double
    return nextafter(double, inf if value > written else -inf)


# Reading and writing times

_DAY = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
ISO_INSTANT = re.compile(rf"{_DAY}(?:[T ]{_TIME} ?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII)
ISO_TIME = re.compile(_TIME, re.ASCII)


@lru_cache(maxsize=1 << 14)
def read_instant(text: str) -> Instant | None:
    """A date or a timestamp of ISO 8601, down to nanoseconds, with Z, an offset or none (UTC).

    >>> read_instant("1970-01-01T02:00+02:00"), read_instant("1970-02-30")
    (Instant(nanoseconds=0), None)
    """
    found = ISO_INSTANT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    of_day = 0 if hour is None else _nanoseconds(hour, minute, second, fraction)
    shift = _offset(zone) if zone else 0
    if of_day is None or shift is None:
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - EPOCH_DAY
    except ValueError:
        return None
    return within_years(days * DAY + of_day - shift)


def within_years(nanoseconds: int) -> Instant | None:
    """The instant, if it lies in the years 1 to 9999."""
    return Instant(nanoseconds) if FIRST <= nanoseconds <= LAST else None


@lru_cache(maxsize=1 << 12)
def read_time(text: str) -> TimeOfDay | None:
    """A time of day of ISO 8601.

    >>> str(read_time("09:30"))
    '09:30:00'
    """
    found = ISO_TIME.fullmatch(text)
    nanoseconds = None if found is None else _nanoseconds(*found.groups())
    return None if nanoseconds is None else TimeOfDay(nanoseconds)


def _nanoseconds(hour: str, minute: str, second: str | None, fraction: str | None) -> int | None:
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    return seconds * SECOND + int((fraction or "").ljust(9, "0"))


def _offset(zone: str) -> int | None:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * MINUTE * (-1 if zone[0] == "-" else 1)


READERS: dict[Kind, Callable[[str], Any]] = {Kind.INSTANT: read_instant, Kind.TIME: read_time}
"""How a text that meets a value of this kind is read."""

_UNITS = {
    "nanosecond": 1,
    "microsecond": 1000,
    "millisecond": 1_000_000,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": 7 * DAY,
}
_CALENDAR = {"month": 1, "quarter": 3, "year": 12}
_AMOUNT = re.compile(r"\s*([+-]?\d{1,12}(?:\.\d{1,9})?)\s*([a-zA-Z]+)")


def read_interval(text: str) -> Duration | Months | None:
    """An interval such as `90 minutes`, `1 day 12 hours` or `3 months`; None for what is none.

    >>> read_interval("1 hour 30 minutes")
    Duration(nanoseconds=5400000000000)
    """
    nanoseconds, months, place, calendar = Decimal(0), Decimal(0), 0, False
    while (found := _AMOUNT.match(text, place)) is not None:
        place = found.end()
        amount, unit = Decimal(found[1]), found[2].lower().removesuffix("s")
        if unit in _UNITS:
            nanoseconds += amount * _UNITS[unit]
        elif unit in _CALENDAR:
            months, calendar = months + amount * _CALENDAR[unit], True
        else:
            return None
    whole = nanoseconds == int(nanoseconds) and months == int(months)
    if place == 0 or text[place:].strip() or not whole or (calendar and nanoseconds):
        return None
    return Months(int(months)) if calendar else Duration(int(nanoseconds))
