"""How quick links are made to be: read from squares of round trips, pairs of nodes, and models."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.cli.link_speeds import link_speeds
from distributary.errors import DistributaryError

NAMES = ["node-1", "node-2", "node-3"]


@pytest.mark.parametrize("places", ["node-1,node-3,node-2", "1,3,2"])
def test_a_square_of_round_trips_names_nodes_or_their_numbers(places: str, tmp_path: Path) -> None:
    names = places.split(",")
    rows = [",".join([name, *times]) for name, times in zip(names, ["055", "604", "820"], strict=True)]
    path = tmp_path / "times.csv"
    path.write_text("\n".join([f",{places}", *rows]))
    found = link_speeds(str(path), 1, "plant", NAMES)
    assert found["node-2"] == {"delays": {"node-1": 4.0, "node-3": 1.0}}
    assert found["node-3"] == {"delays": {"node-1": 3.0, "node-2": 2.0}}


def test_places_of_other_names_are_taken_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(",berlin,tokyo,lima,oslo\nberlin,0,2,4,6\ntokyo,2,0,8,9\nlima,4,8,0,3\noslo,6,9,3,0\n")
    assert link_speeds(str(path), 1, "plant", NAMES)["node-3"]["delays"] == {"node-1": 2.0, "node-2": 4.0}
    with pytest.raises(DistributaryError, match="has no place for node-5"):
        link_speeds(str(path), 1, "plant", [*NAMES, "node-4", "node-5"])


def test_pairs_hold_both_ways_unless_both_are_given(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"from": "node-1", "to": 2, "ms": 80, "mbit": 10}\n\n{"from": 2, "to": 3, "ms": 30}\n'
        '{"from": 3, "to": 2, "ms": 50}\n'
    )
    assert link_speeds(str(path), 1, "plant", NAMES) == {
        "node-1": {"delays": {"node-2": 40.0}, "bandwidths": {"node-2": 10.0}},
        "node-2": {"delays": {"node-1": 40.0, "node-3": 15.0}, "bandwidths": {"node-1": 10.0}},
        "node-3": {"delays": {"node-2": 25.0}, "bandwidths": {}},
    }


def test_a_model_gives_the_same_for_the_same_seed() -> None:
    first = link_speeds("wide-area", 7, "plant", NAMES)
    assert first == link_speeds("wide-area", 7, "plant", NAMES)
    assert first != link_speeds("wide-area", 8, "plant", NAMES)
    assert link_speeds("constant:0.02", 1, "plant", NAMES)["node-1"]["delays"]["node-2"] == 20.0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"from": 1, "to": 4}', r"pairs.jsonl:1: from and to are two of node-1 to node-3, .*not 1 and 4"),
        ('{"from": 1, "to": "node-1"}', "pairs.jsonl:1: from and to are two of"),
        ('{"from": 1}', "pairs.jsonl:1: Object missing required field `to`"),
        ('{"from": 1, "to": 2, "ms": -1}', "pairs.jsonl:1: Expected `float` >= 0.0"),
    ],
)
def test_what_is_no_pair_is_told_with_its_line(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(line)
    with pytest.raises(DistributaryError, match=reason):
        link_speeds(str(path), 1, "plant", NAMES)


@pytest.mark.parametrize("given", ["no.jsonl", "no.csv", "warp"])
def test_what_is_not_there_is_told(given: str) -> None:
    with pytest.raises(DistributaryError, match="no"):
        link_speeds(given, 1, "plant", NAMES)
