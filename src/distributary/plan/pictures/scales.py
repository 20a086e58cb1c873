"""What lines and places stand for, in round numbers: widths for rates, colours and distances for delays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from distributary.plan.amounts import amount, with_unit

WIDEST, NARROWEST = 8.0, 0.8
"""Pixels of a line."""

DELAY_STEPS = 4
"""Colours of lines."""


def round_below(value: float) -> float:
    """The greatest of 1, 2 and 5 times a power of ten that is not above a value; 0 of what is not above 0.

    >>> round_below(63.75), round_below(0.3), round_below(100), round_below(0)
    (50.0, 0.2, 100.0, 0.0)
    """
    if value <= 0 or not math.isfinite(value):
        return 0.0
    power = float(f"1e{math.floor(math.log10(value))}")
    return next((factor * power for factor in (5, 2) if factor * power <= value), power)


def ticks(most: float) -> list[float]:
    """Some five round numbers from 0 up to a value.

    >>> ticks(240)
    [0.0, 50.0, 100.0, 150.0, 200.0]
    """
    step = round_below(most / 4)
    return [step * number for number in range(int(most / step + 1e-9) + 1)] if step else []


@dataclass(frozen=True)
class RateScale:
    """How wide a line is for a rate: as its square root, so that small ones are seen."""

    most: float
    """The greatest rate drawn; 0 where no rate is known, and all lines are equally wide."""
    unit: str

    def width(self, rate: float) -> float:
        """Pixels.

        >>> RateScale(100, "B/s").width(25), RateScale(100, "B/s").width(0)
        (4.0, 0.8)
        """
        if self.most <= 0:
            return 1.2
        return max(NARROWEST, WIDEST * math.sqrt(max(rate, 0.0) / self.most))

    def samples(self) -> list[tuple[float, str]]:
        """Three round rates and what to write beside them; fewer where these look alike, none without."""
        rates = dict.fromkeys(round_below(self.most / part) for part in (1, 5, 25))
        return [(rate, with_unit(rate, self.unit)) for rate in rates if rate and self.width(rate) > NARROWEST]


@dataclass(frozen=True)
class DelayScale:
    """Which of a few colours a line has for a delay; each colour stands for a step of so much."""

    step: float
    unit: str

    @classmethod
    def over(cls, delays: Iterable[float], unit: str) -> DelayScale:
        """The scale of these delays: the last colour is for all beyond."""
        return cls(round_below(max(delays, default=0.0) / DELAY_STEPS), unit)

    def colour(self, delay: float) -> int:
        """The number of a colour.

        >>> scale = DelayScale.over([9, 255], "ms")
        >>> scale.step, [scale.colour(delay) for delay in (0, 50, 51, 255)]
        (50.0, [0, 0, 1, 3])
        """
        return min(max(math.ceil(delay / self.step) - 1, 0), DELAY_STEPS - 1) if self.step else 0

    def samples(self) -> list[str]:
        """What each colour stands for; nothing where there are no delays.

        >>> DelayScale(50, "ms").samples()
        ['up to 50 ms', '50 to 100 ms', '100 to 150 ms', 'above 150 ms']
        """
        if not self.step:
            return []
        bounds = [amount(self.step * number) for number in range(1, DELAY_STEPS)]
        between = (f"{low} to {high} {self.unit}" for low, high in pairwise(bounds))
        return [f"up to {bounds[0]} {self.unit}", *between, f"above {bounds[-1]} {self.unit}"]
