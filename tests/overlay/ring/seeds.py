"""Which seeds a test of the ring runs: a few in the ordinary tests, thousands in `make chaos`.

DISTRIBUTARY_SEED chooses which thousands, so that every run of `make chaos` can have its own. A failure tells
the command that runs it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from replay import chaos_seeds, replayed_by

CHAOS = 40
"""How many times as many seeds chaos runs."""


def seeds(count: int) -> Callable[[Any], Any]:
    """Run a test for so many seeds, and under chaos for many more."""
    chosen = os.environ.get("DISTRIBUTARY_SEED", "1")
    first = 10_000 * int(chosen)
    often = chaos_seeds(first, CHAOS * count)

    def decorate(test: Callable[..., None]) -> Any:
        @wraps(test)
        def told(seed: int, **others: Any) -> None:
            marker = f"DISTRIBUTARY_SEED={chosen} pytest -m chaos" if seed >= first else "pytest"
            with replayed_by(f"{marker} tests/overlay -k '{test.__name__} and {seed}'"):
                test(seed=seed, **others)

        return pytest.mark.parametrize("seed", [*range(count), *often])(told)

    return decorate
