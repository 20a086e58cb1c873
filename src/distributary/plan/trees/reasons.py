"""Why each site of a plan gets another parent: what would be if it stayed where it was.

Rules: a move is judged in the planned tree, all others made. If the site went back, the tree would cost so
much, or a constraint would be broken, or it could not, because its old parent is now below it.

Cost: a benefit a move; where a constraint would be broken, the whole tree is measured to say which.
"""

from __future__ import annotations

from dataclasses import dataclass

from distributary.plan.amounts import shown
from distributary.plan.goal.expression import Number
from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.cost import violations


@dataclass(frozen=True)
class SiteMove:
    """A site that gets another parent, its own cost before and after, and the reason."""

    site: int
    old: int
    new: int
    before: Number | None
    after: Number | None
    reason: str


def moves_of(problem: Problem, found: TreeClimb) -> list[SiteMove]:
    """The moves from the first tree to the planned one, from the root down.

    >>> from distributary.plan.trees.goals import parse_goal
    >>> from distributary.plan.trees.tree import Sites, star
    >>> from distributary.plan.trees.escape import improve
    >>> goal = parse_goal("minimise aggregate(MAX, aggregate(SUM, link latency, PATH), BROKERS)")
    >>> problem = Problem(goal, Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]]))
    >>> [(move.site, move.new, move.reason) for move in moves_of(problem, improve(problem, star(3)))]
    [(2, 1, 'the whole would cost 9 without')]
    """
    start, planned = problem.at(found.start), problem.at(found.tree)
    old, new = found.start.parents, found.tree.parents

    def reason(site: int) -> str:
        back = {site: old[site]}
        if found.tree.below(old[site], site):
            return f"{problem.sites.name(old[site])} is now below it"
        if not planned.legal(back):
            broken = violations(problem.goal, problem.sites, found.tree.changed(back))
            return f"there it would break {broken[0]}" if broken else "there it would break a constraint"
        return f"the whole would cost {shown(planned.system.cost_after(back))} without"

    return [
        SiteMove(site, old[site], new[site], start.costs[site], planned.costs[site], reason(site))
        for site in found.tree.order
        if old[site] != new[site]
    ]
