"""What an aggregate computes of each group of items: count, sum, average, min, max.

Order and grouping never matter to the result, so partial results of replicas merge to the very same value:

- `count()` counts items, `count(x)` those in which x is not null. The others ignore nulls, and are null when
  nothing else was there.
- The sum of integers is exact, and null beyond 64 bits. Their average is the exact sum as a double, divided
  by the count as a double.
- Adding doubles depends on the order. So each number is cut, both times towards zero, into its whole part and
  the rest in units of 2**-62, and these integers are added exactly. Of the total (whole part and rest of one
  sign) each is made a double, and the two are added. Up to that last step nothing but what is below 2**-62 is
  lost. A number of 2**62 or more makes the result null. The average is that sum divided by the count.
- min and max take any type; texts compare by code point, false is less than true.

A partial result is a tuple of plain values: `start`, `add`, `merge` and `finish` know what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from distributary.errors import InputError
from distributary.flow.language.expression import Expression, evaluate, settled, write
from distributary.flow.language.parse import parse_expression, resolve_text
from distributary.flow.language.schema import Schema, Type

FUNCTIONS = ("count", "sum", "average", "min", "max")
ALIASES = {"avg": "average", "mean": "average", "minimum": "min", "maximum": "max"}
SHAPE = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*", re.DOTALL)

UNIT = 2**62
"""How many units of the rest make one whole."""
LARGEST = 2.0**62
"""A number of this size or more is beyond what is summed exactly."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One value of an aggregate: a function, and what it is of (None in `count()`)."""

    function: str
    argument: str | None

    @property
    def text(self) -> str:
        """The one way in which it is written."""
        return f"{self.function}({self.argument or ''})"


def parse_aggregate(text: str, field: str = "values") -> AggregateCall:
    """Read one value of an aggregate.

    >>> parse_aggregate("avg(price*size)").text, parse_aggregate("count(*)").text
    ('average(price * size)', 'count()')
    """
    shape = SHAPE.fullmatch(text) if isinstance(text, str) else None
    name = shape[1].lower() if shape else ""
    name = ALIASES.get(name, name)
    if shape is None or name not in FUNCTIONS:
        raise InputError(
            f"{text!r} is none of count(), " + ", ".join(f"{each}(attribute)" for each in FUNCTIONS),
            field=field,
        )
    inner = shape[2].strip()
    if name == "count" and inner in ("", "*"):
        return AggregateCall("count", None)
    if not inner:
        raise InputError(f"{text!r} does not say of what; write for example {name}(price)", field=field)
    return AggregateCall(name, write(parse_expression(inner, field)))


Partial = tuple[Any, ...]
"""What is known of a group's items so far."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The arithmetic of one aggregate over one type: from items to a partial result, and on to the value."""

    argument: Expression | None
    type: Type
    """Of the value."""
    start: Partial
    include: Callable[[Partial, Any], Partial]
    """The partial result with one more value, which is not null."""
    merge: Callable[[Partial, Partial], Partial]
    finish: Callable[[Partial], Any]

    def add(self, partial: Partial, attributes: Mapping[str, Any]) -> Partial:
        """The partial result with one more item."""
        if self.argument is None:
            return self.include(partial, None)
        value = evaluate(self.argument, attributes)
        return partial if value is None else self.include(partial, value)


def accumulator(aggregate: AggregateCall, schema: Schema, field: str = "values") -> Accumulator:
    """The arithmetic of an aggregate over items of this schema.

    >>> schema = Schema({"price": "number", "at": "integer"}, "at")
    >>> prices = accumulator(parse_aggregate("sum(price)"), schema)
    >>> partial = prices.add(prices.add(prices.start, {"price": 0.1}), {"price": 0.2})
    >>> prices.finish(partial)
    0.30000000000000004
    """
    if aggregate.argument is None:
        return _count(None)
    typed = resolve_text(aggregate.argument, schema, field)
    if aggregate.function == "count":
        return _count(typed.expression)
    if aggregate.function in ("min", "max"):
        best = min if aggregate.function == "min" else max
        return Accumulator(
            typed.expression,
            typed.type,
            (),
            lambda partial, value: (best(partial[0], value),) if partial else (value,),
            lambda one, other: (best(one[0], other[0]),) if one and other else one or other,
            lambda partial: partial[0] if partial else None,
        )
    if typed.type not in (Type.INTEGER, Type.NUMBER):
        reason = f"{aggregate.text} takes integer or number, not {typed.type}"
        raise InputError(reason, field=field)
    return _total(aggregate.function, typed.expression, typed.type)


def _count(argument: Expression | None) -> Accumulator:
    return Accumulator(
        argument,
        Type.INTEGER,
        (0,),
        lambda partial, value: (partial[0] + 1,),
        lambda one, other: (one[0] + other[0],),
        lambda partial: partial[0],
    )


def _total(function: str, argument: Expression, type: Type) -> Accumulator:
    """Sum and average: (count, sum) of integers; (count, wholes, rests, too large) of numbers."""
    start: Partial = (0, 0) if type is Type.INTEGER else (0, 0, 0, 0)
    include = _include_integer if type is Type.INTEGER else _include_number
    if function == "sum":
        return Accumulator(argument, type, start, include, _added, _sum)
    return Accumulator(argument, Type.NUMBER, start, include, _added, _average)


def _added(one: Partial, other: Partial) -> Partial:
    return tuple([left + right for left, right in zip(one, other, strict=True)])


def _include_integer(partial: Partial, value: int) -> Partial:
    return (partial[0] + 1, partial[1] + value)


def _include_number(partial: Partial, value: float) -> Partial:
    count, wholes, rests, large = partial
    if not -LARGEST < value < LARGEST:
        return (count + 1, wholes, rests, large + 1)
    whole = int(value)
    return (count + 1, wholes + whole, rests + int((value - whole) * UNIT), large)


def _exact(partial: Partial) -> int | float | None:
    """The sum, before it is looked at whether it fits 64 bits; None when there is none."""
    if not partial[0]:
        return None
    if len(partial) == 2:
        total: int = partial[1]
        return total
    _, wholes, rests, large = partial
    return None if large else _joined(wholes, rests)


def _joined(wholes: int, rests: int) -> float:
    """The whole part and the rest as one double, carried so that both have one sign."""
    carry = abs(rests) // UNIT
    whole = wholes + (carry if rests > 0 else -carry)
    rest = rests - (carry if rests > 0 else -carry) * UNIT
    if whole > 0 > rest:
        whole, rest = whole - 1, rest + UNIT
    elif whole < 0 < rest:
        whole, rest = whole + 1, rest - UNIT
    return float(whole) + float(rest) / UNIT


def _sum(partial: Partial) -> int | float | None:
    total = _exact(partial)
    return None if total is None else settled(total)


def _average(partial: Partial) -> int | float | None:
    total = _exact(partial)
    return None if total is None else settled(float(total) / float(partial[0]))
