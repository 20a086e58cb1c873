"""The system's cost in the quickest form that can say it, and the forms of what constraints are on.

Sums change by what their values change by; MIN and MAX are taken of the new values and of the best (or worst)
of all others, whether costs are to be small or large (Property 1 of section 5.4.4). Goals that fit no form
(`UnfitError`) are measured anew for every site tried: right, and slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from distributary.plan.goal import expression as goals
from distributary.plan.goal.expression import GoalFunction, Place, SystemCost
from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.evaluation import Multiples, UnfitError, folded, multiples
from distributary.plan.queries.forms import ALL, Columns, Form, NodeForm, OperatorForm, QueryForm
from distributary.plan.queries.moves import OperatorMove
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.state import Floats, PlacementState


class SystemForm(Form):
    """The system's cost, and what it would be after a move."""

    def cost(self) -> float:
        """The cost as it is."""
        raise NotImplementedError

    def cost_after(self, move: OperatorMove) -> Floats:
        """The cost for each site tried."""
        raise NotImplementedError

    def values(self) -> Floats:
        return np.array([self.cost()])

    def after(self, move: OperatorMove) -> tuple[Columns, Floats]:
        return ALL, self.cost_after(move)[:, None]


class BrokersCost(SystemForm):
    """A cost over all nodes; `multiples` where it is a sum of multiples of quantities."""

    def __init__(self, cost: SystemCost, state: PlacementState) -> None:
        self.function = cost.function
        self.nodes = NodeForm(cost.value, state)
        self.multiples: Multiples | None = multiples(cost.value) if cost.function.is_additive else None

    def cost(self) -> float:
        return float(folded(self.function, self.nodes.values()))

    def cost_after(self, move: OperatorMove) -> Floats:
        if self.multiples is None:
            return folded(self.function, self.nodes.rows_after(move))
        change = np.zeros(len(move.sites))
        for factor, name in self.multiples:
            change += factor * move.total(name)
        if self.function is GoalFunction.AVERAGE:
            change /= move.state.count
        return self.cost() + change


class QueriesCost(SystemForm):
    """A cost over all queries."""

    def __init__(self, cost: SystemCost, state: PlacementState) -> None:
        self.function = cost.function
        self.queries = QueryForm(cost.value, state)

    def cost(self) -> float:
        return float(folded(self.function, self.queries.values()))

    def cost_after(self, move: OperatorMove) -> Floats:
        sums = self.function.is_additive
        if sums and self.queries.function is GoalFunction.SUM and self.queries.operators.complete:
            total = self.queries.total_after(move)
            return total if self.function is GoalFunction.SUM else total / len(self.queries.rest)
        queries, columns = self.queries.after(move)
        if len(queries) == len(self.queries.rest):
            return folded(self.function, columns)
        others = np.delete(self.queries.values(), queries)
        if not sums:
            others = np.array([float(folded(self.function, others))])
        rows = np.broadcast_to(others, (len(move.sites), len(others)))
        return folded(self.function, np.concatenate([columns, rows], axis=1))

    def clear(self) -> None:
        self.queries.clear()

    def forget(self, operators: Sequence[int]) -> None:
        self.queries.forget(operators)

    def learn(self, operators: Sequence[int]) -> None:
        self.queries.learn(operators)


class RemeasuredValues(Form):
    """Values of any kind, measured anew for every site tried."""

    def __init__(
        self, state: PlacementState, measured: Callable[[MeasuredPlacement], Sequence[goals.Number | None]]
    ) -> None:
        self.state = state
        self.measured = measured

    def values(self) -> Floats:
        return self._of(self.state.placement)

    def after(self, move: OperatorMove) -> tuple[Columns, Floats]:
        now = self.state.placement
        tried = (now.moved(dict.fromkeys(move.operators, int(site))) for site in move.sites)
        return ALL, np.stack([self._of(placement) for placement in tried])

    def _of(self, placement: Placement) -> Floats:
        found = self.measured(MeasuredPlacement(placement))
        return np.array([np.nan if value is None else float(value) for value in found])


class RemeasuredCost(SystemForm):
    """Any system's cost, measured anew for every site tried."""

    def __init__(self, cost: SystemCost, state: PlacementState) -> None:
        self._one = RemeasuredValues(state, lambda measured: [measured.system(cost)])

    def cost(self) -> float:
        return float(self._one.values()[0])

    def cost_after(self, move: OperatorMove) -> Floats:
        return np.asarray(self._one.after(move)[1][:, 0])


def system_form(cost: SystemCost, state: PlacementState) -> SystemForm:
    """The quickest form that can say the system's cost."""
    try:
        return (
            BrokersCost(cost, state)
            if cost.members is goals.GoalMembers.BROKERS
            else QueriesCost(cost, state)
        )
    except UnfitError:
        return RemeasuredCost(cost, state)


def constrained_form(constraint: goals.Constraint, state: PlacementState) -> Form:
    """The quickest form of the values that a constraint is on."""
    metric = constraint.metric
    if isinstance(metric, SystemCost):
        return system_form(metric, state)
    try:
        place = goals.place_of(metric)
        if place is Place.NODE:
            return NodeForm(metric, state)
        if place is Place.QUERY:
            return QueryForm(metric, state)
        form = OperatorForm(metric, state)
        if form.node_forms:
            raise UnfitError("a constraint on operators that hangs on nodes")
        form.learn(range(len(state.hosts)))
        return form
    except UnfitError:
        return RemeasuredValues(state, lambda measured: measured.values(metric))
