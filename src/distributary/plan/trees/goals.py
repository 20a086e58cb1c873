"""Goals for trees: what they can measure and aggregate, and reading them (Figures 3.2 and 4.1).

A node's cost is a local metric, an aggregate of local metrics over its PATH to the root or over its CHILDREN,
or a combination of such. The system's cost aggregates the node costs over BROKERS, CLIENTS or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distributary.plan.goal.expression import Goal, GoalFunction, GoalMembers, Scope
from distributary.plan.goal.language import Language
from distributary.plan.goal.text import GoalReader
from distributary.plan.trees.metrics import BUILT_IN, SPELLINGS, Metric

TREE_GOALS = Language(
    for_queries=False,
    functions=tuple(GoalFunction),
    sets={
        "PATH": Scope.PATH,
        "CHILDREN": Scope.CHILDREN,
        "BROKERS": GoalMembers.BROKERS,
        "CLIENTS": GoalMembers.CLIENTS,
    },
    measures=BUILT_IN,
    noun="metric",
    expected_set="expected PATH, CHILDREN, BROKERS or CLIENTS",
    expected_value="expected a node's cost, not one of the whole system",
    expected_system_cost="expected aggregate(FUNCTION, node cost, BROKERS) as the system's cost",
    spellings=SPELLINGS,
)


def parse_goal(text: str, metrics: Mapping[str, Metric] | None = None) -> Goal:
    """Read a goal; `metrics` are an application's own, beside the built-in ones.

    >>> parse_goal("minimise aggregate(AVERAGE, aggregate(SUM, link latency, PATH), BROKERS)").direction.value
    'minimise'
    >>> parse_goal("minimise aggregate(SUM, latency)")
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: goal: 'latency' is neither defined nor a metric; \
did you mean 'link latency'? at position 24 of 'minimise aggregate(SUM, latency)'
    """
    own = {name.lower(): metric for name, metric in (metrics or {}).items()}
    return GoalReader(text, replace(TREE_GOALS, measures={**BUILT_IN, **own})).goal()
