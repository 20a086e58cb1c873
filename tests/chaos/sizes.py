"""How much `make chaos` runs: all that is quick, and as many cases of the rest as fit into half an hour.

Which cases those are is drawn by DISTRIBUTARY_SEED, so that another seed runs others. Of each kind of case,
such as a system or a kind of fault, as many are drawn as of any other. `make chaos TIMES=4`
(DISTRIBUTARY_CHAOS_TIMES) runs four times as many of them, `make chaos FULL=1` (DISTRIBUTARY_CHAOS_FULL) all,
which takes hours.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from random import Random

import pytest

TIMES = int(os.environ.get("DISTRIBUTARY_CHAOS_TIMES") or 1)
MOST = {
    "tests/chaos/test_live_network.py": 5,
    "tests/engines/": 1,
    "tests/spark/": 1,
    "tests/test_bench.py": 1,
    "tests/damage/": 15,
    "tests/overlay/": 40,
    "tests/properties/": 5,
    "tests/sim/trials/test_many_trials.py": 48,
    "tests/sim/trials/test_promise.py": 20,
    "tests/sim/trials/test_query_trial.py": 10,
    "tests/systems/queries/": 2,
    "tests/systems/tree/": 4,
    "tests/systems/": 12,
}
"""The most cases of a test in a file whose path begins so; the first that fits counts. Of others all run."""


def most_of(path: str) -> int | None:
    """How many cases of a test in a file are run; None for all."""
    return next((count for start, count in MOST.items() if path.startswith(start)), None)


def chosen(items: Iterable[pytest.Item], seed: str) -> list[pytest.Item]:
    """The cases that are run, in their order."""
    if os.environ.get("DISTRIBUTARY_CHAOS_FULL"):
        return list(items)
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item.nodeid)
    kept: set[str] = set()
    for test, found in cases.items():
        most = most_of(test)
        kept.update(found if most is None else _drawn(found, TIMES * most, Random(f"{seed}/{test}")))
    return [item for item in items if item.nodeid in kept]


def _drawn(found: list[str], most: int, random: Random) -> list[str]:
    """So many of the cases of a test: of each kind, which is what is left without numbers, one in turn."""
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in random.sample(found, len(found)):
        kinds[re.sub(r"\d+", "", nodeid)].append(nodeid)
    turns = [(turn, kind) for kind, those in kinds.items() for turn in range(len(those))]
    return [kinds[kind][turn] for turn, kind in sorted(turns, key=lambda each: each[0])[:most]]
