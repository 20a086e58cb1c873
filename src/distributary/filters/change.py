"""Tolerances on moving values: deliver an event only when a named attribute has moved far enough.

A subscriber who says `{"price": 0.05}` holds, for each topic, the price last delivered to them. An event
passes when its price is a number and either none was delivered yet or it lies strictly more than 0.05 away
from the one that was. With several attributes one that moved is enough; whatever passes then becomes the
last delivered value of every named attribute the event carries, and the others keep theirs.

The rules of the arithmetic, the same in every engine:

- A number is an int, a float or a decimal; booleans, strings, NaN and missing attributes are none. An event
  that carries no named attribute as a number never passes, not even as the first.
- Distances are computed in float64: `abs(value - last) > tolerance`. Equal infinities have not moved.

The filter is the stateless part; `matching.change.index` describes the engines that hold the state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from distributary.errors import FilterError
from distributary.filters.filter import Filter
from distributary.filters.where.values import moved_double, plain
from distributary.model import Event, Value, surrogate_in

WANTED = 'give an object of attributes and tolerances such as {"price": 0.05}'


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChangeFilter(Filter):
    """How far named attributes may move before the subscriber hears of it.

    >>> ChangeFilter.parse({"price": 0.05, "high": 1}).tolerances
    (('high', 1.0), ('price', 0.05))
    >>> ChangeFilter.parse('{"price": 2.50}').text
    '{"price":2.5}'
    """

    kind: ClassVar[str] = "change"

    tolerances: tuple[tuple[str, float], ...]
    """Each attribute with its tolerance, sorted by attribute; `parse` is what checks them."""

    @classmethod
    def parse(cls, given: Any) -> Self:
        """Read an object of attributes and tolerances, or the JSON text of one."""
        if isinstance(given, str):
            pairs, text = _read_object(given), given
        elif isinstance(given, Mapping):
            pairs, text = list(given.items()), None
        else:
            raise FilterError(f"not an object but {type(given).__name__}; {WANTED}", field=cls.kind)
        return cls(_checked(pairs, text))

    @property
    def text(self) -> str:
        """The canonical text: JSON without spaces, attributes sorted, numbers as short as they can be."""
        inside = ",".join(
            f"{json.dumps(name, ensure_ascii=False)}:{_shortest(c)}" for name, c in self.tolerances
        )
        return f"{{{inside}}}"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes it watches, sorted."""
        return tuple(name for name, _ in self.tolerances)

    def matches(self, event: Event) -> bool:
        """The stateless part: whether the event carries a number for some named attribute.

        >>> ChangeFilter.parse({"price": 1}).matches(Event("e", attributes={"price": "high"}))
        False
        """
        return any(number_of(event.attributes.get(name)) is not None for name in self.attributes)

    def numbers(self, event: Event) -> dict[str, float]:
        """What the event carries of the attributes it watches, as numbers.

        >>> ChangeFilter.parse({"price": 1, "high": 2}).numbers(Event("e", attributes={"price": 8}))
        {'price': 8.0}
        """
        found = ((name, number_of(event.attributes.get(name))) for name, _ in self.tolerances)
        return {name: number for name, number in found if number is not None}

    def moved(self, numbers: Mapping[str, float], last: Mapping[str, float]) -> bool:
        """Whether these numbers pass when those were the last delivered: the rule of this module.

        >>> price = ChangeFilter.parse({"price": 5})
        >>> price.moved({"price": 10}, {}), price.moved({"price": 10}, {"price": 5})
        (True, False)
        """
        return any(
            name in numbers and (name not in last or abs(numbers[name] - last[name]) > tolerance)
            for name, tolerance in self.tolerances
        )

    def covers(self, other: Self) -> bool:
        """Equal filters, or tolerance 0 here on every attribute that `other` watches.

        Both are taken to see the same events from the same start. A smaller tolerance that is not 0 covers
        nothing larger: in Figure 6 of the dynamic-filter paper the value 8 passes tolerance 10 but not 5.

        Why 0 covers: suppose `other` lets an event pass because its attribute a, of value v, has moved, and
        this filter, with tolerance 0 on a, does not. Then a value of a was delivered here before and equals
        v. With tolerance 0 that is the value of the latest earlier event that carried a as a number, for
        one that differed would have passed and replaced it. At that event `other` either delivered v, or
        held a value no further than its tolerance from v; and as no event since carried a, it still does.
        So a has not moved for `other`, which contradicts the supposition.

        >>> ChangeFilter.parse({"price": 5}).covers(ChangeFilter.parse({"price": 10}))
        False
        >>> ChangeFilter.parse({"price": 0, "high": 3}).covers(ChangeFilter.parse({"price": 10}))
        True
        """
        if self.tolerances == other.tolerances:
            return True
        mine = dict(self.tolerances)
        return all(mine.get(name) == 0 for name in other.attributes)

    def merge(self, other: Self) -> Self:
        """The one that covers the other, or else tolerance 0 on all attributes of both, which covers both.

        Keeping a positive tolerance would not do: a value delivered for the sake of one attribute moves the
        centre of the others too, and may so withhold an event that one of the two lets pass.
        """
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        return type(self)(tuple((name, 0.0) for name in sorted({*self.attributes, *other.attributes})))


