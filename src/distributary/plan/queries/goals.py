"""Goals for placed queries: what they can measure and aggregate, reading them, and those known by a name.

    operator latency = aggregate(SUM, latency, UPSTREAM OPERATORS) + processing latency
    query latency = aggregate(SUM, operator latency, QUERY OPERATORS)
    minimise aggregate(AVERAGE, query latency, QUERIES)
    subject to node load <= 5

Written as goals for trees are (`plan.goal.text`), with the sets and statistics of the seed's Figure 5.4. A
constraint may compare two expressions, and the seed's way of writing it without `subject to` is read too.
`aggregate(FUNCTION, statistic)` without a set means the operators of a query under QUERIES, and those of a
site under BROKERS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import NODE_FUNCTIONS, Goal, GoalMembers, Measure, Place, Scope
from distributary.plan.goal.language import Language
from distributary.plan.goal.text import GoalReader


@dataclass(frozen=True)
class QueryStatistic(Measure):
    """What a goal may name, and what it means."""

    meaning: str


STATISTICS: Mapping[str, QueryStatistic] = {
    name: QueryStatistic(name, place, meaning)
    for place, meanings in {
        Place.LINK: {
            "latency": "milliseconds from one end of the link to the other",
            "bandwidth": "what the link can carry, in bytes a second",
        },
        Place.OPERATOR: {
            "load": "processor cycles a second: items that come in times their cost",
            "input rate": "bytes a second that come in",
            "produced rate": "bytes a second that come out",
            "output rate": "bytes a second that it sends to other sites: once to each",
            "selectivity": "items out for an item in",
            "processing latency": "milliseconds an item takes at the operator's host",
        },
        Place.NODE: {
            "node load": "the load of all operators there",
            "capacity": "processor cycles a second that the site has",
            "operators": "how many operators it hosts",
            "fanout": "links of trees on which it forwards anything",
            "incoming rate": "bytes a second that come in from other sites",
            "forwarding rate": "bytes a second that it forwards on trees",
            "node delay": "milliseconds an item takes there: its cost at every operator, and matching for "
            "every link",
        },
    }.items()
    for name, meaning in meanings.items()
}
"""What a goal may name; `operator` and `node` before a name may be said or left out."""

UNITS: Mapping[str, str] = {
    name: unit
    for unit, names in {
        "ms": ("latency", "processing latency", "node delay"),
        "B/s": (
            "bandwidth",
            "input rate",
            "produced rate",
            "output rate",
            "incoming rate",
            "forwarding rate",
        ),
        "cycles/s": ("load", "node load", "capacity"),
        "": ("selectivity", "operators", "fanout"),
    }.items()
    for name in names
}
"""What each of them is in."""

SETS: Mapping[str, Scope | GoalMembers] = {
    one.value: one
    for one in (
        Scope.UPSTREAM,
        Scope.DOWNSTREAM,
        Scope.LOCAL,
        Scope.QUERY,
        GoalMembers.BROKERS,
        GoalMembers.QUERIES,
    )
}

QUERY_GOALS = Language(
    for_queries=True,
    functions=NODE_FUNCTIONS,
    sets=SETS,
    measures=STATISTICS,
    noun="statistic",
    expected_set=f"expected one of {', '.join(SETS)}",
    expected_value="expected a cost of a node, a query or an operator here",
    expected_system_cost="expected aggregate(FUNCTION, cost, BROKERS or QUERIES) as the system's cost",
    spellings={
        "processing load": "load",
        "path latency": "latency",
        "link latency": "latency",
        "link bandwidth": "bandwidth",
        "incoming data rate": "incoming rate",
    },
    prefixes=("operator ", "node "),
)


def parse_query_goal(text: str, metrics: Mapping[str, Measure] | None = None) -> Goal:
    """Read a goal, which may name metrics of your own (`plan.trees.metrics.measured`).

    >>> parse_query_goal('''node load = aggregate(SUM, operator processing load, LOCAL OPERATORS)
    ...                     system cost = aggregate(MAX, node load, BROKERS)''').cost.members.value
    'BROKERS'
    >>> parse_query_goal("minimise aggregate(SUM, latency, BROKERS)")
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: goal: BROKERS takes values of a node, not of a link \
at position 9 of 'minimise aggregate(SUM, latency, BROKERS)'
    """
    own = {name.lower(): metric for name, metric in (metrics or {}).items()}
    for name in own.keys() & STATISTICS.keys():
        raise DistributaryError(f"there is a statistic {name!r} already: call your own metric otherwise")
    return GoalReader(text, replace(QUERY_GOALS, measures={**STATISTICS, **own})).goal()


# Goals that commands and experiments know by a name (section 5.5)

BANDWIDTH = """
    out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate
    minimise aggregate(SUM, out, BROKERS)
"""
LATENCY = """
    operator latency = aggregate(SUM, latency, UPSTREAM OPERATORS)
    minimise aggregate(AVERAGE, aggregate(SUM, operator latency, QUERY OPERATORS), QUERIES)
"""
RESPONSE = """
    operator latency = aggregate(SUM, latency + node delay, UPSTREAM OPERATORS) + processing latency
    minimise aggregate(AVERAGE, aggregate(SUM, operator latency, QUERY OPERATORS), QUERIES)
"""
LOAD = "minimise aggregate(MAX, node load, BROKERS)"

NAMED_GOALS = {"bandwidth": BANDWIDTH, "latency": LATENCY, "load": LOAD}
"""What `--goal` takes in place of a goal's text."""
