"""The arithmetic of aggregates as columns of one grouping that serves the aggregates of all queries.

A *slot* is a column that one task of a stage fills with the argument of an aggregate and the others leave
null. There are a few kinds of them; of each the stage has as many as its neediest task. What is made of a
slot has a fixed place in the arrays of a packed row, behind the values by which the task groups:

    integers: the number of items, then for each k count, sum, min, max
    numbers:  for each k sum and average of numbers, average of integers, min, max
    texts:    for each k min, max

Sums are exact, as `flow.aggregates` says: an integer goes into two sums of its upper and lower 32 bits, a
number into four, of its whole part and of the rest in units of 2**-62. That is right for 2**31 items a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from distributary.flow.language.parse import resolve_text
from distributary.flow.language.schema import Schema, Type
from distributary.spark.queries.sql import literal

COUNTED, WHOLE, NUMBER = "counted", "whole", "number"
LEAST_WHOLE, LEAST_NUMBER, LEAST_TEXT = "least_whole", "least_number", "least_text"
SLOT_TYPES = {
    COUNTED: "boolean",
    WHOLE: "bigint",
    NUMBER: "double",
    LEAST_WHOLE: "bigint",
    LEAST_NUMBER: "double",
    LEAST_TEXT: "string",
}
"""The kinds of slots: those that are counted, summed, and looked through for the least and the greatest."""

LAYOUTS = {
    "integers": {
        "count": (COUNTED, ""),
        "sum": (WHOLE, "_sum"),
        "min": (LEAST_WHOLE, "_min"),
        "max": (LEAST_WHOLE, "_max"),
    },
    "numbers": {
        "sum": (NUMBER, "_sum"),
        "average": (NUMBER, "_average"),
        "average_whole": (WHOLE, "_average"),
        "min": (LEAST_NUMBER, "_min"),
        "max": (LEAST_NUMBER, "_max"),
    },
    "texts": {"min": (LEAST_TEXT, "_min"), "max": (LEAST_TEXT, "_max")},
}
"""For each array what it holds for slot k, in order: the kind of slot, and how the column's name ends."""

LARGEST = literal(2.0**62)
UNIT = f"cast({2**62} as decimal(19,0))"
UPPER = "cast(4294967296 as decimal(10,0))"


@dataclass
class AggregateSlots:
    """Which slots a task fills, and with what."""

    filled: dict[tuple[str, str], int] = field(default_factory=dict)
    """From a kind and the text of an argument to the slot's number among those of its kind."""

    def place(self, function: str, argument: str | None, schema: Schema) -> tuple[str, int, bool]:
        """Where an aggregate's value will be: in which array, at which place, and whether as 0 or 1."""
        if argument is None:
            return "integers", 0, False
        type = resolve_text(argument, schema).type
        array, value = "integers", function
        if function in ("sum", "average"):
            if type is Type.NUMBER:
                array = "numbers"
            elif function == "average":
                array, value = "numbers", "average_whole"
        elif function != "count":
            array = {Type.NUMBER: "numbers", Type.TEXT: "texts"}.get(type, "integers")
        kind, _ = LAYOUTS[array][value]
        slot = self._slot(kind, argument)
        place = slot * len(LAYOUTS[array]) + list(LAYOUTS[array]).index(value)
        return array, place + (array == "integers"), kind == LEAST_WHOLE and type is Type.BOOLEAN

    def _slot(self, kind: str, argument: str) -> int:
        if (kind, argument) not in self.filled:
            self.filled[kind, argument] = sum(1 for other, _ in self.filled if other == kind)
        return self.filled[kind, argument]


def slot_counts(tasks: Iterable[AggregateSlots]) -> dict[str, int]:
    """How many slots of each kind a stage needs."""
    counts = dict.fromkeys(SLOT_TYPES, 0)
    for slots in tasks:
        for (kind, _), slot in slots.filled.items():
            counts[kind] = max(counts[kind], slot + 1)
    return counts


def slot_names(counts: dict[str, int]) -> dict[str, str]:
    """The columns of the slots with their SQL types."""
    return {f"{kind}{slot}": SLOT_TYPES[kind] for kind, count in counts.items() for slot in range(count)}


