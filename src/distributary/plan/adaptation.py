"""Following conditions that drift, without going to and fro: what trees and placements have in common.

Rules:

- Measurements are smoothed: what is believed of a value moves a share of the way to each new measurement.
- A plan is changed only when the better one is better by a margin, under what is believed now. Noise that
  moves the cost by less than the margin changes nothing, however long it lasts.
- After a change the plan rests for some periods, so that what the change itself does to the measurements is
  seen before the next one. Constraints that are broken are mended at once, whatever the margin.

Cost: that of the optimiser in every period without rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal, Number

Conditions = TypeVar("Conditions")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Patience:
    """How reluctant to change a plan."""

    margin: float = 0.1
    """The share of the cost that a change must save."""
    smoothing: float = 0.3
    """How far a new measurement moves what is believed: 1 is all the way."""
    rest: int = 2
    """Periods without a change after a change."""

    def __post_init__(self) -> None:
        if self.margin < 0 or self.rest < 0 or not 0 < self.smoothing <= 1:
            raise DistributaryError("margin and rest are at least 0, and smoothing is above 0 and at most 1")


class Adaptation(Generic[Conditions, Found]):
    """Keeps a plan good while measurements of its conditions come in."""

    def __init__(self, goal: Goal, patience: Patience | None) -> None:
        self.goal = goal
        self.patience = patience or Patience()
        self.believed: Conditions | None = None
        self._resting = 0

    def period(self, measured: Conditions) -> Found | None:
        """Take new measurements in; what was changed, or None."""
        if self.believed is not None:
            measured = self.smoothed(self.believed, measured)
        self.believed = measured
        if self._resting:
            self._resting -= 1
            return None
        found = self.improved(measured)
        if found is not None:
            self._resting = self.patience.rest
        return found

    def saves_enough(self, before: Number, after: Number) -> bool:
        """Whether a change of the cost is worth it."""
        return self.goal.sign * float(before - after) > self.patience.margin * abs(float(before))

    def smoothed(self, old: Conditions, new: Conditions) -> Conditions:
        """What to believe after a measurement."""
        raise NotImplementedError

    def improved(self, believed: Conditions) -> Found | None:
        """Change the plan where that is worth it under these conditions; what was changed, or None."""
        raise NotImplementedError


def nearer(old: Number, new: Number, share: float) -> float:
    """A value moved a share of the way to another."""
    return float(old) + share * (float(new) - float(old))
