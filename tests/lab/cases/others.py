"""Cases for the experiments on 000, on chapter 3 of 001, on 002, and on all systems."""

from __future__ import annotations

from math import log2

from distributary_lab.experiment import Row
from distributary_lab.xml.false_positives import estimate_formula
from lab.cases.changes import by
from lab.disturbances import Case, constant, exchanged, made, relabelled, reversed_by, scaled, swapped

ORDER = {"tree": 10.0, "hash": 14.0, "regex": 5000.0, "shapes": 1.0}
FLUX = {"tree": 9.0, "hash": 1.3, "regex": 1.0, "shapes": 5.0}


def _delay(row: Row) -> float:
    return 15.0 if row["bytes"] == 1_000_000 else 0.8


def _estimate(row: Row) -> float:
    return estimate_formula(int(row["length"]), int(row["hashes"]), float(row["pairs"])) / 2


TREE = relabelled("subscriptions", {2_000: 100_000})
MILLION = relabelled("nodes", {800: 1_000_000})
BY_HASHES = {"sweep": "hashes"}


def _by_size(row: Row) -> float:
    saved = 1.0 if row["system"] == "sf" else 0.7
    return saved * (10 + 2 * log2(int(row["nodes"])))


CASES = {
    "000-fig4": Case(
        {
            "slow when small": made("mean_ms", 2.0, bytes=10_000),
            "slow when large": made("mean_ms", 50.0, bytes=1_000_000),
            "constant": made("mean_ms", 0.9),
            "backwards": reversed_by("bytes"),
        },
        holds=[made("mean_ms", _delay)],
    ),
    "000-fig5": Case(
        {
            "hash's": swapped("algorithm", "tree", "hash"),
            "hash far behind": scaled("match", 3, algorithm="hash"),
            "regex not far behind": made("match", 100.0, algorithm="regex"),
        },
        holds=[by("algorithm", "match", ORDER)],
    ),
    "000-fig6": Case(
        {
            "halved": scaled("nodes", 0.5),
            "other edges": scaled("edges", 1.1),
        },
        holds=[
            TREE,
            made("nodes", 798_188),
            made("edges", 898_187),
            made("entries", 100_000),
        ],
    ),
    "000-fig7": Case(
        {
            "cheap tree": made("add", 0.5, algorithm="tree"),
            "hash far behind": scaled("add", 3, algorithm="hash"),
        },
        holds=[by("algorithm", "add", FLUX)],
    ),
    "000-fig8": Case(
        {"tree's": swapped("algorithm", "tree", "hash"), "constant": constant("remove")},
        holds=[by("algorithm", "remove", FLUX)],
    ),
    "beyond-topic-memory": Case(
        {"the tree's": swapped("algorithm", "tree", "shapes"), "constant": constant("memory")},
        holds=[by("algorithm", "memory", {"tree": 900.0, "hash": 300.0, "regex": 400.0, "shapes": 50.0})],
    ),
    "beyond-topic-match": Case(
        {"the tree's": swapped("algorithm", "tree", "shapes"), "constant": constant("match")},
        holds=[by("algorithm", "match", ORDER)],
    ),
    "001-fig3.8": Case(
        {
            "far ahead without parsing": scaled("automaton", 5),
            "a third": scaled("automaton_parsing", 0.3),
            "parsing's": exchanged("automaton", "automaton_parsing"),
        },
        holds=[made("signatures", 10.0), made("automaton", 15.0), made("automaton_parsing", 900.0)],
    ),
    "001-fig3.9": Case(
        {
            "the automaton's": exchanged("signatures", "automaton"),
            "backwards": reversed_by("depth"),
            "constant": constant("automaton"),
        },
        holds=[
            made("signatures", 10.0),
            made("automaton", lambda row: 10.0 * int(row["depth"]), sweep="depth"),
        ],
    ),
    "beyond-xml-exact": Case(
        {"the automaton's": exchanged("automaton", "exact")},
        holds=[made("automaton", 90.0), made("exact", 9.0), made("signatures", 20.0)],
    ),
    "001-fig3.10": Case(
        {"twice as long": scaled("comparison", 2, length=1024), "constant": constant("comparison")},
        holds=[made("comparison", lambda row: 24 + int(row["length"]) / 128)],
    ),
    "001-fig3.11": Case(
        {"half as long at one end": scaled("comparison", 0.5, hashes=16)}, holds=[made("comparison", 0.2)]
    ),
    "001-fig3.12": Case(
        {"half as long at one end": scaled("preprocessing", 0.5, length=1024)},
        holds=[made("preprocessing", 90.0)],
    ),
    "001-fig3.13": Case(
        {
            "constant": constant("preprocessing"),
            "backwards": reversed_by("hashes"),
            "all at the end": made("preprocessing", lambda row: 900.0 if row["hashes"] == 16 else 10.0),
        },
        holds=[made("preprocessing", lambda row: 100.0 + 30 * int(row["hashes"]))],
    ),
    "001-fig3.14": Case(
        {
            "twice as much": scaled("kilobytes", 2),
            "backwards": reversed_by("rate"),
            "above the target": made("measured", 0.9),
            "constant": made("kilobytes", 150.0),
        },
        holds=[made("kilobytes", lambda row: 37.5 / float(row["rate"])), made("measured", 0.01)],
    ),
    "001-fig3.15": Case(
        {
            "backwards": reversed_by("types"),
            "constant": constant("conserved"),
            "other rates'": swapped("rate", 0.25, 0.75),
        },
        holds=[made("conserved", lambda row: float(row["rate"]) - int(row["types"]) / 20)],
    ),
    "001-fig3.16": Case(
        {
            "above the estimate": made("rate", lambda row: min(1.0, 2.2 * _estimate(row)), sweep="length"),
            "backwards": made("rate", lambda row: int(row["length"]) / 1e5, sweep="length"),
            "constant": constant("rate", sweep="length"),
        },
        holds=[made("rate", _estimate, sweep="length")],
    ),
    "001-fig3.17": Case(
        {
            "backwards": made("rate", lambda row: 1 / int(row["hashes"]), **BY_HASHES),
            "constant": constant("rate", **BY_HASHES),
        },
        holds=[made("rate", lambda row: 0.01 * int(row["hashes"]), **BY_HASHES)],
    ),
    "001-fig3.18": Case(
        {"halved at one end": made("rate", 0.01, sweep="filters", filters=900)},
        holds=[made("rate", 0.02, sweep="filters")],
    ),
    "001-fig3.19": Case(
        {
            "falls": made("rate", lambda row: 0.1 - int(row["depth"]) / 100, sweep="depth"),
            "steepens": made("rate", lambda row: int(row["depth"]) ** 2 / 1000, sweep="depth"),
            "too much": scaled("rate", 2, sweep="depth"),
        },
        holds=[made("rate", lambda row: 0.08 - 0.08 / (1 + int(row["depth"])), sweep="depth")],
    ),
    "002-fig9a": Case(
        {"halved for one": scaled("subscription", 0.5, distributions="Uni-Par", maximum=64)},
        holds=[made("subscription", 20.0)],
    ),
    "002-fig9b": Case(
        {
            "another's": swapped("distributions", "Par-Uni", "Uni-Par"),
            "SF's": swapped("system", "sf", "mfd"),
            "constant": constant("publication"),
        },
        holds=[
            by(
                "distributions",
                "publication",
                {"Par-Uni": 40.0, "Uni-Uni": 30.0, "Par-Par": 30.0, "Uni-Par": 20.0},
            ),
            scaled("publication", 0.7, system="mfd"),
        ],
    ),
    "002-fig9c": Case(
        {"halved for one": scaled("delay", 0.5, distributions="Par-Par", system="mfd")},
        holds=[made("delay", 9.0)],
    ),
    "002-fig10a": Case(
        {
            "SF's": swapped("system", "sf", "mfd"),
            "much more": scaled("subscription", 2, system="mfd"),
            "backwards": made("subscription", lambda row: 99 - _by_size(row)),
            "constant": constant("subscription"),
        },
        holds=[MILLION, made("subscription", _by_size), scaled("subscription", 2, system="mfd")],
    ),
    "002-fig10b": Case(
        {"a tenth worse at one size": scaled("delay", 1.1, system="mfd", nodes=400)},
        holds=[made("delay", 9.0)],
    ),
    "002-fig10c": Case(
        {
            "SF's": swapped("system", "sf", "mfd"),
            "hardly saves with short segments": scaled("publication", 1.4, system="mfd", span=4),
            "too much at a million": scaled("publication", 2, nodes=1_000_000),
            "constant": constant("publication", nodes=lambda nodes: nodes < 1_000_000),
        },
        holds=[MILLION, made("publication", _by_size)],
    ),
    "beyond-thresholds": Case(
        {"SF's": swapped("system", "sf", "thresholds"), "other deliveries": made("as_sf", False)},
        holds=[
            by("system", "publication", {"sf": 30.0, "mfd": 20.0, "thresholds": 10.0}),
            made("as_sf", True),
        ],
    ),
    "beyond-segment-lengths": Case(
        {"the common's": swapped("lengths", "common", "own"), "constant": constant("kept_ratio")},
        holds=[by("lengths", "kept_ratio", {"common": 9.0, "own": 4.0})],
    ),
    "beyond-side-by-side": Case(
        {"a wrong delivery": made("wrong", 1), "one dearer": scaled("messages", 100, system="central")},
        holds=[made("messages", lambda row: 9.0 if row["system"] == "flooding" else 3.0), made("wrong", 0)],
    ),
    "beyond-recovery": Case(
        {"not in time": made("recovery", 62.0), "late before": made("late before", 1)},
        holds=[made("recovery", 20.0), made("late before", 0)],
    ),
    "beyond-live-latency": Case(
        {
            "not as predicted": scaled("measured_ms", 1.2),
            "far from the shortest": scaled("best_ms", 0.5),
            "worse than at first": scaled("measured_ms", 1.09, tree="improved"),
        },
        holds=[made("measured_ms", 105.0), made("predicted_ms", 100.0), made("best_ms", 100.0)],
    ),
    "beyond-live-redundant-data": Case(
        {
            "halved": scaled("redundant", 0.5, tree="first"),
            "something left": made("redundant", 10.0, tree="improved"),
            "another tree's": swapped("tree", "first", "improved"),
            "nothing at first": made("redundant", 0.0),
            "an item lost": made("wrong", 1, tree="improved"),
        },
        holds=[made("redundant", lambda row: 1.05 * float(row["predicted"]))],
    ),
    "beyond-live-hope-upkeep": Case(
        {
            "halved": scaled("ring", 0.5, source="processes"),
            "not what links count": scaled("counted", 1.2, source="processes"),
            "longer filters' dearer": scaled("ring", 1.3, length=1024),
            "the hypercube's large": scaled("hypercube", 3),
        },
        holds=[
            made("ring", 110.0),
            made("hypercube", 10.0),
            made("all", 190.0),
            made("counted", 190.0, source="processes"),
        ],
    ),
    "beyond-live-query-bandwidth": Case(
        {
            "twice as much": scaled("bytes", 2, placed="improved"),
            "the first's": swapped("placed", "at their clients", "improved"),
            "constant": constant("bytes"),
            "an answer lost": made("wrong", 1, placed="improved"),
        },
        holds=[made("bytes", lambda row: 1.05 * float(row["answers"]), placed="improved")],
    ),
    "beyond-live-query-latency": Case(
        {
            "a fifth longer": scaled("latency", 1.2, placed="improved"),
            "halved": scaled("latency", 0.5, placed="improved"),
            "an answer lost": made("wrong", 1, placed="improved"),
        },
    ),
}