def slot_value(kind: str, text: str, type: Type) -> str:
    """What a slot is filled with for a value."""
    if kind == COUNTED:
        return f"if({text} is null, null, true)"
    return f"cast({text} as bigint)" if type is Type.BOOLEAN else text


def aggregations(counts: dict[str, int]) -> list[str]:
    """What to compute of each group, as SQL with names."""
    found = ["count(1) as items"]
    for name in slot_names(counts):
        kind = name.rstrip("0123456789")
        if kind == COUNTED:
            found.append(f"count({name}) as {name}")
        elif kind == WHOLE:
            found += [f"count({name}) as {name}_count", *_halves(name, name, "total")]
        elif kind == NUMBER:
            cut = f"if(abs({name}) < {LARGEST}, {name}, 0D)"
            whole = f"cast({cut} as bigint)"
            rest = f"cast(({cut} - cast({whole} as double)) * {LARGEST} as bigint)"
            large = f"count_if(abs({name}) >= {LARGEST}) as {name}_large"
            found += [f"count({name}) as {name}_count", large]
            found += [*_halves(name, whole, "whole"), *_halves(name, rest, "rest")]
        else:
            found += [f"min({name}) as {name}_min", f"max({name}) as {name}_max"]
    return found


def _halves(name: str, value: str, what: str) -> list[str]:
    return [
        f"sum(shiftright({value}, 32)) as {name}_{what}_upper",
        f"sum({value} & 4294967295L) as {name}_{what}_lower",
    ]


def _joined_halves(name: str, what: str) -> str:
    """The sum of 32-bit halves as a decimal."""
    upper, lower = f"{name}_{what}_upper", f"{name}_{what}_lower"
    return f"(cast({upper} as decimal(20,0)) * {UPPER} + cast({lower} as decimal(20,0)))"


def finishing(counts: dict[str, int]) -> list[list[str]]:
    """The columns to add, level by level, from what was computed of a group to the values of aggregates."""
    levels: list[list[str]] = [[], [], [], []]
    for name in slot_names(counts):
        kind = name.rstrip("0123456789")
        if kind == WHOLE:
            levels[0].append(f"{_joined_halves(name, 'total')} as {name}_total")
            levels[1].append(f"try_cast({name}_total as bigint) as {name}_sum")
            average = f"(cast({name}_total as double) / cast({name}_count as double)) + 0D"
            levels[1].append(f"if({name}_count > 0, {average}, null) as {name}_average")
        elif kind == NUMBER:
            levels[0].append(f"{_joined_halves(name, 'whole')} as {name}_whole")
            levels[0].append(f"{_joined_halves(name, 'rest')} as {name}_rest")
            # One sign for both: first the whole units of the rest, then one more if the signs differ.
            carry = f"({name}_rest div {UNIT})"
            levels[1].append(f"{name}_whole + cast({carry} as decimal(20,0)) as {name}_w")
            levels[1].append(f"{name}_rest - cast({carry} as decimal(20,0)) * {UNIT} as {name}_r")
            sign = (
                f"(case when {name}_w > 0 and {name}_r < 0 then 1 "
                f"when {name}_w < 0 and {name}_r > 0 then -1 else 0 end)"
            )
            total = (
                f"cast({name}_w - {sign} as double) + cast({name}_r + {sign} * {UNIT} as double) / {LARGEST}"
            )
            sound = f"{name}_count > 0 and {name}_large = 0"
            levels[2].append(f"if({sound}, {total} + 0D, null) as {name}_sum")
            levels[3].append(f"{name}_sum / cast({name}_count as double) + 0D as {name}_average")
    return [level for level in levels if level]


def finished_arrays(counts: dict[str, int]) -> dict[str, str]:
    """The arrays of the values of all slots, as laid out; the first integer is the number of items."""
    arrays = {}
    for array, layout in LAYOUTS.items():
        type = {"integers": "bigint", "numbers": "double", "texts": "string"}[array]
        values = ["items"] if array == "integers" else []
        for slot in range(max(counts[kind] for kind, _ in layout.values())):
            values += [
                f"{kind}{slot}{ending}" if slot < counts[kind] else f"cast(null as {type})"
                for kind, ending in layout.values()
            ]
        arrays[array] = f"array({', '.join(values)})" if values else f"cast(array() as array<{type}>)"
    return arrays
