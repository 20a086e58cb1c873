"""Constraints on the whole and over CHILDREN as constraints on nodes: they hold of the same trees."""

from __future__ import annotations

from random import Random

import pytest

from distributary.plan.goal.expression import Constraint, SystemCost
from distributary.plan.trees.cost import node_costs, system_cost
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.tree import Sites, Tree, random_tree
from distributary.systems.tree.node_limits import on_nodes
from systems.tree.worlds import random_sites

VALUES = (
    *("link latency", "link bandwidth", "fanout", "cpu", "link latency + cpu"),
    *("aggregate(SUM, link latency, PATH)", "aggregate(MIN, link bandwidth, PATH)"),
    "aggregate(MAX, link latency + fanout, CHILDREN)",
)
LOCAL = VALUES[:5]


def constraint(text: str) -> Constraint:
    return parse_goal(f"minimise aggregate(SUM, fanout, BROKERS)\nsubject to {text}").constraints[0]


def holds(each: Constraint, sites: Sites, tree: Tree) -> bool:
    if isinstance(each.metric, SystemCost):
        return each.holds(system_cost(each.metric, sites, tree))
    return all(value is None or each.holds(value) for value in node_costs(each.metric, sites, tree))


@pytest.mark.parametrize(("function", "comparisons"), [("MAX", ("<", "<=")), ("MIN", (">", ">="))])
def test_a_constraint_on_nodes_holds_of_the_trees_of_which_the_other_does(
    function: str, comparisons: tuple[str, str]
) -> None:
    random = Random(1)
    held = [0, 0]
    texts = [f"aggregate({function}, {value}, BROKERS)" for value in VALUES]
    texts += [f"aggregate({function}, {value}, CHILDREN)" for value in LOCAL if "link" in value]
    texts.append(f"aggregate({function}, cpu, BROKERS|CLIENTS)")
    for text in texts:
        for _ in range(20):
            count = random.randint(2, 9)
            sites, tree = random_sites(count, random), random_tree(count, random)
            metric = constraint(f"{text} <= 0").metric
            costs = (
                [system_cost(metric, sites, tree)]
                if isinstance(metric, SystemCost)
                else [value for value in node_costs(metric, sites, tree) if value is not None]
            )
            # At the border, and on both sides of it.
            threshold = float(random.choice(costs)) + random.choice([-1.0, 0.0, 1.0])
            before = constraint(f"{text} {random.choice(comparisons)} {threshold!r}")
            after = on_nodes(before)
            assert not isinstance(after.metric, SystemCost)
            assert after != before
            held[holds(before, sites, tree)] += 1
            assert holds(before, sites, tree) == holds(after, sites, tree), (before, after)
    assert min(held) > 20


@pytest.mark.parametrize(
    "text",
    [
        *("aggregate(SUM, cpu, BROKERS) <= 3", "aggregate(MAX, cpu, BROKERS) >= 3"),
        *("aggregate(MIN, cpu, BROKERS) <= 3", "aggregate(MAX, cpu, CLIENTS) <= 3"),
        *("aggregate(MAX, cpu, CHILDREN) <= 3", "aggregate(SUM, link latency, CHILDREN) <= 3"),
        *("aggregate(MIN, link latency, CHILDREN) <= 3", "fanout <= 3"),
    ],
)
def test_other_constraints_stay_as_they_are(text: str) -> None:
    assert on_nodes(constraint(text)) == constraint(text)


def test_what_holds_of_the_children_of_all_nodes_holds_of_all_links() -> None:
    nested = constraint("aggregate(MAX, aggregate(MAX, link latency, CHILDREN), BROKERS) <= 3")
    assert on_nodes(nested) == constraint("link latency <= 3")
