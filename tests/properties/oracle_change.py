"""Tolerances written out plainly: dictionaries of what each subscriber was last sent, event by event."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from distributary.model import Event

Tolerances = Mapping[str, float]


def carried(event: Event, name: str) -> float | None:
    """The attribute as a float64 when it is a number, else None."""
    value = event.attributes.get(name)
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if type(value) is float and not math.isnan(value):
        return value
    return None


def has_moved(value: float, last: float | None, tolerance: float) -> bool:
    if last is None:
        return True
    if value == last:
        return False
    return abs(value - last) > tolerance


class ChangeOracle:
    """Subscribers by slot, each with its group and a memory of its own."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, Tolerances]] = {}
        self.sent: dict[int, dict[str | None, dict[str, float]]] = {}

    def add(self, slot: int, tolerances: Tolerances, group: int = 0) -> None:
        self.held[slot] = (group, tolerances)
        self.sent[slot] = {}

    def remove(self, slot: int) -> None:
        del self.held[slot], self.sent[slot]

    def forget(self) -> None:
        self.sent = {slot: {} for slot in self.held}

    def would_fire(self, event: Event, slot: int) -> bool:
        last = self.sent[slot].get(event.topic, {})
        for name, tolerance in self.held[slot][1].items():
            value = carried(event, name)
            if value is not None and has_moved(value, last.get(name), tolerance):
                return True
        return False

    def fire(self, event: Event, group: int = 0) -> list[int]:
        fired = [
            slot for slot in sorted(self.held) if self.held[slot][0] == group and self.would_fire(event, slot)
        ]
        for slot in fired:
            last = self.sent[slot].setdefault(event.topic, {})
            for name in self.held[slot][1]:
                value = carried(event, name)
                if value is not None:
                    last[name] = value
        return fired


def digits(units: int) -> list[int]:
    """The parts of a whole number in base 4, lowest first: 34 (202) is [2, 32]."""
    parts = []
    power = 1
    while units:
        units, digit = divmod(units, 4)
        if digit:
            parts.append(digit * power)
        power *= 4
    return parts


class ChainOracle:
    """Multi-level filters as nested loops: every filter of every chain is looked at for every event.

    A filter is known by (group, attribute, units, width of a plain filter); it exists while some subscriber's
    chain runs through it. `unit` is the size of one unit.
    """

    def __init__(self, unit: float) -> None:
        self.unit = unit
        self.held: dict[int, tuple[int, Tolerances]] = {}
        self.sent: dict[int, dict[tuple[str | None, str], float]] = {}
        self.passed: dict[tuple[Any, ...], dict[str | None, float]] = {}

    def units(self, tolerance: float) -> int:
        units = 0 if tolerance < self.unit else int(tolerance / self.unit) + 2
        while sum(Fraction(part * self.unit) for part in digits(units)) > Fraction(tolerance):
            units -= 1
        return units

    def chain(self, tolerance: float) -> list[tuple[int, float]]:
        """The filters an event must pass, first to last, each as (units so far, width)."""
        units = self.units(tolerance)
        return self.links(units) if units else [(0, tolerance)]

    def links(self, units: int) -> list[tuple[int, float]]:
        parts = digits(units)
        return [(sum(parts[: at + 1]), part * self.unit) for at, part in enumerate(parts)]

    def keys(self, slot: int) -> list[tuple[Any, ...]]:
        group, tolerances = self.held[slot]
        return [(group, name, *link) for name, c in tolerances.items() for link in self.chain(c)]

    def add(self, slot: int, tolerances: Tolerances, group: int = 0) -> None:
        self.held[slot] = (group, tolerances)
        self.sent[slot] = {}
        for key in self.keys(slot):
            self.passed.setdefault(key, {})

    def remove(self, slot: int) -> None:
        del self.held[slot], self.sent[slot]
        alive = {key for other in self.held for key in self.keys(other)}
        self.passed = {key: last for key, last in self.passed.items() if key in alive}

    def forget(self) -> None:
        self.sent = {slot: {} for slot in self.held}
        self.passed = {key: {} for key in self.passed}

    def would_fire(self, event: Event, slot: int) -> bool:
        return self._wants(slot, self._through(event, self.held[slot][0]), event)

    def fire(self, event: Event, group: int = 0) -> list[int]:
        through = self._through(event, group)
        fired = [
            slot
            for slot in sorted(self.held)
            if self.held[slot][0] == group and self._wants(slot, through, event)
        ]
        for key, passes in through.items():
            if passes:
                self.passed[key][event.topic] = carried(event, key[1])  # type: ignore[assignment]
        for slot in fired:
            for name in self.held[slot][1]:
                value = carried(event, name)
                if value is not None:
                    self.sent[slot][event.topic, name] = value
        return fired

    def _through(self, event: Event, group: int) -> dict[tuple[Any, ...], bool]:
        """Which filters of a group the event gets through."""
        before = {key: last.get(event.topic) for key, last in self.passed.items()}
        return {key: self._passes(key, before, event) for key in self.passed if key[0] == group}

    def _passes(
        self, key: tuple[Any, ...], before: dict[tuple[Any, ...], float | None], event: Event
    ) -> bool:
        """Whether the event gets through this filter: as its first, or through all before it and itself."""
        group, name, units, width = key
        value = carried(event, name)
        if value is None:
            return False
        if before[key] is None:
            return True
        chain = [(0, width)] if units == 0 else self.links(units)
        for link in chain[:-1]:
            if not beyond(link[0], value, before[group, name, *link], link[1]):
                return False
        return beyond(units, value, before[key], width)

    def _wants(self, slot: int, through: dict[tuple[Any, ...], bool], event: Event) -> bool:
        group, tolerances = self.held[slot]
        for name, tolerance in tolerances.items():
            value = carried(event, name)
            if value is None:
                continue
            last = self.sent[slot].get((event.topic, name))
            *below, (units, width) = self.chain(tolerance)
            reached = not below or through[group, name, *below[-1]]
            if last is None or (reached and beyond(units, value, last, width)):
                return True
        return False


def beyond(units: int, value: float, last: float | None, width: float) -> bool:
    """Whether the distance exceeds the width: in real arithmetic, but in float64 for plain filters."""
    if last is None or units == 0:
        return has_moved(value, last, width)
    if math.isinf(value) or math.isinf(last):
        return value != last
    return abs(Fraction(value) - Fraction(last)) > Fraction(width)