def number_of(value: Value) -> float | None:
    """The float64 that tolerances are measured in, or None when the value is not a number.

    Whole numbers beyond the range of float64 count as infinities, as they do in event batches.
    """
    number = plain(value)
    if type(number) is Decimal:
        return moved_double(number)
    return None if type(number) not in (int, float) or number != number else as_float(number)


def as_float(number: Any) -> float:
    """The number as a float64; whole numbers beyond its range become infinities."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def quiet_between(last: float, tolerance: float) -> tuple[float, float]:
    """The greatest number below the last delivered one that passes, and the least above: between, none does.

    Rounding is monotone, so whatever passes above is at least `last + tolerance` as computed; where that
    number itself does not pass, the next float does.

    >>> low, high = quiet_between(10.0, 5.0)
    >>> low < 5.0 < 15.0 < high, high - 15.0 < 1e-14
    (True, True)
    """
    low, high = last - tolerance, last + tolerance
    if not abs(low - last) > tolerance:
        low = math.nextafter(low, -math.inf)
    if not abs(high - last) > tolerance:
        high = math.nextafter(high, math.inf)
    return low, high


def _read_object(text: str) -> list[tuple[Any, Any]]:
    """The pairs of a JSON object, duplicates included; every number is read as a float."""
    try:
        read = json.loads(text, object_pairs_hook=_Pairs, parse_int=float)
    except json.JSONDecodeError as error:
        reason = f"not a JSON object ({error.msg}); {WANTED}"
        raise FilterError(reason, field="change", text=text, position=error.pos) from None
    except RecursionError:
        raise FilterError(f"nested too deeply; {WANTED}", field="change", text=text) from None
    if not isinstance(read, _Pairs):
        raise FilterError(f"not a JSON object; {WANTED}", field="change", text=text, position=0)
    return read


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as read, to tell it from a JSON array."""


def _checked(pairs: Iterable[tuple[Any, Any]], text: str | None) -> tuple[tuple[str, float], ...]:
    tolerances: dict[str, float] = {}
    for name, given in pairs:
        if not isinstance(name, str):
            raise FilterError(
                f"the attribute {_shown(name)} is not a string; {WANTED}", field="change", text=text
            )
        if surrogate_in(name) is not None:
            raise FilterError(f"the attribute {name!r:.60} is not valid Unicode", field="change", text=text)
        if name in tolerances:
            raise FilterError(f"the attribute {name!r:.60} is given twice", field="change", text=text)
        tolerance = None if isinstance(given, _Pairs) else number_of(given)
        if tolerance is None or not 0 <= tolerance < math.inf:
            reason = (
                f"the tolerance of {name!r:.60} must be a finite number of at least 0, not {_shown(given)}"
            )
            raise FilterError(reason, field="change", text=text)
        tolerances[name] = tolerance + 0.0  # -0.0 becomes 0.0
    if not tolerances:
        raise FilterError(f"names no attribute; {WANTED}", field="change", text=text)
    return tuple(sorted(tolerances.items()))


def _shown(given: object) -> str:
    """A value for a message; only those whose `repr` is sure to be short, quick and possible."""
    if isinstance(given, int) and not isinstance(given, bool):
        return repr(number_of(given))
    if given is None or isinstance(given, (str, bool, float)):
        return f"{given!r:.60}"
    return f"something of type {type(given).__name__}"


def _shortest(number: float) -> str:
    return repr(number).removesuffix(".0")
