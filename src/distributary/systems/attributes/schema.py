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
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf, isfinite
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from distributary.errors import DistributaryError
from distributary.filters.where.domain import Domain, NumberRange, TextRange

TOPIC = "topic"
"""The name under which exact topics are filed."""
EVERYTHING = "*"
"""The name under which is filed what asks for no value, and the only value under that name."""

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


CellPlace = Fraction | float
"""Where a value lies among the cells of its attribute: a cell, or a fraction between two."""


@dataclass(frozen=True)
class Attribute(ABC):
    """An attribute of the schema: how many cells it has, and which of its values belong to which."""

    name: str

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many cells the attribute has."""

    @abstractmethod
    def steps(self, value: Any) -> CellPlace | None:
        """The cell of a value, a fraction for a value between two cells; None for one that has no cell."""

    def spots(self, value: Any) -> tuple[Spot, ...]:
        """Where an event with this value is looked up: at its cell, or at the cells on both sides."""
        at = self.steps(value)
        if at is None:
            return _points_of(value)
        at = min(max(at, 0), self.cells - 1)
        return tuple(sorted({floor(at), ceil(at)}))

    def reach(self, domain: Domain) -> ValueSet | None:
        """Where a subscription to these values is filed; None when the ring cannot look them up.

        A missing value is looked up nowhere, so a domain that holds it cannot be filed; nor can one with a
        range of values that have no cells.
        """
        if domain.null or domain.other:
            return None
        runs: list[CellRange] = []
        points: list[str] = []
        ranges: list[NumberRange | TextRange] = [NumberRange(truth, truth) for truth in domain.booleans]
        for each in (*ranges, *domain.numbers, *domain.texts):
            low = self.steps(each.low)
            if low is not None:
                high = None if each.high is None else self.steps(each.high)
                runs.append(self._run(low, inf if high is None else high, each.low_open, each.high_open))
            elif each.low == each.high and not each.low_open and not each.high_open:
                points += _points_of(each.low)
            else:
                return None
        return ValueSet(_joined(runs), tuple(points))

    def _run(self, low: CellPlace, high: CellPlace, low_open: bool, high_open: bool) -> CellRange:
        """The cells inside a range; the one below it when it holds none."""
        low, high = (min(max(bound, -1), self.cells) for bound in (low, high))
        first = floor(low) + 1 if low_open else ceil(low)
        last = ceil(high) - 1 if high_open else floor(high)
        first, last = (min(max(cell, 0), self.cells - 1) for cell in (first, last))
        if first > last:
            first = last = min(max(floor(low), 0), self.cells - 1)
        return CellRange(first, last)


@dataclass(frozen=True)
class NumberAttribute(Attribute):
    """Numbers from a minimum to a maximum, in steps of a precision.

    >>> price = NumberAttribute("price", 0.0, 20.0, 0.01)
    >>> price.cells, price.spots(8.4), price.spots(8.405), price.spots(99)
    (2001, (840,), (840, 841), (2000,))
    """

    minimum: int | float
    maximum: int | float
    precision: int | float = 1

    def __post_init__(self) -> None:
        its, least, most = f"attribute {self.name!r}: its", self.minimum, self.maximum
        for what in ("minimum", "maximum", "precision"):
            given = getattr(self, what)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not isfinite(given):
                raise DistributaryError(f"{its} {what} must be a finite number, not {given!r}")
        if self.precision <= 0:
            raise DistributaryError(f"{its} precision must be more than 0, not {self.precision!r}")
        if not least < most:
            raise DistributaryError(f"{its} minimum, {least!r}, must be less than its maximum, {most!r}")

    @cached_property
    def cells(self) -> int:
        """One for each step from the minimum, as far as the maximum."""
        return floor((_decimal(self.maximum) - self._origin) / self._step) + 1

    @cached_property
    def _origin(self) -> Fraction:
        return _decimal(self.minimum)

    @cached_property
    def _step(self) -> Fraction:
        return _decimal(self.precision)

    def steps(self, value: Any) -> CellPlace | None:
        """How many steps a number is from the minimum."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            return None
        return value if value in (inf, -inf) else (_decimal(value) - self._origin) / self._step


@dataclass(frozen=True)
class TextAttribute(Attribute):
    """Texts. With the values listed they have an order on the ring, and ranges of them can be filed.

    >>> TextAttribute("exchange", ("ASE", "NYSE")).spots("NYSE"), TextAttribute("symbol").spots("OTE")
    ((1,), ('text OTE',))
    """

    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not all(isinstance(value, str) for value in self.values):
            raise DistributaryError(f"attribute {self.name!r}: its values must be texts")
        object.__setattr__(self, "values", tuple(sorted(set(self.values))))

    @property
    def cells(self) -> int:
        """One for each listed value."""
        return len(self.values)

    def steps(self, value: Any) -> float | None:
        """The place of a listed text; halfway between two places for a text between."""
        if not self.values or not isinstance(value, str):
            return None
        at = bisect_left(self.values, value)
        return at if at < len(self.values) and self.values[at] == value else at - 0.5


