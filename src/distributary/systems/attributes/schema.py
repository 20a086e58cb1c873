"""The typed attributes of a system of attribute subscriptions (004 section 3), and their values as cells.

An attribute of a finite domain has *cells*, numbered from 0: a number's are its minimum, and every precision
step from there up to its maximum; a listed text's are its values in order; a boolean's are false and true. A
subscription is filed under cells, an event is looked up at cells.

Rules:

- Answers stay exact for every value, not only for those of the grid. A range is filed under the grid values
  inside it, or, when there are none, under the one below it. An event whose value lies on the grid is looked
  up there, any other at the grid values on both sides: whatever range holds it holds one of the two, or none.
- Values below the minimum belong to the first cell, values above the maximum to the last.
- A number stands for the decimal that it is written as, so that 8.31 is 831 steps of 0.01. Rounding keeps
  order, which is all the first rule needs.
- A value of another type than its attribute's, and every value of a text attribute without listed values, is
  a *point*: it is found under equality alone.
- A missing value, NaN and a list are nowhere: nothing that the ring can look up matches them.
"""

from __future__ import annotations

import json
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.filters.where.domain import Domain, NumberRange, TextRange

TOPIC = "topic"
"""The name under which exact topics are filed."""

EXACT = 2**53
"""Below this every whole number is a float of its own, and a float is taken for its shortest decimal."""


class CellRange(NamedTuple):
    """Consecutive cells, both ends included."""

    first: int
    last: int


class ValueSet(NamedTuple):
    """Where a set of values lies: runs of cells, ascending and apart from one another, and points."""

    runs: tuple[CellRange, ...] = ()
    points: tuple[str, ...] = ()

    def holds(self, spot: Spot) -> bool:
        """Whether a cell or point is in it."""
        if isinstance(spot, str):
            return spot in self.points
        return any(first <= spot <= last for first, last in self.runs)

    @property
    def cells(self) -> int:
        """How many cells the ranges have; points are not counted."""
        return sum(last - first + 1 for first, last in self.runs)


Spot = int | str
"""Where one value is looked up: a cell or a point."""


