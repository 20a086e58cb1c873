"""Operations on values: the arithmetic and the functions that conditions are written with.

Rules, the same on every engine:

- A missing argument makes the result missing (null), but for `coalesce` and `nullif`; so does an argument
  of a kind that the operation does not take. Nothing raises.
- Integers and decimals are computed exactly; a result of more than `MAX_DIGITS` digits is null. With a double
  everything is a double, and a result that is not finite is null. `/` of integers gives a double, of decimals
  a decimal of 38 digits; a zero divisor gives null, in `%` too, which has the sign of its left side.
- Times are in UTC. A text where an instant is expected is read as ISO 8601. Months are added by the calendar:
  the day becomes the month's last if it has no such day.
- An array's elements are counted from 0. `regexp` finds a match anywhere in the text, by RE2's rules: its
  time is linear in the text.
"""

from __future__ import annotations

import ipaddress
import math
from calendar import monthrange
from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException, InvalidOperation
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

from distributary.filters.where.geometry import distance, within
from distributary.filters.where.values import (
    DAY,
    EPOCH_DAY,
    HOUR,
    MINUTE,
    SECOND,
    Duration,
    Instant,
    Months,
    Several,
    TimeOfDay,
    compare,
    nearest_double,
    plain,
    read_instant,
    read_time,
    within_years,
)

MAX_DIGITS = 1000
"""A number with more digits than this is no result, and no literal."""
EXACT = Context(prec=4 * MAX_DIGITS, Emax=10**6, Emin=-(10**6))
QUOTIENT = Context(prec=38, Emax=10**6, Emin=-(10**6))
MAX_TEXT = 1 << 20
"""A text that is made of others and is longer than this (in characters) is null."""


class ValueFunction(NamedTuple):
    """A function: what it computes of plain values that are not null, and how many it takes."""

    compute: Callable[..., Any]
    least: int
    most: int
    takes_null: bool = False


# Arithmetic


def add(left: Any, right: Any) -> Any:
    """`left + right`: numbers, intervals, or an instant and an interval."""
    if isinstance(left, Instant) and isinstance(right, (Duration, Months)):
        return _later(left, right)
    if isinstance(right, Instant) and isinstance(left, (Duration, Months)):
        return _later(right, left)
    if isinstance(left, Duration) and isinstance(right, Duration):
        return Duration(left.nanoseconds + right.nanoseconds)
    return _computed("+", left, right)


def subtract(left: Any, right: Any) -> Any:
    """`left - right`: numbers, intervals, two instants, or an instant and an interval."""
    if isinstance(left, Instant) and isinstance(right, Instant):
        return Duration(left.nanoseconds - right.nanoseconds)
    negative = _negative(right)
    return None if negative is None else add(left, negative)


def multiply(left: Any, right: Any) -> Any:
    """`left * right`: numbers, or an interval and an integer."""
    if isinstance(left, Duration) and type(right) is int:
        return Duration(left.nanoseconds * right)
    if isinstance(right, Duration) and type(left) is int:
        return Duration(right.nanoseconds * left)
    return _computed("*", left, right)


def divide(left: Any, right: Any) -> Any:
    """`left / right`, a double for integers."""
    return _computed("/", left, right)


def remainder(left: Any, right: Any) -> Any:
    """`left % right`, with the sign of the left side."""
    return _computed("%", left, right)


def _negative(value: Any) -> Any:
    if isinstance(value, Duration):
        return Duration(-value.nanoseconds)
    if isinstance(value, Months):
        return Months(-value.months)
    return None if not _is_number(value) else value.copy_negate() if type(value) is Decimal else -value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, Decimal)


def _computed(sign: str, left: Any, right: Any) -> Any:
    if not _is_number(left) or not _is_number(right):
        return None
    if sign in "/%" and right == 0:
        return None
    try:
        if float in (type(left), type(right)):
            return _of_doubles(sign, _double(left), _double(right))
        if Decimal in (type(left), type(right)):
            return _of_decimals(sign, Decimal(left), Decimal(right))
        return _of_integers(sign, left, right)
    except (OverflowError, DecimalException):
        return None


