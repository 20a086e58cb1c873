"""One event against the conditions of a segment: what an index and a verifier do for one row, bound once.

An event is *encoded* for a segment: for each attribute that the segment's conditions name and the event has,
its number there with the tag of the value, and the double that stands for it (see `columns`), or the length
of a text. Texts are ranked in the kernel. Events with attributes of the same names and types are encoded
alike, so what that takes is kept for the shapes that come again. The kernels then do for one row what those
of `keys`, `blocks` and `constraints` do for many, without sorting rows into buckets.

What only evaluation can decide is left to the filters themselves. An event with a hard decimal (see
`columns`) that may meet a bound of as many digits is not encoded, and is matched as a batch of one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.filters.change import as_float
from distributary.filters.where.closures import leaf_function
from distributary.filters.where.expression import And, Not, Or, attributes_of
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.lookup import operand_looks_at_clock, value_function
from distributary.filters.where.parse import operand_of
from distributary.filters.where.values import plain
from distributary.filters.where.write import OPERATION_KEY
from distributary.kernel import Bytes, Floats, Ints, Longs, inlined, kernel, read_table, sealed
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.bound import array_at
from distributary.matching.columns import (
    BOOLEAN,
    NULL,
    NUMBER,
    OTHER,
    STRING,
    AttributeColumn,
    is_hard,
    number_of_value,
    tag_of,
)
from distributary.matching.index import AnyArrays
from distributary.matching.single import SingleEvent
from distributary.matching.where.constraints import MANY, PREDICATED, TAG_BITS, Constraints, Rows
from distributary.matching.where.evaluation import undecidable_rows
from distributary.matching.where.plain_rows import plain_columns
from distributary.matching.where.texts import Texts, rank_text

T = TypeVar("T")

OWN = ("id", "topic")
"""Names under which conditions find the event's own id and topic, where no attribute is called so."""

MOST_FILTERS = 1 << 16
"""Filters of a segment that are kept as Python has them; then all are forgotten."""

MOST_SHAPES = 1 << 10
"""Shapes of events that are kept; then all are forgotten."""

MOST_NAMES = 64
"""The shape of an event with more attributes is not kept."""

SEVERAL, WHOLE = -1, -2
"""In place of a predicate: an uncertain conjunction asks for none or several, or for its filter whole."""

UNKNOWN: Any = object()
"""What stands for a shape that was not met."""

PLAIN_TAGS = {float: NUMBER, int: NUMBER, bool: BOOLEAN, str: STRING}
"""The tags of values that are encoded as they are."""

NO_VALUES: Floats = np.empty(0)
NO_TEXT: Bytes = np.empty(0, np.uint8)
NO_TEXT.flags.writeable = False


EncodedEvent = tuple[Longs, Floats, Bytes]
"""An event as the kernels read it: of each attribute its number and tag in one code, and the double or the
length of the text; and the texts, one after another. (A NamedTuple would take longer to make.)"""


class EventShape(NamedTuple):
    """What events with the same names and types of attributes have in common, if all are plain.

    So little is left to do for each that comes in the same shape: most streams have few. Operations are taken
    for attributes behind those of the event.
    """

    codes: Longs
    """Those of the encoded attributes."""
    places: list[int] | None
    """The places of the attributes that the conditions name; None when they name all."""
    texts: list[int]
    """Which of them are texts."""


Predicate = Callable[[SingleEvent], bool]
"""Whether a condition is true for an event."""


