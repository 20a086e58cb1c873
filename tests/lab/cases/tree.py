"""Cases for the experiments on chapter 4 of 003, trees."""

from __future__ import annotations

from distributary_lab.experiment import Row
from distributary_lab.tree import bottleneck, climbs
from distributary_lab.tree.latency import PAPER_REWRITES, SIZES
from distributary_lab.tree.redundancy import ALL_FIVE, WITHOUT_PROMOTION, WITHOUT_SWAP
from distributary_lab.tree.traffic import BOTTLENECK, CONSUMPTION, LATENCY, REDUNDANT
from lab.cases.changes import by
from lab.disturbances import Case, constant, exchanged, made, relabelled, reversed_by, scaled, swapped

LOCAL, DIRECTED, HYBRID = climbs.RULES
PAIRS = {"network": bottleneck.PAIRS}
RANDOM, BEST_EFFORT = bottleneck.STARTS
NO_SWAP = bottleneck.WITHOUT_SWAP
REWRITES = dict(zip(SIZES, PAPER_REWRITES, strict=True))


def _drawn(row: Row) -> float:
    """Shares of the optimum as Figures 4.11, 4.13, 4.14 and 4.16 have them."""
    if row["start"] == BEST_EFFORT:
        return {climbs.UNTOUCHED: 0.45, LOCAL: 0.78, NO_SWAP: 0.8}.get(str(row["method"]), 0.95)
    if row["method"] in (DIRECTED, HYBRID):
        return 1.0 if row["nodes"] == 10 else 0.6
    return {climbs.UNTOUCHED: 0.4, LOCAL: 0.52, NO_SWAP: 0.76}.get(str(row["method"]), 1.0)


DRAWN = [made("share", _drawn)]
ELSEWHERE = swapped("network", bottleneck.PAIRS, bottleneck.CLASSES)
ANNEALED = [
    by(
        "method",
        "share",
        {"climb, local": 0.81, "annealing, local": 0.9, "climb, hybrid": 1.0, "annealing, hybrid": 1.0},
    ),
    by(
        "method",
        "rewrites",
        {"climb, local": 4, "annealing, local": 9e3, "climb, hybrid": 10, "annealing, hybrid": 2e4},
    ),
]
UNITS = {
    "level 3": 0.6,
    "levels 3 and 4": 0.3,
    "levels 3, 4 and 5": 0.3,
    "level 4": 10.0,
    "levels 3 and 5": 0.5,
}


def _scope(row: Row) -> float:
    return 80 - int(row["nodes"]) if row["method"] == "level 5" else UNITS[str(row["method"])]


def _saved(row: Row) -> int:
    return 50 if row["method"] == "level 3" else 40


TRAFFIC = [
    by("metric", "upkeep", {LATENCY: 200, BOTTLENECK: 220, CONSUMPTION: 180, REDUNDANT: 0}),
    by("metric", "optimisation", {LATENCY: 2000, BOTTLENECK: 300, CONSUMPTION: 1000, REDUNDANT: 900}),
]
EXACT, APPROXIMATE = {"broadcast_period": 0}, {"broadcast_period": 1}

