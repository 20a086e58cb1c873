"""How much `make chaos` runs: all that is quick, and as many cases of the rest as fit into half an hour.

Which cases those are is drawn by DISTRIBUTARY_SEED, so that another seed runs others; `make chaos FULL=1`
(DISTRIBUTARY_CHAOS_FULL) runs them all, which takes hours.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from random import Random

import pytest

MOST = {
    "tests/chaos/test_live_network.py": 5,
    "tests/engines/": 1,
    "tests/spark/": 1,
    "tests/test_bench.py": 1,
    "tests/damage/": 100,
    "tests/systems/queries/test_checkpoints.py": 1,
    "tests/systems/queries/test_registry_failover.py": 1,
    "tests/systems/queries/": 20,
    "tests/systems/tree/": 20,
    "tests/systems/": 100,
}
"""The most cases of a test in a file whose path begins so; the first that fits counts. Of others all run."""


def most_of(path: str) -> int | None:
    """How many cases of a test in a file are run; None for all."""
    return next((count for start, count in MOST.items() if path.startswith(start)), None)


def chosen(items: Iterable[pytest.Item], seed: str) -> list[pytest.Item]:
    """The cases that are run, in their order."""
    if os.environ.get("DISTRIBUTARY_CHAOS_FULL"):
        return list(items)
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept: set[str] = set()
    for test, found in cases.items():
        most = most_of(test)
        drawn = found if most is None or len(found) <= most else Random(f"{seed}/{test}").sample(found, most)
        kept.update(item.nodeid for item in drawn)
    return [item for item in items if item.nodeid in kept]