class SegmentConditions:
    """What is known of a segment's conditions beside the arrays that kernels read."""

    def __init__(self, arrays: AnyArrays) -> None:
        self._arrays = arrays
        names = frozen.unpack_texts(frozen.within(arrays, "attributes"))
        self._numbers = {name: number for number, name in enumerate(names)}
        self._operations = [
            (number, value_function(name))
            for number, name in enumerate(names)
            if name.startswith(OPERATION_KEY)
        ]
        operands = [operand_of(names[number]) for number, _ in self._operations]
        self._looks_at_clock = any(map(operand_looks_at_clock, operands))
        """Whether some operation does."""
        self._own = [name for name in OWN if name in self._numbers]
        self._shapes: dict[tuple[tuple[str, ...], tuple[type, ...]], EventShape | None] = {}
        self._meets_hard: dict[int, bool] = {}
        self._filters: dict[int, WhereFilter] = {}
        self._predicates: dict[int, Predicate] = {}

    def encode(self, single: SingleEvent) -> EncodedEvent | None:
        """The event for this segment; None when a hard decimal calls for another way."""
        given = single.event.attributes
        values: list[Any] = list(given.values())
        if self._operations:
            event = single.arrived if self._looks_at_clock else single.event
            values += [value_of(event) for _, value_of in self._operations]
        if len(values) > MOST_NAMES:
            return self._encode_any(single, values)
        alike = tuple(given), tuple(map(type, values))
        shape = self._shapes.get(alike, UNKNOWN)
        if shape is UNKNOWN:
            if len(self._shapes) == MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[alike] = self._shape(*alike)
        if shape is not None:
            try:
                return _encoded(shape, values)
            except OverflowError:  # an integer beyond the doubles
                pass
        return self._encode_any(single, values)

    def _shape(self, names: tuple[str, ...], kinds: tuple[type, ...]) -> EventShape | None:
        """The shape of events with these names, and values of these types; None where it is no plain one."""
        if self._own or any("." in name for name in names):
            return None
        numbers = [self._numbers.get(name) for name in names] + [number for number, _ in self._operations]
        asked = [(place, number) for place, number in enumerate(numbers) if number is not None]
        asked = [(place, number) for place, number in asked if kinds[place] is not type(None)]
        if not all(kinds[place] in PLAIN_TAGS for place, _ in asked):
            return None
        codes = [_code(number, PLAIN_TAGS[kinds[place]]) for place, number in asked]
        places = [place for place, _ in asked]
        return EventShape(
            sealed(np.array(codes, np.int64)),
            None if len(places) == len(kinds) else places,
            [at for at, place in enumerate(places) if kinds[place] is str],
        )

    def _encode_any(self, single: SingleEvent, values: list[Any]) -> EncodedEvent | None:
        """The event whatever it holds, value by value; `values` are of its attributes, then of operations."""
        numbers = self._numbers
        fields: list[tuple[int, float]] = []
        texts: list[bytes] = []
        given: Mapping[str, Any] = single.event.attributes
        for name, value in given.items():
            number = None if value is None else numbers.get(name)
            if number is not None and not self._encode(number, value, fields, texts):
                return None
            if "." in name and value is not None:
                self._encode_objects(name, given, fields)
        for name in self._own:
            if given.get(name) is None:
                own = single.event.id if name == "id" else single.event.topic
                self._encode(numbers[name], own, fields, texts)
        for (number, _), value in zip(self._operations, values[len(given) :], strict=True):
            if not self._encode(number, value, fields, texts):
                return None
        codes = sealed(np.array([code for code, _ in fields], np.int64))
        encoded = np.array([value for _, value in fields], np.float64)
        return codes, encoded, np.frombuffer(b"".join(texts), np.uint8) if texts else NO_TEXT

    def plain_columns(self, batch: EventBatch) -> Longs | None:
        """The plain columns of the attributes that the conditions name (see `plain_rows`), if all are."""
        return None if self._operations else plain_columns(self._numbers, batch)

    def passes(self, position: int, single: SingleEvent) -> bool:
        """Evaluate the filter at a position."""
        filter = self._filters.get(position)
        if filter is None:
            filter = _kept(self._filters, position, self._parsed("texts", position))
        return filter.matches(single.arrived)

    def passing(self, conjunctions: Ints, single: SingleEvent) -> list[int]:
        """The positions of filters that pass, of which these uncertain conjunctions were found to hold.

        A predicate that several ask for is evaluated once.
        """
        known: dict[int, bool] = {}
        outcomes: dict[int, bool] = {}
        positions, predicates = _asked(sealed(conjunctions), *self._asking)
        for place, (position, only) in enumerate(zip(positions.tolist(), predicates.tolist(), strict=True)):
            if outcomes.get(position):
                continue
            if only >= 0:
                found = known.get(only)
                outcomes[position] = self._holds(only, single, known) if found is None else found
            elif only == SEVERAL:
                outcomes[position] = self._all_hold(int(conjunctions[place]), single, known)
            else:
                outcomes[position] = self.passes(position, single)
        return [position for position, passed in outcomes.items() if passed]

    @cached_property
    def _asking(self) -> tuple[Ints, Bytes, Ints, Ints]:
        """What `_asked` reads of the segment."""
        arrays = self._arrays
        return arrays["owner"], arrays["flags"], arrays["predicate_start"], arrays["predicate_of"]

    def _all_hold(self, conjunction: int, single: SingleEvent, known: dict[int, bool]) -> bool:
        """Whether all predicates that a conjunction asks for are true for the event."""
        _, _, starts, predicate_of = self._asking
        asked = predicate_of[starts[conjunction] : starts[conjunction + 1]].tolist()
        return all(self._holds(predicate, single, known) for predicate in asked)

    def _holds(self, number: int, single: SingleEvent, known: dict[int, bool]) -> bool:
        """Whether a predicate is true for the event; `known` are those that have been evaluated for it."""
        found = known.get(number)
        if found is None:
            predicate = self._predicates.get(number)
            if predicate is None:
                predicate = _kept(self._predicates, number, _predicate(self._parsed("predicates", number)))
            found = known[number] = predicate(single)
        return found

    def _parsed(self, texts: str, number: int) -> WhereFilter:
        """The filter with that number among the texts, as Python has it."""
        return WhereFilter.parse(frozen.unpack_text(frozen.within(self._arrays, texts), number))

    def _encode(self, number: int, value: Any, fields: list[tuple[int, float]], texts: list[bytes]) -> bool:
        """Add any value; False when it is a decimal that the kernels cannot tell from a bound."""
        kind = type(value)
        if kind is int:
            fields.append((_code(number, NUMBER), as_float(value)))
            return True
        if kind is bool:
            fields.append((_code(number, BOOLEAN), value))
            return True
        value = plain(value)
        tag = tag_of(value)
        if tag == STRING:
            text = value.encode()
            texts.append(text)
            fields.append((_code(number, STRING), len(text)))
            return True
        fields.append((_code(number, tag), 0.0 if tag in (NULL, OTHER) else number_of_value(value)))
        return not (is_hard(value) and self._is_undecidable(number, value))

    def _encode_objects(self, name: str, given: Mapping[str, Any], fields: list[tuple[int, float]]) -> None:
        """Add the objects that an attribute with a dotted name is in: they are there, and equal nothing."""
        end = name.find(".", 1)
        while end > 0:
            number = self._numbers.get(name[:end])
            if number is not None and name[:end] not in OWN and given.get(name[:end]) is None:
                fields.append((_code(number, OTHER), 0.0))
            end = name.find(".", end + 1)

    def _is_undecidable(self, number: int, value: Any) -> bool:
        """Whether some bound on the attribute may only be told from a hard decimal by evaluation."""
        meets = self._meets_hard.get(number)
        if meets is None:
            column = AttributeColumn.from_values([value])
            meets = undecidable_rows(self._arrays, [(number, column)], 1) is not None
            self._meets_hard[number] = meets
        return meets


