"""One JSON object from the bytes of a line, read strictly and within bounds.

Rules:

- What two readers could read differently is refused: bytes that are not UTF-8, a key given twice in one
  object, `NaN` and `Infinity`, which are no JSON. A byte order mark before the object is passed over.
- A number is never changed in silence. What a double cannot hold (`1e400`, `1e-400`) is an exact `Decimal`.
- Time and memory are linear in the line: nesting, the digits of a number, the values of a line and the
  characters of its dotted names have bounds. A line beyond one of them is refused with its name.

Cost: about that of `json.loads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from distributary.errors import InputError

MAXIMUM_DEPTH = 100
"""Objects and arrays within each other."""
MAXIMUM_DIGITS = 1000
"""Characters of a number, and digits on either side of the point when it is written out."""
MAXIMUM_VALUES = 500_000
"""Objects, arrays and values in one line, about: they take memory however short they are."""
MAXIMUM_NAMES = 4 << 20
"""Characters of all attribute names of a nested object together: each carries the names above it."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"
NESTED = (dict, list)
SHORT = 4096
"""Bytes of lines whose dotted names cannot be too long: at most a fifth of the square of this, together."""


def read_object(line: bytes) -> dict[str, Any]:
    """The object that a line holds; `InputError` says what is wrong with it and where.

    >>> read_object(b'{"id": "e1", "x": 1e400}')
    {'id': 'e1', 'x': Decimal('1E+400')}
    >>> read_object(b'{"id": "e1", "id": "e2"}')
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: id: given twice in one object; keep one of them
    """
    record = read_value(line)
    if not isinstance(record, dict):
        raise InputError(f"a record is a JSON object, not {_kind(record)}")
    return record


def read_value(line: bytes) -> Any:
    """The value that bytes hold, whatever it is; `InputError` says what is wrong with it and where.

    >>> read_value(b"[1, 2.5]")
    [1, 2.5]
    """
    bare = line.removeprefix(BYTE_ORDER_MARK).strip(SPACE)
    if len(bare) > MAXIMUM_VALUES:
        _check_values(bare)
    try:
        text = bare.decode()
    except UnicodeDecodeError as error:
        at = error.start + line.index(bare)
        raise InputError(not_utf8(line, at)) from None
    value = _scanned(text)
    is_long = len(bare) > SHORT or bare.count(b"[") + bare.count(b"{") > MAXIMUM_DEPTH
    if is_long and value.__class__ in NESTED:
        _check_nesting(value)
    return value


def not_utf8(data: bytes, at: int) -> str:
    """What is said of bytes that are not UTF-8 from a place on.

    >>> not_utf8(b"caf\\xe9", 3)
    'not UTF-8: 0xe9 at byte 3; write the text in UTF-8'
    """
    return f"not UTF-8: 0x{data[at]:02x} at byte {at}; write the text in UTF-8"


def _scanned(text: str) -> Any:
    # No number of a text that is this short has too many digits.
    scan = _scan_short if len(text) <= MAXIMUM_DIGITS else _scan
    try:
        record, end = scan(text, 0)
    except StopIteration as error:
        raise _not_json(text, "Expecting value", error.value) from None
    except json.JSONDecodeError as error:
        raise _not_json(text, error.msg, error.pos) from None
    except RecursionError:
        raise _too_deep() from None
    if end != len(text):
        raise _not_json(text, "Extra data", end)
    return record


def _not_json(text: str, reason: str, position: int) -> InputError:
    hint = "; it holds NUL characters: if it is UTF-16, write it in UTF-8" if "\0" in text else ""
    return InputError(f"not JSON: {reason.removesuffix(' at')}{hint}", position=position)


def _too_deep() -> InputError:
    return InputError(f"objects and arrays are nested more than {MAXIMUM_DEPTH} deep")


def _check_values(line: bytes) -> None:
    """Refuse a line with too many values, before any of them is made."""
    bare = line.replace(rb"\\", b"").replace(rb"\"", b"")
    pieces = bare.split(b'"', 4 * MAXIMUM_VALUES)  # a value and its key have two quotes each
    outside = b"".join(pieces[::2])
    count = sum(map(outside.count, (b",", b"[", b"{")))
    if count > MAXIMUM_VALUES or len(pieces) > 4 * MAXIMUM_VALUES:
        raise InputError(f"has more than {MAXIMUM_VALUES:,} values; give it as several events")


def _check_nesting(record: dict[str, Any] | list[Any]) -> None:
    """Refuse an object or array that is nested too deep, or whose dotted names are too long together."""
    names = 0
    level: list[tuple[int, Any]] = [(0, record)]
    for _ in range(MAXIMUM_DEPTH):
        below: list[tuple[int, Any]] = []
        for prefix, container in level:
            if container.__class__ is list:
                below += ((0, value) for value in container if value.__class__ in NESTED)
                continue
            for name, value in container.items():
                names += prefix + len(name)
                if value.__class__ in NESTED:
                    below.append((prefix + len(name) + 1, value))
            if names > MAXIMUM_NAMES:
                raise InputError(
                    f"its dotted names have more than {MAXIMUM_NAMES:,} characters together; "
                    "shorten the names of nested objects"
                )
        if not below:
            return
        level = below
    raise _too_deep()


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        shown = name.encode(errors="replace").decode()
        raise InputError("given twice in one object; keep one of them", field=shown)
    return found


def _whole(text: str) -> int:
    if len(text) > MAXIMUM_DIGITS:
        raise _too_many_digits()
    return int(text)


def _number(text: str) -> float | Decimal:
    """A double, or an exact decimal where a double would be infinite, or zero though the number is not."""
    number = float(text)
    if number and number - number == 0.0 and len(text) <= MAXIMUM_DIGITS:
        return number
    if len(text) > MAXIMUM_DIGITS:
        raise _too_many_digits()
    if not number and not text.lower().partition("e")[0].strip("-0."):
        return number
    try:
        exact = Decimal(text)
    except InvalidOperation:  # an exponent beyond what even decimals have
        raise _too_many_digits() from None
    if abs(exact.adjusted()) > MAXIMUM_DIGITS:
        raise _too_many_digits()
    return exact


def _too_many_digits() -> InputError:
    return InputError(f"a number has more than {MAXIMUM_DIGITS:,} digits; give it as text, or round it")


def _constant(text: str) -> Any:
    raise InputError(f"{text} is no JSON number; write null, or leave the attribute out")


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


_scan_short: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_constant=_constant
).scan_once  # type: ignore[attr-defined]
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_number, parse_constant=_constant
).scan_once  # type: ignore[attr-defined]
