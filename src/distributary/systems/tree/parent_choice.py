"""Which parent a node takes that comes or has lost its own: one under which the constraints stay kept.

Rules:

- Whoever is probed answers with the values on its path as they would be with one more child; with nothing, if
  it does not know them yet or has no parent itself, or if with that child it or somebody below it would break
  a constraint.
- The newcomer takes a parent only if it keeps the constraints there itself: those on its path and on the
  link (others do not hang on its place). It prefers parents under which all below it keep them too. Of those
  that will do it takes the one that gives it the best cost of its own with `best_effort`, any otherwise.
  Where none will do it waits, and asks again (`overlay.tree.parent`).
- A parent that was chosen looks again when the newcomer attaches: others may have come in between.
- A node that kept the constraints of its place and does so no more, since something has changed above it,
  looks for another parent after an optimisation period; until it finds one it stays.

Constraints on what a subtree asks for are checked at the parent, not further up. Without constraints a node
with `best_effort` takes the best that answered, others whom the root picks.

Cost: two messages a parent that the root offers (`TreeSettings.offers` at a time).
"""

from __future__ import annotations

import math

from distributary.overlay.node import Address
from distributary.overlay.tree.probing import ProbeResult, ProbeResults, Told
from distributary.systems.tree.cost_model import Values
from distributary.systems.tree.known_sites import alone
from distributary.systems.tree.messages import LinkMeasurement
from distributary.systems.tree.settings import OptimisationSettings
from distributary.systems.tree.statistics import BrokerStatistics

TAKES: Told = (1.0,)
"""What an answer to a probe begins with where another child can be taken."""


class PlaceChoice:
    """The part of a broker that chooses its parent, and admits children."""

    def __init__(self, statistics: BrokerStatistics, settings: OptimisationSettings) -> None:
        self._statistics, self._model = statistics, statistics.model
        self._tree = statistics.tree
        self._best_effort = settings.best_effort
        self._constrained = bool(settings.goal.constraints)
        self._patience = settings.period
        self._kept_at: float | None = None
        """When this node last kept the constraints of its path, if it ever did."""
        self._tree.prober.answer_with(self._described)
        if settings.best_effort or self._constrained:
            self._tree.choose_parent_by(self.choose, strict=self._constrained)
        if self._constrained:
            self._tree.admit_children_by(self.admits)

    # As a parent.

    def _described(self, prober: Address) -> Told:
        """What a possible child is told: the values on this node's path, if it can be taken."""
        values = self._statistics.values_with(self._fanout_with(prober))
        if values is None or not self.admits(prober):
            return ()
        return TAKES + values[: len(self._model.paths)]

    def _fanout_with(self, child: Address) -> int:
        return len({*self._tree.children, child})

    def admits(self, child: Address) -> bool:
        """Whether the constraints stay kept here and below with this child."""
        if not self._tree.is_root and not self._tree.link.attached:
            return False
        if not self._constrained:
            return True
        statistics, model = self._statistics, self._model
        fanouts = len(self._tree.children), self._fanout_with(child)
        before, after = (statistics.values_with(fanout) for fanout in fanouts)
        if before is None or after is None:
            return False
        known = (statistics.present_link, statistics.facts)
        now, then = (
            model.limited(values, alone(model, *known, fanout, statistics.streams))
            for values, fanout in zip((before, after), fanouts, strict=True)
        )
        return model.stays_kept(now, then) and self._all_below_keep(after, before)

    def _all_below_keep(self, values: Values, before: Values | None = None) -> bool:
        """Whether those below keep the constraints on their paths when this node has these values.

        With `before`, those that broke them already when it had those values do not count.
        """
        join, within = self._model.joined, self._model.within
        rows = [each.values for each in self._statistics.below]
        return all(
            within(join(values, row)) or (before is not None and not within(join(before, row)))
            for row in rows
        )

    # As a child.

    def choose(self, answers: ProbeResults) -> Address | None:
        """Of the parents that answered, the one to take; None if none will do."""
        links = {parent: self._statistics.measured(parent, each) for parent, each in answers.items()}
        values = {parent: self._values_under(links[parent], each) for parent, each in answers.items()}
        known = {parent: each for parent, each in values.items() if each is not None}
        fit = [parent for parent, each in known.items() if self._fits(each, links[parent])]
        fit = [parent for parent in fit if self._all_below_keep(known[parent])] or fit
        if not fit:
            return None if self._constrained else min(links, key=lambda one: (links[one].latency, one))
        if not self._best_effort:
            return self._tree.random.choice(sorted(fit))
        return min(fit, key=lambda parent: self._rank(known[parent], links[parent], parent))

    def _values_under(self, link: LinkMeasurement, answer: ProbeResult) -> Values | None:
        """This node's values under a parent, by what that told; None if it can take no child."""
        if answer.told[:1] != TAKES:
            return None
        own = self._statistics.under(link, len(self._tree.children))
        return self._model.joined(answer.told[1:], own)

    def _fits(self, values: Values, link: LinkMeasurement | None) -> bool:
        known = (self._statistics.facts, len(self._tree.children), self._statistics.streams)
        return self._model.fits(values, alone(self._model, link, *known))

    def _rank(self, values: Values, link: LinkMeasurement, parent: Address) -> tuple[float, ...]:
        """Less is better: by this node's cost; where that does not hang on the parent, by the latency."""
        cost = self._model.cost(values)
        ranked = math.inf if cost is None else self._model.goal.sign * cost
        return (ranked, parent) if self._model.along_path else (ranked, link.latency, parent)

    def check(self) -> None:
        """Look for another parent if the constraints of this node's path have been broken for long."""
        statistics, tree = self._statistics, self._tree
        values, now = statistics.values, tree.node.now
        if not self._constrained or tree.is_root or values is None:
            return
        if self._fits(values, statistics.present_link):
            self._kept_at = now
        elif self._kept_at is not None and now - self._kept_at > self._patience and tree.at_rest:
            self._kept_at = now
            if not tree.leaving:
                tree.change_parent(None)