def _double(value: Any) -> float:
    return float(nearest_double(value)) if type(value) is Decimal else float(value)


def _of_doubles(sign: str, left: float, right: float) -> float | None:
    if sign in "/%" and right == 0:  # a decimal that is too small for a double
        return None
    results: dict[str, Callable[[], float]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
        "%": lambda: math.fmod(left, right) if math.isfinite(left) else math.nan,
    }
    result = results[sign]() + 0.0
    return result if -inf < result < inf else None


def _of_decimals(sign: str, left: Decimal, right: Decimal) -> Decimal | None:
    results: dict[str, Callable[[], Decimal]] = {
        "+": lambda: EXACT.add(left, right),
        "-": lambda: EXACT.subtract(left, right),
        "*": lambda: EXACT.multiply(left, right),
        "/": lambda: QUOTIENT.divide(left, right),
        "%": lambda: EXACT.remainder(left, right),
    }
    result = results[sign]()
    return result if fits(result) else None


def _of_integers(sign: str, left: int, right: int) -> int | float | None:
    if sign == "/":
        return left / right + 0.0  # zero has no sign
    if sign == "%":
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    result = {"+": left + right, "-": left - right}.get(sign, 0) if sign != "*" else left * right
    return result if abs(result).bit_length() < 3.33 * MAX_DIGITS else None


def fits(value: Decimal) -> bool:
    """Whether a decimal, written out, has no more than `MAX_DIGITS` digits on either side of its point."""
    return not value or (value.as_tuple().exponent >= -MAX_DIGITS and value.adjusted() < MAX_DIGITS)  # type: ignore[operator]


def _later(moment: Instant, by: Duration | Months) -> Instant | None:
    if isinstance(by, Duration):
        return within_years(moment.nanoseconds + by.nanoseconds)
    day = moment.day
    month = day.year * 12 + day.month - 1 + by.months
    year, month = month // 12, month % 12 + 1
    if not 1 <= year <= 9999:
        return None
    shifted = date(year, month, min(day.day, monthrange(year, month)[1])).toordinal() - EPOCH_DAY
    return Instant(shifted * DAY + moment.nanoseconds % DAY)


# Parts of times


def as_timestamp(value: Any) -> Instant | None:
    """The instant, or what a text says as ISO 8601; null for everything else."""
    return value if isinstance(value, Instant) else read_instant(value) if isinstance(value, str) else None


def as_time(value: Any) -> TimeOfDay | None:
    """The time of day, or what a text says as ISO 8601; null for everything else."""
    return value if isinstance(value, TimeOfDay) else read_time(value) if isinstance(value, str) else None


def _of_day(divisor: int, modulus: int) -> Callable[[Any], int | None]:
    def part(value: Any) -> int | None:
        moment = as_timestamp(value) or as_time(value)
        return None if moment is None else moment.nanoseconds // divisor % modulus

    return part


def _of_date(part: Callable[[date], int]) -> Callable[[Any], int | None]:
    return lambda value: None if (moment := as_timestamp(value)) is None else part(moment.day)


def _midnight(value: Any) -> Instant | None:
    moment = as_timestamp(value)
    return None if moment is None else Instant(moment.nanoseconds // DAY * DAY)


# Texts


def _on_text(compute: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: compute(value) if isinstance(value, str) else None


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, (str, bytes, tuple, list, Mapping)) else None


def _concatenated(*values: Any) -> str | None:
    if not all(isinstance(value, str) for value in values) or sum(map(len, values)) > MAX_TEXT:
        return None
    return "".join(values)


def _substring(text: Any, start: Any, length: Any = MAX_TEXT) -> str | None:
    if not isinstance(text, str) or type(start) is not int or type(length) is not int or length < 0:
        return None
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


# Numbers


def _on_number(of_exact: Callable[[Any], Any], of_double: Callable[[float], Any]) -> Callable[[Any], Any]:
    def compute(value: Any) -> Any:
        if type(value) is float:
            return of_double(value) if math.isfinite(value) else None
        return of_exact(value) if _is_number(value) else None

    return compute


def _rounded(value: Any, places: Any = 0) -> Any:
    """Half away from zero, as SQL does; a double is rounded as the decimal that it is written as."""
    if not _is_number(value) or type(places) is not int or not 0 <= places <= 100:
        return None
    if type(value) is int or (type(value) is float and not math.isfinite(value)):
        return value if type(value) is int else None
    decimal = Decimal(repr(value)) if type(value) is float else value
    result = decimal.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT)
    return float(result) if type(value) is float else result


