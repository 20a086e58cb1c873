"""How many examples a property is tried with: few in the ordinary tests, more in `make chaos`."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("DISTRIBUTARY_EXAMPLES", "1"))


def examples(count: int) -> int:
    """The number of examples, given that of the ordinary tests."""
    return TIMES * count
