"""Cases for the experiments on chapter 5 of 003, placed queries."""

from __future__ import annotations

from distributary_lab.placement.setup import (
    CLIENT_STAR,
    CLIENT_TREE,
    DIRECTED_RULES,
    GLOBAL,
    HYBRID_RULES,
    LOCAL_RULES,
    SOURCE,
    TOGETHER,
)
from lab.cases.changes import by
from lab.disturbances import Case, constant, exchanged, made, relabelled, reversed_by, scaled, swapped

LOCAL_TOGETHER = LOCAL_RULES + TOGETHER
AS_DRAWN = {
    LOCAL_RULES: 10.0,
    LOCAL_TOGETHER: 10.0,
    GLOBAL: 10.0,
    SOURCE: 10.0,
    CLIENT_STAR: 30.0,
    CLIENT_TREE: 60.0,
}
RESPONSE = {HYBRID_RULES: 100.0, GLOBAL: 90.0, CLIENT_STAR: 250.0, SOURCE: 300.0, CLIENT_TREE: 400.0}
LAST = relabelled("nodes", {14: 150})

CASES = {
    "003-fig5.9": Case(
        {
            "a tenth more": scaled("cost", 1.1, method=LOCAL_RULES),
            "another's": swapped("method", LOCAL_RULES, CLIENT_STAR),
            "constant": constant("cost"),
        },
        holds=[by("method", "cost", AS_DRAWN)],
    ),
    "beyond-placement-together": Case(
        {
            "one by one": swapped("method", LOCAL_RULES, LOCAL_TOGETHER),
            "a tenth more": scaled("cost", 1.1, method=LOCAL_TOGETHER),
        }
    ),
    "003-fig5.13": Case(
        {
            "backwards": reversed_by("limit"),
            "constant": constant("end"),
            "a limit broken": made("broken", 1),
            "no better than the start": made("bandwidth", 0.0, period=0),
        },
        holds=[
            by("limit", "end", {5: 30.0, 10: 20.0, 100: 10.0}),
            made("bandwidth", 90.0),
            made("broken", 0),
        ],
    ),
    "003-fig5.22": Case(
        {"another's": swapped("method", "both", "migration"), "constant": constant("improvement")},
        holds=[by("method", "improvement", {"both": 30.0, "migration": 20.0, "replication": 25.0})],
    ),
    "003-fig5.10": Case(
        {"a fifth more": scaled("end", 1.2), "no better than the start": made("local", 1.0, period=0)},
        holds=[made("end", 100.0), made(GLOBAL, 95.0), made("local", 300.0)],
    ),
    "003-fig5.11": Case(
        {
            "GLOBAL far ahead": scaled("cost", 0.3, method=GLOBAL),
            "as the star": made("cost", 250.0, method=HYBRID_RULES),
            "saves half": scaled("cost", 0.5, method=CLIENT_TREE),
            "many moves": made("rewrites", 400, method=HYBRID_RULES),
        },
        holds=[LAST, by("method", "cost", RESPONSE), made("rewrites", 160, method=HYBRID_RULES)],
    ),
    "003-fig5.12": Case(
        {
            "the other's": swapped("method", LOCAL_RULES, HYBRID_RULES),
            "GLOBAL ahead": made(GLOBAL, 1.0),
            "a limit broken": made("broken", 99),
        },
        holds=[
            by("method", "cost", {LOCAL_RULES: 300.0, HYBRID_RULES: 100.0, GLOBAL: 200.0}),
            made(GLOBAL, 200.0),
            made("latency", 900.0),
            made("broken", 0),
        ],
    ),
    "003-fig5.14": Case(
        {
            "local gets there": made("cost", 10.0),
            "directed does not": scaled("cost", 1.1, method=DIRECTED_RULES),
            "the other's": swapped("method", LOCAL_RULES, DIRECTED_RULES),
        },
        holds=[made("OPTIMAL", 10.0), by("method", "cost", {LOCAL_RULES: 14.0, DIRECTED_RULES: 10.1})],
    ),
    "003-fig5.15": Case(
        {
            "a tenth more": scaled("cost", 1.1, nodes=14, method="client"),
            "GLOBAL as good": made("cost", 9.0, method=GLOBAL),
            "another's": swapped("method", "client", GLOBAL),
        },
        holds=[made("OPTIMAL", 10.0), by("method", "cost", {"client": 10.1, GLOBAL: 13.0})],
    ),
    "003-fig5.16": Case(
        {
            "the other's": swapped("method", "client", "root"),
            "little from greedy": scaled("improvement", 0.5, method="greedy"),
            "constant": constant("improvement"),
        },
        holds=[LAST, by("method", "improvement", {"root": 90.0, "client": 60.0, "greedy": 28.0})],
    ),
    "003-fig5.17": Case(
        {"further off with some": made("cost", 12.0, top=4)},
        holds=[made("OPTIMAL", 10.0), made("cost", 10.5)],
    ),
    "003-fig5.23": Case(
        {
            "another's": swapped("method", "both", "migration"),
            "constant": constant("cost"),
            "no better than partition": made("cost", 7.0, method="partition"),
        },
        holds=[by("method", "cost", {"both": 7.0, "migration": 9.0, "partition": 8.0})],
    ),
    "003-fig5.20": Case(
        {
            "half saved": scaled("statistics", 3, on="nodes", top=2),
            "grows with nodes": scaled("statistics", 0.5, on="nodes", top=2, nodes=4),
            "nothing saved": constant("statistics", on="nodes"),
            "the planner's": swapped("on", "nodes", "planner"),
            "a wrong answer": made("wrong", 1),
        },
        holds=[
            by("top", "statistics", {0: 1000.0, 2: 150.0, 3: 300.0, 4: 400.0, 8: 500.0}),
            made("wrong", 0),
        ],
    ),
    "003-fig5.21": Case(
        {
            "too much for one metric": made("bytes", 300.0, metric="bandwidth"),
            "too much asked": made("optimisation", 100.0, metric="latency"),
            "a wrong answer": made("wrong", 1),
        },
        holds=[made("bytes", 200.0), made("optimisation", 80.0), made("wrong", 0)],
    ),
    "003-fig5.18": Case(
        {"more with more queries": scaled("bytes", 1.5, queries=6), "a wrong answer": made("wrong", 1)},
        holds=[made("bytes", 100.0), made("wrong", 0)],
    ),
    "003-fig5.19": Case(
        {
            "statistics constant": constant("statistics"),
            "backwards": reversed_by("nodes"),
            "weighing grows": exchanged("statistics", "weighing and deciding"),
        },
        holds=[
            made("statistics", lambda row: 10.0 * int(row["nodes"])),
            made("weighing and deciding", 50.0),
            made("wrong", 0),
        ],
    ),
    "beyond-queries-live-upkeep": Case(
        {
            "told everything": swapped("told", "neighbourhood", "whole"),
            "a wrong answer": made("wrong", 1),
        },
        holds=[
            made("bytes", lambda row: 100.0 * (int(row["queries"]) if row["told"] == "whole" else 1)),
            made("wrong", 0),
        ],
    ),
    "beyond-queries-live-gain": Case(
        {
            "no goal's": swapped("goal", "none", "bandwidth"),
            "constant": constant("streams"),
            "a wrong answer": made("wrong", 1),
        },
        holds=[by("goal", "streams", {"none": 100.0, "bandwidth": 60.0}), made("wrong", 0)],
    ),
    "beyond-placement-joint": Case(
        {
            "queries' alone": swapped("method", "queries", "both"),
            "constant": constant("cost"),
            "a limit broken": made("broken", 99, method="both"),
        },
        holds=[
            by("method", "cost", {"both": 1.0, "queries": 2.0, "trees": 3.0, CLIENT_TREE: 4.0}),
            made("broken", 0),
        ],
    ),
    "beyond-placement-springs": Case(
        {"springs'": swapped("method", "springs", HYBRID_RULES), "constant": constant("share")},
    ),
    "beyond-placement-shedding": Case(
        {"alike": swapped("method", "all alike", "by worth"), "constant": constant("lost")},
    ),
}
