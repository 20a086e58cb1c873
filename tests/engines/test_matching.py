"""The same subscriptions and events on every engine: hand-written cases, and random worlds by brute force.

To add a case, call `case` in `matching_cases`; to add an engine, write a function in `matching.ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engines.marks import engine
from engines.matching import ENGINES, Pairs
from engines.matching_cases import CASES, whole_world
from engines.sessions import Sessions
from spark.world import World, make_world

DAILY = (
    *("match", "match-batch", "frozen", "network-central", "network-flooding"),
    *("spark-index", "spark-rendezvous", "spark-stream"),
)
"""These run in the tests of every day, all others with `make chaos`."""

Found = Callable[[str], tuple[World, Pairs]]


@pytest.fixture(scope="session")
def found(sessions: Sessions, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What an engine finds in the whole world, which it matches once."""
    known: dict[str, tuple[World, Pairs]] = {}

    def run(engine: str) -> tuple[World, Pairs]:
        if engine not in known:
            world = whole_world()
            known[engine] = world, ENGINES[engine](world, tmp_path_factory.mktemp("matching"), sessions)
        return known[engine]

    return run


@pytest.mark.parametrize(
    ("engine", "case"), [engine(name, case, chaos=name not in DAILY) for name in ENGINES for case in CASES]
)
def test_a_case_has_the_matches_that_were_worked_out(found: Found, engine: str, case: str) -> None:
    _, pairs = found(engine)
    assert CASES[case].own(set(pairs)) == CASES[case].pairs()


@pytest.mark.parametrize("engine", [engine(name, chaos=name not in DAILY) for name in ENGINES])
def test_all_matches_are_those_of_brute_force_and_each_is_there_once(found: Found, engine: str) -> None:
    world, pairs = found(engine)
    assert sorted(pairs) == sorted(world.matches())


SEEDS = {"match": 6, "match-batch": 6, "frozen": 4, "network-central": 2, "network-flooding": 2}
"""How many more worlds engines match that take no time."""


@pytest.mark.parametrize(
    ("engine", "seed"),
    [
        *(engine(name, seed) for name, seeds in SEEDS.items() for seed in range(1, seeds + 1)),
        *(engine(name, 1, chaos=True) for name in ENGINES if name.startswith("spark")),
    ],
)
def test_random_worlds_match_as_brute_force_does(
    sessions: Sessions, tmp_path: Path, engine: str, seed: int
) -> None:
    world = make_world(seed)
    assert sorted(ENGINES[engine](world, tmp_path, sessions)) == sorted(world.matches())
