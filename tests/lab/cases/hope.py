"""Cases for the experiments on chapters 4 and 5 of 001."""

from __future__ import annotations

from math import log2

from distributary_lab.experiment import Row
from lab.disturbances import Case, constant, exchanged, made, relabelled, reversed_by, scaled, swapped

LARGE = relabelled("nodes", {16: 256, 64: 1024, 256: 4096})
"""The sizes of the quick grid as the largest of the full one."""
SHORT_LONG = swapped("length", 0, 1024)


def _requests(row: Row) -> float:
    """As the thesis draws Figure 4.17."""
    height = {256: 5.0, 1024: 10.0, 4096: 9.0}[int(row["nodes"])]
    return height * {0: 1.0, 128: 0.2, 1024: 0.02}[int(row["length"])]


def _traffic(row: Row) -> float:
    return {256: 6e3, 1024: 8.5e3, 4096: 9e3}[int(row["nodes"])]


def _link_traffic(row: Row) -> float:
    return {16: 100.0, 64: 300.0, 256: 500.0}[int(row["nodes"])] / (1 + int(row["length"]))


def _ratio(row: Row) -> float:
    """As Figure 5.5 has it."""
    lost = {0.0: 0.0, 0.25: 0.5, 0.5: 0.9}[float(row["probability"])]
    return 1 - (lost if row["copies"] == 1 else 0.2 * (row["probability"] == 0.5))


SIXTY_FOUR = made("nodes", 4096)

