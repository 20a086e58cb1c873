"""What moving or splitting an operator is worth, and whether the constraints allow it.

    estimate = PlacementEstimate(goal, placement)
    estimate.cost                              # of the placement as it stands
    estimate.benefits(operator, sites)         # of moving one operator to each of these sites, at once
    estimate.move(operator, site); estimate.placement

Rules:

- A benefit is positive where the change is good, whichever way the goal goes, and is exactly the difference
  that measuring both placements anew would show (up to rounding, where numbers are not whole).
- A change is legal when nobody whom it reaches breaks a constraint they kept, or breaks it more than before:
  so a placement that starts out wrong can be mended step by step. A benefit that is not legal is -infinity.
- Changes are made in place and can be taken back: a move by moving back, a split by `undo`.

Cost: see `forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from distributary.plan.goal.expression import COMPARISONS, Constraint, Goal, GoalFunction, SystemCost
from distributary.plan.queries import system_forms
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.moves import OperatorMove
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.state import Floats, Indices, PlacementState

Booleans = npt.NDArray[np.bool_]


class Bound:
    """A constraint, and the values it is on."""

    def __init__(self, constraint: Constraint, state: PlacementState) -> None:
        self.constraint = constraint
        self.form = system_forms.constrained_form(constraint, state)

    def holds(self, values: Floats) -> Booleans:
        """Whether each value keeps the constraint; what has no value does."""
        compare = COMPARISONS[self.constraint.comparison]
        return np.asarray(np.isnan(values) | compare(values, float(self.constraint.threshold)))

    def kept(self, new: Floats, old: Floats) -> Booleans:
        """Whether each new value keeps the constraint, or breaks it no more than the old one did."""
        return np.asarray(self.holds(new) | (~self.holds(old) & self.constraint.no_worse(new, old)))

    def legal(self, move: OperatorMove) -> Booleans:
        """For each site tried, whether the constraint allows it."""
        columns, new = self.form.after(move)
        return np.asarray(self.kept(new, self.form.values()[columns]).all(axis=1))

    def legal_since(self, old: Floats) -> bool:
        """Whether the constraint allows what has been done since these were the values."""
        new = self.form.values()
        before = np.full(len(new), np.nan)
        size = min(len(old), len(new))
        before[:size] = old[:size]
        return bool(self.kept(new, before).all())


@dataclass(frozen=True)
class OperatorSplit:
    """A replication or partition that was carried out, and how to take it back."""

    operator: int
    replicas: tuple[int, ...]
    before: QueryWorkload
    retired: tuple[int, ...]


class PlacementEstimate:
    """A placement as it stands, and what changes of it are worth.

    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> from distributary.plan.queries.goals import parse_query_goal
    >>> network = random_network(sites=10, trees=2, seed=1)
    >>> placement = at_clients(feed_workload(network, 20, seed=1), network)
    >>> goal = parse_query_goal("minimise aggregate(MAX, node load, BROKERS)")
    >>> estimate = PlacementEstimate(goal, placement)
    >>> before = estimate.cost
    >>> worth = estimate.benefits(0, np.arange(10))
    >>> estimate.move(0, int(worth.argmax()))
    >>> bool(np.isclose(before - estimate.cost, worth.max()))
    True
    """

    def __init__(
        self,
        goal: Goal,
        placement: Placement,
        form: Callable[[SystemCost, PlacementState], system_forms.SystemForm] = system_forms.system_form,
    ) -> None:
        self.goal = goal
        self.state = PlacementState(placement)
        self.system = form(goal.cost, self.state)
        self.bounds = [Bound(constraint, self.state) for constraint in goal.constraints]
        self._forms = [self.system, *(bound.form for bound in self.bounds)]
        self._cost: float | None = None

    @property
    def placement(self) -> Placement:
        """The placement as it stands now."""
        return self.state.placement

    @property
    def cost(self) -> float:
        """The system's cost as it stands now."""
        if self._cost is None:
            self._cost = self.system.cost()
        return self._cost

    # Weighing

    def benefits(self, operators: int | Sequence[int], sites: Sequence[int] | Indices) -> Floats:
        """By how much moving an operator to each of these sites brings the goal nearer.

        Several operators move together, if they are at one site now.
        """
        together = [operators] if isinstance(operators, int) else operators
        move = OperatorMove(self.state, together, np.asarray(sites, dtype=np.intp))
        found: Floats = self.goal.sign * (self.cost - self.system.cost_after(move))
        for bound in self.bounds:
            found = np.where(bound.legal(move), found, -np.inf)
        return found

    def relief(self, operators: Sequence[int], sites: Indices) -> tuple[Floats, Floats]:
        """How much nearer to a better MIN or MAX each site tried leads, though the cost itself may stay.

        The first array is how many fewer nodes or queries would have the system's cost (or worse), the second
        by what share, from -1 to 1, the sum of the squares of all values would become less.
        """
        move = OperatorMove(self.state, operators, sites)
        if isinstance(self.system, system_forms.BrokersCost):
            now, new = self.system.nodes.values(), self.system.nodes.rows_after(move)
        elif isinstance(self.system, system_forms.QueriesCost):
            queries, new = self.system.queries.after(move)
            now = self.system.queries.values()[queries]
        else:
            return np.zeros(len(sites)), np.zeros(len(sites))
        slack = 1e-9 * abs(self.cost)
        highest = self.goal.cost.function is GoalFunction.MAX

        def extreme(values: Floats) -> Floats:
            with np.errstate(invalid="ignore"):
                at = values >= self.cost - slack if highest else values <= self.cost + slack
            return np.asarray(at.sum(axis=-1, dtype=np.float64))

        before, after = np.nansum(now * now, axis=-1), np.nansum(new * new, axis=-1)
        evened = (before - after) / np.maximum(np.maximum(before, after), 1e-300)
        return extreme(now) - extreme(new), evened if highest else -evened

    def recount(self) -> None:
        """Compute all quantities anew, which removes rounding errors that changes in place leave behind."""
        self.state.recount()
        self._cost = None

    def bounded(self) -> list[Floats]:
        """The values under constraints, to be compared with later ones by `legal_since`."""
        return [bound.form.values().copy() for bound in self.bounds]

    def legal_since(self, before: Sequence[Floats]) -> bool:
        """Whether the constraints allow what has been done since `bounded` gave these values."""
        return all(bound.legal_since(old) for bound, old in zip(self.bounds, before, strict=True))

    def broken(self) -> int:
        """How many nodes, operators or queries break a constraint."""
        return int(sum((~bound.holds(bound.form.values())).sum() for bound in self.bounds))

    # Changing

    def leave_out_all(self) -> None:
        """Count no operator at all; each counts again once it is brought in."""
        state = self.state
        for operator in reversed(state.workload.order):
            state.count_operator(operator, -1)
        for form in self._forms:
            form.clear()
        self._cost = None

    def bring_in(self, operators: Sequence[int]) -> None:
        """Count operators that were left out. Each stands after those that it reads."""
        for operator in operators:
            self.state.count_operator(operator, 1)
        self._learn(operators)

    def move(self, operator: int, site: int) -> None:
        """Let an operator run at another site."""
        if self.state.hosts[operator] == site:
            return
        changed = self.state.near(operator)
        self._forget(changed)
        self.state.move(operator, site)
        self._learn(changed)

    def move_all(self, changes: Mapping[int, int]) -> None:
        """Let several operators run at other sites."""
        for operator, site in changes.items():
            self.move(operator, site)

    def split(self, operator: int, divide: Callable[[QueryWorkload, int], QueryWorkload]) -> OperatorSplit:
        """Replicate or partition an operator, with all replicas at its host."""
        before = self.state.workload
        after = divide(before, operator)
        replicas = tuple(range(len(before.operators), len(after.operators)))
        producers = [before.producer(stream) for stream in before.operators[operator].inputs]
        retired = tuple(
            index
            for index in producers
            if index is not None and after.operators[index] is not before.operators[index]
        )
        split = OperatorSplit(operator, replicas, before, retired)
        self._rewire(after, split, [self.state.hosts[operator]] * len(replicas))
        return split

    def undo(self, split: OperatorSplit) -> None:
        """Take back the split that was made last."""
        self._rewire(split.before, split, [])

    def _rewire(self, workload: QueryWorkload, split: OperatorSplit, hosts: Sequence[int]) -> None:
        changed = [split.operator, *split.retired, *split.replicas]
        there = len(self.state.hosts)
        before = sorted({near for index in changed if index < there for near in self.state.near(index)})
        self._forget(before)
        self.state.rewire(workload, changed, hosts)
        there = len(self.state.hosts)
        after = {near for index in changed if index < there for near in self.state.near(index)}
        self._learn(sorted({index for index in before if index < there} | after))

    def _forget(self, operators: Sequence[int]) -> None:
        for form in self._forms:
            form.forget(operators)

    def _learn(self, operators: Sequence[int]) -> None:
        self._cost = None
        for form in self._forms:
            form.learn(operators)


def best_of(goal: Goal, placements: Iterable[Placement]) -> Placement:
    """The placement that breaks the fewest constraints, and of those the one that costs least."""

    def badness(placement: Placement) -> tuple[int, float]:
        estimate = PlacementEstimate(goal, placement)
        return estimate.broken(), goal.sign * estimate.cost

    return min(placements, key=badness)