@dataclass(frozen=True)
class BooleanAttribute(Attribute):
    """False and true, which are cells 0 and 1."""

    cells: ClassVar[int] = 2

    def steps(self, value: Any) -> int | None:
        """0 or 1."""
        return int(value) if isinstance(value, bool) else None


@dataclass(frozen=True)
class AttributeSchema:
    """The attributes that subscriptions are filed by and events are looked up by, in order.

    With `topic`, exact topics (`A/B/#`) are filed as if they were an attribute's values. With `everything`,
    what asks for no value at all (`where: "true"`, a path alone) is filed under one key, at which every event
    is looked up; without, it is refused.

    >>> age = {"type": "integer", "minimum": 0, "maximum": 9}
    >>> schema = AttributeSchema.from_record({"attributes": {"age": age}})
    >>> schema["age"].cells
    10
    """

    attributes: tuple[Attribute, ...]
    topic: bool = False
    everything: bool = False

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) < len(names):
            raise DistributaryError("a schema has an attribute twice; give each name once")
        if not names and not self.topic and not self.everything:
            raise DistributaryError("a schema without attributes; declare at least one, or `topic = true`")
        if self.everything and EVERYTHING in names:
            raise DistributaryError(
                f"a schema with `everything = true` cannot have an attribute {EVERYTHING!r} too; rename it"
            )
        if self.topic and TOPIC in names:
            raise DistributaryError(
                f"a schema with `topic = true` cannot have an attribute {TOPIC!r} too; rename it"
            )

    @cached_property
    def filed_apart(self) -> tuple[str, ...]:
        """Those of `TOPIC` and `EVERYTHING` by which subscriptions are filed, as by attributes."""
        return (TOPIC,) * self.topic + (EVERYTHING,) * self.everything

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        apart = map(TextAttribute, self.filed_apart)
        return {attribute.name: attribute for attribute in (*self.attributes, *apart)}

    def __getitem__(self, name: str) -> Attribute:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """What subscriptions can be filed by, `TOPIC` and `EVERYTHING` included."""
        return tuple(self._by_name)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], where: str = "schema") -> AttributeSchema:
        """Read what a TOML or JSON file says; DistributaryError tells what is wrong with which attribute."""
        rest = dict(record)
        given, topic = rest.pop("attributes", {}), rest.pop("topic", False)
        everything = rest.pop("everything", False)
        if rest:
            known = "attributes, topic, everything"
            raise DistributaryError(f"{where}: unknown key {next(iter(rest))!r}; known: {known}")
        if not isinstance(given, Mapping) or not isinstance(topic, bool) or not isinstance(everything, bool):
            raise DistributaryError(
                f"{where}: `attributes` must be a table by name, `topic` and `everything` booleans"
            )
        attributes = tuple(_attribute(name, fields, where) for name, fields in given.items())
        return cls(attributes, topic, everything)

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


KINDS: dict[str, tuple[type[Attribute], tuple[str, ...], tuple[str, ...]]] = {
    "float": (NumberAttribute, ("minimum", "maximum", "precision"), ()),
    "integer": (NumberAttribute, ("minimum", "maximum"), ("precision",)),
    "string": (TextAttribute, (), ("values",)),
    "boolean": (BooleanAttribute, (), ()),
}
"""The types in schema files: the class of each, what it must say beside its type, and what it may say."""


def _attribute(name: str, given: Any, where: str) -> Attribute:
    if not isinstance(given, Mapping) or given.get("type") not in KINDS:
        shown = given.get("type") if isinstance(given, Mapping) else given
        known = ", ".join(KINDS)
        raise DistributaryError(f"{where}: attribute {name!r} needs a type, one of {known}; got {shown!r}")
    fields = {key: value for key, value in given.items() if key != "type"}
    kind, needed, optional = KINDS[given["type"]]
    for key in fields:
        if key not in needed + optional:
            raise DistributaryError(
                f"{where}: attribute {name!r} of type {given['type']} cannot have {key!r}; "
                f"it may have {', '.join(needed + optional) or 'nothing more'}"
            )
    for key in needed:
        if key not in fields:
            raise DistributaryError(f"{where}: attribute {name!r} of type {given['type']} needs {key!r}")
    values = fields.get("values", ())
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DistributaryError(f"{where}: attribute {name!r}: its values must be a list of texts")
    return kind(name, **fields)


def _decimal(number: int | float) -> Fraction:
    """The number that was written: order is kept, because no two floats share their shortest decimal."""
    return Fraction(repr(number)) if isinstance(number, float) and abs(number) < EXACT else Fraction(number)


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
    """Where a value without a cell is looked up; nowhere when it is NaN, a list or missing."""
    if isinstance(value, str):
        return (f"text {value}",)
    if isinstance(value, bool):
        return (f"boolean {value}",)
    if isinstance(value, (int, float)) and value == value:
        return (f"number {value if value in (inf, -inf) else Fraction(value)}",)
    return ()
