"""What a benchmark says: a number with its unit, the target if there is one, and how it was checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


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


def best_of(runs: int, action: Callable[[], T]) -> tuple[float, T]:
    """The shortest of several runs in seconds, and what the last one returned."""
    shortest = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        answer = action()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, answer
