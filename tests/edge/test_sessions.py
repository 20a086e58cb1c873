"""Sessions through crashes of clients and of the node, against what is promised (`session_world`)."""

from __future__ import annotations

import os

import pytest

from edge.session_world import SessionWorld
from properties.examples import examples
from replay import many_seeds, replayed_by

AGAIN = "DISTRIBUTARY_SESSION_SEED={} .venv/bin/pytest -q -n 0 tests/edge/test_sessions.py -k one_seed"


def ran(seed: int, crashes: bool) -> SessionWorld:
    with replayed_by(AGAIN.format(f"{seed}{'' if crashes else 'calm'}")):
        return SessionWorld(seed, crashes).run()


def test_nothing_is_lost_or_given_twice_and_every_gap_is_told() -> None:
    runs = [ran(seed, True) for seed in range(examples(150))]
    assert sum(world.node_crashes for world in runs) > len(runs)
    assert sum(client.told for world in runs for client in world.clients) > len(runs)
    assert sum(client.unknown for world in runs for client in world.clients) > len(runs) // 20
    assert sum(client.told_again for world in runs for client in world.clients) > 0


def test_without_crashes_every_gap_is_told_exactly() -> None:
    runs = [ran(seed, False) for seed in range(examples(75))]
    assert sum(client.told for world in runs for client in world.clients) > len(runs)


@pytest.mark.chaos
def test_thousands_of_runs() -> None:
    for seed in many_seeds(1_000_000, 20_000):
        ran(seed, bool(seed % 4))


@pytest.mark.skipif("DISTRIBUTARY_SESSION_SEED" not in os.environ, reason="repeats a run that failed")
def test_one_seed() -> None:
    seed = os.environ["DISTRIBUTARY_SESSION_SEED"]
    ran(int(seed.removesuffix("calm")), not seed.endswith("calm"))
