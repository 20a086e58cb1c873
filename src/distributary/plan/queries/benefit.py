"""What moving or splitting an operator is worth, and whether the constraints allow it.

    standing = PlacementEstimate(goal, placement)
    standing.cost                              # of the placement as it stands
    standing.benefits(operator, sites)         # of moving one operator to each of these sites, at once
    standing.move(operator, site); standing.placement

Rules:

- A benefit is positive where the change is good, whichever way the goal goes, and is exactly the difference
  that measuring both placements anew would show (up to rounding, where numbers are not whole).
- A change is legal when nobody whom it reaches breaks a constraint they kept, or breaks it more than before:
  so a placement that starts out wrong can be mended step by step. A benefit that is not legal is -infinity.
- Changes are made in place and can be taken back: a move by moving back, a split by `undo`.

Cost: see `forms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from distributary.plan.goal import Constraint, Goal, GoalFunction, Place, SystemCost, place_of
from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.forms import (
    BrokersCost,
    NodeForm,
    OperatorForm,
    QueriesCost,
    QueryForm,
    SystemForm,
    UnfitError,
    system_form,
)
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.state import Floats, Indices, OperatorMove, PlacementState

Booleans = npt.NDArray[np.bool_]

COMPARED = {
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
    "!=": np.not_equal,
}


class Bound:
    """A constraint, and the values it is on."""

    def __init__(self, constraint: Constraint, watched: ConstrainedValues) -> None:
        self.constraint = constraint
        self.watched = watched

    def holds(self, values: Floats) -> Booleans:
        """Whether each value keeps the constraint; what has no value does."""
        compare = COMPARED[self.constraint.comparison]
        return np.isnan(values) | compare(values, float(self.constraint.threshold))

    def kept(self, new: Floats, old: Floats) -> Booleans:
        """Whether each new value keeps the constraint, or breaks it no more than the old one did."""
        comparison = self.constraint.comparison
        allowed = self.holds(new)
        if comparison != "!=":
            better = np.less_equal if comparison in ("<", "<=") else np.greater_equal
            allowed = allowed | (~self.holds(old) & better(new, old))
        return allowed

    def legal(self, move: OperatorMove) -> Booleans:
        """For each site tried, whether the constraint allows it."""
        ids, new = self.watched.after(move)
        return np.asarray(self.kept(new, self.watched.values()[ids]).all(axis=1))

    def legal_since(self, old: Floats) -> bool:
        """Whether the constraint allows what has been done since these were the values."""
        new = self.watched.values()
        before = np.full(len(new), np.nan)
        size = min(len(old), len(new))
        before[:size] = old[:size]
        return bool(self.kept(new, before).all())


class ConstrainedValues(Protocol):
    """Values that a constraint is on."""

    def values(self) -> Floats: ...

    def after(self, move: OperatorMove) -> tuple[Sequence[int] | slice, Floats]: ...

    def forget(self, operators: Sequence[int]) -> None: ...

    def learn(self, operators: Sequence[int]) -> None: ...


class OfNodes:
    def __init__(self, form: NodeForm) -> None:
        self.form = form

    def values(self) -> Floats:
        return self.form.values()

    def after(self, move: OperatorMove) -> tuple[slice, Floats]:
        return slice(None), self.form.after(move)

    def forget(self, operators: Sequence[int]) -> None:
        """Nodes are read from the state as they are."""

    def learn(self, operators: Sequence[int]) -> None:
        """Nodes are read from the state as they are."""


class OfOperators:
    def __init__(self, form: OperatorForm) -> None:
        if form.on_nodes:
            raise UnfitError("a constraint on operators that hangs on nodes")
        self.form = form
        self.known: list[float] = []
        self.learn(range(len(form.state.hosts)))

    def values(self) -> Floats:
        return np.array(self.known)

    def after(self, move: OperatorMove) -> tuple[list[int], Floats]:
        ids = self.form.affected(move)
        rows = [self.form.rest_of(index, move.operators, move.sites) for index in ids]
        return ids, np.stack(rows, axis=-1)

    def forget(self, operators: Sequence[int]) -> None:
        """Values are read anew when they changed."""

    def learn(self, operators: Sequence[int]) -> None:
        hosts = self.form.state.hosts
        del self.known[len(hosts) :]
        self.known += [0.0] * (len(hosts) - len(self.known))
        for index in operators:
            self.known[index] = float(self.form.rest_of(index, (index,), np.array([hosts[index]]))[0])


class OfSystem:
    def __init__(self, form: SystemForm) -> None:
        self.form = form

    def values(self) -> Floats:
        return np.array([self.form.cost()])

    def after(self, move: OperatorMove) -> tuple[slice, Floats]:
        return slice(None), self.form.after(move)[:, None]

    def forget(self, operators: Sequence[int]) -> None:
        self.form.forget(operators)

    def learn(self, operators: Sequence[int]) -> None:
        self.form.learn(operators)


class MeasuredAnew:
    """Values of any kind, measured anew for every site tried."""

    def __init__(self, constraint: Constraint, state: PlacementState) -> None:
        self.constraint = constraint
        self.state = state

    def values(self) -> Floats:
        return self._measured(self.state.placement)

    def after(self, move: OperatorMove) -> tuple[slice, Floats]:
        now = self.state.placement
        rows = [self._measured(now.moved(dict.fromkeys(move.operators, int(site)))) for site in move.sites]
        return slice(None), np.stack(rows)

    def _measured(self, placement: Placement) -> Floats:
        assert not isinstance(self.constraint.metric, SystemCost)
        values = MeasuredPlacement(placement).values(self.constraint.metric)
        return np.array([np.nan if value is None else float(value) for value in values])

    def forget(self, operators: Sequence[int]) -> None:
        """Nothing is kept."""

    def learn(self, operators: Sequence[int]) -> None:
        """Nothing is kept."""


def watched(constraint: Constraint, state: PlacementState) -> ConstrainedValues:
    """The quickest way to know the values that a constraint is on."""
    metric = constraint.metric
    if isinstance(metric, SystemCost):
        return OfSystem(system_form(metric, state))
    try:
        level = place_of(metric)
        if level is Place.NODE:
            return OfNodes(NodeForm(metric, state))
        if level is Place.QUERY:
            return QueryForm(metric, state)
        return OfOperators(OperatorForm(metric, state))
    except UnfitError:
        return MeasuredAnew(constraint, state)


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
    >>> standing = PlacementEstimate(goal, placement)
    >>> before = standing.cost
    >>> worth = standing.benefits(0, np.arange(10))
    >>> standing.move(0, int(worth.argmax()))
    >>> bool(np.isclose(before - standing.cost, worth.max()))
    True
    """

    def __init__(self, goal: Goal, placement: Placement) -> None:
        self.goal = goal
        self.state = PlacementState(placement)
        self.system = system_form(goal.cost, self.state)
        self.bounds = [Bound(constraint, watched(constraint, self.state)) for constraint in goal.constraints]
        self._cost: float | None = None

    @property
    def placement(self) -> Placement:
        return self.state.placement

    @property
    def cost(self) -> float:
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
        found: Floats = self.goal.sign * (self.cost - self.system.after(move))
        for bound in self.bounds:
            found = np.where(bound.legal(move), found, -np.inf)
        return found

    def relief(self, operators: Sequence[int], sites: Indices) -> tuple[Floats, Floats]:
        """Under a MIN or MAX, for each site tried: how many fewer would have the cost, or worse.

        And by what share (in -1 to 1) the squares of all values would become less.
        """
        move = OperatorMove(self.state, operators, sites)
        if isinstance(self.system, BrokersCost):
            now, new = self.system.nodes.values(), self.system.nodes.after(move)
        elif isinstance(self.system, QueriesCost):
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
        """Clear away rounding."""
        self.state.recount()
        self._cost = None

    def bounded(self) -> list[Floats]:
        """The values under constraints, to be compared with later ones by `legal_since`."""
        return [bound.watched.values().copy() for bound in self.bounds]

    def legal_since(self, before: Sequence[Floats]) -> bool:
        return all(bound.legal_since(old) for bound, old in zip(self.bounds, before, strict=True))

    def broken(self) -> int:
        """How many break a constraint."""
        return int(sum((~bound.holds(bound.watched.values())).sum() for bound in self.bounds))

    # Changing

    def leave_out_all(self) -> None:
        """Begin with nothing: operators count only once they are brought in."""
        state = self.state
        for operator in reversed(state.workload.order):
            state.count_out(operator)
        for form in (self.system, *(bound.watched for bound in self.bounds)):
            queries = form.queries if isinstance(form, QueriesCost) else form
            if isinstance(queries, QueryForm):
                queries.clear()
        self._cost = None

    def bring_in(self, operators: Sequence[int]) -> None:
        """Let operators count that were left out, those before others that these read."""
        for operator in operators:
            self.state.count_in(operator)
        self._learn(operators)

    def move(self, operator: int, site: int) -> None:
        if self.state.hosts[operator] == site:
            return
        changed = self.state.near(operator)
        self._forget(changed)
        self.state.move(operator, site)
        self._learn(changed)

    def move_all(self, changes: Mapping[int, int]) -> None:
        for operator, site in changes.items():
            self.move(operator, site)

    def replicate(self, operator: int) -> OperatorSplit:
        """Give each input of an operator a replica, all at the operator's host."""
        return self._split(operator, self.state.workload.replicated(operator))

    def partition(self, operator: int, parts: int = 2) -> OperatorSplit:
        """Deal an operator's input out to so many replicas, all at its host."""
        return self._split(operator, self.state.workload.partitioned(operator, parts))

    def _split(self, operator: int, after: QueryWorkload) -> OperatorSplit:
        before = self.state.workload
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
        self.system.forget(operators)
        for bound in self.bounds:
            bound.watched.forget(operators)

    def _learn(self, operators: Sequence[int]) -> None:
        self._cost = None
        self.system.learn(operators)
        for bound in self.bounds:
            bound.watched.learn(operators)