CASES = {
    "001-fig4.12": Case(
        {
            "halved at one length": scaled("sent", 0.5, length=128),
            "constant": constant("sent"),
            "quadratic": made("sent", lambda row: int(row["nodes"]) ** 2),
        }
    ),
    "001-fig4.16": Case(
        {"more at one length": scaled("subscription_requests", 1.5, length=1024)},
        holds=[made("subscription_requests", lambda row: float(row["nodes"]))],
    ),
    "001-fig4.13": Case(
        {
            "quadratic": made("received", lambda row: int(row["nodes"]) ** 2 / (1 + int(row["length"]))),
            "constant": constant("received"),
            "another length's": SHORT_LONG,
        },
        holds=[made("received", lambda row: int(row["nodes"]) / (1 + int(row["length"])))],
    ),
    "001-fig4.14": Case(
        {
            "another length's": SHORT_LONG,
            "halved without filters": scaled("coverage", 0.13, length=0),
            "constant": constant("coverage"),
        }
    ),
    "001-fig4.15": Case(
        {
            "doubled": scaled("coverage_most", 2, nodes=4096),
            "the same at all lengths": made("coverage_most", 150),
        },
        holds=[LARGE, made("coverage_most", lambda row: 200 if row["length"] == 0 else 50)],
    ),
    "001-fig4.17": Case(
        {
            "no saving": scaled("publication_requests", 5, length=1024),
            "rises to the end": made("publication_requests", lambda row: float(row["nodes"]), length=0),
            "backwards": reversed_by("nodes"),
        },
        holds=[LARGE, made("publication_requests", _requests)],
    ),
    "001-fig4.19": Case(
        {
            "halved before": scaled("traffic", 0.5, nodes=1024),
            "doubled": scaled("traffic", 2),
        },
        holds=[LARGE, made("traffic", _traffic)],
    ),
    "001-fig4.20": Case(
        {"grows on": scaled("traffic", 2, nodes=4096), "halved": scaled("traffic", 0.5)},
        holds=[LARGE, made("traffic", _traffic)],
    ),
    "001-fig4.23": Case(
        {
            "doubled at the most": scaled("multicast", 4, nodes=256),
            "backwards": reversed_by("nodes"),
            "constant": constant("multicast"),
        }
    ),
    "001-fig4.24": Case(
        {"halved": scaled("multicast", 0.5, length=0), "another length's": SHORT_LONG},
        holds=[made("multicast", lambda row: 150.0 if row["length"] == 0 else 1.0)],
    ),
    "001-fig4.25": Case(
        {
            "another length's": SHORT_LONG,
            "more at one size": made("false_relative", 0.2, nodes=64, length=128),
            "constant": constant("false_relative"),
        }
    ),
    "001-fig5.2": Case(
        {
            "exponential": made("link_traffic", lambda row: int(row["nodes"]) / (1 + int(row["length"]))),
            "the same at all lengths": made("link_traffic", lambda row: log2(int(row["nodes"]))),
        },
        holds=[made("link_traffic", _link_traffic)],
    ),
    "001-fig5.4": Case(
        {
            "another length's": SHORT_LONG,
            "constant": constant("received"),
            "halved without filters": scaled("received", 0.05, length=0, nodes=16),
        }
    ),
    "beyond-hope-aggregate": Case(
        {"none lost": made("lost_by_or", 0.0), "AND's for sets": exchanged("multicast", "multicast_set")}
    ),
    "001-fig4.7": Case(
        {
            "constant": constant("stress"),
            "backwards": reversed_by("nodes"),
            "another saturation's": swapped("saturation", 0.2, 0.75),
        },
        holds=[made("stress", lambda row: int(row["nodes"]) ** 0.3 + float(row["saturation"]))],
    ),
    "001-fig4.8": Case(
        {
            "halved at one end": scaled("stretch", 0.5, nodes=16),
            "not Chord's": scaled("stretch", 1.3),
        },
        holds=[made("stretch", 2.0), made("stretch_chord", 2.1)],
    ),
    "001-fig4.9": Case(
        {
            "not Scribe's": made("gain_scribe", 0.2),
            "constant": constant("gain"),
            "backwards": reversed_by("nodes"),
        },
        holds=[
            made("gain", lambda row: 1 / int(row["nodes"])),
            made("gain_scribe", lambda row: 1 / int(row["nodes"])),
        ],
    ),
    "001-fig4.10": Case(
        {
            "above flooding": scaled("traffic", 10, saturation=0.6),
            "constant": constant("traffic"),
            "backwards": reversed_by("saturation"),
        }
    ),
    "001-fig4.11": Case(
        {
            "halved": scaled("busiest_link_without", 0.5),
            "with for without": exchanged("busiest_link", "busiest_link_without"),
        },
        holds=[made("busiest_link_without", lambda row: 150 * float(row["busiest_link"]))],
    ),
    "001-fig4.18": Case(
        {"ten times": scaled("hypercube", 10), "the ring's": exchanged("hypercube", "ring")},
        holds=[made("ring", 10.0), made("hypercube", 1.0)],
    ),
    "001-fig4.21": Case(
        {
            "too much": scaled("ring_in", 10),
            "by length": scaled("ring_in", 1.5, length=1024),
            "backwards": reversed_by("nodes"),
            "constant": constant("ring_in"),
        },
        holds=[made("ring_in", lambda row: log2(int(row["nodes"])))],
    ),
    "001-fig4.22": Case(
        {
            "too much": scaled("ring_out", 10),
            "by length": scaled("ring_out", 1.5, length=1024),
            "backwards": reversed_by("nodes"),
        },
        holds=[made("ring_out", lambda row: log2(int(row["nodes"])))],
    ),
    "001-fig5.3": Case(
        {
            "too much": scaled("replication", 40),
            "backwards": reversed_by("copies"),
            "constant": constant("replication"),
        },
        holds=[relabelled("nodes", {16: 4096}), made("replication", lambda row: 100.0 * int(row["copies"]))],
    ),
    "001-fig5.5": Case(
        {
            "a little lost at a quarter": made("delivery_ratio", 0.95, probability=0.25, copies=8),
            "nothing lost": made("delivery_ratio", 1.0),
            "one copy's": swapped("copies", 1, 8),
        },
        holds=[SIXTY_FOUR, made("delivery_ratio", _ratio)],
    ),
    "beyond-hope-equation": Case(
        {
            "less than predicted": scaled("any_lost", 0.5),
            "as many lists as losses": made("share_lost", 0.2),
        }
    ),
    "beyond-hope-facets": Case({"constant": constant("busiest"), "another's": swapped("facets", 1, 4)}),
    "beyond-hope-dimension": Case(
        {
            "cheaper": scaled("publish", 0.5, more_bits=2),
            "relieved": scaled("busiest", 0.5, more_bits=2),
        }
    ),
}