@kernel
def _asked(
    conjunctions: Ints, owner: Ints, flags: Bytes, starts: Ints, predicate_of: Ints
) -> tuple[Ints, Ints]:
    """For each of the conjunctions the position of its filter, and the only predicate that it asks for, or
    SEVERAL, or WHOLE."""
    positions, predicates = np.empty(len(conjunctions), np.int32), np.empty(len(conjunctions), np.int32)
    for place in range(len(conjunctions)):
        conjunction = conjunctions[place]
        positions[place] = owner[conjunction]
        if not flags[conjunction] & PREDICATED:
            predicates[place] = WHOLE
        elif starts[conjunction + 1] - starts[conjunction] != 1:
            predicates[place] = SEVERAL
        else:
            predicates[place] = predicate_of[starts[conjunction]]
    return positions, predicates


def _kept(kept: dict[int, T], number: int, made: T) -> T:
    """What was made, which is kept from here on."""
    if len(kept) == MOST_FILTERS:
        kept.clear()
    kept[number] = made
    return made


def _predicate(filter: WhereFilter) -> Predicate:
    """What `WhereFilter.matches` says, as a function that has looked up what is fixed."""
    expression = filter.expression
    if filter.looks_at_clock or isinstance(expression, (And, Or, Not)):
        return lambda single: filter.matches(single.arrived)
    names, truth = attributes_of(expression), leaf_function(expression)

    def holds(single: SingleEvent) -> bool:
        given = single.event.attributes
        for name in names:
            if given.get(name) is None:  # it may be missing, the event's own, or an object
                return filter.matches(single.event)
        return truth(given) is True

    return holds


