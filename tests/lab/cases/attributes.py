"""Cases for the experiments on attribute subscriptions and on paths of rings."""

from __future__ import annotations

from math import log2

from distributary_lab.attributes.matching import match_formula, store_formula, update_formula
from distributary_lab.experiment import Row
from lab.disturbances import Case, Change, constant, made, reversed_by, scaled, swapped


def _store(row: Row) -> float:
    if row["nodes"] == 8:
        return 6 if row["placement"] == "Chord" else 4
    return store_formula(int(row["nodes"]), int(row["values"]), str(row["placement"]))


def _optimal(row: Row) -> float:
    return log2(int(row["nodes"])) / (2 if row["routing"] == "one way" else 3)


STORE: list[Change] = [made("hops", _store)]
UPDATE: list[Change] = [
    made("hops", lambda row: update_formula(int(row["nodes"]), int(row["changed"])), placement="Chord")
]
ASKED: list[Change] = [made("asked", lambda row: match_formula(int(row["nodes"]), int(row["attributes"])))]

CASES = {
    "004-store": Case(
        {
            "a hop more a route": made("hops", lambda row: 1.3 * _store(row), nodes=1024),
            "halved": scaled("hops", 0.5, placement="OPChord"),
            "the other's": swapped("placement", "Chord", "OPChord"),
            "another example": made("hops", 5, nodes=8, placement="Chord"),
        },
        holds=STORE,
    ),
    "004-update": Case(
        {
            "halved": scaled("hops", 0.5),
            "a fifth more": scaled("hops", 1.2),
            "ours": swapped("placement", "Chord", "arcs"),
            "constant": constant("hops"),
        },
        holds=UPDATE,
    ),
    "004-match": Case(
        {
            "halved at one end": scaled("asked", 0.5, nodes=1024),
            "backwards": reversed_by("attributes"),
            "constant": constant("asked"),
        },
        holds=ASKED,
    ),
    "004-lookup": Case(
        {
            "a hop more": made("to the owner", lambda row: log2(int(row["nodes"])) / 2 + 1),
            "constant": constant("to the owner"),
            "halved": scaled("to the owner", 0.5),
        },
        holds=[made("to the owner", lambda row: log2(int(row["nodes"])) / 2 * 1.01)],
    ),
    "002-fig3": Case(
        {
            "one way's": swapped("routing", "one way", "both ways"),
            "more at one size": scaled("hops", 1.3, nodes=400, routing="both ways"),
        },
        holds=[made("hops", _optimal)],
    ),
    "beyond-narrowest-list": Case(
        {
            "counting's": swapped("matching", "narrowest", "counting, both ways"),
            "more at one size": scaled("store", 20, nodes=16, matching="narrowest"),
        }
    ),
    "beyond-small-domain": Case(
        {
            "OPChord's": swapped("placement", "OPChord", "arcs"),
            "constant": constant("hops"),
        }
    ),
    "beyond-balanced-order": Case(
        {
            "OPChord's": swapped("placement", "OPChord", "arcs"),
            "dearer": scaled("store", 20, placement="arcs"),
        }
    ),
}