# Arrays, maps, addresses


def array_contains(array: Any, wanted: Any) -> bool | None:
    """Whether an element equals the value; null when none does and some element does not compare with it."""
    if not isinstance(array, (tuple, list)):
        return None
    if type(wanted) is str and wanted in array:
        return True
    outcomes = {compare(element, "=", wanted) for element in array}
    return True if True in outcomes else None if None in outcomes else False


def element(container: Any, key: Any) -> Any:
    """The element of an array at a place from 0, or the value of a map under a key; null for none."""
    if isinstance(container, Mapping):
        return container.get(key) if isinstance(key, str) else None
    if isinstance(container, (tuple, list)) and type(key) is int and 0 <= key < len(container):
        return container[key]
    return None


def each(array: Any, *keys: Any) -> Several | None:
    """What lies under the keys in every element of an array."""
    if not isinstance(array, (tuple, list)):
        return None
    found = list(array)
    for key in keys:
        found = [element(one, key) for one in found]
    return Several(tuple(plain(one) for one in found))


@lru_cache(maxsize=4096)
def read_network(text: str) -> Any:
    """The block of addresses that `10.0.0.0/8` or `2001:db8::/32` is; None for what is none."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def in_cidr(address: Any, block: Any) -> bool | None:
    """Whether an address lies in a block; an address of the other version of IP does not."""
    if not isinstance(address, str) or not isinstance(block, str):
        return None
    network = read_network(block)
    try:
        given = ipaddress.ip_address(address)
    except ValueError:
        return None
    return None if network is None else given.version == network.version and given in network


# Casts


def cast(value: Any, target: str) -> Any:
    """The value as the type; null when it has no such value.

    >>> cast("12", "bigint"), cast(2.9, "bigint"), cast("x", "double"), cast(True, "text")
    (12, 2, None, 'true')
    """
    name, _, scale = target.partition(" ")
    try:
        result = CASTS[name](value)
        if name == "decimal" and scale and result is not None:
            precision, places = map(int, scale.split())
            result = result.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT)
            return result if not result or result.adjusted() < precision - places else None
    except (ValueError, OverflowError, InvalidOperation):
        return None
    return result


def _to_number(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and len(value) <= MAX_DIGITS and (bare := value.strip()).isascii():
        return Decimal(bare) if "_" not in bare else None
    return value if _is_number(value) else None


def _to_integer(value: Any) -> int | None:
    number = _to_number(value)
    if number is None or not (
        math.isfinite(number) if type(number) is float else Decimal(number).is_finite()
    ):
        return None
    return int(number) if type(number) is not Decimal or fits(number) else None


def _to_double(value: Any) -> float | None:
    number = _to_number(value)
    result = None if number is None else float(number)
    return result if result is not None and -inf < result < inf else None


def _to_decimal(value: Any) -> Decimal | None:
    number = _to_number(value)
    if number is None:
        return None
    result = Decimal(repr(number)) if type(number) is float else Decimal(number)
    return result if result.is_finite() and fits(result) else None


def _to_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is Decimal:
        return format(value, "f")
    return str(value) if isinstance(value, (str, int, float, Instant, TimeOfDay, Duration)) else None


def _to_boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


CASTS: dict[str, Callable[[Any], Any]] = {
    "bigint": _to_integer,
    "double": _to_double,
    "decimal": _to_decimal,
    "text": _to_text,
    "boolean": _to_boolean,
    "timestamp": as_timestamp,
    "date": _midnight,
    "time": lambda value: (
        TimeOfDay(value.nanoseconds % DAY) if isinstance(value, Instant) else as_time(value)
    ),
}
TYPES = {
    **dict.fromkeys(("bigint", "int", "integer", "smallint", "tinyint", "long"), "bigint"),
    **dict.fromkeys(("double", "float", "real"), "double"),
    **dict.fromkeys(("decimal", "numeric"), "decimal"),
    **dict.fromkeys(("text", "string", "varchar", "char"), "text"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("timestamp", "datetime", "timestamptz"), "timestamp"),
    "date": "date",
    "time": "time",
}
"""The types that `cast` knows, by every name."""

FUNCTIONS: dict[str, ValueFunction] = {
    "+": ValueFunction(add, 2, 2),
    "-": ValueFunction(subtract, 2, 2),
    "*": ValueFunction(multiply, 2, 2),
    "/": ValueFunction(divide, 2, 2),
    "%": ValueFunction(remainder, 2, 2),
    "negative": ValueFunction(_negative, 1, 1),
    "||": ValueFunction(_concatenated, 2, 2),
    "concat": ValueFunction(_concatenated, 1, 64),
    "lower": ValueFunction(_on_text(str.lower), 1, 1),
    "upper": ValueFunction(_on_text(str.upper), 1, 1),
    "trim": ValueFunction(_on_text(lambda text: text.strip(" ")), 1, 1),
    "length": ValueFunction(_length, 1, 1),
    "substring": ValueFunction(_substring, 2, 3),
    "abs": ValueFunction(_on_number(abs, abs), 1, 1),
    "floor": ValueFunction(_on_number(math.floor, math.floor), 1, 1),
    "ceil": ValueFunction(_on_number(math.ceil, math.ceil), 1, 1),
    "round": ValueFunction(_rounded, 1, 2),
    "coalesce": ValueFunction(lambda *values: next((v for v in values if v is not None), None), 1, 64, True),
    "nullif": ValueFunction(
        lambda value, other: None if compare(value, "=", other) is True else value, 2, 2, takes_null=True
    ),
    "as_timestamp": ValueFunction(as_timestamp, 1, 1),
    "as_time": ValueFunction(as_time, 1, 1),
    "date": ValueFunction(_midnight, 1, 1),
    "year": ValueFunction(_of_date(lambda day: day.year), 1, 1),
    "month": ValueFunction(_of_date(lambda day: day.month), 1, 1),
    "day": ValueFunction(_of_date(lambda day: day.day), 1, 1),
    "weekday": ValueFunction(_of_date(lambda day: day.isoweekday()), 1, 1),
    "hour": ValueFunction(_of_day(HOUR, 24), 1, 1),
    "minute": ValueFunction(_of_day(MINUTE, 60), 1, 1),
    "second": ValueFunction(_of_day(SECOND, 60), 1, 1),
    "array_contains": ValueFunction(array_contains, 2, 2),
    "element": ValueFunction(element, 2, 2),
    "each": ValueFunction(each, 1, 16),
    "in_cidr": ValueFunction(in_cidr, 2, 2),
    "distance": ValueFunction(distance, 4, 4),
    "within": ValueFunction(within, 3, 3),
    "cast": ValueFunction(cast, 2, 2),
}
"""Every function of conditions. `weekday` is 1 for Monday to 7 for Sunday; `distance` is in metres."""

ALIASES = {
    "lcase": "lower",
    "ucase": "upper",
    "char_length": "length",
    "character_length": "length",
    "cardinality": "length",
    "size": "length",
    "array_length": "length",
    "substr": "substring",
    "ceiling": "ceil",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "list_contains": "array_contains",
    "isodow": "weekday",
    "dayofmonth": "day",
    "st_distance_sphere": "distance",
}
"""Names under which other databases know a function of ours."""