@dataclass(frozen=True)
class NumberAttribute:
    """Numbers from a minimum to a maximum, in steps.

    >>> price = NumberAttribute("price", 0.0, 20.0, 0.01)
    >>> price.cells, price.spots(8.4), price.spots(8.405), price.spots(99)
    (2001, (840,), (840, 841), (2000,))
    """

    name: str
    minimum: int | float
    maximum: int | float
    precision: int | float = 1

    def __post_init__(self) -> None:
        for what in ("minimum", "maximum", "precision"):
            given = getattr(self, what)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not isfinite(given):
                raise DistributaryError(
                    f"attribute {self.name!r}: its {what} must be a finite number, not {given!r}"
                )
        if self.precision <= 0:
            raise DistributaryError(
                f"attribute {self.name!r}: its precision must be more than 0, not {self.precision!r}"
            )
        if not self.minimum < self.maximum:
            raise DistributaryError(
                f"attribute {self.name!r}: its minimum, {self.minimum!r}, must be less than its maximum, "
                f"{self.maximum!r}"
            )

    @cached_property
    def cells(self) -> int:
        """How many cells the attribute has."""
        return floor((_decimal(self.maximum) - self._origin) / self._step) + 1

    @cached_property
    def _origin(self) -> Fraction:
        return _decimal(self.minimum)

    @cached_property
    def _step(self) -> Fraction:
        return _decimal(self.precision)

    def value(self, cell: int) -> float:
        """The grid value of a cell."""
        return float(self._origin + cell * self._step)

    def spots(self, value: Any) -> tuple[Spot, ...]:
        """Where an event with this value is looked up."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return _points_of(value)
        if value != value:
            return ()
        at = self._steps(value)
        return _beside(at, self.cells)

    def reach(self, domain: Domain) -> ValueSet | None:
        """Where a subscription to these values is filed; None when the ring cannot look them up."""
        points = _points_in(domain, skip_numbers=True)
        if points is None:
            return None
        return ValueSet(_joined([self._run(each) for each in domain.numbers]), points)

    def _steps(self, value: int | float) -> Fraction | float:
        """How many steps a value is from the minimum."""
        return value if value in (inf, -inf) else (_decimal(value) - self._origin) / self._step

    def _run(self, numbers: NumberRange) -> CellRange:
        low, high = self._steps(numbers.low), self._steps(numbers.high)
        return _run_between(low, high, numbers.low_open, numbers.high_open, self.cells)


@dataclass(frozen=True)
class TextAttribute:
    """Texts. With the values listed they have an order on the ring, and ranges of them can be filed.

    >>> TextAttribute("exchange", ("ASE", "NYSE")).spots("NYSE"), TextAttribute("symbol").spots("OTE")
    ((1,), ('text OTE',))
    """

    name: str
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not all(isinstance(value, str) for value in self.values):
            raise DistributaryError(f"attribute {self.name!r}: its values must be texts")
        object.__setattr__(self, "values", tuple(sorted(set(self.values))))

    @property
    def cells(self) -> int:
        """How many cells the attribute has: one for each listed value."""
        return len(self.values)

    def spots(self, value: Any) -> tuple[Spot, ...]:
        """Where an event with this value is looked up."""
        if not self.values or not isinstance(value, str):
            return _points_of(value)
        return _beside(self._steps(value), self.cells)

    def reach(self, domain: Domain) -> ValueSet | None:
        """Where a subscription to these values is filed; None when the ring cannot look them up."""
        points = _points_in(domain, skip_texts=bool(self.values))
        if points is None:
            return None
        return ValueSet(_joined([self._run(each) for each in domain.texts]) if self.values else (), points)

    def _steps(self, text: str) -> float:
        """The cell of a listed text; halfway between two cells for a text between."""
        at = bisect_left(self.values, text)
        return at if at < len(self.values) and self.values[at] == text else at - 0.5

    def _run(self, texts: TextRange) -> CellRange:
        high = inf if texts.high is None else self._steps(texts.high)
        return _run_between(self._steps(texts.low), high, texts.low_open, texts.high_open, self.cells)


@dataclass(frozen=True)
class BooleanAttribute:
    """False and true."""

    name: str

    @property
    def cells(self) -> int:
        """How many cells the attribute has."""
        return 2

    def spots(self, value: Any) -> tuple[Spot, ...]:
        """Where an event with this value is looked up."""
        return (int(value),) if isinstance(value, bool) else _points_of(value)

    def reach(self, domain: Domain) -> ValueSet | None:
        """Where a subscription to these values is filed; None when the ring cannot look them up."""
        points = _points_in(domain, skip_booleans=True)
        if points is None:
            return None
        return ValueSet(_joined([CellRange(int(truth), int(truth)) for truth in domain.booleans]), points)


Attribute = NumberAttribute | TextAttribute | BooleanAttribute


@dataclass(frozen=True)
class AttributeSchema:
    """The attributes that subscriptions are filed by and events are looked up by, in order.

    With `topic`, exact topics (`A/B/#`) are filed as if they were an attribute's values.

    >>> age = {"type": "integer", "minimum": 0, "maximum": 9}
    >>> schema = AttributeSchema.from_record({"attributes": {"age": age}})
    >>> schema["age"].cells
    10
    """

    attributes: tuple[Attribute, ...]
    topic: bool = False
    _by_name: Mapping[str, Attribute] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {attribute.name: attribute for attribute in self.attributes}
        if len(by_name) < len(self.attributes):
            raise DistributaryError("a schema has an attribute twice; give each name once")
        if not by_name and not self.topic:
            raise DistributaryError("a schema without attributes; declare at least one, or `topic = true`")
        if self.topic:
            if TOPIC in by_name:
                raise DistributaryError(
                    f"a schema with `topic = true` cannot have an attribute {TOPIC!r} too; rename it"
                )
            by_name[TOPIC] = TextAttribute(TOPIC)
        object.__setattr__(self, "_by_name", by_name)

    def __getitem__(self, name: str) -> Attribute:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """What subscriptions can be filed by, topics included."""
        return tuple(self._by_name)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], where: str = "schema") -> AttributeSchema:
        """Read what a TOML or JSON file says; DistributaryError tells what is wrong with which attribute."""
        rest = dict(record)
        given, topic = rest.pop("attributes", {}), rest.pop("topic", False)
        if rest:
            raise DistributaryError(f"{where}: unknown key {next(iter(rest))!r}; known: attributes, topic")
        if not isinstance(given, Mapping) or not isinstance(topic, bool):
            raise DistributaryError(f"{where}: `attributes` must be a table by name, and `topic` a boolean")
        return cls(tuple(_attribute(name, fields, where) for name, fields in given.items()), topic)

    @classmethod
    def read(cls, path: str | Path) -> AttributeSchema:
        """Read a schema from a .toml or .json file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            record = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise DistributaryError(f"{path}: cannot be read as a schema: {error}") from error
        if not isinstance(record, Mapping):
            raise DistributaryError(f"{path}: a schema is an object with `attributes`")
        return cls.from_record(record, str(path))