def _encoded(shape: EventShape, values: list[Any]) -> EncodedEvent:
    """An event of a shape, with these values."""
    if shape.places is not None:
        values = [values[place] for place in shape.places]
    texts = NO_TEXT
    if shape.texts:
        encoded = []
        for place in shape.texts:
            text = values[place].encode()
            encoded.append(text)
            values[place] = len(text)
        texts = np.frombuffer(b"".join(encoded), np.uint8)
    return shape.codes, np.frombuffer(array("d", values)) if values else NO_VALUES, texts


def _code(number: int, tag: int) -> int:
    """The code of an attribute of that number with a value of that tag."""
    return number << TAG_BITS | tag


CONDITION_TYPES = (
    *(np.int32, np.int32, np.float64, np.uint8, np.float64, np.float64),
    *(np.int32, np.int64, np.uint8, np.int32, np.int32, np.bool_),
    np.uint8,
)
"""The types of the arrays of `BoundConditions`, one after another: as they are bound."""


class BoundConditions(NamedTuple):
    """What both the index and the verifier have bound."""

    constraints: Constraints
    texts: Texts
    flags: Bytes


def bind_conditions(arrays: AnyArrays) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
    """The arrays of `BoundConditions`."""
    tables = (*read_table(Constraints, arrays), *read_table(Texts, arrays, "text_"), arrays["flags"])
    return zip(tables, CONDITION_TYPES, strict=True)


@inlined
def bound_conditions(words: Longs, at: int) -> BoundConditions:
    """What `bind_conditions` has bound, from the array of that number on."""
    return BoundConditions(
        Constraints(
            array_at(words, at, np.int32),
            array_at(words, at + 1, np.int32),
            array_at(words, at + 2, np.float64),
            array_at(words, at + 3, np.uint8),
            array_at(words, at + 4, np.float64),
            array_at(words, at + 5, np.float64),
        ),
        Texts(
            array_at(words, at + 6, np.int32),
            array_at(words, at + 7, np.int64),
            array_at(words, at + 8, np.uint8),
            array_at(words, at + 9, np.int32),
            array_at(words, at + 10, np.int32),
            array_at(words, at + 11, np.bool_),
        ),
        array_at(words, at + 12, np.uint8),
    )


@inlined
def single_row(texts: Texts, codes: Longs, given: Floats, data: Bytes) -> Rows:
    """The encoded event as the only row there is."""
    count = len(codes)
    tags = np.zeros((1, count + 1), np.uint8)
    values = np.zeros((1, count + 1), np.float64)
    where = np.zeros(len(texts.first) - 1, np.int32)
    start: Any = 0
    for place in range(count):
        attribute, tag, value = codes[place] >> TAG_BITS, np.uint8(codes[place] & MANY), given[place]
        if tag == STRING:
            end = start + np.int64(value)
            value = rank_text(texts, attribute, data, start, end)
            start = end
        elif value != value:  # NaN compares with nothing
            tag, value = np.uint8(OTHER), 0.0
        where[attribute] = place + 1
        tags[0, place + 1] = tag
        values[0, place + 1] = value + 0.0
    return Rows(tags, values, where)
