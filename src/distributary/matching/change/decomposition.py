"""Tolerances written as chains of sub-filters, as multi-level filter decomposition (MFD) splits them.

After section 4.3.3 of the dynamic-filter paper. A tolerance is counted in whole units and written in base
4; each non-zero digit, from the lowest, is a sub-filter, and what one lets pass is all that the next one
sees. 21 units are 111 in base 4: a value must move by more than 1 to pass 001, then by more than 4 from
what 011 let pass last, then by more than 16 from what 111 let pass last.

This module has the arithmetic and the sub-filter itself. `mfd` makes an index of them on one machine;
`systems.state_aware` spreads them over the nodes of a network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

S = TypeVar("S")
"""What stands for a subscriber: a slot number here, a subscription's id in a network."""
T = TypeVar("T")
"""What stands for a topic."""

BASE = 4

MOST_UNITS = BASE**26 - 1
"""Larger tolerances count as this many units, the most that float64 tells apart."""

Key = tuple[int, float]
"""A filter of an item: its units and width. Units are 0 for plain filters, which differ in width alone."""


@dataclass(frozen=True, slots=True, order=True)
class LogicalNode:
    """Where a consistency value belongs in Figure 8: its level, and the leading digit within that level."""

    level: int
    digit: int

    @property
    def index(self) -> int:
        """Its number when nodes are counted from 0, left to right and from the lowest level up."""
        return (self.level - 1) * (BASE - 1) + self.digit - 1


def parts_of(units: int) -> list[int]:
    """The sub-filters of a consistency value: its non-zero digits at their places, lowest first.

    >>> parts_of(21), parts_of(34)
    ([1, 4, 16], [2, 32])
    """
    parts = []
    power = 1
    while units:
        units, digit = divmod(units, BASE)
        if digit:
            parts.append(digit * power)
        power *= BASE
    return parts


def logical_node(units: int) -> LogicalNode:
    """The logical node that stores a consistency value; ValueError for 0, which is no chain.

    >>> logical_node(34), logical_node(34).index
    (LogicalNode(level=2, digit=2), 4)
    """
    if units < 1:
        raise ValueError(f"{units} units belong to no logical node; it takes at least 1")
    parts = parts_of(units)
    digit = parts[-1]
    while digit >= BASE:
        digit //= BASE
    return LogicalNode(len(parts), digit)


def leading_unit(tolerance: float, digits: int) -> float:
    """The unit in which a tolerance has so many digits in base 4 at most, the last not 0: a power of 4.

    It depends on the tolerance alone, so whoever splits one finds the same sub-filters, and tolerances of any
    size have as many levels. Further digits are dropped. Whole tolerances of no more digits are split as in
    units of 1. 1 for a tolerance of 0, or so small that there is no such unit.

    >>> [leading_unit(c, 3) for c in (21, 20, 0.05, 1000)]
    [1.0, 4.0, 0.0009765625, 16.0]
    >>> chain_of(leading_unit(0.05, 3), 0.05)
    ((3, 0.0029296875), (51, 0.046875))
    """
    _, exponent = math.frexp(tolerance)
    lowest = (exponent - 1) // 2 - digits + 1
    unit = math.ldexp(1.0, 2 * lowest) if tolerance > 0 else 0.0
    if not unit:
        return 1.0
    units = Fraction(tolerance) // Fraction(unit)
    while units % BASE == 0:
        units, unit = units // BASE, unit * BASE
    return unit


@lru_cache(maxsize=1 << 16)
def chain_of(unit: float, tolerance: float) -> tuple[Key, ...]:
    """The filters that make up a tolerance, in the order in which a value passes them.

    >>> chain_of(1.0, 21.0)
    ((1, 1.0), (5, 4.0), (21, 16.0))
    """
    units = min(Fraction(tolerance) // Fraction(unit), MOST_UNITS)
    while sum(Fraction(part * unit) for part in parts_of(units)) > Fraction(tolerance):
        units -= 1
    parts = parts_of(units)
    if not parts:
        return ((0, tolerance),)
    return tuple((sum(parts[: at + 1]), part * unit) for at, part in enumerate(parts))


class SubFilterState(Generic[S]):
    """One filter's state for one topic.

    `passed` is the value it let pass last. Subscribers are in step with it, having been delivered that value
    last, save those in `apart`: they were delivered another one, or nothing yet (None).
    """

    __slots__ = ("apart", "passed")

    def __init__(self, passed: float) -> None:
        self.passed = passed
        self.apart: dict[S, float | None] = {}

    def deliver(self, slot: S, value: float) -> None:
        """A subscriber gets this value."""
        if value == self.passed:
            self.apart.pop(slot, None)
        else:
            self.apart[slot] = value


class SubFilter(Generic[S, T]):
    """A sub-filter with the subscribers at its consistency value (none: a proxy) and a state a topic."""

    __slots__ = ("key", "slots", "states")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.slots: dict[S, None] = {}
        self.states: dict[T, SubFilterState[S]] = {}

    def moved(self, value: float, last: float) -> bool:
        """Whether the value is further from the last one than the width: exactly, unless it is plain."""
        units, width = self.key
        distance = abs(value - last)
        if distance == width and units:
            return math.fsum((max(value, last), -min(value, last), -width)) > 0
        return distance > width

    def begin(self, topic: T, value: float) -> list[S]:
        """Take the value as the first one, here and for the subscribers that have none; they fire."""
        state = self.states.get(topic)
        if state is None:
            self.states[topic] = SubFilterState(value)
            return list(self.slots)
        fired = [slot for slot, last in state.apart.items() if last is None]
        for slot in fired:
            state.deliver(slot, value)
        return fired

    def advance(self, state: SubFilterState[S], value: float) -> tuple[bool, list[S]]:
        """Whether the value passes, and the subscribers that fire. Those without a first value wait."""
        apart = [slot for slot, last in state.apart.items() if last is not None and self.moved(value, last)]
        passed = self.moved(value, state.passed)
        fired = [slot for slot in self.slots if slot not in state.apart] + apart if passed else apart
        if passed:
            state.passed = value
        for slot in apart:
            state.deliver(slot, value)
        return passed, fired