FIELDS = {
    "float": ("minimum", "maximum", "precision"),
    "integer": ("minimum", "maximum", "precision"),
    "string": ("values",),
    "boolean": (),
}
"""The types there are, and what each may say beside its type."""


def _attribute(name: str, given: Any, where: str) -> Attribute:
    if not isinstance(given, Mapping) or given.get("type") not in FIELDS:
        shown = given.get("type") if isinstance(given, Mapping) else given
        raise DistributaryError(
            f"{where}: attribute {name!r} needs a type, one of {', '.join(FIELDS)}; got {shown!r}"
        )
    fields = {key: value for key, value in given.items() if key != "type"}
    allowed = FIELDS[given["type"]]
    for key in fields:
        if key not in allowed:
            raise DistributaryError(
                f"{where}: attribute {name!r} of type {given['type']} cannot have {key!r}; "
                f"it may have {', '.join(allowed) or 'nothing more'}"
            )
    if given["type"] == "boolean":
        return BooleanAttribute(name)
    if given["type"] == "string":
        values = fields.get("values", ())
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise DistributaryError(f"{where}: attribute {name!r}: its values must be a list of texts")
        return TextAttribute(name, tuple(values))
    wanted = ("minimum", "maximum") if given["type"] == "integer" else allowed
    missing = [key for key in wanted if key not in fields]
    if missing:
        raise DistributaryError(f"{where}: attribute {name!r} of type {given['type']} needs {missing[0]!r}")
    return NumberAttribute(name, **fields)


def _decimal(number: int | float) -> Fraction:
    """The number that was written: order is kept, because no two floats share their shortest decimal."""
    return Fraction(repr(number)) if isinstance(number, float) and abs(number) < EXACT else Fraction(number)


def _beside(at: Fraction | float, cells: int) -> tuple[int, ...]:
    """The cell at this place, or the two beside it; the ends hold all that is beyond them."""
    if at <= 0:
        return (0,)
    if at >= cells - 1:
        return (cells - 1,)
    below, above = floor(at), ceil(at)
    return (below,) if below == above else (below, above)


def _run_between(
    low: Fraction | float, high: Fraction | float, low_open: bool, high_open: bool, cells: int
) -> CellRange:
    """The cells inside a range; the one below it when it holds none."""
    if low < 0:
        first = 0
    elif low >= cells - 1:
        first = cells - 1
    else:
        first = floor(low) + 1 if low_open else ceil(low)
    if high > cells - 1:
        last = cells - 1
    elif high <= 0:
        last = 0
    else:
        last = ceil(high) - 1 if high_open else floor(high)
    if first <= last:
        return CellRange(first, last)
    below = min(max(floor(low), 0), cells - 1) if low > -inf else 0
    return CellRange(below, below)


def _joined(runs: Iterable[CellRange]) -> tuple[CellRange, ...]:
    """The same cells in runs that do not touch."""
    joined: list[CellRange] = []
    for run in sorted(runs):
        if joined and run.first <= joined[-1].last + 1:
            joined[-1] = CellRange(joined[-1].first, max(joined[-1].last, run.last))
        else:
            joined.append(run)
    return tuple(joined)


def _points_of(value: Any) -> tuple[str, ...]:
    """Where a value is looked up that has no cell."""
    if isinstance(value, str):
        return (f"text {value}",)
    if isinstance(value, bool):
        return (f"boolean {value}",)
    if isinstance(value, (int, float)) and value == value:
        return (f"number {value if value in (inf, -inf) else Fraction(value)}",)
    return ()


def _points_in(
    domain: Domain, *, skip_numbers: bool = False, skip_texts: bool = False, skip_booleans: bool = False
) -> tuple[str, ...] | None:
    """The points of a domain that has no others but those skipped; None when it is not so simple.

    A value that is missing is looked up nowhere, so a domain that holds it cannot be filed.
    """
    if domain.null or domain.other:
        return None
    values: list[Any] = [] if skip_booleans else list(domain.booleans)
    ranges: list[NumberRange | TextRange] = []
    ranges += () if skip_numbers else domain.numbers
    ranges += () if skip_texts else domain.texts
    for each in ranges:
        if each.low != each.high or each.low_open or each.high_open:
            return None
        values.append(each.low)
    return tuple(point for value in values for point in _points_of(value))
