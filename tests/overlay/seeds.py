"""Which seeds a test of the ring runs: a few in the ordinary tests, thousands in `make chaos`.

The first seed of the thousands is DISTRIBUTARY_SEED, so that every run of `make chaos` can have its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

CHAOS = 20
"""How many times as many seeds chaos runs."""


def seeds(count: int) -> Callable[[Any], Any]:
    """Run a test for so many seeds, and under chaos for many more."""
    first = 1000 * int(os.environ.get("DISTRIBUTARY_SEED", "1"))
    often = [pytest.param(first + number, marks=pytest.mark.chaos) for number in range(CHAOS * count)]
    return pytest.mark.parametrize("seed", [*range(count), *often])
