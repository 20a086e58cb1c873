"""The cost language for queries as text.

    operator latency = aggregate(SUM, latency, UPSTREAM OPERATORS) + processing latency
    query latency = aggregate(SUM, operator latency, QUERY OPERATORS)
    minimise aggregate(AVERAGE, query latency, QUERIES)
    subject to node load <= 5

Written as goals for trees are (`plan.goal_text`), with the sets and statistics of queries (`query.goal`). A
constraint may compare two expressions, and the seed's way of writing it without `subject to` is read too.
`aggregate(FUNCTION, statistic)` without a set means the operators of a query under QUERIES, and those of a
site under BROKERS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import NoReturn

from distributary.errors import DistributaryError, InputError
from distributary.plan.goal.query_goal import (
    FUNCTIONS,
    SPELLINGS,
    STATISTICS,
    Aggregate,
    Combination,
    Constraint,
    Expression,
    Level,
    Members,
    Over,
    QueryGoal,
    Statistic,
    SystemCost,
    level_of,
)
from distributary.plan.goal.statements import COMPARING, SAME, StatementReader, T, Token
from distributary.plan.goal.tree_goal import COMPARISONS, Constant, Function

SETS: Mapping[str, Over | Members] = {
    "UPSTREAM OPERATORS": Over.UPSTREAM,
    "DOWNSTREAM OPERATORS": Over.DOWNSTREAM,
    "LOCAL OPERATORS": Over.LOCAL,
    "QUERY OPERATORS": Over.QUERY,
    "BROKERS": Members.BROKERS,
    "QUERIES": Members.QUERIES,
}


def parse_query_goal(text: str) -> QueryGoal:
    """Read a goal.

    >>> parse_query_goal('''node load = aggregate(SUM, operator processing load, LOCAL OPERATORS)
    ...                     system cost = aggregate(MAX, node load, BROKERS)''').cost.members.value
    'BROKERS'
    >>> parse_query_goal("minimise aggregate(SUM, latency, BROKERS)")
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: goal: BROKERS takes values of a node, not of a link \
at position 9 of 'minimise aggregate(SUM, latency, BROKERS)'
    """
    return _Reader(text).goal()


def query_goal_text(goal: QueryGoal) -> str:
    """The goal as text that `parse_query_goal` reads to the same goal."""
    lines = [f"{goal.direction.value} {query_cost_text(goal.cost)}"]
    lines += [f"subject to {query_constraint_text(constraint)}" for constraint in goal.constraints]
    return "\n".join(lines)


def query_constraint_text(constraint: Constraint) -> str:
    return f"{query_cost_text(constraint.metric)} {constraint.comparison} {constraint.threshold}"


def query_cost_text(cost: SystemCost | Expression) -> str:
    if isinstance(cost, SystemCost):
        return f"aggregate({cost.function.value}, {query_cost_text(cost.value)}, {cost.members.value})"
    if isinstance(cost, Aggregate):
        return f"aggregate({cost.function.value}, {query_cost_text(cost.value)}, {cost.over.value})"
    if isinstance(cost, Combination):
        return f"({query_cost_text(cost.left)} {cost.operator} {query_cost_text(cost.right)})"
    return cost.name if isinstance(cost, Statistic) else str(cost.value)


class _Reader(StatementReader[SystemCost, Expression]):
    bare_constraints = True

    def goal(self) -> QueryGoal:
        goals, constraints = self.sorted_statements()
        cost, direction = self.read_goal(goals)
        return QueryGoal(cost, direction, tuple(self.read_constraint(statement) for statement in constraints))

    def read_constraint(self, statement: list[Token]) -> Constraint:
        words = self.leading_words(statement)
        seeds_form = words == ["constraint"]
        start = 1 if seeds_form else 2 if words[:2] == ["subject", "to"] else 0

        def read() -> Constraint:
            if seeds_form:
                self.expect("(")
            position = self.peek().position
            left = self.cost()
            if seeds_form:
                self.expect(",")
            token = self.take()
            if token.text not in COMPARING:
                self.refuse(f"expected one of {' '.join(COMPARISONS)}", token.position)
            if seeds_form:
                self.expect(",")
            right = self.combined()
            if seeds_form:
                self.expect(")")
            return self.constraint(left, SAME.get(token.text, token.text), right, position)

        return self.whole(statement[start:], read, statement[0])

    def constraint(
        self, left: SystemCost | Expression, comparison: str, right: Expression, position: int
    ) -> Constraint:
        """A comparison of two expressions is one of their difference with 0."""
        if isinstance(right, Constant):
            return self.checked(lambda: Constraint(left, comparison, right.value), position)
        if isinstance(left, SystemCost):
            self.refuse("the system's cost is compared with a number", position)
        return self.checked(lambda: Constraint(Combination("-", left, right), comparison, 0), position)

    # Costs

    def cost(self) -> SystemCost | Expression:
        """The system's cost, or one of a node, a query or an operator: the last set tells."""
        position = self.peek().position
        if self.peek().text.lower() == "aggregate":
            function, value, over = self.aggregate()
            if isinstance(over, Members):
                return self.checked(lambda: SystemCost(function, value, over), position)
            return self.combined(Aggregate(function, value, over))
        words = " ".join(self.leading_words(self.tokens[self.at :]))
        if words in self.definitions and self.is_system_cost(self.definitions[words]):
            self.words()
            return self.named_system_cost(words)
        return self.combined()

    def system_cost(self) -> SystemCost:
        position = self.peek().position
        cost = self.cost()
        if not isinstance(cost, SystemCost):
            self.refuse(
                "expected aggregate(FUNCTION, cost, BROKERS or QUERIES) as the system's cost", position
            )
        return cost

    @staticmethod
    def is_system_cost(tokens: list[Token]) -> bool:
        return len(tokens) > 1 and tokens[-2].text.upper() in Members.__members__

    def joined(self, sign: str, left: Expression, right: Expression) -> Expression:
        both = Combination(sign, left, right)
        if not any(isinstance(side, Aggregate) and side.over is Over.UNSAID for side in (left, right)):
            self.checked(lambda: level_of(both), self.peek().position)
        return both

    def operand(self) -> Expression:
        token = self.peek()
        if token.kind == "number" or token.text == "-":
            return Constant(self.number())
        if self.accept("("):
            inner = self.combined()
            self.expect(")")
            return inner
        if token.text.lower() == "aggregate":
            function, value, over = self.aggregate()
            if isinstance(over, Members):
                self.refuse("expected a cost of a node, a query or an operator here", token.position)
            return Aggregate(function, value, over)
        name, position = self.words()
        return self.resolve(name, position)

    def resolve(self, name: str, position: int) -> Expression:
        if name in self.definitions and name not in self.open:
            self.open.append(name)
            expression = self.whole(self.definitions[name], self.combined, Token("word", name, position))
            self.open.pop()
            return expression
        statistic = _statistic(name)
        if statistic is None:
            self.refuse_name(name, position)
        return Statistic(statistic)

    def refuse_name(self, name: str, position: int) -> NoReturn:
        if name in self.open:
            self.refuse(f"{name!r} is defined by itself", position)
        known = [*self.definitions, *STATISTICS]
        close = get_close_matches(name, known, 1) or [other for other in known if name in other]
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"
        self.refuse(f"{name!r} is neither defined nor a statistic; {hint}", position)

    def aggregate(self) -> tuple[Function, Expression, Over | Members]:
        self.take()
        self.expect("(")
        token = self.take()
        if token.text.upper() not in [function.value for function in FUNCTIONS]:
            self.refuse("expected one of MIN MAX SUM AVERAGE", token.position)
        function = Function[token.text.upper()]
        self.expect(",")
        inner = self.peek().position
        value = self.combined()
        over = self.set_of() if self.accept(",") else Over.UNSAID
        self.expect(")")
        if isinstance(over, Over) and over is not Over.UNSAID:
            self.checked(lambda: level_of(Aggregate(function, value, over)), inner)
        elif over is Over.UNSAID and level_of(value) not in (Level.NODE, Level.OPERATOR):
            self.refuse("expected a set: UPSTREAM OPERATORS or DOWNSTREAM OPERATORS", inner)
        return function, value, over

    def set_of(self) -> Over | Members:
        name, position = self.words()
        plural = {"BROKER": "BROKERS", "QUERY": "QUERIES"}
        said = name.upper()
        said = plural.get(said, said if said.endswith("S") else f"{said}S")
        if said not in SETS:
            self.refuse(f"expected one of {', '.join(SETS)}, not {name.upper()}", position)
        return SETS[said]

    def checked(self, make: Callable[[], T], position: int) -> T:
        """What `make` makes; if that is refused, then with where it stands."""
        try:
            return make()
        except InputError:
            raise
        except DistributaryError as error:
            self.refuse(str(error), position)


def _statistic(name: str) -> str | None:
    """The statistic of this name, also with what it is of said before it."""
    for candidate in (name, name.removeprefix("operator "), name.removeprefix("node ")):
        found = SPELLINGS.get(candidate, candidate)
        if found in STATISTICS:
            return found
    return None