CASES = {
    "003-fig4.7": Case(
        {
            "no climb": made("latency", lambda row: 2 * float(row["star"])),
            "the star's no less than the start": exchanged("latency", "star"),
        },
        holds=[made("latency", lambda row: float(row["star"]) * (3 if row["period"] == 0 else 1))],
    ),
    "003-fig4.8": Case(
        {
            "further off at one size": made("above", 15.0, nodes=40, method=HYBRID),
            "the start's": swapped("method", HYBRID, climbs.UNTOUCHED),
        }
    ),
    "003-tab4.7": Case(
        {
            "halved": scaled("rewrites", 0.5),
            "constant": made("rewrites", 25.0),
            "backwards": reversed_by("nodes"),
        },
        holds=[made("rewrites", lambda row: REWRITES[int(row["nodes"])])],
    ),
    "003-fig4.20": Case(
        {
            "not optimal when small": made("above", 8.0, nodes=20, method=HYBRID),
            "further off": made("above", 25.0, nodes=100, method=HYBRID),
            "directed not worst": swapped("method", DIRECTED, LOCAL),
            "directed's": swapped("method", DIRECTED, HYBRID),
        },
        holds=[
            made("above", lambda row: {LOCAL: 10.0, DIRECTED: 20.0, HYBRID: 0.5}.get(str(row["method"]), 0.0))
        ],
    ),
    "003-fig4.21": Case(
        {
            "many more": scaled("rewrites", 2, method=HYBRID),
            "no more": scaled("rewrites", 0.5, method=HYBRID),
            "no nearer": made("above", 30.0, method=HYBRID),
        },
        holds=[
            by("method", "rewrites", {LOCAL: 20, DIRECTED: 10, HYBRID: 25}),
            by("method", "above", {LOCAL: 10.0, DIRECTED: 20.0, HYBRID: 1.0}),
        ],
    ),
    "beyond-tree-maximum-latency": Case(
        {
            "further off in a run": made("share", 1.2, nodes=20, method=climbs.OURS),
            "more connections": scaled("connections", 10, method=climbs.OURS),
        }
    ),
    "003-fig4.22": Case(
        {
            "annealing's": swapped("method", LOCAL, "annealing, local"),
            "not optimal": made("above", 5.0, method=HYBRID),
            "constant": constant("above"),
        },
        holds=[
            by(
                "method",
                "above",
                {LOCAL: 5.0, "annealing, local": 9.0, HYBRID: 1.0, "annealing, hybrid": 8.0},
            )
        ],
    ),
    "003-fig4.24": Case(
        {
            "further off at one size": made("above", 3.0, nodes=20, method="level 3"),
            "no gain": swapped("method", "level 3", "levels 3 and 4"),
            "constant": constant("above"),
        },
        holds=[made("above", _scope)],
    ),
    "003-fig4.25": Case(
        {
            "no fewer": made("rewrites", 50),
            "many fewer": scaled("rewrites", 0.5, method="levels 3 and 4"),
            "the other's": swapped("method", "level 3", "levels 3 and 4"),
        },
        holds=[made("rewrites", _saved)],
    ),
    "003-fig4.26": Case(
        {
            "level 5 better": made("above", 15.0, method="level 5"),
            "level 4 much worse": made("above", 18.0, method="level 4"),
            "better when small": reversed_by("nodes"),
        },
        holds=[made("above", _scope)],
    ),
    "003-fig4.27": Case(
        {
            "without the small rules": swapped("method", "levels 3 and 4", "level 5"),
            "off at one size": made("above", 15.0, nodes=20, method="levels 3 and 5"),
        },
        holds=[made("above", _scope)],
    ),
    "003-fig4.23": Case(
        {
            "behind the tree without load": scaled("tree", 0.1, phase="idle"),
            "the star ahead under load": scaled("star", 0.1, phase="load"),
            "the star behind when idle": scaled("star", 100, phase="idle"),
        },
        holds=[
            made("tree", lambda row: {"idle": 8.0, "load": 20.0}.get(str(row["phase"]), 6.0)),
            made("star", lambda row: 5.0 if row["phase"] == "idle" else 40.0),
        ],
    ),
    "beyond-tree-drift": Case(
        {
            "the eager's": swapped("method", "patient", "eager"),
            "worse than nothing": made("above", 100.0, method="patient"),
        },
        holds=[
            by("method", "back", {"patient": 0, "eager": 5, "still": 0}),
            by("method", "above", {"patient": 2.0, "eager": 3.0, "still": 9.0}),
        ],
    ),
    "003-fig4.11": Case(
        {
            "local rules gain much": made("share", 0.9, start=RANDOM, method=LOCAL),
            "optimal beyond": made("share", 1.0, nodes=70, method=HYBRID),
            "not optimal when small": made("share", 0.9, nodes=10, method=HYBRID),
            "another network's": made("share", 0.5, **PAIRS),
        },
        holds=DRAWN,
    ),
    "003-fig4.12": Case(
        {
            "backwards": reversed_by("nodes"),
            "constant": constant("rewrites"),
            "another network's": made("rewrites", 5, **PAIRS),
        },
        holds=[by("nodes", "rewrites", {10: 12, 70: 4})],
    ),
    "003-fig4.13": Case(
        {
            "without it for with it": swapped("method", NO_SWAP, HYBRID),
            "all gained": made("share", 0.2, method=NO_SWAP),
        },
        holds=DRAWN,
    ),
    "003-fig4.14": Case(
        {
            "random's": swapped("start", RANDOM, BEST_EFFORT),
            "random as good": made("share", 0.97, start=RANDOM),
            "one size off": made("share", 0.9, start=BEST_EFFORT, nodes=10),
        },
        holds=DRAWN,
    ),
    "003-fig4.15": Case(
        {
            "random's": swapped("start", RANDOM, BEST_EFFORT),
            "many more": scaled("rewrites", 3, start=BEST_EFFORT),
            "constant": constant("rewrites"),
        },
        holds=[by("start", "rewrites", {RANDOM: 10, BEST_EFFORT: 14})],
    ),
    "003-fig4.16": Case(
        {
            "a better start": made("share", 0.9, method=climbs.UNTOUCHED),
            "local rules' as good": made("share", 0.98, method=LOCAL),
            "hybrid off": made("share", 0.85, method=HYBRID),
        },
        holds=DRAWN,
    ),
    "003-fig4.17": Case(
        {"more at one size": made("rewrites", 30, nodes=70, method=HYBRID)}, holds=[made("rewrites", 12)]
    ),
    "beyond-tree-bottleneck": Case(
        {
            "the climb's": swapped("method", HYBRID, climbs.OURS),
            "more connections": scaled("connections", 100, method=climbs.OURS),
        },
        holds=[
            made("share", 1.0, method=climbs.OURS),
            made("share", lambda row: 1.0 if row["nodes"] == 10 else 0.7, method=HYBRID),
            made("connections", 5, method=climbs.OURS),
            made("connections", 9, method=HYBRID),
        ],
    ),
    "003-fig4.19": Case(
        {
            "backwards": relabelled("fanout", {"2": "none", "none": "2"}),
            "constant": constant("periods"),
            "another network's": made("periods", 3, **PAIRS),
        },
        holds=[
            by("fanout", "periods", {"2": 2, "6": 3, "10": 4, "none": 6}),
            by("fanout", "bottleneck", {"2": 2, "6": 3, "10": 4, "none": 6}),
        ],
    ),
    "003-fig4.18": Case(
        {
            "both optimal": made("share", 1.0),
            "annealing's": swapped("method", "climb, local", "annealing, local"),
            "not optimal": made("share", 0.9, method="climb, hybrid", **PAIRS),
        },
        holds=ANNEALED,
    ),
    "003-tab4.9": Case(
        {
            "a tenth": scaled("rewrites", 0.01, method="annealing, local"),
            "too many": made("rewrites", 90, method="climb, hybrid"),
            "annealing's": swapped("method", "climb, local", "annealing, local"),
        },
        holds=ANNEALED,
    ),
    "003-tab4.8": Case(
        {
            "backwards": relabelled("fanout", {"2": "none", "none": "2"}),
            "not optimal": scaled("cost", 1.1, fanout="none"),
            "redundant in the end": made("cost", 1.0, fanout="none", metric="redundant incoming data"),
            "constant": constant("cost"),
        },
        holds=[
            by("fanout", "cost", {"2": 40.0, "6": 30.0, "10": 20.0, "none": 10.0}),
            made("cost", 0.0, fanout="none", metric="redundant incoming data"),
            made("unlimited", 10.0),
        ],
    ),
    "003-fig4.9": Case(
        {
            "not to zero": made("final", 1.0, rules=ALL_FIVE),
            "to zero without": made("final", 0.0, rules=WITHOUT_PROMOTION),
            "many rewrites": made("rewrites", 40, rules=ALL_FIVE),
            "the other's": swapped("rules", ALL_FIVE, WITHOUT_SWAP),
        },
        holds=[
            by("rules", "final", {ALL_FIVE: 0.0, WITHOUT_PROMOTION: 5.0, WITHOUT_SWAP: 9.0}),
            made("start", 20.0),
            made("rewrites", 11),
        ],
    ),
    "003-fig4.10": Case(
        {
            "not optimal": scaled("final", 1.1, limit="none"),
            "backwards": swapped("limit", "200 ms", "300 ms"),
            "constant": made("final", 1.0),
        },
        holds=[by("limit", "final", {"none": 1.0, "300 ms": 1.5, "200 ms": 2.0})],
    ),
    "003-fig4.28": Case(
        {
            "unlike upkeep": scaled("upkeep", 5, metric=BOTTLENECK),
            "upkeep for redundant data": made("upkeep", 100, metric=REDUNDANT),
            "the bottleneck's no less": scaled("optimisation", 6, metric=BOTTLENECK),
            "more for data rates": scaled("optimisation", 3, metric=CONSUMPTION),
        },
        holds=TRAFFIC,
    ),
    "003-fig4.29": Case(
        {"half saved": scaled("bytes", 10, **APPROXIMATE), "constant": constant("bytes")},
        holds=[made("bytes", 2000.0, **EXACT), made("bytes", 60.0, **APPROXIMATE)],
    ),
    "003-fig4.30": Case(
        {"dearer": scaled("cost", 1.2, **APPROXIMATE)},
        holds=[made("cost", 100.0, **EXACT), made("cost", 107.0, **APPROXIMATE)],
    ),
    "003-fig4.31": Case(
        {"twice as many": scaled("rewrites_to_best", 2, **APPROXIMATE)},
        holds=[made("rewrites_to_best", 15, **EXACT), made("rewrites_to_best", 20, **APPROXIMATE)],
    ),
}
