"""Random trees and sites for the tests of the planner."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from random import Random

from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.cost import system_cost, violations
from distributary.plan.trees.optimum import best_paths, has_best_paths
from distributary.plan.trees.rules import TreeRewrite, TreeRule
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

SMALL = 9


@st.composite
def trees(draw: st.DrawFn, smallest: int = 2, largest: int = SMALL) -> Tree:
    """A tree of any shape, its sites numbered at random."""
    count = draw(st.integers(smallest, largest))
    names = draw(st.permutations(range(count)))
    parents = [NO_PARENT] * count
    for place in range(1, count):
        parents[names[place]] = names[draw(st.integers(0, place - 1))]
    return Tree(tuple(parents))


def rewrites_of(rule: TreeRule, tree: Tree, owner: int) -> Iterator[TreeRewrite]:
    """Everything that a rule can do around a site."""
    return (rule.rewrite(tree, arguments) for arguments in rule.arguments(tree, owner))


def exact_sites(count: int, seed: int) -> Sites:
    """Sites whose numbers are fractions, so that costs can be compared without a tolerance.

    Values are few, so that ties and shared bottlenecks are common.
    """
    random = Random(seed)

    def matrix() -> list[list[Fraction]]:
        return [[Fraction(random.randint(1, 12)) for _ in range(count)] for _ in range(count)]

    return Sites(
        latency=matrix(),
        bandwidth=matrix(),
        clients=[random.randint(0, 3) for _ in range(count - 1)] + [1],
        processing=[Fraction(random.randint(0, 3)) for _ in range(count)],
        interest=[random.getrandbits(4) for _ in range(count)],
        rates=[Fraction(random.randint(1, 9)) for _ in range(4)],
    )


def plane_sites(count: int, random: Random) -> Sites:
    """Sites at random places; bandwidths that differ by link and are the same both ways."""
    places = [(random.random(), random.random()) for _ in range(count)]
    latency = [[100 * ((a - c) ** 2 + (b - d) ** 2) ** 0.5 for c, d in places] for a, b in places]
    bandwidth = [[0.0] * count for _ in range(count)]
    for one in range(count):
        for other in range(one):
            bandwidth[one][other] = bandwidth[other][one] = random.uniform(1, 100)
    return Sites(latency=latency, bandwidth=bandwidth)


def every_tree(count: int, root: int = 0) -> Iterator[Tree]:
    """All trees over so many sites with this root."""
    for parents in product(range(count), repeat=count - 1):
        try:
            yield Tree((*parents[:root], NO_PARENT, *parents[root:]))
        except DistributaryError:
            continue  # a circle


def exhaustive(problem: Problem, root: int = 0) -> Tree:
    """The best of all trees that keep the constraints."""
    legal = (
        tree
        for tree in every_tree(problem.sites.count, root)
        if not violations(problem.goal, problem.sites, tree)
    )
    return min(
        legal, key=lambda tree: problem.goal.sign * system_cost(problem.goal.cost, problem.sites, tree)
    )


def optimum(problem: Problem, root: int = 0) -> Tree:
    """The best tree, by best paths where these are best, else the best of all."""
    return best_paths(problem, root)[0] if has_best_paths(problem) else exhaustive(problem, root)
