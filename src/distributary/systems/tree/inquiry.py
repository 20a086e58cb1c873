"""How a broker of a live tree finds the best rewrite around it: asks, measures, weighs.

Rules:

- For local rules it asks the nodes of its unit for their neighbourhoods, level by level; for directed rules
  all nodes on the way to the root from itself, and from those it has heard to do better.
- Of all rewrites that the rules allow on what it then knows, it has those links measured that would be new:
  by the nodes that would be the children.
- It weighs the rewrites that are left with the planner's benefits and names the best that the constraints
  allow. What does not answer, or is in the middle of a change, leaves the inquiry without a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.plan.trees.optimiser import NEGLIGIBLE
from distributary.plan.trees.rules import TreeRewrite, TreeRule
from distributary.systems.tree.messages import LinkMeasurement, TreeNeighbourhood
from distributary.systems.tree.view import LocalProblem, PartialTree


def plain(benefit: float) -> float:
    """A benefit without what is rounding: those that are alike count as alike, whoever weighed them.

    >>> plain(0.1 + 0.2) == plain(0.3)
    True
    """
    return float(f"{benefit:.9g}")


class Found(NamedTuple):
    """The best rewrite around a node, by addresses."""

    benefit: float
    rule: str
    arguments: tuple[Address, ...]
    changes: dict[Address, Address]
    before: dict[Address, Address]


class RewriteSearch:
    """One search for the best rewrite around a node."""

    def __init__(
        self,
        view: PartialTree,
        owner: Address,
        rules: Sequence[TreeRule],
        *,
        ask: Callable[[Address], None],
        measure: Callable[[Address, tuple[Address, ...]], None],
        done: Callable[[Found | None], None],
        levels: int = 0,
        partners: frozenset[Address] | None = None,
    ) -> None:
        self.view = view
        self.owner = owner
        self.rules = rules
        self.levels = levels
        """So many levels of neighbourhoods below the owner are asked for, its own being the first."""
        self.partners = partners
        """Where given: whom directed rules may be about."""
        self.waiting: set[Address] = set()
        """Those who have not told their neighbourhoods."""
        self.measuring: dict[Address, set[Address]] = {}
        """Those who have not told their links, and to whom."""
        self.over = False
        self._ask = ask
        self._measure = measure
        self._done = done
        self._level = 1
        self._row: tuple[Address, ...] = (owner,)

    def begin(self, asked: Iterable[Address]) -> None:
        """Ask these first; then, level by level, those below the owner."""
        self._ask_all(asked)

    def _ask_all(self, asked: Iterable[Address]) -> None:
        self.waiting = set(asked)
        if not self.waiting:
            self._descend()
        for address in sorted(self.waiting):
            self._ask(address)

    def told(self, node: Address, found: tuple[TreeNeighbourhood, ...]) -> None:
        """A node has told its neighbourhood, or that of all on its way to the root."""
        if self.over or node not in self.waiting:
            return
        if not found:
            self._end(None)
            return
        for each in found:
            self.view.add(each)
        self.waiting.discard(node)
        if not self.waiting:
            self._descend()

    def _descend(self) -> None:
        if self._level < self.levels:
            self._level += 1
            children = [child for address in self._row for child in self.view.children(address)]
            self._row = tuple(child.address for child in children)
            self._ask_all(child.address for child in children if child.fanout)
        else:
            self._measure_links()

    def _measure_links(self) -> None:
        if not self.view.is_sound(whole=self.partners is not None):
            self._end(None)
            return
        problem = self.view.problem()
        needed: dict[Address, set[Address]] = {}
        for rewrite in self._rewrites(problem):
            for parent, child in problem.links_needed(rewrite):
                needed.setdefault(child, set()).add(parent)
        self.measuring = needed
        if not needed:
            self._weigh(problem)
        for child, parents in sorted(needed.items()):
            self._measure(child, tuple(sorted(parents)))

    def linked(
        self, child: Address, asked: Iterable[Address], links: Iterable[tuple[Address, LinkMeasurement]]
    ) -> None:
        """A node has measured its links to some who may become its parent, as far as these answered."""
        if self.over or child not in self.measuring:
            return
        for parent, link in links:
            self.view.links[parent, child] = link
        self.measuring[child] -= set(asked)
        if not self.measuring[child]:
            del self.measuring[child]
        if not self.measuring:
            self._weigh(self.view.problem())

    def _rewrites(self, problem: LocalProblem) -> list[TreeRewrite]:
        found = problem.rewrites(self.rules, self.owner)
        if self.partners is None:
            return list(found)
        return [each for each in found if problem.addresses[each.arguments[1]] in self.partners]

    def _weigh(self, problem: LocalProblem) -> None:
        least = NEGLIGIBLE * abs(float(problem.estimate.cost))
        weighed = [
            (
                -plain(benefit),
                rewrite.rule,
                tuple(problem.addresses[site] for site in rewrite.arguments),
                rewrite,
            )
            for rewrite in self._rewrites(problem)
            if not problem.links_needed(rewrite) and (benefit := problem.weigh(rewrite)) > least
        ]
        for loss, rule, arguments, rewrite in sorted(weighed, key=lambda each: each[:3]):
            if problem.estimate.legal(rewrite.changes):
                self._end(_found(problem, -loss, rule, arguments, rewrite))
                return
        self._end(None)

    def _end(self, found: Found | None) -> None:
        self.over = True
        self._done(found)


def _found(
    problem: LocalProblem, benefit: float, rule: str, arguments: tuple[Address, ...], rewrite: TreeRewrite
) -> Found:
    name, parents = problem.addresses, problem.tree.parents
    changes = {name[site]: name[parent] for site, parent in rewrite.changes.items()}
    return Found(benefit, rule, arguments, changes, {name[s]: name[parents[s]] for s in rewrite.changes})
