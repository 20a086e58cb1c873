"""How a broker of a live tree finds the best rewrite around it: asks, measures, weighs.

Rules:

- For local rules it asks the nodes of its unit for their neighbourhoods, level by level, and where the goal
  needs the whole tree all nodes on its way to the root; for directed rules all nodes on the way to the root
  from itself, and from those it has heard to do better.
- Of all rewrites that the rules allow on what it then knows, it has those links measured that would be new:
  by the nodes that would be the children.
- It weighs the rewrites that are left with the planner's benefits and proposes the best that the constraints
  allow. A node that does not answer, or is in the middle of a change, leaves the search without a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from distributary.overlay.node import Address
from distributary.plan.trees.optimiser import NEGLIGIBLE
from distributary.plan.trees.rules import TreeRewrite, TreeRule
from distributary.systems.tree.messages import LinkMeasurement, RewriteProposal, TreeNeighbourhood
from distributary.systems.tree.partial_tree import PartialProblem, PartialTree


def plain(benefit: float) -> float:
    """A benefit without rounding errors, so that nodes that compute the same benefit agree on it.

    >>> plain(0.1 + 0.2) == plain(0.3)
    True
    """
    return float(f"{benefit:.9g}")


@dataclass(eq=False)
class RewriteSearch:
    """One search for the best rewrite around a node, in one optimisation period."""

    known: PartialTree
    owner: Address
    rules: Sequence[TreeRule]
    period: int
    ask: Callable[[Address], None]
    """Requests the neighbourhood of a node; where the way up from it must be known, all of those on it."""
    measure: Callable[[Address, tuple[Address, ...]], None]
    """Has a node measure its links to possible parents."""
    propose: Callable[[RewriteProposal], None]
    """Takes the best rewrite, if there is any."""
    levels: int = 0
    """So many levels of neighbourhoods below the owner are asked for, its own being the first."""
    whole: bool = False
    """Whether the neighbourhoods up to the root must be known: for directed rules, and for some goals."""
    partners: frozenset[Address] = frozenset()
    """For directed rules: the nodes that they may be about; none for local rules."""
    _waiting: set[Address] = field(default_factory=set)
    """Nodes that have not sent their neighbourhoods."""
    _measuring: dict[Address, set[Address]] = field(default_factory=dict)
    """Nodes that have not sent their links, and to which parents."""
    _over: bool = False
    _rows: int = 0
    """How many levels below the owner have been asked for."""

    def begin(self, asked: Iterable[Address]) -> None:
        """Ask these for their neighbourhoods; then, level by level, those below the owner."""
        self._waiting = set(asked)
        if not self._waiting:
            self._descend()
        for address in sorted(self._waiting):
            self.ask(address)

    def take_neighbourhoods(self, node: Address, found: tuple[TreeNeighbourhood, ...]) -> None:
        """Take the neighbourhood of a node, or those of all on its way to the root; none ends the search."""
        if self._over or node not in self._waiting:
            return
        if not found:
            self._over = True
            return
        for each in found:
            self.known.add(each)
        self._waiting.discard(node)
        if not self._waiting:
            self._descend()

    def _descend(self) -> None:
        self._rows += 1
        if self._rows >= self.levels:
            self._measure_links()
            return
        children = self.known.children(self.owner)
        for _ in range(self._rows - 1):
            children = tuple(below for one in children for below in self.known.children(one.address))
        self.begin(child.address for child in children if child.fanout)

    def _measure_links(self) -> None:
        if not self.known.is_sound(self.whole):
            self._over = True
            return
        problem = self.known.problem()
        for rewrite in self._rewrites(problem):
            for parent, child in problem.links_needed(rewrite):
                self._measuring.setdefault(child, set()).add(parent)
        needed = sorted(self._measuring.items())
        if not needed:
            self._weigh(problem)
        for child, parents in needed:
            self.measure(child, tuple(sorted(parents)))

    def take_links(
        self, child: Address, asked: Iterable[Address], links: Iterable[tuple[Address, LinkMeasurement]]
    ) -> None:
        """Take the links of a node to possible parents, as far as these answered its probes."""
        if self._over or child not in self._measuring:
            return
        for parent, link in links:
            self.known.links[parent, child] = link
        self._measuring[child] -= set(asked)
        if not self._measuring[child]:
            del self._measuring[child]
        if not self._measuring:
            self._weigh(self.known.problem())

    def _rewrites(self, problem: PartialProblem) -> list[TreeRewrite]:
        found = problem.rewrites(self.rules, self.owner)
        if not self.partners:
            return list(found)
        return [each for each in found if problem.addresses[each.arguments[1]] in self.partners]

    def _weigh(self, problem: PartialProblem) -> None:
        """End with the best rewrite that the constraints allow; of equals, the first by rule and nodes."""
        self._over = True
        if not problem.has_cost:
            return
        least = NEGLIGIBLE * abs(float(problem.estimate.cost))
        name, parents = problem.addresses, problem.tree.parents
        weighed = [
            (-plain(benefit), rewrite.rule, tuple(name[site] for site in rewrite.arguments), rewrite)
            for rewrite in self._rewrites(problem)
            if not problem.links_needed(rewrite) and (benefit := problem.weigh(rewrite)) > least
        ]
        for loss, rule, arguments, rewrite in sorted(weighed, key=lambda each: each[:3]):
            if problem.estimate.legal(rewrite.changes):
                changes = tuple((name[site], name[parent]) for site, parent in rewrite.changes.items())
                before = tuple((name[site], name[parents[site]]) for site in rewrite.changes)
                shift = plain(problem.shift(rewrite))
                self.propose(RewriteProposal(self.period, -loss, rule, arguments, changes, before, shift))
                return
