"""What a benchmark says: a number with its unit, the target if there is one, and how it was checked."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")

TARGET = re.compile("(<=|>=|<|>|=) ([0-9,.]*[0-9])")
COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Result:
    """One measured number. `checked` says against what the answers were compared before the timing."""

    workload: str
    engine: str
    measure: str
    value: float
    unit: str
    checked: str
    target: str = ""
    """What the value should be, such as `>= 400,000 a second`; a text of another form is only shown."""

    @property
    def is_missed(self) -> bool:
        """Whether the value is not what the target says.

        >>> Result("rules", "bitsets", "events", 350_000.0, "a second", "", ">= 400,000 a second").is_missed
        True
        """
        found = TARGET.match(self.target)
        return found is not None and not COMPARED[found[1]](self.value, float(found[2].replace(",", "")))


def ratio(result: Result, base: Result, target: str) -> Result:
    """How many times a measured base a result is, as a result that is judged by a target of its own."""
    return replace(
        result,
        engine=f"{result.engine} / {base.engine}",
        value=result.value / base.value,
        unit="times",
        target=target,
    )


def best_of(
    runs: int, action: Callable[[], T], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, T]:
    """The shortest of several runs in seconds of this clock, and what the last one returned."""
    shortest = float("inf")
    for _ in range(runs):
        start = clock()
        answer = action()
        shortest = min(shortest, clock() - start)
    return shortest, answer
